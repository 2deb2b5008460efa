// A day of the official AgentMail client, changed in nothing but its base URL.
// Usage: node agentmail.mjs URL OWNER_KEY AGENT_TOKEN. Prints what it was answered as one JSON object.
import { AgentMail, AgentMailClient, AgentMailError } from "agentmail";

const [url, ownerKey, agentToken] = process.argv.slice(2);
const client = (apiKey) => new AgentMailClient({ apiKey, baseUrl: url });
const owner = client(ownerKey);
const agent = client(agentToken);
const said = {};

const failure = async (promise) => {
  try {
    await promise;
    return "nothing was wrong";
  } catch (error) {
    if (!(error instanceof AgentMailError)) throw error;
    return { type: error.constructor.name, status: error.statusCode, code: error.body?.code, name: error.body?.name };
  }
};

const until = async (look) => {
  for (const end = Date.now() + 10000; Date.now() < end; ) {
    const found = await look();
    if (found) return found;
    await new Promise((resume) => setTimeout(resume, 20));
  }
  throw new Error("nothing within 10 s");
};

// Inboxes.
const nora = await owner.inboxes.create({ username: "nora", displayName: "Nora", clientId: "n-1", metadata: { team: "blue" } });
const omar = await owner.inboxes.create({ username: "omar" });
const again = await owner.inboxes.create({ username: "other", clientId: "n-1" });
said.inboxes = {
  id: nora.inboxId,
  name: nora.displayName,
  metadata: nora.metadata,
  same: again.inboxId === nora.inboxId,
  dated: nora.createdAt instanceof Date && !Number.isNaN(nora.createdAt.getTime()),
  listed: (await owner.inboxes.list({ limit: 100 })).inboxes.map((inbox) => inbox.inboxId).sort(),
  renamed: (await owner.inboxes.update(nora.inboxId, { displayName: "Nora N." })).displayName,
  taken: await failure(owner.inboxes.create({ username: "nora" })),
};

// The socket hears of what arrives.
const socket = await owner.websockets.connect();
const heard = [];
socket.on("message", (event) => heard.push(event));
await socket.waitForOpen();
socket.sendSubscribe({ type: "subscribe", inboxIds: [omar.inboxId], eventTypes: ["message.received"] });
await until(() => heard.some((event) => event.type === "subscribed"));

// A mail with an attachment from one inbox to another.
const messages = owner.inboxes.messages;
const sent = await messages.send(
  nora.inboxId,
  { to: [omar.inboxId], subject: "Price?", text: "What is it?", html: "<p>What is it?</p>", labels: ["ask"], attachments: [{ filename: "a.txt", contentType: "text/plain", content: Buffer.from("file").toString("base64") }] },
  { idempotencyKey: "k-1" },
);
const repeated = await messages.send(nora.inboxId, { to: [omar.inboxId], subject: "Price?", text: "What is it?", html: "<p>What is it?</p>", labels: ["ask"], attachments: [{ filename: "a.txt", contentType: "text/plain", content: Buffer.from("file").toString("base64") }] }, { idempotencyKey: "k-1" });
const event = await until(() => heard.find((one) => one.type === "event"));
const arrived = await until(async () => (await messages.list(omar.inboxId, { labels: ["received"], subject: ["Price"] })).messages[0]);
const full = await messages.get(omar.inboxId, arrived.messageId);
const attachment = await messages.getAttachment(omar.inboxId, arrived.messageId, full.attachments[0].attachmentId);
said.mail = {
  same: repeated.messageId === sent.messageId,
  heard: event.eventType,
  heardAbout: event.message.messageId === arrived.messageId,
  labels: [...full.labels].sort(),
  text: full.text.trim(),
  html: full.html.includes("What is it?"),
  attachment: attachment.filename,
  content: await (await fetch(attachment.downloadUrl)).text(),
  raw: (await (await fetch((await messages.getRaw(omar.inboxId, arrived.messageId)).downloadUrl)).text()).includes("Subject: Price?"),
};

// An answer, and the thread of both.
const reply = await messages.reply(omar.inboxId, arrived.messageId, { text: "Ten." });
await until(async () => (await messages.list(nora.inboxId, { labels: ["received"] })).messages[0]);
const thread = await owner.inboxes.threads.get(nora.inboxId, sent.threadId);
const forwarded = await messages.forward(omar.inboxId, arrived.messageId, { to: [nora.inboxId], text: "see below" });
said.thread = {
  texts: thread.messages.map((message) => message.extractedText?.trim()),
  joined: (await owner.inboxes.threads.get(omar.inboxId, reply.threadId)).messageCount,
  forwarded: (await messages.get(omar.inboxId, forwarded.messageId)).subject,
  labels: [...(await messages.update(omar.inboxId, arrived.messageId, { addLabels: ["done"], removeLabels: ["unread"] })).labels].sort(),
  found: (await owner.inboxes.threads.search(omar.inboxId, { q: "what" })).threads.length > 0,
  batch: (await messages.batchGet(omar.inboxId, { messageIds: [arrived.messageId] })).messages.length,
};

// Drafts.
const drafts = owner.inboxes.drafts;
const draft = await drafts.create(nora.inboxId, { to: [omar.inboxId], subject: "Draft", text: "one", clientId: "d-1" });
const changed = await drafts.update(nora.inboxId, draft.draftId, { text: "two" });
const gone = await drafts.create(nora.inboxId, { subject: "never" });
await drafts.delete(nora.inboxId, gone.draftId);
said.drafts = {
  text: changed.text,
  listed: (await drafts.list(nora.inboxId)).drafts.map((one) => one.subject),
  sent: Boolean((await drafts.send(nora.inboxId, draft.draftId, {})).messageId),
  left: (await drafts.list(nora.inboxId)).count,
};

// Pages, through every message of an inbox.
const pages = [];
for (let pageToken; ; ) {
  const page = await messages.list(nora.inboxId, { limit: 2, pageToken });
  pages.push(page.messages.length);
  pageToken = page.nextPageToken;
  if (!pageToken) break;
}
said.pages = pages.slice(0, -1).every((length) => length === 2) && pages.reduce((sum, length) => sum + length, 0) >= 3;

// The agent's token goes through the gate; errors are the client's own classes.
said.agent = {
  held: await failure(agent.inboxes.messages.send("scout@postroom.localhost", { to: [nora.inboxId], subject: "s", text: "t" })),
  foreign: await failure(agent.inboxes.get(nora.inboxId)),
  forbidden: await failure(agent.inboxes.delete("scout@postroom.localhost")),
  missing: await failure(messages.get(omar.inboxId, "<none@example.com>")),
  wrong: await failure(client("am_wrong").inboxes.list()),
  invalid: await failure(messages.send(nora.inboxId, { to: ["no address"], text: "t" })),
};

await owner.inboxes.delete(omar.inboxId);
said.deleted = await failure(owner.inboxes.get(omar.inboxId));
socket.close();
console.log(JSON.stringify(said));
