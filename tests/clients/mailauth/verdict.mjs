// Reads {mails: [base64], ip, mailFrom, records: {"name TXT": [text]}} on stdin, answers mailauth's verdict on each.
import { authenticate } from "mailauth";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const asked = JSON.parse(Buffer.concat(chunks));

const resolver = async (name, kind) => {
  const found = asked.records[`${name.replace(/\.$/, "")} ${kind}`];
  if (!found) throw Object.assign(new Error("not found"), { code: "ENOTFOUND" });
  return kind === "TXT" ? found.map((text) => [text]) : found;
};

const verdicts = [];
for (const mail of asked.mails) {
  const { dkim, spf, dmarc } = await authenticate(Buffer.from(mail, "base64"), {
    ip: asked.ip, helo: "mail.customer.example", sender: asked.mailFrom, mta: "house.example", resolver, trustReceived: false,
  });
  verdicts.push({
    dkim: dkim.results.map((entry) => entry.status.result),
    spf: spf ? spf.status.result : "none",
    dmarc: dmarc ? dmarc.status.result : "undefined",
  });
}
process.stdout.write(JSON.stringify(verdicts));
