import { attempt, fail } from "../errors.js";
import { readGraph } from "../graph.js";
import { checkFile, open, receive } from "../load.js";
import { layOut } from "../memory.js";
import { Model } from "../model.js";
import { arrayType, isSize } from "../tensors.js";
import { request } from "./device.js";
import { Images, isImage } from "./image.js";

/**
 * @typedef {import("../graph.js").Graph} Graph
 * @typedef {{buffer: any, offset: number, size: number}} Region Bytes of a GPUBuffer.
 * @typedef {{name: string, tasks: number, threads?: number[], most_threads: number, shared_bytes?: number, checks?: boolean}} Launch
 * @typedef {Graph & {device: {module: string, needs: string[], params: [number, number]}, launches: Launch[]}} GpuGraph
 */

/** Bytes to whose multiples buffers are bound; words of a call before its operands; invocations of a workgroup where
 * each has tasks of its own; workgroups along one dimension, at most. */
const ALIGNED = 256, FIXED = 6, ALONE = 64, ALONG = 65535;
/** Of WebGPU, as numbers: buffers that are mapped for reading, copied from, copied to, and bound. */
const READ = 1, FROM = 4, TO = 8, STORAGE = 128;

const up = (/** @type {number} */ bytes, to = ALIGNED) => Math.ceil(bytes / to) * to;

/**
 * graph.json of kernels that all run on WebGPU, as if they were a library's. Copies are of inputs and outputs, which the
 * engine makes anyway.
 *
 * @param {any} json
 */
function ofDevice(json) {
  const { devices: [device] = [], control = [], library, kernels, files } = json;
  if (device?.kind !== "webgpu") fail("E0507", `graph.json: compiled for ${device?.kind ?? json.target.triple}: compile with --target webgpu`);
  const nodes = json.nodes.filter((/** @type {any} */ node) => node.op !== "copy");
  const { needs, params: [first, size], arena_bytes: bytes, scratch_bytes: scratch } = device;
  const good = (/** @type {any} */ k) => isSize(k.tasks) && (k.threads ?? [k.most_threads]).every((/** @type {any} */ n) => isSize(n) && n > 0);
  if (library || control.length || !nodes.every((/** @type {any} */ n) => n.device === 1)) fail("E0507", "graph.json: some kernels are for the CPU: compile with --target browser");
  if (!kernels.every(good) || !needs.every(isText) || !isSize(bytes) || !isSize(scratch) || !isSize(first) || !isSize(size) || first + size > files["params.bin"].bytes)
    fail("E0504", "graph.json: devices or kernels is missing or wrong");
  return {
    ...json,
    target: { triple: "wasm32", pointer_bits: 32, cpu_features: [] },
    library: device.module,
    arena: { bytes },
    scratch_bytes: up(scratch),
    nodes,
    device,
    devices: undefined,
    launches: kernels,
  };
}

/** @param {any} data */
const isOfDevice = (data) => isImage(data) || isBuffer(data) || isBuffer(data?.buffer);
const isBuffer = (/** @type {any} */ data) => "GPUBuffer" in globalThis && data instanceof /** @type {any} */ (globalThis).GPUBuffer;
const isText = (/** @type {any} */ text) => typeof text === "string";

/**
 * Where everything lies in the buffer that kernels write: the status, the arena, inputs, outputs and weights that are
 * operands, and scratch.
 *
 * @param {Graph} graph
 */
function places(graph) {
  let end = ALIGNED;
  const take = (/** @type {number} */ bytes) => ((end = up(end) + up(Math.max(bytes, 4))), end - up(Math.max(bytes, 4)));
  const arena = take(graph.arenaBytes);
  const own = new Map(graph.values.flatMap(({ class: kind, bytes }, v) => (/put$|^param$/.test(kind) ? [[v, take(bytes)]] : [])));
  const scratch = take(graph.scratchBytes);
  return { arena, own, scratch, bytes: end };
}

/** Runs the kernels of a bundle on a GPU. */
export class Engine {
  /** Why it can run no more. @type {string | undefined} */ lost;
  /** @type {any[]} */ #pipelines = [];
  /** @type {any[]} */ #groups = [];
  /** @type {Promise<any>} */ #last = Promise.resolve();

