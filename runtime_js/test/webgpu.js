// What `sterna/webgpu` does in a page with WebGPU, one try after another: each returns facts, or its error as text.
import { Model } from "/sterna/webgpu.js";
import { replay } from "/test/replay.js";

const code = (/** @type {Promise<any>} */ promise) => promise.then(() => "nothing", (problem) => String(problem.message));
const ones = (model) => {
  const [{ name, dims }] = model.inputs;
  return { [name]: Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, n) => (n * 7919) % 17) };
};
const near = (a, b) => Math.max(0, ...[...a].map((x, n) => Math.abs(x - b[n])));

/** Golden sets, on the GPU. */
export async function golden(name) {
  const read = async (file) => (await fetch(`/bundles/${name}/${file}`)).arrayBuffer();
  return replay(Model, `/bundles/${name}/`, read);
}

/** What the engine's compiler says to kernels; nothing if it takes all of them. */
export async function compiled(name) {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const code = await (await fetch(`/bundles/${name}`)).text();
  const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
  device.destroy();
  return messages.filter(({ type }) => type === "error").map(({ lineNum, message }) => `${message}: ${code.split("\n")[lineNum - 1]}`);
}

/** Buffers of the page in and out, and what is reported on the way. */
export async function buffers(name) {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const seen = [];
  const model = await Model.load(`/bundles/${name}/`, { device, onProgress: ({ file, loaded, total }) => seen.push([file, loaded, total]) });
  const inputs = ones(model);
  const [[input, numbers]] = Object.entries(inputs);
  const [{ name: output }] = model.outputs;
  const wanted = (await model.run(inputs))[output];
  const buffer = device.createBuffer({ size: numbers.byteLength, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(buffer, 0, numbers);
  await model.run({ [input]: new Float32Array(numbers.length) });
  const kept = (await model.run({ [input]: buffer }, { keep: [output] }))[output];
  const staged = device.createBuffer({ size: Math.ceil(kept.size / 4) * 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(kept.buffer, kept.offset, staged, 0, staged.size);
  device.queue.submit([encoder.finish()]);
  await staged.mapAsync(GPUMapMode.READ);
  const found = new Float32Array(staged.getMappedRange().slice(0, kept.size));
  const region = model.input(input);
  device.queue.writeBuffer(region.buffer, region.offset, numbers);
  const again = (await model.run())[output];
  const many = await Promise.all([model.run(inputs), model.run({ [input]: new Float32Array(numbers.length) }), model.run(inputs)]);
  const times = await model.profile(inputs, { runs: 2 });
  const short = await code(model.run({ [input]: device.createBuffer({ size: 4, usage: GPUBufferUsage.COPY_SRC }) }));
  const wrong = await code(model.run({ [input]: new Int8Array(3) }));
  const refused = [await code(model.run({ nothing: numbers })), await code(model.run({}, { keep: ["nothing"] })), short, wrong];
  model.dispose();
  const lost = await Promise.race([device.lost.then(() => true), Promise.resolve(false)]);
  return {
    equal: [found, again, many[0][output], many[2][output]].map((each) => near(each, wanted)), dims: kept.dims,
    differs: near(many[1][output], wanted) > 0, pipelines: seen.filter(([file]) => file === "pipelines").at(-1),
    timed: times.map(({ ms }) => ms >= 0 && Number.isFinite(ms)), names: times.map(({ name }) => name), refused,
    after: await code(model.run(inputs)), lost,
  };
}

/** Pictures of every kind, on the GPU and where WebAssembly takes its place. */
export async function pictures(name, fallback) {
  const gpu = await Model.load(`/bundles/${name}/`);
  const wasm = await without(() => Model.load(`/bundles/${name}/`, { fallback: `/bundles/${fallback}/` }));
  const [{ name: input, dims }] = gpu.inputs;
  const [{ name: output }] = gpu.outputs;
  const [height, width] = [dims.at(-2), dims.at(-1)];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  image.data.forEach((_, n) => (image.data[n] = n % 4 === 3 ? 255 : ((n >> 2) * 37) % 256));
  context.putImageData(image, 0, 0);
  const planes = Uint8Array.from({ length: (width * height * 3) / 2 }, (_, n) => (n < width * height ? (n * 37) % 256 : 128));
  const yuv = new VideoFrame(planes, { format: "I420", codedWidth: width, codedHeight: height, timestamp: 0 });
  const kinds = { canvas, bitmap: await createImageBitmap(canvas), image, frame: new VideoFrame(canvas, { timestamp: 0 }) };
  const wanted = (await wasm.run({ [input]: canvas }))[output];
  const apart = {};
  for (const [kind, picture] of Object.entries(kinds)) apart[kind] = near((await gpu.run({ [input]: picture }))[output], wanted);
  apart.yuv = near((await gpu.run({ [input]: yuv }))[output], (await wasm.run({ [input]: yuv }))[output]);
  kinds.frame.close();
  yuv.close();
  const result = { apart, backends: [gpu.backend, wasm.backend], reasons: [gpu.reason, wasm.reason], size: wanted.length };
  gpu.dispose();
  wasm.dispose();
  return result;
}

/** Where WebGPU is missing, or gives too little. */
export async function missing(name, fallback) {
  const load = (options) => Model.load(`/bundles/${name}/`, options);
  const small = { limits: { maxBufferSize: 1e9, maxStorageBufferBindingSize: 64, maxComputeWorkgroupStorageSize: 1e5, maxComputeInvocationsPerWorkgroup: 1e3 }, features: new Set() };
  const taken = await withAdapter(small, () => load({ fallback: `/bundles/${fallback}/` }));
  const result = {
    none: await without(() => code(load())),
    small: await withAdapter(small, () => code(load())),
    noAdapter: await withAdapter(null, () => code(load())),
    taken: [taken.backend, taken.reason, Object.keys(await taken.run(ones(taken)))],
    other: await Model.load(`/bundles/${fallback}/`).then(({ backend, reason }) => [backend, reason]),
  };
  taken.dispose();
  const bytes = async (file) => (await fetch(`/bundles/${name}/${file}`)).arrayBuffer();
  const files = Object.fromEntries(await Promise.all(["graph.json", "params.bin", "kernels.wgsl"].map(async (f) => [f, await bytes(f)])));
  new Uint8Array(files["kernels.wgsl"])[40] ^= 1;
  return { ...result, damaged: await code(Model.load(files)) };
}

/** Kernels whose threads exchange values, beside those that do not: how far apart they are, or what is said. */
export async function exchanges(plain, ...wide) {
  const adapter = await navigator.gpu.requestAdapter();
  const least = adapter.features.has("subgroups") ? adapter.info.subgroupMinSize : 0;
  const model = await Model.load(`/bundles/${plain}/`);
  const inputs = ones(model);
  const wanted = (await model.run(inputs)).y;
  const apart = async (name) => near((await (await Model.load(`/bundles/${name}/`)).run(inputs)).y, wanted);
  const [few, many] = await Promise.all(wide.map((name) => apart(name).catch(({ message }) => message)));
  const bare = { limits: adapter.limits, features: new Set() };
  return { least, few, many, without: await withAdapter(bare, () => code(Model.load(`/bundles/${wide[0]}/`))) };
}

/** Kernels that exchange values where an adapter has subgroups: which ran, and how far apart results are from those of kernels without. */
export async function exchanging(name) {
  const load = () => Model.load(`/bundles/${name}/`);
  const kernels = async (model) => (await model.profile({}, { runs: 1 })).map(({ kernel }) => kernel);
  const adapter = await navigator.gpu.requestAdapter();
  const least = adapter.features.has("subgroups") ? adapter.info.subgroupMinSize : 0;
  const withThem = await load();
  const inputs = ones(withThem);
  const first = await withThem.run(inputs);
  const features = [...adapter.features].filter((f) => f !== "subgroups");
  const requested = [];
  const bare = { limits: adapter.limits, features: new Set(features), requestDevice: (asked) => (requested.push(...asked.requiredFeatures), adapter.requestDevice(asked)) };
  const without = await withAdapter(bare, load);
  const { createShaderModule } = GPUDevice.prototype;
  // Neighbours that lie elsewhere than the kernels take it.
  GPUDevice.prototype.createShaderModule = function ({ code }) {
    return createShaderModule.call(this, { code: code.replace("(n ^ d)", "(n ^ d ^ 1u)") });
  };
  const apart = await load();
  GPUDevice.prototype.createShaderModule = createShaderModule;
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const given = await Model.load(`/bundles/${name}/`, { device });
  const others = await Promise.all([without, apart, given].map(async (model) => [await kernels(model), await model.run(inputs)]));
  const far = (outputs) => Math.max(...Object.keys(first).map((y) => near([...outputs[y]].map(Number), [...first[y]].map(Number))));
  return { least, ran: await kernels(withThem), requested, others: others.map(([names, outputs]) => [names, far(outputs)]) };
}

/** Numbers of 16 bits widened and rounded, as bits, where the language's function is exact, and where it flushes. */
export async function halves(name) {
  const [a, b] = await Promise.all(["a", "b"].map(async (file) => (await fetch(`/bundles/${file}`)).arrayBuffer()));
  const { createShaderModule } = GPUDevice.prototype;
  const found = [];
  for (const flushes of [false, true]) {
    let own;
    GPUDevice.prototype.createShaderModule = function ({ code }) {
      own = code.includes("{ return unpack2x16float(a).x; }");
      const flushed = `${code.replaceAll("unpack2x16float(", "flushing(")}
fn flushing(a: u32) -> vec2<f32> { return select(unpack2x16float(a), vec2<f32>(), (a & 31744u) == 0u); }`;
      return createShaderModule.call(this, { code: flushes ? flushed : code });
    };
    const model = await Model.load(`/bundles/${name}/`);
    GPUDevice.prototype.createShaderModule = createShaderModule;
    const { wide, narrow } = await model.run({ a: new Uint16Array(a), b: new Float32Array(b) });
    found.push({ own, wide: [...new Uint32Array(wide.slice().buffer)], narrow: [...new Uint16Array(narrow.slice().buffer)] });
    model.dispose();
  }
  return found;
}

/** A device that is lost: the model is loaded again, on another one. */
export async function lost(name) {
  const devices = [];
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...given) {
    devices.push(await requestDevice.apply(this, given));
    return devices.at(-1);
  };
  const model = await Model.load(`/bundles/${name}/`);
  const inputs = ones(model);
  const [{ name: output }] = model.outputs;
  const wanted = (await model.run(inputs))[output];
  devices[0].destroy();
  await devices[0].lost;
  const again = (await model.run(inputs))[output];
  GPUAdapter.prototype.requestDevice = requestDevice;
  const own = await (await navigator.gpu.requestAdapter()).requestDevice();
  const bound = await Model.load(`/bundles/${name}/`, { device: own });
  own.destroy();
  await own.lost;
  const refused = await code(bound.run(inputs));
  // Disposed of while it is loaded again: the device that it then gets is given back.
  GPUAdapter.prototype.requestDevice = async function (...given) {
    devices.push(await requestDevice.apply(this, given));
    model.dispose();
    return devices.at(-1);
  };
  const { length } = devices;
  devices.at(-1).destroy();
  await devices.at(-1).lost;
  const disposed = await code(model.run(inputs));
  GPUAdapter.prototype.requestDevice = requestDevice;
  const { reason } = await devices.at(-1).lost;
  return { devices: length, apart: near(again, wanted), refused, disposed, given: devices.length - length, reason };
}

/** Sizes that are open when the model is compiled. @param {string} name @param {Record<string, number[]>[]} sizes of the inputs, by run */
export async function sizes(name, fallback, ...runs) {
  const gpu = await Model.load(`/bundles/${name}/`);
  const wasm = await without(() => Model.load(`/bundles/${name}/`, { fallback: `/bundles/${fallback}/` }));
  const apart = [];
  for (const dims of runs) {
    const inputs = Object.fromEntries(Object.entries(dims).map(([input, size]) => {
      const { dtype } = gpu.inputs.find((each) => each.name === input);
      const type = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array }[dtype];
      const numbers = Array.from({ length: size.reduce((a, b) => a * b, 1) }, (_, n) => ((n * 7919) % 17) % (dtype === "float32" ? 17 : 2));
      return [input, { data: dtype === "int64" ? type.from(numbers.map(BigInt)) : type.from(numbers), dims: size }];
    }));
    const [a, b] = [await gpu.run(inputs), await wasm.run(inputs)];
    apart.push(Math.max(...Object.keys(b).map((output) => (a[output].length === b[output].length ? near(a[output], b[output]) : Infinity))));
  }
  const dims = gpu.dims;
  gpu.dispose();
  wasm.dispose();
  return { apart, dims };
}

const without = (action) => withGpu(undefined, action);
const withAdapter = (adapter, action) => withGpu({ requestAdapter: async () => adapter }, action);

async function withGpu(gpu, action) {
  Object.defineProperty(navigator, "gpu", { value: gpu, configurable: true });
  try {
    return await action();
  } finally {
    delete navigator.gpu;
  }
}

/** A bundle some of whose nodes the CPU runs, beside the same model in WebAssembly. @param {string} name @param {string} wasm @param {any[]} runs inputs of each, as lists */
export async function mixed(name, wasm, ...runs) {
  const seen = [];
  const count = (where, method) => {
    const own = where.prototype[method];
    where.prototype[method] = function (...given) {
      seen.push(method);
      return own.apply(this, given);
    };
    return () => (where.prototype[method] = own);
  };
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const both = await Model.load(`/bundles/${name}/`, { device });
  const only = await without(() => Model.load(`/bundles/${name}/`, { fallback: `/bundles/${wasm}/` }));
  const plain = (array) => Array.from(array, Number);
  const types = { bool: Uint8Array, int8: Int8Array, int64: BigInt64Array, float32: Float32Array };
  const arrays = (run, model) =>
    Object.fromEntries(model.inputs.map(({ name, dtype }) => [name, types[dtype].from(run[name].flat(9).map((x) => (dtype === "int64" ? BigInt(x) : Number(x))))]));
  const apart = [];
  const calls = [];
  for (const run of runs) {
    const inputs = arrays(run, both);
    const stop = [count(GPUQueue, "writeBuffer"), count(GPUBuffer, "mapAsync")];
    const found = await both.run(inputs);
    stop.forEach((each) => each());
    calls.push(["writeBuffer", "mapAsync"].map((method) => seen.filter((each) => each === method).length));
    seen.length = 0;
    let wanted = await only.run(inputs);
    apart.push(Math.max(...Object.keys(wanted).map((key) => (found[key].length === wanted[key].length ? near(plain(found[key]), plain(wanted[key])) : Infinity))));
    if (both.backend === "wasm") continue;
    // What lies on the device, in and out.
    const buffers = Object.fromEntries(Object.entries(inputs).map(([key, numbers]) => {
      const buffer = device.createBuffer({ size: Math.ceil(numbers.byteLength / 4) * 4, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST, mappedAtCreation: true });
      new Uint8Array(buffer.getMappedRange()).set(new Uint8Array(numbers.buffer));
      buffer.unmap();
      return [key, buffer];
    }));
    const kept = await both.run(buffers, { keep: Object.keys(wanted) });
    wanted = await only.run(inputs);
    for (const [key, { buffer, offset, size }] of Object.entries(kept)) {
      const staged = device.createBuffer({ size: Math.ceil(size / 4) * 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(buffer, offset, staged, 0, staged.size);
      device.queue.submit([encoder.finish()]);
      await staged.mapAsync(GPUMapMode.READ);
      const there = new wanted[key].constructor(staged.getMappedRange().slice(0, size));
      apart.push(there.length === wanted[key].length ? near(plain(there), plain(wanted[key])) : Infinity);
    }
  }
  const times = await both.profile(arrays(runs[0], both), { runs: 2 });
  const result = {
    apart, calls, backend: both.backend, reason: both.reason, library: both.memory.library, regions: both.inputs.map(({ name }) => both.input(name) !== undefined),
    timed: times.map(({ name, ms }) => [name, ms >= 0 && Number.isFinite(ms)]),
  };
  both.dispose();
  only.dispose();
  device.destroy();
  return { ...result, after: await code(both.run({})) };
}
