import { PAGE, TASKS } from "./constants.js";
import { int64, runControlled } from "./control.js";
import { attempt, fail, returned, shown } from "./errors.js";
import { hasFeature } from "./features.js";
import { readGraph, resize } from "./graph.js";
import { internals } from "./internals.js";
import { open, receive } from "./load.js";
import { addressOf, layOut, readTable, writeRecords } from "./memory.js";
import { arrayType, checkArray, isSize, product } from "./tensors.js";
import { Pool } from "./threads.js";

/**
 * @typedef {import("./tensors.js").TypedArray} TypedArray
 * @typedef {import("./load.js").Source} Source
 * @typedef {import("./load.js").FetchOptions & {threads?: number}} LoadOptions `threads`: how many share the work, 1 if
 *   not given.
 * @typedef {{name: string, dtype: string, dims: number[]}} TensorInfo
 * @typedef {{name: string, size: number, lo: number, hi: number, computed: boolean}} DimInfo
 * @typedef {{name: string, kernel: string, sources: string[], tasks: number, ms: number}} NodeTime
 * @typedef {[import("./graph.js").Graph, import("./memory.js").Layout, ArrayBufferLike]} Parts Graph, addresses, memory.
 * @typedef {TypedArray | Uint8ClampedArray | {data: TypedArray | Uint8ClampedArray, dims: number[]}} Input
 */

/**
 * A compiled model. All of its memory is taken when it is loaded: nothing grows, and arrays that it gives out stay
 * views of the same tensors until it is disposed of.
 */
export class Model {
  /** @type {Parts[0]} */ #graph;
  /** @type {Parts[1]} */ #layout;
  /** @type {Parts[2]} */ #buffer;
  /** @type {Pool | undefined} */ #pool;
  #hasRun = false;