  /**
   * @param {GpuGraph} graph
   * @param {any} device
   * @param {ReturnType<typeof places>} layout
   */
  constructor(graph, device, layout) {
    this.graph = graph;
    this.device = device;
    this.layout = layout;
    const { nodes, symbols, outputs, values } = graph;
    this.stride = up(4 * (FIXED + symbols.length + Math.max(0, ...nodes.map((n) => n.in.length + n.out.length))));
    const [first, size] = graph.device.params;
    this.first = first;
    const buffer = (/** @type {number} */ bytes, /** @type {number} */ usage) => device.createBuffer({ size: up(Math.max(bytes, 4)), usage });
    this.memory = buffer(layout.bytes, STORAGE | FROM | TO);
    this.params = buffer(size + ALIGNED, STORAGE | TO);
    this.calls = buffer(this.stride * Math.max(1, nodes.length), STORAGE | TO);
    this.staged = buffer(ALIGNED + outputs.reduce((sum, v) => sum + up(values[v].bytes), 0), READ | TO);
    this.images = new Images(device, this.memory);
    this.checks = graph.launches.some((k) => k.checks);
    // What a model knows of its signature, with memory for inputs and outputs alone, and kernels that do nothing.
    for (const node of nodes) node.call = () => 0;
    const host = layOut({ ...graph, arenaBytes: 0, paramsBytes: 0, scratchBytes: 0 }, 0, 1);
    this.signature = new /** @type {any} */ (Model)([graph, host, new ArrayBuffer(host.bytes)]);
  }

