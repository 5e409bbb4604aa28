import { listen } from "./port.js";
import { ACTIVE, CLOSED, GENERATION, NEXT, NODE, SLEEPING, STATUS, TASKS } from "./threads.js";

/** How long a thread looks for work before it sleeps: the next node follows within microseconds. */
const SPINS = 2000;

/** One thread of a pool: instantiates the module over the shared memory and takes tasks until it is terminated. */
listen(({ module, memory, stack, functions, records, control: at }, post) => {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  /** @type {WebAssembly.Global} */ (exports.__stack_pointer).value = stack;
  const table = /** @type {WebAssembly.Table} */ (exports.__indirect_function_table);
  const kernels = functions.map((/** @type {number} */ index) => table.get(index));
  const control = new Int32Array(memory.buffer, at, TASKS + functions.length);
  post("ready");
  for (let seen = Atomics.load(control, GENERATION); ; ) {
    work();
    for (let spin = 0; spin < SPINS && Atomics.load(control, GENERATION) === seen; spin++);
    if (Atomics.load(control, GENERATION) === seen) {
      Atomics.add(control, SLEEPING, 1);
      Atomics.wait(control, GENERATION, seen);
      Atomics.sub(control, SLEEPING, 1);
    }
    seen = Atomics.load(control, GENERATION);
  }

  function work() {
    Atomics.add(control, ACTIVE, 1);
    for (;;) {
      const task = Atomics.load(control, NEXT) < CLOSED ? Atomics.add(control, NEXT, 1) : CLOSED;
      const node = Atomics.load(control, NODE);
      if (task >= Math.min(CLOSED, Atomics.load(control, TASKS + node))) break;
      const status = kernels[node](records[node], task, task + 1);
      if (status < 0) Atomics.compareExchange(control, STATUS, 0, status);
    }
    Atomics.sub(control, ACTIVE, 1);
  }
});
