import { about, plan, tensor } from "./inspect.js";
import { internals } from "./internals.js";
import { Model } from "./model.js";
import { listen } from "./port.js";

/** @type {Model | undefined} */
let model;

/** The worker of `sterna/worker`: answers calls of one model's methods, in their order. */
listen(async ({ id, method, args }, post) => {
  try {
    if (method === "load") {
      const [source, { threads, progress }] = args;
      const onProgress = progress ? (/** @type {any} */ p) => post({ progress: p }) : undefined;
      model = await Model.load(source, { threads, onProgress });
      post({ id, result: state(model) });
      return;
    }
    const own = /** @type {any} */ (model);
    const asked = { __proto__: null, about, plan, tensor }[/** @type {string} */ (method)];
    let result = asked ? asked(own, args[0]) : own[method](...args);
    /** @type {Transferable[]} */
    let transfer = [];
    if (method === "run") {
      result = Object.fromEntries(Object.entries(result).map(([name, view]) => [name, /** @type {any} */ (view).slice()]));
      transfer = Object.values(result).map((array) => array.buffer);
    }
    post({ id, result: { result, state: /** @type {Model} */ (model).dims.length ? state(/** @type {Model} */ (model)) : undefined } }, transfer);
  } catch (problem) {
    const { code, message } = /** @type {any} */ (problem);
    post({ id, problem: { code, message } });
  }
});

/** What the page's side answers without asking. @param {Model} m */
function state(m) {
  return { name: m.name, inputs: m.inputs, outputs: m.outputs, dims: m.dims, threads: m.threads, memory: m.memory, files: m[internals]().graph.files };
}
