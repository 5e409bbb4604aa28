import { runControlled } from "../control.js";
import { attempt, fail } from "../errors.js";
import { readGraph } from "../graph.js";
import { internals } from "../internals.js";
import { checkFile, open, receive } from "../load.js";
import { addressOf, layOut } from "../memory.js";
import { Model } from "../model.js";
import { arrayType, product } from "../tensors.js";
import { Commands } from "./commands.js";
import { adapterOf, noAdapter, request } from "./device.js";
import { withDots } from "./dots.js";
import { withHalves } from "./halves.js";
import { Images, isImage } from "./image.js";
import { leastSubgroup, neighboursMeet, withExchanges } from "./subgroups.js";
import { ALIGNED, isLast, ofDevice, places, stepsOf, up } from "./plan.js";

/**
 * @typedef {import("./plan.js").GpuGraph} GpuGraph
 * @typedef {import("./plan.js").Region} Region
 */

/** Words of a call before its operands; invocations of a workgroup where each has tasks of its own; workgroups along one
 * dimension, at most. */
const FIXED = 6, ALONE = 64, ALONG = 65535;
/** Of WebGPU, as numbers: buffers that are mapped for reading, copied from, copied to, and bound. */
const READ = 1, FROM = 4, TO = 8, STORAGE = 128;

