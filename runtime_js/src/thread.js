import { ACTIVE, GENERATION, SLEEPING, STATUS, TASKS, TRAPPED } from "./constants.js";
import { listen } from "./port.js";
import { work } from "./threads.js";

/** How long a thread looks for work before it sleeps: the next node follows within microseconds. */
const SPINS = 2000;

/** One thread of a pool: instantiates the module over the shared memory and takes portions of tasks until it is terminated. */
listen(({ module, memory, stack, functions, records, control: at, portions, side }, post) => {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  /** @type {WebAssembly.Global} */ (exports.__stack_pointer).value = stack;
  const table = /** @type {WebAssembly.Table} */ (exports.__indirect_function_table);
  const kernels = functions.map((/** @type {number} */ index, /** @type {number} */ node) => {
    const kernel = table.get(index);
    return (/** @type {number} */ first, /** @type {number} */ last) => kernel(records[node], first, last);
  });
  const control = new Int32Array(memory.buffer, at, TASKS + functions.length);
  post("ready");
  for (let seen = Atomics.load(control, GENERATION); ; ) {
    Atomics.add(control, ACTIVE, 1);
    try {
      work(control, portions, side, (node) => kernels[node]);
    } catch {
      Atomics.store(control, STATUS, TRAPPED);
    }
    Atomics.sub(control, ACTIVE, 1);
    for (let spin = 0; spin < SPINS && Atomics.load(control, GENERATION) === seen; spin++);
    if (Atomics.load(control, GENERATION) === seen) {
      Atomics.add(control, SLEEPING, 1);
      Atomics.wait(control, GENERATION, seen);
      Atomics.sub(control, SLEEPING, 1);
    }
    seen = Atomics.load(control, GENERATION);
  }
});
