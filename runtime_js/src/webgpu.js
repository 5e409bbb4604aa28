/** Runs models that were compiled for `webgpu`; where that cannot be, those that were compiled for browsers. */
import { fail } from "./errors.js";
import { Model as Wasm } from "./model.js";
import { internals } from "./internals.js";
import { Engine } from "./webgpu/engine.js";
import { isImage, pixels } from "./webgpu/image.js";

export { SternaError } from "./errors.js";

/**
 * @typedef {import("./load.js").Source} Source
 * @typedef {import("./model.js").TensorInfo} TensorInfo
 * @typedef {import("./model.js").DimInfo} DimInfo
 * @typedef {import("./model.js").NodeTime} NodeTime
 * @typedef {import("./tensors.js").TypedArray} TypedArray
 * @typedef {any} GpuObject A GPUBuffer, GPUTexture or GPUDevice: TypeScript has their types in @webgpu/types.
 * @typedef {{buffer: GpuObject, offset: number, size: number}} Region Bytes of a GPUBuffer.
 * @typedef {Region & {dtype: string, dims: number[]}} Kept An output that stayed on the device, until the next run.
 * @typedef {import("./model.js").Input | GpuObject | Region | ImageBitmap | ImageData | HTMLVideoElement | HTMLCanvasElement
 *   | OffscreenCanvas} Input Numbers; a GPUBuffer of them; or a picture, also as GPUTexture or VideoFrame.
 * @typedef {import("./load.js").FetchOptions & {fallback?: Source, device?: GpuObject, threads?: number}} LoadOptions
 *   `fallback`: the same model, compiled for `browser`; `device`: a GPUDevice of the caller's; `threads`: of the fallback.
 *   Progress has `file: "pipelines"` for kernels that have been compiled.
 */

/** Of these, a fallback takes the place: no adapter, feature or limit; no memory; no compiler that takes the kernels. */
const ELSEWHERE = ["E0507", "E0502", "E0508"];

/** A compiled model on a GPU. Its runs are asynchronous, and one after another; outputs are copies. */
export class Model {
  /** @type {Source} */ #source;
  /** @type {LoadOptions} */ #options;
  /** @type {Engine | undefined} */ #gpu;
  /** @type {Wasm | undefined} */ #wasm;
  /** @type {Promise<void> | undefined} */ #opening;
  #why = "";
  #disposed = false;

  /**
   * Only for `Model.load`.
   *
   * @private
   * @param {Source} source
   * @param {LoadOptions} options
   */
  constructor(source, options) {
    this.#source = source;
    this.#options = options;
  }

  /**
   * Loads a bundle that was compiled for `webgpu`.
   *
   * @param {Source} source the address of its directory, or its files
   * @param {LoadOptions} [options]
   * @returns {Promise<Model>}
   */
  static async load(source, options = {}) {
    const model = new Model(source, options);
    await model.#open();
    return model;
  }

