import { ACTIVE, CLOSED, GENERATION, NEXT, NODE, SLEEPING, STACK, STATUS, TASKS, TRAPPED } from "./constants.js";
import { attempt } from "./errors.js";
import { nodeModule } from "./node.js";

/** @typedef {(first: number, last: number) => number} Call Runs some tasks of a kernel; below 0 if it fails. */

/**
 * Workers which share the tasks of a node with the thread that runs the model.
 *
 * The owner writes NODE, opens NEXT, takes portions of tasks like everybody, closes NEXT and waits until no worker is
 * ACTIVE. A worker makes itself ACTIVE before it takes one, and reads NODE behind it: what is not closed belongs to the
 * node that stands there until the worker is done.
 */
export class Pool {
  /** @type {any[]} */ workers = [];

  /**
   * @param {WebAssembly.Module} module
   * @param {WebAssembly.Memory} memory
   * @param {import("./memory.js").Layout} layout
   * @param {number[]} functions
   * @param {number[][]} records
   */
  constructor(module, memory, layout, functions, records) {
    const control = new Int32Array(memory.buffer, layout.control, TASKS + functions.length);
    const portions = 8 * records.length;
    control[NEXT] = CLOSED;
    /** Resolves when all workers are ready. */
    this.ready = Promise.all(
      records.slice(1).map(async (own, n) => {
        const worker = await startWorker(() => new Worker(new URL("./thread.js", import.meta.url), { type: "module" }), "thread.js");
        this.workers.push(worker);
        const stack = layout.stacks + (n + 1) * STACK;
        worker.postMessage({ module, memory, stack, functions, records: own, control: layout.control, portions, side: (n + 1) % 2 });
        const ready = () =>
          new Promise((resolve, reject) => {
            worker.onmessage = resolve;
            worker.onerror = reject;
          });
        await attempt("E0502", "cannot start a thread", ready);
        worker.unref?.(); // a program does not wait for it
      }),
    );
    /**
     * Runs one node; returns 0 or the status of a kernel that failed.
     *
     * @param {number} node
     * @param {Call} call its kernel
     */
    this.run = (node, call) => {
      control[STATUS] = 0;
      Atomics.store(control, NODE, node);
      Atomics.store(control, NEXT, 0);
      Atomics.add(control, GENERATION, 1);
      if (Atomics.load(control, SLEEPING)) Atomics.notify(control, GENERATION);
      try {
        work(control, portions, 0, () => call);
      } finally {
        Atomics.store(control, NEXT, CLOSED);
        while (Atomics.load(control, ACTIVE)); // a page may not wait in any other way; it is at most one portion
      }
      const status = Atomics.load(control, STATUS);
      if (status === TRAPPED) throw Error("in a thread");
      return status;
    };
  }

  stop() {
    for (const worker of this.workers) worker.terminate();
  }
}

/**
 * Takes portions until none is left. Half of the threads begin with the first tasks, half with the last: of one node
 * after the other, a thread mostly computes the same part, and finds what it reads in its own cache.
 *
 * @param {Int32Array} control
 * @param {number} portions
 * @param {number} side 1 to begin with the last
 * @param {(node: number) => Call} kernel
 */
export function work(control, portions, side, kernel) {
  for (;;) {
    const taken = Atomics.add(control, NEXT, side ? 65536 : 1);
    const front = taken & 65535;
    const back = taken >> 16;
    if (front + back >= portions) return;
    const node = Atomics.load(control, NODE);
    const tasks = Atomics.load(control, TASKS + node);
    const n = side ? portions - back - 1 : front;
    const status = kernel(node)(begin(tasks, n, portions), begin(tasks, n + 1, portions));
    if (status < 0) Atomics.compareExchange(control, STATUS, 0, status);
  }
}

/**
 * Where the nth of some portions of tasks begins. They are smaller towards the middle, so that all threads are done at
 * about the same time although they take few.
 *
 * @param {number} tasks
 * @param {number} n
 * @param {number} portions
 * @returns {number}
 */
function begin(tasks, n, portions) {
  const left = 1 - (2 * n) / portions;
  return Math.floor((tasks / 2) * (1 - left * Math.abs(left)));
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
