import { nodeModule } from "../node.js";
import { Device, MOST_UNREAD } from "./device.js";
import { Session } from "./session.js";

/** @typedef {import("./device.js").DeviceOptions} DeviceOptions */
const LOOPBACK = "127.0.0.1";
/** More are hung up on: whoever reaches the port is a client before it shows that it knows the token. */
const MOST_CLIENTS = 32;

/**
 * Makes this program of Node's a device: clients connect to it over TCP, as to `sterna rpc serve`.
 *
 * @param {DeviceOptions & {port?: number, host?: string}} [options] `port`: 9190, or 0 for any; `host`: this machine alone;
 *   another one needs a token.
 * @returns {Promise<{port: number, close: () => void}>}
 */
export async function listen({ port = 9190, host = LOOPBACK, ...options } = {}) {
  if (host !== LOOPBACK && host !== "::1" && host !== "localhost" && !options.token)
    throw new RangeError("a device that others reach demands a token of 16 characters or more");
  const { createServer } = await nodeModule("net");
  const device = new Device(options);
  const server = createServer({ noDelay: true }, (/** @type {any} */ socket) => {
    const session = new Session(device, (bytes) => {
      if (socket.writable) socket.write(bytes);
    });
    socket.on("data", (/** @type {Uint8Array} */ bytes) => {
      session.receive(bytes);
      if (session.incoming.held > MOST_UNREAD / 4) socket.pause();
    });
    session.incoming.read = () => socket.isPaused() && socket.resume();
    socket.on("error", () => session.incoming.end());
    socket.on("close", () => session.incoming.end());
    socket.on("end", () => session.incoming.end());
    session.serve().finally(() => socket.end());
  });
  server.maxConnections = MOST_CLIENTS;
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return { port: server.address().port, close: () => server.close() };
}
