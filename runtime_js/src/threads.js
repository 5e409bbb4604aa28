import { fail } from "./errors.js";
import { nodeModule } from "./load.js";
import { STACK_BYTES } from "./memory.js";

/** Words of the block through which threads talk; the numbers of tasks of every node stand behind it. */
export const GENERATION = 0, NEXT = 1, ACTIVE = 2, NODE = 3, STATUS = 4, SLEEPING = 5, TASKS = 8;
/** In NEXT: nothing is to be taken. */
export const CLOSED = 1 << 30;

/**
 * Workers which share the tasks of a node with the thread that runs the model.
 *
 * The owner writes NODE, opens NEXT, takes tasks like everybody, closes NEXT and waits until no worker is ACTIVE. A
 * worker makes itself ACTIVE before it takes a number from NEXT, and reads NODE behind it: a number that is not closed
 * belongs to the node that stands there until the worker is done.
 */
export class Pool {
  /** @param {any[]} workers @param {Int32Array} control */
  constructor(workers, control) {
    this.workers = workers;
    this.control = control;
  }

  /**
   * Starts `count` workers; they are ready when the promise resolves.
   *
   * @param {WebAssembly.Module} module
   * @param {WebAssembly.Memory} memory
   * @param {import("./memory.js").Layout} layout
   * @param {number[]} functions
   * @param {number[][]} records
   */
  static async start(module, memory, layout, functions, records) {
    const control = new Int32Array(memory.buffer, layout.control, TASKS + functions.length);
    control[NEXT] = CLOSED;
    const workers = await Promise.all(
      records.slice(1).map(async (own, n) => {
        const stack = layout.stacks + (n + 1) * STACK_BYTES;
        const worker = await startWorker(() => new Worker(new URL("./thread.js", import.meta.url), { type: "module" }), "thread.js");
        const ready = new Promise((resolve, reject) => {
          worker.onmessage = resolve;
          worker.onerror = reject;
        });
        worker.postMessage({ module, memory, stack, functions, records: own, control: layout.control });
        await ready.catch((problem) => fail("E0502", `a thread could not be started: ${problem.message ?? problem}`, problem));
        worker.unref?.(); // a program need not wait for it
        return worker;
      }),
    );
    return new Pool(workers, control);
  }

  /**
   * Runs one node; returns 0 or the status of a kernel that failed.
   *
   * @param {number} node
   * @param {number} tasks
   * @param {(first: number, last: number) => number} kernel
   */
  run(node, tasks, kernel) {
    const { control } = this;
    control[STATUS] = 0;
    Atomics.store(control, NODE, node);
    Atomics.store(control, NEXT, 0);
    Atomics.add(control, GENERATION, 1);
    if (Atomics.load(control, SLEEPING)) Atomics.notify(control, GENERATION);
    let status = 0;
    for (let task; status >= 0 && (task = Atomics.add(control, NEXT, 1)) < tasks; ) status = kernel(task, task + 1);
    Atomics.store(control, NEXT, CLOSED);
    while (Atomics.load(control, ACTIVE)); // a page may not wait in any other way; it is at most one task
    return status || Atomics.load(control, STATUS);
  }

  stop() {
    for (const worker of this.workers) worker.terminate();
  }
}

/**
 * A worker of the browser's, or one of Node's with the same face.
 *
 * @param {() => Worker} start written where bundlers find the URL in it
 * @param {string} file
 * @returns {Promise<any>}
 */
export async function startWorker(start, file) {
  if (typeof Worker === "function") return start();
  const { Worker: NodeWorker } = await nodeModule("worker_threads");
  const worker = new NodeWorker(new URL(file, import.meta.url));
  worker.on("message", (/** @type {any} */ data) => worker.onmessage?.({ data }));
  worker.on("error", (/** @type {Error} */ problem) => worker.onerror?.(problem));
  return worker;
}