  async #open() {
    const { fallback, onProgress, signal, threads } = this.#options;
    try {
      const loaded = await Engine.load(this.#source, this.#options);
      if (loaded instanceof Engine) this.#gpu = loaded;
      else {
        this.#wasm = loaded;
        this.#why = "nothing of the model is for the GPU";
      }
      if (this.#disposed) loaded.dispose(); // while it was loaded
    } catch (problem) {
      const { code, message } = /** @type {any} */ (problem);
      if (fallback === undefined || !ELSEWHERE.includes(code)) throw problem;
      this.#why = message;
      this.#wasm = await Wasm.load(fallback, { onProgress, signal, threads });
      if (this.#disposed) this.#wasm.dispose();
    }
  }

  /** After a device was lost, the model is loaded again, as it was at first: on another device, or by the fallback. */
  async #ready() {
    if (this.#disposed) fail("E0520", `the model "${this.name}" has been disposed of`);
    if (this.#gpu?.lost === undefined) return;
    if (this.#options.device) fail("E0511", `the device was lost: ${this.#gpu.lost}: load the model again, on another device`);
    await (this.#opening ??= this.#open().finally(() => (this.#opening = undefined)));
    if (this.#disposed) fail("E0520", `the model "${this.name}" has been disposed of`);
    if (this.#wasm) this.#gpu = undefined;
  }

  /** "webgpu" or "wasm". */
  get backend() {
    return this.#wasm ? "wasm" : "webgpu";
  }

  /** Why the fallback runs; empty while the GPU does. */
  get reason() {
    return this.#why;
  }

  /** What knows names, types and sizes. */
  get #model() {
    return this.#wasm ?? /** @type {Engine} */ (this.#gpu).signature;
  }

  /** The model's name. */
  get name() {
    return this.#model.name;
  }

  /** Bytes: `total` is what the device or WebAssembly has of the model; `library` is the file whose kernels run. */
  get memory() {
    const gpu = this.#gpu;
    if (!gpu) return /** @type {Wasm} */ (this.#wasm).memory;
    const { arenaBytes: arena, paramsBytes: params, device: { module: library, scratch_bytes: scratch } } = gpu.graph;
    const beside = gpu.beside?.memory.total ?? 0;
    return { total: gpu.memory.size + gpu.params.size + gpu.calls.size + gpu.staged.size + beside, arena, params, scratch, library };
  }

  /** @returns {TensorInfo[]} */
  get inputs() {
    return this.#model.inputs;
  }

  /** @returns {TensorInfo[]} */
  get outputs() {
    return this.#model.outputs;
  }

  /** @returns {DimInfo[]} */
  get dims() {
    return this.#model.dims;
  }

  /**
   * Where an input lies, to be written by the caller's own commands before `run`; undefined where WebAssembly reads it.
   *
   * @param {string} name
   * @returns {Region | undefined}
   */
  input(name) {
    this.#model.input(name); // there is one of that name
    const v = /** @type {number} */ (this.#gpu?.graph.inputs.find((v) => this.#gpu?.graph.values[v].name === name));
    return this.#gpu?.shared.has(v) ? undefined : this.#gpu?.region(v);
  }

  /**
   * Runs the model once.
   *
   * @param {Record<string, Input>} [inputs] by name; those that are left out keep what was written before
   * @param {{keep?: string[]}} [options] outputs that stay on the device: as regions of its memory, good until the next run
   * @returns {Promise<Record<string, any>>} typed arrays by name, or what was kept
   */
  async run(inputs = {}, { keep = [] } = {}) {
    await this.#ready();
    const gpu = this.#gpu;
    if (gpu) {
      keep.forEach((name) => gpu.signature.output(name)); // there are outputs of these names
      return gpu.inOrder(() => gpu.run(inputs, keep));
    }
    const results = /** @type {Wasm} */ (this.#wasm).run(this.#plain(inputs));
    return Object.fromEntries(Object.entries(results).map(([name, view]) => [name, view.slice()]));
  }

  /**
   * Inputs as WebAssembly takes them.
   *
   * @param {Record<string, any>} inputs
   */
  #plain(inputs) {
    const wasm = /** @type {Wasm} */ (this.#wasm);
    const { metadata } = /** @type {any} */ (wasm[internals]().graph);
    const plain = Object.entries(inputs).map(([name, data]) => {
      if (!isImage(data)) return [name, data];
      wasm.input(name); // there is one of that name
      return [name, pixels(data, /** @type {TensorInfo} */ (wasm.inputs.find((each) => each.name === name)), metadata)];
    });
    return Object.fromEntries(plain);
  }

  /**
   * Sets open dimensions.
   *
   * @param {Record<string, number>} sizes by name
   */
  setDims(sizes) {
    this.#model.setDims(sizes);
  }

  /** Lets the model forget what earlier runs left in it. */
  resetState() {
    (this.#wasm ?? /** @type {Engine} */ (this.#gpu)).resetState();
  }

  /**
   * Milliseconds that every node takes, by the device's clock where the adapter has `timestamp-query`.
   *
   * @param {Record<string, Input>} [inputs]
   * @param {{runs?: number}} [options]
   * @returns {Promise<NodeTime[]>}
   */
  async profile(inputs = {}, { runs = 5 } = {}) {
    await this.#ready();
    const gpu = this.#gpu;
    return gpu ? gpu.inOrder(() => gpu.profile(inputs, runs)) : /** @type {Wasm} */ (this.#wasm).profile(this.#plain(inputs), { runs });
  }

  /** Frees memory, and the device if the model asked for it. */
  dispose() {
    this.#disposed = true;
    this.#gpu?.dispose();
    this.#wasm?.dispose();
  }
}