/** @param {any} data */
const isOfDevice = (data) => isImage(data) || isBuffer(data) || isBuffer(data?.buffer);
const isBuffer = (/** @type {any} */ data) => "GPUBuffer" in globalThis && data instanceof /** @type {any} */ (globalThis).GPUBuffer;

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
   * @param {Model | undefined} beside what runs the nodes of the CPU, if there are any
   */
  constructor(graph, device, layout, beside) {
    this.graph = graph;
    this.device = device;
    this.layout = layout;
    this.beside = beside;
    const { nodes, symbols, outputs, inputs, values, copies } = graph;
    this.stride = up(4 * (FIXED + symbols.length + Math.max(0, ...nodes.map((n) => n.in.length + n.out.length))));
    const [first, size] = graph.device.params;
    this.first = first;
    this.steps = stepsOf(graph);
    /** Outputs whose last contents are the device's. */
    this.made = new Set(copies.filter((copy) => isLast(copy, nodes.length)).map(({ value }) => value));
    /** Inputs that the CPU reads. */
    this.shared = new Set(inputs.filter((v) => nodes.some((node) => !node.row.device && node.in.includes(v))));
    const staged = [...outputs, ...this.shared, ...copies.filter(({ to }) => !to).map(({ value }) => value)];
    const buffer = (/** @type {number} */ bytes, /** @type {number} */ usage) => device.createBuffer({ size: up(Math.max(bytes, 4)), usage });
    this.memory = buffer(layout.bytes, STORAGE | FROM | TO);
    this.params = buffer(size + ALIGNED, STORAGE | TO);
    this.calls = buffer(this.stride * Math.max(1, nodes.length), STORAGE | TO);
    this.staged = buffer(ALIGNED + staged.reduce((sum, v) => sum + up(values[v].bytes), 0), READ | TO);
    this.images = new Images(device, this.memory);
    this.checks = graph.launches.some((k) => k.checks);
    // Without nodes on the CPU: what a model knows of its signature, with memory for inputs and outputs alone.
    const alone = layOut({ ...graph, arenaBytes: 0, paramsBytes: 0, scratchBytes: 0 }, 0, 1);
    this.signature = beside ?? new /** @type {any} */ (Model)([graph, alone, new ArrayBuffer(alone.bytes)]);
  }

  /**
   * An engine; or the model, if nothing of it is for the device.
   *
   * @param {any} source
   * @param {any} options
   * @returns {Promise<Engine | Model>}
   */
  static async load(source, options) {
    const { onProgress, signal, device: own, fallback } = options;
    const adapter = Promise.resolve(own ?? adapterOf());
    if (fallback !== undefined && !(await adapter)) noAdapter(); // before files are asked for that nobody reads
    const opened = await attempt("E0501", "not loaded", () => open(source, options), signal);
    const read = (/** @type {number} */ least) => readGraph(opened.graph, (json) => ofDevice(json, least));
    let graph = /** @type {GpuGraph} */ (await read(leastSubgroup(await adapter)));
    if (!graph.device) return Model[internals](opened, graph, options);
    const layout = places(graph);
    const [, weights] = graph.device.params;
    const most = Math.max(0, ...graph.nodes.map((n) => (n.row.device && n.row.params_bytes) || 0));
    const least = (/** @type {(k: any) => number} */ of) => Math.max(1, ...graph.launches.concat(graph.others).map(of));
    const device = await request(
      graph,
      {
        maxStorageBufferBindingSize: Math.max(layout.bytes, up(most) + ALIGNED),
        maxBufferSize: Math.max(layout.bytes, up(weights) + ALIGNED),
        maxComputeWorkgroupStorageSize: least((k) => k.shared_bytes ?? 0),
        maxComputeInvocationsPerWorkgroup: least((k) => product(k.threads ?? [Math.min(ALONE, k.tasks)])),
      },
      own,
      await adapter,
    );
    /** @type {Engine | undefined} */ let engine;
    try {
      if (graph.launches.some((k) => k.subgroup) && !(await neighboursMeet(device, graph.launches))) graph = /** @type {GpuGraph} */ (await read(0));
      const beside = graph.own ? await Model[internals](opened, graph, { signal }) : undefined;
      device.pushErrorScope("out-of-memory");
      engine = new Engine(graph, device, layout, beside);
      const full = await device.popErrorScope();
      if (full) fail("E0502", `cannot allocate ${layout.bytes} bytes on the GPU: ${full.message}`);
      device.lost.then((/** @type {any} */ { reason, message }) => (/** @type {Engine} */ (engine).lost = message || reason));
      await Promise.all([engine.#compile(opened, onProgress, signal), engine.#receive(opened)]);
      signal?.throwIfAborted();
    } catch (problem) {
      engine?.dispose(false);
      if (!own) device.destroy();
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
    const features = /** @type {any} */ (globalThis.navigator)?.gpu?.wgslLanguageFeatures;
    const text = withDots(withExchanges(new TextDecoder().decode(bytes), graph.launches), features);
    const module = device.createShaderModule({ code: await withHalves(text, device) });
    const { messages = [] } = (await module.getCompilationInfo?.()) ?? {};
    const wrong = messages.find((/** @type {any} */ m) => m.type === "error");
    if (wrong) fail("E0508", `${file}, line ${wrong.lineNum}: ${wrong.message}`);
    const types = ["storage", "read-only-storage", "read-only-storage"];
    const entries = types.map((type, binding) => ({ binding, visibility: 4, buffer: { type } }));
    const bindings = device.createBindGroupLayout({ entries });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [bindings] });
    let loaded = 0;
    const total = graph.launches.length;
    this.#pipelines = await Promise.all(
      graph.launches.map(({ name: entryPoint }) =>
        attempt("E0508", `${file}: kernel "${entryPoint}" cannot be compiled`, async () => {
          const pipeline = await device.createComputePipelineAsync({ layout, compute: { module, entryPoint } });
          onProgress?.({ file: "pipelines", loaded: ++loaded, total });
          return pipeline;
        }, signal),
      ),
    );
    this.#groups = graph.nodes.map(({ row }, n) => {
      if (!row.device) return;
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
    const { graph, device, first, beside } = this;
    const here = beside?.[internals]();
    const whole = here ? new Uint8Array(here.buffer, here.layout.params, up(graph.paramsBytes, 4)) : new Uint8Array(up(graph.paramsBytes, 4));
    if (!here) await receive(opened, whole.subarray(0, graph.paramsBytes), { ...graph, nodes: [] });
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
    this.beside?.resetState();
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

  /** What a value takes; of inputs and outputs at the present sizes. @param {number} v @returns {Region} */
  region(v) {
    const { dtype, dims, class: kind, bytes } = this.graph.values[v];
    const size = /put$/.test(kind) ? product(dims) * /** @type {any} */ (arrayType(dtype)).BYTES_PER_ELEMENT : bytes;
    return { buffer: this.memory, offset: this.at(v), size };
  }

  /** Sizes that the calls have. @type {number[] | undefined} */ #sizes;

  /** Writes every call, at the present sizes. */
  #write() {
    const { graph, layout, stride } = this;
    this.#sizes = graph.sizes;
    const words = new Uint32Array((stride / 4) * Math.max(1, graph.nodes.length));
    graph.nodes.forEach(({ row, tasks, in: ins, out: outs }, n) => {
      if (!row.device) return;
      const params = row.params_bytes ? row.params_at - this.first - this.#window(row) : 0;
      const operands = [...ins, ...outs].map((v) => this.at(v) / 4);
      words.set([tasks, 0, layout.scratch / 4, params / 4, 0, ...operands, ...graph.sizes], (n * stride) / 4);
    });
    this.device.queue.writeBuffer(this.calls, 0, words);
  }

  /** @param {any} encoder @param {number} n @param {any} [timestampWrites] */
  #node(encoder, n, timestampWrites) {
    const { kernel, tasks } = this.graph.nodes[n];
    const { threads, tasks: most, most_threads: limit } = this.graph.launches[kernel - this.graph.own];
    const groups = threads ? tasks : Math.ceil(Math.min(tasks, limit) / Math.min(ALONE, most));
    const pass = timestampWrites ? encoder.beginComputePass({ timestampWrites }) : encoder;
    if (groups) {
      pass.setPipeline(this.#pipelines[kernel - this.graph.own]);
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
   * @param {number[]} [total] milliseconds of every node, to which those of the CPU are added
   */
  async run(inputs, keep, total) {
    const { device, graph, memory } = this;
    const commands = new Commands(this);
    const used = this.#inputs(commands, inputs);
    const here = this.signature[internals]();
    for (const { copy, node, first, last } of this.steps)
      if (node !== undefined) this.#node(commands.pass(), node);
      else if (copy?.to) this.#upload(commands, copy.value);
      else if (copy) commands.bring(copy.value);
      else if (first < graph.nodes.length) {
        await commands.finish((v, bytes) => new Uint8Array(here.buffer, addressOf(graph, here.layout, v)).set(bytes));
        this.#beside(first, last, total);
        if (graph.sizes !== this.#sizes) {
          commands.submit();
          this.#write();
        }
      }
    /** @type {Record<string, any>} */ const results = {};
    for (const v of graph.outputs) {
      const { name, dtype, dims } = graph.values[v];
      if (!keep.includes(name)) results[name] = this.made.has(v) ? (commands.bring(v), new (/** @type {any} */ (arrayType(dtype)))(0)) : this.signature.output(name).slice();
      else {
        if (!this.made.has(v)) this.#upload(commands, v);
        results[name] = { ...this.region(v), dtype, dims: [...dims] };
      }
    }
    try {
      await commands.finish((v, bytes) => {
        const { name, dtype } = graph.values[v];
        results[name] = new (/** @type {any} */ (arrayType(dtype)))(bytes.slice().buffer);
      });
    } finally {
      used.forEach((each) => each.destroy());
    }
    return results;
  }

  /** Runs nodes of the CPU. @param {number} first @param {number} last the one behind them @param {number[]} [total] */
  #beside(first, last, total) {
    const { nodes, control, values } = this.graph;
    const { buffer, layout, run } = this.signature[internals]();
    const element = (/** @type {number} */ v) => {
      const { origin, elementBytes } = values[v];
      return new Uint8Array(buffer, addressOf(this.graph, layout, v) + origin * elementBytes, elementBytes);
    };
    const part = { nodes: nodes.slice(0, last), control: control.filter(({ nodes: [begin] }) => begin >= first && begin < last) };
    runControlled(part, element, (n) => {
      const start = performance.now();
      run(n);
      if (total) total[n] += performance.now() - start;
    }, first);
  }

  /** Copies a value from the CPU's memory, behind what has been asked for. @param {Commands} commands @param {number} v */
  #upload(commands, v) {
    const { buffer, layout } = this.signature[internals]();
    const { offset, size } = this.region(v);
    commands.submit();
    if (size) this.device.queue.writeBuffer(this.memory, offset, buffer, addressOf(this.graph, layout, v), up(size, 4));
  }

  /**
   * @param {Commands} commands
   * @param {Record<string, any>} inputs
   * @returns {{destroy: () => void}[]} what is to be freed when the work is done
   */
  #inputs(commands, inputs) {
    const { graph, memory, signature } = this;
    const all = Object.entries(inputs ?? {}).map(([name, input]) => {
      signature.input(name); // there is one of that name
      const { data, dims } = Array.isArray(input?.dims) ? input : { data: input };
      return { name, index: /** @type {number} */ (graph.inputs.find((v) => graph.values[v].name === name)), data, dims, numbers: !isOfDevice(data) };
    });
    // Numbers are checked as everywhere; of what the device has, sizes alone.
    signature[internals]().set(Object.fromEntries(all.flatMap(({ name, index, data, dims, numbers }) => {
      if (!numbers && dims) data = new (/** @type {any} */ (arrayType(graph.values[index].dtype)))(product(dims));
      return numbers || dims ? [[name, dims ? { data, dims } : data]] : [];
    })));
    if (graph.sizes !== this.#sizes) this.#write();
    const { encoder } = commands;
    /** @type {{destroy: () => void}[]} */
    const used = [];
    for (const { name, index, data, numbers } of all) {
      const { offset, size } = this.region(index);
      if (numbers) this.#upload(commands, index);
      else if (isImage(data)) used.push(...this.images.put(encoder, graph, index, offset, data));
      else {
        const { buffer = data, offset: from = 0 } = data.buffer ? data : {};
        if (buffer.size - from < size) fail("E0604", `input "${name}" needs ${size} bytes; the buffer has ${buffer.size - from}`);
        if (size) encoder.copyBufferToBuffer(buffer, from, memory, offset, up(size, 4));
      }
      if (!numbers && this.shared.has(index)) commands.bring(index);
    }
    if (this.checks) encoder.clearBuffer(memory, 0, 4);
    return used;
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
    await this.run(inputs, [], this.beside && total);
    for (let run = 1; this.beside && run < runs; run++) await this.run({}, [], total);
    for (let run = 0; run < runs; run++)
      for (let n = 0; n < total.length; n++) {
        if (!graph.nodes[n].row.device) continue;
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
    this.beside?.dispose();
    for (const buffer of [this.memory, this.params, this.calls, this.staged]) buffer.destroy();
    if (all) this.device.destroy();
  }

  /** @type {Uint8Array[]} */ initial = [];
  owns = false;
}
