// Loaded by every Node that a test starts (NODE_OPTIONS): what `egress_watch.py` is to Python.
//
// A connection to anywhere but this machine is a line in the file named by TESTS_ELSEWHERE, and an error. TCP, TLS,
// HTTP and fetch all come through `net.Socket`, datagrams through `dgram.Socket`; a path is a local socket.
"use strict";
const { appendFileSync } = require("node:fs");
const net = require("node:net");
const dgram = require("node:dgram");

function isHere(host) {
  const bare = String(host).replace(/^::ffff:/i, "").split("%")[0];
  return bare === "localhost" || bare === "::1" || (net.isIPv4(bare) && bare.startsWith("127."));
}

function check(verb, host) {
  if (host === undefined || host === null || isHere(host)) return;
  try {
    appendFileSync(process.env.TESTS_ELSEWHERE, `${verb} ${host} from node ${process.argv.slice(1, 4).join(" ")}\n`);
  } catch {
    // who started us did not say where to write it
  }
  throw new Error(`tests talk to this machine only, not to ${host}`);
}

function targetOf(given) {
  const [first, second] = Array.isArray(given[0]) ? given[0] : given; // node hands itself the arguments as one list
  if (first !== null && typeof first === "object") return first.path ? undefined : first.host;
  return typeof second === "string" ? second : undefined;
}

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...given) {
  check("net.connect", targetOf(given));
  return connect.apply(this, given);
};

for (const verb of ["connect", "send"]) {
  const original = dgram.Socket.prototype[verb];
  dgram.Socket.prototype[verb] = function (...given) {
    const host = given.slice(1).find((one) => typeof one === "string"); // (port, host) and (message, …, port, host)
    check(`dgram.${verb}`, host);
    return original.apply(this, given);
  };
}
