// One peer in Node: `node_worker.mjs TASK FD`. It gives the answers that bench/worker.py gives in the stage "load", as
// lines of JSON on the file descriptor FD, and takes the same lines from standard input.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, float16: Uint16Array,
  uint32: Uint32Array, int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array,
  float64: Float64Array,
};
/**
 * Engines compile a function well only when it has run for a while, and in a thread of their own: a peer runs for so many
 * CPU ms and waits for so many, until three such turns have brought nothing, and not more than so many times.
 */
const WARM_MS = 80, WAIT_MS = 40, MOST_TURNS = 25;

const [described, answers] = process.argv.slice(2);
const task = JSON.parse(fs.readFileSync(described, "utf8"));
const data = fs.readFileSync(described.replace(/\.node$/, ".bin"));
const arrays = (tensors) =>
  tensors.map(({ name, dtype, dims, at, size }) => ({ name, dtype, dims, data: new ARRAYS[dtype](data.buffer.slice(data.byteOffset + at), 0, size) }));
const inputs = arrays(task.inputs), wanted = arrays(task.wanted);
const say = (answer) => fs.writeSync(+answers, JSON.stringify(answer) + "\n");

/** Each imports its library, and gives what loads the model; that gives what runs it on the inputs, and returns outputs. */
const PEERS = {
  async "sterna-web"() {
    const { Model } = await import(new URL("../runtime_js/src/index.js", import.meta.url));
    if (task.threads > 1) throw new Error("the bundle is for one thread");
    return async () => {
      const model = await Model.load(`${task.folder}/bundle/`);
      const given = Object.fromEntries(inputs.map(({ data }, n) => [model.inputs[n].name, data]));
      const names = model.outputs.map(({ name }) => name);
      return () => {
        const found = model.run(given);
        return names.map((name) => found[name]);
      };
    };
  },
  async "onnxruntime-web"() {
    const dist = pathToFileURL(path.join(process.env.BENCH_MODULES, "onnxruntime-web", "dist")).href + "/";
    const ort = await import(`${dist}ort.node.min.mjs`);
    Object.assign(ort.env.wasm, { numThreads: task.threads, wasmPaths: dist });
    ort.env.logLevel = "error";
    return async () => {
      const session = await ort.InferenceSession.create(fs.readFileSync(task.onnx), { executionProviders: ["wasm"] });
      const feeds = Object.fromEntries(inputs.map(({ dtype, dims, data }, n) => [session.inputNames[n], new ort.Tensor(dtype, data, dims)]));
      return async () => {
        const found = await session.run(feeds);
        return session.outputNames.map((name) => found[name].data);
      };
    };
  },
};

/** The largest error of any output, in parts of the largest element of that output; infinite for a wrong shape. */
function deviation(found) {
  let worst = 0;
  found.forEach((have, n) => {
    const { dtype, data: want } = wanted[n];
    const read = dtype === "float16" ? half : Number;
    let difference = have.length === want.length ? 0 : Infinity;
    let most = 0;
    for (let i = 0; i < want.length && difference < Infinity; i++) {
      const a = read(have[i]), b = read(want[i]);
      difference = Number.isFinite(a) ? Math.max(difference, Math.abs(a - b)) : Infinity;
      most = Math.max(most, Math.abs(b));
    }
    worst = Math.max(worst, difference / (most || 1));
  });
  return worst;
}

/** The number that 16 bits stand for. */
function half(bits) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const size = exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? 2 ** (exponent - 25) * (1024 + fraction) : fraction * 2 ** -24;
  return bits >> 15 ? -size : size;
}

const cpu = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

try {
  const before = process.memoryUsage().rss;
  let start = performance.now();
  const load = await PEERS[task.peer]();
  const imported = performance.now() - start;
  start = performance.now();
  let begun = cpu();
  const step = await load();
  const found = await step();
  const first = { first_ms: performance.now() - start, first_cpu_ms: (cpu() - begun) / 1e3 };
  const memory = (process.memoryUsage().rss - before) / 2 ** 20;
  const error = deviation(found);
  say({ import_ms: imported, ...first, memory_mb: memory, error: Number.isFinite(error) ? error : 1e300 });
  let once = Infinity;
  for (let turn = 0, idle = 0; turn < MOST_TURNS && idle < 3; turn++) {
    begun = cpu();
    let steps = 0;
    do await step(), steps++;
    while (cpu() - begun < WARM_MS * 1e3);
    const now = (cpu() - begun) / steps;
    idle = now > 0.95 * once ? idle + 1 : 0;
    once = Math.min(once, now);
    await new Promise((done) => setTimeout(done, WAIT_MS));
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await step(); // caches are warm again after a turn of somebody else
    const count = Math.min(2000, Math.max(3, Math.floor((+line * 1e3) / once)));
    const times = new Float64Array(count);
    begun = cpu();
    for (let i = 0; i < count; i++) {
      start = performance.now();
      await step();
      times[i] = performance.now() - start;
    }
    say({ us: Array.from(times, (ms) => Math.round(ms * 1e5) / 100), cpu_us: (cpu() - begun) / count });
  }
} catch (reason) {
  console.error(reason);
  say({ failed: String(reason).split("\n")[0].slice(0, 200) });
}
process.exit(0);