  /**
   * Only for `Model.load`.
   *
   * @private
   * @param {Parts} parts
   */
  constructor(parts) {
    [this.#graph, this.#layout, this.#buffer] = parts ?? fail("E0501", "call Model.load");
    this.#resize(this.#graph.sizes, 0, Infinity);
  }

  /**
   * Loads a bundle that was compiled for `browser` or a target of its family.
   *
   * @param {Source} source the address of a bundle's directory or of a single-file bundle; a Response or the bytes of a
   *   single file; or {graph, params, module}
   * @param {LoadOptions} [options]
   * @returns {Promise<Model>}
   */
  static async load(source, options) {
    options ??= {};
    const opened = await attempt("E0501", "not loaded", () => open(source, /** @type {any} */ (options)), options.signal);
    return Model[internals](opened, await readGraph(opened.graph), options);
  }

  /**
   * The model of a bundle whose graph has been read.
   *
   * @param {import("./load.js").Opened} opened
   * @param {import("./graph.js").Graph} graph
   * @param {LoadOptions} options
   * @returns {Promise<Model>}
   */
  static async [internals](opened, graph, options) {
    const [library, shared, threads] = choose(graph, options.threads);
    graph.library = library;
    const entry = graph.files[library];
    const module = await opened.library(library, entry);

    const layout = layOut(graph, entry.static_bytes ?? 0, threads);
    const pages = layout.bytes / PAGE;
    const memory = await attempt("E0502", `cannot allocate ${layout.bytes} bytes`, () => new WebAssembly.Memory({ initial: pages, maximum: pages, shared }));
    return attempt("E0508", `${library}: cannot be linked`, async () => {
      const wanted = WebAssembly.Module.imports(module).map((i) => `${i.module}.${i.name}`).join();
      if (wanted !== "env.memory") fail("E0508", `${library}: imports ${wanted || "nothing"}; it may import env.memory alone`);
      const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
      const { buffer } = memory;
      const weights = new Uint8Array(buffer, layout.params, graph.paramsBytes);
      const functions = readTable(exports, buffer, graph);
      const records = writeRecords(buffer, graph, layout, threads);
      graph.nodes.forEach((node, n) => {
        const kernel = /** @type {WebAssembly.Table} */ (exports.__indirect_function_table).get(functions[n]);
        const record = records[0][n];
        node.call = (first, last) => kernel(record, first, last);
      });
      const model = new Model([graph, layout, buffer]);
      if (threads > 1) model.#pool = new Pool(module, memory, layout, functions, records);
      try {
        await Promise.all([receive(opened, weights, graph), model.#pool?.ready]);
        options.signal?.throwIfAborted();
      } catch (problem) {
        model.dispose();
        throw problem;
      }
      model.resetState();
      return model;
    }, options.signal);
  }

  /** The model's name. */
  get name() {
    return this.#graph.model;
  }

  /** @returns {TensorInfo[]} at the present sizes, in the model's order */
  get inputs() {
    return this.#graph.inputs.map((v) => this.#info(v));
  }

  /** @returns {TensorInfo[]} */
  get outputs() {
    return this.#graph.outputs.map((v) => this.#info(v));
  }

  /** @returns {DimInfo[]} dimensions that were left open when the model was compiled; behind them, those that it computes */
  get dims() {
    const { symbols, sizes, open } = this.#graph;
    return symbols.map(({ name, lo, hi }, n) => ({ name, size: sizes[n], lo, hi, computed: n >= open }));
  }

  /** How many threads share the work. */
  get threads() {
    return (this.#pool?.workers.length ?? 0) + 1;
  }

  /** Bytes: `total` is the linear memory, which never changes; `library` is the file whose kernels run. */
  get memory() {
    const { arenaBytes: arena, paramsBytes: params, scratchBytes: scratch, library } = this.#graph;
    return { total: this.#buffer.byteLength, arena, params, scratch, library };
  }

  /**
   * Runs the model once.
   *
   * @param {Record<string, Input>} [inputs] by name, dense; those that are left out keep what was written into `input(name)`. With
   *   `{data, dims}`, open dimensions take their sizes from `dims`.
   * @returns {Record<string, TypedArray>} the outputs by name: views, overwritten by the next run
   */
  run(inputs) {
    this.#write(inputs);
    this.#runNodes((n) => this.#runNode(n));
    return Object.fromEntries(this.#graph.outputs.map((v) => [this.#graph.values[v].name, this.#view(v)]));
  }

  /**
   * Lets the model forget what earlier runs left in it: recurrent states and caches are as after loading. Nothing
   * happens to a model that remembers nothing.
   */
  resetState() {
    this.#check();
    const memory = new Uint8Array(this.#buffer);
    for (const { value, initialAt } of this.#graph.states) {
      const { bytes } = this.#graph.values[value];
      const at = addressOf(this.#graph, this.#layout, value);
      if (initialAt === undefined) memory.fill(0, at, at + bytes);
      else memory.copyWithin(at, this.#layout.params + initialAt, this.#layout.params + initialAt + bytes);
    }
  }

  /**
   * The memory of an input, to write into without a copy.
   *
   * @param {string} name
   * @returns {TypedArray}
   */
  input(name) {
    return this.#view(this.#find(this.#graph.inputs, "input", name));
  }

  /**
   * The memory of an output.
   *
   * @param {string} name
   * @returns {TypedArray}
   */
  output(name) {
    return this.#view(this.#find(this.#graph.outputs, "output", name));
  }

  /**
   * Sets open dimensions. Outputs and earlier inputs have no value after that.
   *
   * @param {Record<string, number>} sizes by name; those that are left out stay
   */
  setDims(sizes) {
    this.#check();
    const { symbols, sizes: before, open } = this.#graph;
    const next = symbols.map(({ hi }, n) => (n < open ? before[n] : hi)); // nothing is computed yet
    for (const [name, size] of Object.entries(sizes ?? {})) {
      const known = symbols.slice(0, open).map((s) => s.name);
      const n = known.indexOf(name);
      if (n < 0) fail("E0501", `the model has no dimension "${name}" to set; it has: ${known.join(", ") || "none"}`);
      const { lo, hi } = symbols[n];
      if (!isSize(size) || size < lo || size > hi) fail("E0501", `dimension "${name}" is ${shown(size)}; the model takes ${lo} to ${hi}`);
      next[n] = size;
    }
    if (next.every((size, n) => n >= open || size === before[n])) return;
    this.#resize(next, 1, Infinity);
    this.#hasRun = false;
  }

  /**
   * Milliseconds that every node takes: the mean of some runs, since the clocks of browsers are coarse.
   *
   * @param {Record<string, Input>} [inputs]
   * @param {{runs?: number}} [options]
   * @returns {NodeTime[]} in execution order
   */
  profile(inputs, options) {
    const { runs = 20 } = options ?? {};
    const { nodes, kernels } = this.#graph;
    this.#write(inputs);
    const total = nodes.map(() => 0);
    for (let run = 0; run < runs; run++)
      this.#runNodes((n) => {
        const start = performance.now();
        this.#runNode(n);
        total[n] += performance.now() - start;
      });
    return nodes.map(({ name, kernel, sources, tasks }, n) => ({ name, kernel: kernels[kernel], sources, tasks, ms: total[n] / runs }));
  }

  /** What `sterna/inspect` looks at; and for `sterna/webgpu` what sets inputs and runs a node. */
  [internals]() {
    this.#check();
    return {
      graph: this.#graph, layout: this.#layout, buffer: this.#buffer, hasRun: this.#hasRun,
      set: (/** @type {Record<string, Input>} */ inputs) => this.#write(inputs),
      run: (/** @type {number} */ n) => this.#runNode(n),
    };
  }

  /** Frees memory and threads. Views that were given out must not be used any more; every later call says so. */
  dispose() {
    this.#pool?.stop();
    this.#pool = undefined;
    this.#graph.nodes = [];
    this.#buffer = new ArrayBuffer(0);
  }

  #check() {
    if (!this.#buffer.byteLength) fail("E0520", `the model "${this.name}" has been disposed of`);
  }

  /**
   * The bytes of a value's only element.
   *
   * @param {number} index
   */
  #element(index) {
    const { origin, elementBytes } = this.#graph.values[index];
    return new Uint8Array(this.#buffer, addressOf(this.#graph, this.#layout, index) + origin * elementBytes, elementBytes);
  }

  /** @param {(n: number) => void} run */
  #runNodes(run) {
    runControlled(this.#graph, (v) => this.#element(v), run);
    this.#hasRun = true;
  }

  /** @param {number} n */
  #runNode(n) {
    const { name, kernel, tasks, computes, call } = this.#graph.nodes[n];
    let status, cause;
    try {
      status = this.#pool && tasks > 1 ? this.#pool.run(n, call) : call(0, tasks);
    } catch (trap) {
      this.dispose(); // its stack and memory are as the trap left them
      cause = status = /** @type {any} */ (trap);
    }
    if (cause || status < 0)
      fail("E0511", `node "${name}": kernel "${this.#graph.kernels[kernel]}" ${cause ? `closed the model: ${status}` : returned(status)}`, cause);
    if (computes !== undefined) this.#compute(computes);
  }

  /**
   * A size is known that the model computes; what depends on it follows.
   *
   * @param {number} index of the value
   */
  #compute(index) {
    const { symbols, sizes, values } = this.#graph;
    const symbol = /** @type {number} */ (values[index].computes);
    const { name, lo, hi } = symbols[symbol];
    const size = Number(int64(this.#element(index))[0]);
    if (size < lo || size > hi) fail("E0511", `dimension "${name}" is ${size}; the model takes ${lo} to ${hi}`);
    this.#resize(sizes.map((old, n) => (n === symbol ? size : old)), 2 + symbol, 2 + symbol);
  }

  /** @param {Record<string, Input> | undefined} inputs */
  #write(inputs) {
    this.#check();
    const given = Object.entries(inputs ?? {}).map(([name, input]) => {
      const index = this.#find(this.#graph.inputs, "input", name);
      const { data, dims } = Array.isArray(/** @type {any} */ (input)?.dims) ? /** @type {any} */ (input) : { data: input };
      return { name, index, data, dims };
    });
    /** @type {Record<string, number>} */
    const sizes = {};
    for (const { index, dims } of given)
      dims?.forEach((/** @type {any} */ size, /** @type {number} */ axis) => {
        const e = this.#graph.values[index].row.dims[axis];
        // A dimension, or a number of times one: the share of a size that is no multiple is refused as no size.
        const [own, times] = e?.[0] === "*" ? e.slice(1) : [e, 1];
        if (own?.[0] === "d" && times > 0) sizes[this.#graph.symbols[own[1]].name] = times > 1 ? Number(size) / times : size;
      });
    this.setDims(sizes);
    for (const { name, index, data, dims } of given) {
      const value = this.#graph.values[index];
      const wanted = value.dims.join(", ");
      const found = dims ? dims.map(shown).join(", ") : wanted;
      if (found !== wanted) fail("E0604", `input "${name}" needs [${wanted}]; given: [${found}]`);
      const array = checkArray(name, value, data);
      if (array.length) this.#view(index).set(/** @type {any} */ (array));
    }
  }

  /**
   * @param {number[]} list
   * @param {string} side
   * @param {string} name
   */
  #find(list, side, name) {
    const names = list.map((v) => this.#graph.values[v].name);
    return list[names.indexOf(name)] ?? fail(side === "input" ? "E0602" : "E0509", `the model has no ${side} "${shown(name)}"; it has: ${names.join(", ")}`);
  }

  /**
   * @param {number} index
   * @returns {TypedArray}
   */
  #view(index) {
    this.#check();
    const { dtype, dims } = this.#graph.values[index];
    const type = /** @type {any} */ (arrayType(dtype));
    return new type(this.#buffer, this.#layout.signature.get(index), product(dims));
  }

  /** @param {number} index */
  #info(index) {
    const { name, dtype, dims } = this.#graph.values[index];
    return { name, dtype, dims: [...dims] };
  }

  /**
   * Everything follows other sizes, what kernels and threads read too.
   *
   * @param {number[]} sizes
   * @param {number} from
   * @param {number} to
   */
  #resize(sizes, from, to) {
    const { nodes } = this.#graph;
    resize(this.#graph, sizes, from, to);
    new BigInt64Array(this.#buffer, this.#layout.sizes, sizes.length).set(sizes.map(BigInt));
    new Int32Array(this.#buffer, this.#layout.control + 4 * TASKS, nodes.length).set(nodes.map((n) => n.tasks));
  }
}

// `using model = await Model.load(...)`, where the language has it; a name that nobody asks for where it does not.
/** @type {any} */ (Model.prototype)[Symbol.dispose ?? "using"] = Model.prototype.dispose;

/**
 * The best library of the bundle that this engine can run, whether its memory is shared, and how many threads it will have.
 *
 * @param {import("./graph.js").Graph} graph
 * @param {number} [threads]
 */
function choose(graph, threads = 1) {
  if (!isSize(threads) || threads < 1 || threads > 64) fail("E0501", `threads is ${shown(threads)}; it must be 1 to 64`);
  const runs = graph.variants.filter(({ cpu_features: f }) => f.every(hasFeature));
  const shared = (/** @type {{cpu_features: string[]}} */ v) => v.cpu_features.includes("threads");
  const fitting = runs.find((v) => shared(v) === threads > 1) ?? runs[0];
  if (!fitting) {
    const missing = /** @type {import("./graph.js").Variant} */ (graph.variants.at(-1)).cpu_features.filter((f) => !hasFeature(f)).join(", ");
    fail("E0507", `the kernels need ${missing}, which is not here${missing.includes("threads") ? isolation : ""}${variants}`);
  }
  const own = shared(fitting);
  if (!own && threads > 1) {
    console.warn(`sterna: one thread instead of ${threads}` + (hasFeature("threads") ? variants : isolation));
    threads = 1;
  }
  return /** @type {const} */ ([fitting.library, own, threads]);
}

const variants = "; compile with --all-variants";
const isolation = "; serve the page with COOP and COEP";
