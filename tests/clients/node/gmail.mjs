// The Gmail emulator on loopback only (it listens everywhere by itself). Usage: node gmail.mjs PORT
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port) {
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, () => console.log("listening"));
};

const { createEmulator } = await import("emulate");
await createEmulator({
  service: "google",
  port: Number(process.argv[2]),
  seed: { google: { users: [{ email: "me@example.test", name: "Me" }], messages: [], labels: [] } },
});
