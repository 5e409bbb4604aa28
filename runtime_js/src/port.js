import { nodeModule } from "./node.js";

/**
 * In a worker: calls `receive` with every message, and gives what to answer with.
 *
 * @param {(data: any, post: (message: any, transfer?: Transferable[]) => void) => void} receive
 */
export function listen(receive) {
  const scope = /** @type {any} */ (globalThis);
  if (typeof scope.WorkerGlobalScope === "function") {
    scope.onmessage = (/** @type {MessageEvent} */ event) => receive(event.data, (m, t = []) => scope.postMessage(m, t));
    return;
  }
  nodeModule("worker_threads").then(({ parentPort }) => {
    parentPort.on("message", (/** @type {any} */ data) => receive(data, (m, t) => parentPort.postMessage(m, t)));
  });
}