  /**
   * @param {any} source
   * @param {any} options
   */
  static async load(source, options) {
    const { onProgress, signal, device: own } = options;
    const opened = await attempt("E0501", "not loaded", () => open(source, options), signal);
    const graph = /** @type {GpuGraph} */ (await readGraph(opened.graph, ofDevice));
    const layout = places(graph);
    const [, weights] = graph.device.params;
    const most = Math.max(0, ...graph.nodes.map((n) => n.row.params_bytes ?? 0));
    const least = (/** @type {(k: any) => number} */ of) => Math.max(1, ...graph.launches.map(of));
    const device = await request(
      graph,
      {
        maxStorageBufferBindingSize: Math.max(layout.bytes, up(most) + ALIGNED),
        maxBufferSize: Math.max(layout.bytes, up(weights) + ALIGNED),
        maxComputeWorkgroupStorageSize: least((k) => k.shared_bytes ?? 0),
        maxComputeInvocationsPerWorkgroup: least((k) => (k.threads ?? [Math.min(ALONE, k.tasks)]).reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b)),
      },
      own,
    );
    device.pushErrorScope("out-of-memory");
    const engine = new Engine(graph, device, layout);
    const full = await device.popErrorScope();
    if (full) fail("E0502", `cannot allocate ${layout.bytes} bytes on the GPU: ${full.message}`);
    device.lost.then((/** @type {any} */ { reason, message }) => (engine.lost = message || reason));
    try {
      await Promise.all([engine.#compile(opened, onProgress, signal), engine.#receive(opened)]);
      signal?.throwIfAborted();
    } catch (problem) {
      engine.dispose(!own);
      throw problem;
    }
    engine.owns = !own;
    engine.resetState();
    engine.#write();
    return engine;
  }

  /** One pipeline for each kernel, compiled while others are. @param {any} opened @param {any} onProgress @param {any} signal */
  async #compile(opened, onProgress, signal) {
    const { device, graph } = this;
    const { module: file } = graph.device;
    const bytes = await opened.whole?.(file) ?? fail("E0501", "a bundle for WebGPU is a directory, or its files");
    checkFile(file, graph.files[file], bytes);
    const module = device.createShaderModule({ code: new TextDecoder().decode(bytes) });
    const { messages = [] } = (await module.getCompilationInfo?.()) ?? {};
    const wrong = messages.find((/** @type {any} */ m) => m.type === "error");
    if (wrong) fail("E0508", `${file}, line ${wrong.lineNum}: ${wrong.message}`);
    const types = ["storage", "read-only-storage", "read-only-storage"];
    const entries = types.map((type, binding) => ({ binding, visibility: 4, buffer: { type } }));
    const bindings = device.createBindGroupLayout({ entries });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [bindings] });
    let loaded = 0;
    const total = graph.kernels.length;
    this.#pipelines = await Promise.all(
      graph.kernels.map((entryPoint) =>
        attempt("E0508", `${file}: kernel "${entryPoint}" cannot be compiled`, async () => {
          const pipeline = await device.createComputePipelineAsync({ layout, compute: { module, entryPoint } });
          onProgress?.({ file: "pipelines", loaded: ++loaded, total });
          return pipeline;
        }, signal),
      ),
    );
    this.#groups = graph.nodes.map(({ row }, n) => {
      const offset = this.#window(row);
      const size = up((row.params_bytes ?? 0) + ALIGNED);
      const resources = [{ buffer: this.memory }, { buffer: this.params, offset, size: Math.min(size, this.params.size - offset) }, { buffer: this.calls, offset: n * this.stride, size: this.stride }];
      return device.createBindGroup({ layout: bindings, entries: resources.map((resource, binding) => ({ binding, resource })) });
    });
  }

  /** Where the part of the weights begins that is bound for a node. @param {any} row */
  #window({ params_at: at = this.first, params_bytes: size = 0 }) {
    return size ? Math.floor((at - this.first) / ALIGNED) * ALIGNED : 0;
  }

  /** @param {any} opened */
  async #receive(opened) {
    const { graph, device, first } = this;
    const whole = new Uint8Array(up(graph.paramsBytes, 4));
    await receive(opened, whole.subarray(0, graph.paramsBytes), { ...graph, nodes: [] });
    const [, size] = graph.device.params;
    if (size) device.queue.writeBuffer(this.params, 0, whole, first, up(size, 4));
    // Weights that are operands, and what states begin with.
    for (const [v, at] of this.layout.own) {
      const { class: kind, offset, bytes } = graph.values[v];
      if (kind === "param") device.queue.writeBuffer(this.memory, at, whole, offset, up(bytes, 4));
    }
    this.initial = graph.states.map(({ value, initialAt }) => whole.slice(initialAt ?? 0, initialAt === undefined ? 0 : initialAt + up(graph.values[value].bytes, 4)));
  }

  resetState() {
    this.graph.states.forEach(({ value }, n) => {
      const { bytes } = this.graph.values[value];
      const size = up(bytes, 4);
      const first = new Uint8Array(size);
      first.set(this.initial[n]);
      this.device.queue.writeBuffer(this.memory, this.at(value), first);
    });
  }

  /** Where a value's buffer lies. @param {number} v */
  at(v) {
    return this.layout.own.get(v) ?? this.layout.arena + this.graph.values[v].offset;
  }

  /** @param {number} v @returns {Region} */
  region(v) {
    const { dtype, dims } = this.graph.values[v];
    const size = dims.reduce((a, b) => a * b, /** @type {any} */ (arrayType(dtype)).BYTES_PER_ELEMENT);
    return { buffer: this.memory, offset: this.at(v), size };
  }

  /** Sizes that the calls have. @type {number[] | undefined} */ #sizes;

  /** Writes every call, at the present sizes. */
  #write() {
    const { graph, layout, stride } = this;
    this.#sizes = graph.sizes;
    const words = new Uint32Array((stride / 4) * Math.max(1, graph.nodes.length));
    graph.nodes.forEach(({ row, tasks, in: ins, out: outs }, n) => {
      const params = row.params_bytes ? row.params_at - this.first - this.#window(row) : 0;
      const operands = [...ins, ...outs].map((v) => this.at(v) / 4);
      words.set([tasks, 0, layout.scratch / 4, params / 4, 0, ...operands, ...graph.sizes], (n * stride) / 4);
    });
    this.device.queue.writeBuffer(this.calls, 0, words);
  }

  /** @param {any} encoder @param {number} n @param {any} [timestampWrites] */
  #node(encoder, n, timestampWrites) {
    const { kernel, tasks } = this.graph.nodes[n];
    const { threads, tasks: most, most_threads: limit } = this.graph.launches[kernel];
    const groups = threads ? tasks : Math.ceil(Math.min(tasks, limit) / Math.min(ALONE, most));
    const pass = timestampWrites ? encoder.beginComputePass({ timestampWrites }) : encoder;
    if (groups) {
      pass.setPipeline(this.#pipelines[kernel]);
      pass.setBindGroup(0, this.#groups[n]);
      pass.dispatchWorkgroups(Math.min(groups, ALONG), Math.ceil(groups / ALONG));
    }
    if (timestampWrites) pass.end();
  }

  /**
   * One run after another.
   *
   * @template T
   * @param {() => Promise<T>} action
   * @returns {Promise<T>}
   */
  inOrder(action) {
    const done = this.#last.then(action);
    this.#last = done.catch(() => {});
    return done;
  }

  /**
   * @param {Record<string, any>} inputs
   * @param {string[]} keep outputs that stay on the device
   */
  async run(inputs, keep) {
    const { device, graph, memory, staged } = this;
    const encoder = device.createCommandEncoder();
    const used = this.#inputs(encoder, inputs);
    const pass = encoder.beginComputePass();
    graph.nodes.forEach((_, n) => this.#node(pass, n));
    pass.end();
    return this.#finish(encoder, used, keep);
  }

  /**
   * @param {any} encoder
   * @param {Record<string, any>} inputs
   */
  #inputs(encoder, inputs) {
    const { graph, device, memory, signature } = this;
    const all = Object.entries(inputs ?? {}).map(([name, input]) => {
      signature.input(name); // there is one of that name
      const { data, dims } = Array.isArray(input?.dims) ? input : { data: input };
      return { name, index: /** @type {number} */ (graph.inputs.find((v) => graph.values[v].name === name)), data, dims, numbers: !isOfDevice(data) };
    });
    // Numbers are checked as everywhere; of what the device has, sizes alone.
    signature.run(Object.fromEntries(all.flatMap(({ name, index, data, dims, numbers }) => {
      if (!numbers && dims) data = new (/** @type {any} */ (arrayType(graph.values[index].dtype)))(dims.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1));
      return numbers || dims ? [[name, dims ? { data, dims } : data]] : [];
    })));
    if (graph.sizes !== this.#sizes) this.#write();
    /** @type {{destroy: () => void}[]} */
    const used = [];
    for (const { name, index, data, numbers } of all) {
      const { offset, size } = this.region(index);
      if (numbers) {
        const { buffer, byteOffset } = signature.input(name);
        if (size) device.queue.writeBuffer(memory, offset, buffer, byteOffset, up(size, 4));
      } else if (isImage(data)) used.push(...this.images.put(encoder, graph, index, offset, data));
      else {
        const { buffer = data, offset: from = 0 } = data.buffer ? data : {};
        if (buffer.size - from < size) fail("E0604", `input "${name}" needs ${size} bytes; the buffer has ${buffer.size - from}`);
        if (size) encoder.copyBufferToBuffer(buffer, from, memory, offset, up(size, 4));
      }
    }
    if (this.checks) encoder.clearBuffer(memory, 0, 4);
    return used;
  }

  /**
   * @param {any} encoder
   * @param {{destroy: () => void}[]} used
   * @param {string[]} keep
   */
  async #finish(encoder, used, keep) {
    const { device, graph, memory, staged } = this;
    const outputs = graph.outputs.map((v) => ({ ...graph.values[v], ...this.region(v), at: 0 }));
    let end = ALIGNED;
    for (const output of outputs.filter(({ name, size }) => size && !keep.includes(name))) {
      output.at = end;
      encoder.copyBufferToBuffer(memory, output.offset, staged, end, up(output.size, 4));
      end += up(output.size);
    }
    if (this.checks) encoder.copyBufferToBuffer(memory, 0, staged, 0, 4);
    device.queue.submit([encoder.finish()]);
    const read = this.checks || end > ALIGNED;
    if (read) await attempt("E0511", "the GPU did not finish", () => staged.mapAsync(1, 0, end));
    used.forEach((each) => each.destroy());
    const bytes = read && staged.getMappedRange(0, end);
    const status = this.checks ? new Int32Array(bytes, 0, 1)[0] : 0;
    const results = outputs.map(({ name, dtype, dims, at, buffer, offset, size }) => {
      if (keep.includes(name)) return [name, { buffer, offset, size, dtype, dims: [...dims] }];
      const type = /** @type {any} */ (arrayType(dtype));
      return [name, at ? new type(bytes.slice(at, at + size)) : new type(0)];
    });
    if (read) staged.unmap();
    if (status) fail("E0511", `a kernel returned ${status}`);
    return Object.fromEntries(results);
  }

  /**
   * Milliseconds of every node, by the device's clock; of each alone by the page's where it has none.
   *
   * @param {Record<string, any>} inputs
   * @param {number} runs
   */
  async profile(inputs, runs) {
    const { device, graph } = this;
    const total = graph.nodes.map(() => 0);
    const clock = device.features.has("timestamp-query");
    const querySet = clock && device.createQuerySet({ type: "timestamp", count: 2 });
    const resolved = device.createBuffer({ size: ALIGNED, usage: 0x200 | FROM });
    const readable = device.createBuffer({ size: 16, usage: READ | TO });
    await this.run(inputs, []);
    for (let run = 0; run < runs; run++)
      for (let n = 0; n < total.length; n++) {
        const encoder = device.createCommandEncoder();
        if (clock) {
          this.#node(encoder, n, { querySet, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 });
          encoder.resolveQuerySet(querySet, 0, 2, resolved, 0);
          encoder.copyBufferToBuffer(resolved, 0, readable, 0, 16);
          device.queue.submit([encoder.finish()]);
          await attempt("E0511", "the GPU did not finish", () => readable.mapAsync(1));
          const [first, last] = new BigInt64Array(readable.getMappedRange());
          total[n] += Number(last - first) / 1e6;
          readable.unmap();
        } else {
          const pass = encoder.beginComputePass();
          this.#node(pass, n);
          pass.end();
          const start = performance.now();
          device.queue.submit([encoder.finish()]);
          await device.queue.onSubmittedWorkDone();
          total[n] += performance.now() - start;
        }
      }
    [resolved, readable, querySet].forEach((each) => each && each.destroy());
    return graph.nodes.map(({ name, kernel, sources, tasks }, n) => ({ name, kernel: graph.kernels[kernel], sources, tasks, ms: total[n] / runs }));
  }

  /** @param {boolean} all the device, too */
  dispose(all = this.owns) {
    for (const buffer of [this.memory, this.params, this.calls, this.staged]) buffer.destroy();
    if (all) this.device.destroy();
  }

  /** @type {Uint8Array[]} */ initial = [];
  owns = false;
}
