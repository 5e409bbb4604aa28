import { SternaError } from "./errors.js";
import { isFiles } from "./load.js";
import { internals } from "./internals.js";
import { startWorker } from "./threads.js";

/**
 * @typedef {import("./model.js").Input} Input
 * @typedef {import("./model.js").LoadOptions} LoadOptions
 * @typedef {import("./model.js").Source} Source
 * @typedef {import("./model.js").TypedArray} TypedArray
 * @typedef {import("./model.js").TensorInfo} TensorInfo
 * @typedef {import("./model.js").DimInfo} DimInfo
 */

/**
 * A model in a worker of its own, so that a page stays responsive while it runs: the same methods as of `sterna`'s
 * Model, but each returns a promise. Arrays are copied on the way there; outputs come back as arrays of their own.
 */
export class Model {
  #worker;
  #calls;
  #state;
  #disposed = false;

  /**
   * @param {any} worker
   * @param {Calls} calls
   * @param {any} state
   */
  constructor(worker, calls, state) {
    this.#worker = worker;
    this.#calls = calls;
    this.#state = state;
  }

  /**
   * @param {Source} source
   * @param {LoadOptions} [options]
   */
  static async load(source, options) {
    const { signal, onProgress, threads } = options ?? {};
    signal?.throwIfAborted();
    const worker = await startWorker(() => new Worker(new URL("./worker-main.js", import.meta.url), { type: "module" }), "worker-main.js");
    const calls = new Calls(worker, onProgress);
    /** @type {any} */
    let given = source;
    if (source instanceof URL) given = source.href;
    else if (isFiles(source)) given = Object.fromEntries(Object.entries(source).map(([name, file]) => [name, file instanceof URL ? file.href : file]));
    else if (typeof source === "string" && globalThis.document) given = new URL(source, document.baseURI).href;
    else if (typeof Response === "function" && source instanceof Response) {
      if (!source.ok) throw new SternaError("E0503", `${source.url} answered ${source.status} ${source.statusText}`);
      given = await source.arrayBuffer();
    }
    /** @type {(() => void) | undefined} */
    let abort;
    const aborted = new Promise((_, reject) => {
      abort = () => reject(signal?.reason);
      signal?.addEventListener("abort", abort);
    });
    try {
      const state = await Promise.race([calls.send("load", [given, { threads, progress: Boolean(onProgress) }]), aborted]);
      return new Model(worker, calls, state);
    } catch (problem) {
      worker.terminate();
      throw problem;
    } finally {
      if (abort) signal?.removeEventListener("abort", abort);
    }
  }

  /** @returns {string} */
  get name() {
    return this.#state.name;
  }

  /** @returns {TensorInfo[]} */
  get inputs() {
    return this.#state.inputs;
  }

  /** @returns {TensorInfo[]} */
  get outputs() {
    return this.#state.outputs;
  }

  /** @returns {DimInfo[]} */
  get dims() {
    return this.#state.dims;
  }

  /** @returns {number} */
  get threads() {
    return this.#state.threads;
  }

  /** @returns {import("./model.js").Model["memory"]} */
  get memory() {
    return this.#state.memory;
  }

  /** @returns {{graph: {files: import("./graph.js").Graph["files"]}}} what `sterna/strings` looks at */
  [internals]() {
    return { graph: { files: this.#state.files } };
  }

  /** @param {Record<string, Input>} [inputs] @returns {Promise<Record<string, TypedArray>>} */
  run(inputs = {}) {
    return this.#call("run", inputs);
  }

  /** @returns {Promise<void>} */
  resetState() {
    return this.#call("resetState");
  }

  /** @param {Record<string, number>} sizes @returns {Promise<void>} */
  setDims(sizes) {
    return this.#call("setDims", sizes);
  }

  /** @param {string} name @returns {Promise<TypedArray>} */
  tensor(name) {
    return this.#call("tensor", name);
  }

  /**
   * @param {Record<string, Input>} [inputs]
   * @param {{runs?: number}} [options]
   * @returns {Promise<import("./model.js").NodeTime[]>}
   */
  profile(inputs, options) {
    return this.#call("profile", inputs, options);
  }

  /** @returns {Promise<ReturnType<typeof import("./inspect.js").about>>} */
  about() {
    return this.#call("about");
  }

  /** @returns {Promise<import("./inspect.js").Lifetime[]>} */
  plan() {
    return this.#call("plan");
  }

  /** Ends the worker; what it was doing fails. */
  dispose() {
    this.#disposed = true;
    this.#worker.terminate();
    this.#calls.failAll(new SternaError("E0520", `the model "${this.name}" has been disposed of`));
  }

  /**
   * @param {string} method
   * @param {any[]} args
   */
  async #call(method, ...args) {
    if (this.#disposed) throw new SternaError("E0520", `the model "${this.name}" has been disposed of`);
    const { result, state } = await this.#calls.send(method, args);
    if (state) this.#state = state;
    return result;
  }
}

if (Symbol.dispose) /** @type {any} */ (Model.prototype)[Symbol.dispose] = Model.prototype.dispose;

/** Calls under way, by number. */
class Calls {
  /**
   * @param {any} worker
   * @param {LoadOptions["onProgress"]} onProgress
   */
  constructor(worker, onProgress) {
    this.worker = worker;
    this.count = 0;
    /** @type {Map<number, {resolve: (value: any) => void, reject: (problem: any) => void}>} */
    this.open = new Map();
    worker.onmessage = (/** @type {MessageEvent} */ { data: { id, result, problem, progress } }) => {
      if (progress) return onProgress?.(progress);
      const call = this.open.get(id);
      this.open.delete(id);
      if (!this.open.size) worker.unref?.();
      if (problem) call?.reject(problem.code ? Object.assign(new SternaError(problem.code, ""), problem) : new Error(problem.message));
      else call?.resolve(result);
    };
    worker.onerror = (/** @type {any} */ event) =>
      this.failAll(new SternaError("E0502", `the worker failed: ${event.message ?? event}`));
  }

  /**
   * @param {string} method
   * @param {any[]} args
   * @returns {Promise<any>}
   */
  send(method, args) {
    return new Promise((resolve, reject) => {
      const id = this.count++;
      this.open.set(id, { resolve, reject });
      this.worker.ref?.();
      try {
        this.worker.postMessage({ id, method, args });
      } catch (problem) {
        this.open.delete(id);
        reject(new SternaError("E0603", `an argument cannot be sent to the worker: ${/** @type {Error} */ (problem).message}`, { cause: problem }));
      }
    });
  }

  /** @param {unknown} problem */
  failAll(problem) {
    for (const { reject } of this.open.values()) reject(problem);
    this.open.clear();
  }
}
