import { Device } from "./device.js";
import { Session } from "./session.js";

/** @typedef {import("./device.js").DeviceOptions} DeviceOptions */

/**
 * Makes this page or worker a device: it dials out to the address of `sterna rpc serve --web`, or another that passes on what
 * clients send, and again as soon as a client has come, so that there is always room for the next one.
 *
 * @param {string | URL} address of a WebSocket
 * @param {DeviceOptions & {onChange?: (clients: number) => void}} [options] `onChange`: told how many clients there are
 * @returns {{ended: Promise<void>, close: () => void}} `ended`: nobody can be dialled any more
 */
export function dial(address, { onChange, ...options } = {}) {
  const device = new Device(options);
  /** @type {Set<WebSocket>} */
  const sockets = new Set();
  let clients = 0;
  /** @type {() => void} */
  let end = () => {};
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => (end = resolve));
  const close = () => {
    end();
    sockets.forEach((socket) => socket.close());
  };
  const wait = () => {
    const socket = new WebSocket(address);
    sockets.add(socket);
    socket.binaryType = "arraybuffer";
    /** @type {Session | undefined} */
    let session;
    socket.onmessage = ({ data }) => {
      if (!session) {
        session = new Session(device, (bytes) => socket.readyState === WebSocket.OPEN && socket.send(/** @type {any} */ (bytes)));
        session.serve().finally(() => socket.close());
        onChange?.(++clients);
        wait();
      }
      session.receive(new Uint8Array(data));
    };
    socket.onclose = () => {
      sockets.delete(socket);
      if (session) {
        session.incoming.end();
        onChange?.(--clients);
      } else close(); // who is not there any more takes no other, either
    };
  };
  wait();
  return { ended, close };
}
