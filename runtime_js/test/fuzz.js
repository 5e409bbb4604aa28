// The fuzzer of the JavaScript runtime: hostile graphs and calls, and the C runtime beside it, which must refuse the same
// graphs with the same codes. fuzz/javascript.py builds what it needs and drives it:
//
//     node fuzz.js FOLDER     with kernels.wasm and reader.wasm
//
// reads lines, `cases FIRST COUNT SEED` or `replay BASE64`, and answers each with one of JSON.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Model, SternaError } from "../src/index.js";
import { hash64 } from "../src/hash.js";
import { plan, tensor } from "../src/inspect.js";
import { Strings } from "../src/strings.js";
import { rehashed } from "./bundles.js";

const [folder] = process.argv.slice(2);
const code = new Uint8Array(readFileSync(`${folder}/kernels.wasm`));
const kernels = await WebAssembly.compile(code);
const params = new Uint8Array(320).map((_, i) => i);
const reader = await cRuntime(readFileSync(`${folder}/reader.wasm`));

/** Numbers of so many digits are for JavaScript alone: 32 bits of memory, and 53 of an exact number, are limits of its own. */
const LARGE = /[0-9]{10}/;
/** More iterations than this are a run that takes its time, not one that hangs. */
const MOST_ITERATIONS = 20_000;
/** Of so many models, one is given every odd argument there is. */
const ABUSED = 8;
const ODD = [
  ...[0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 128, 255, 256, 4096, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53, 2 ** 62, 2 ** 64],
  ...[-1, -0.5, 1.5, 1e30, null, true, false, "", "0", "1", "x", "a\0b", "\ud800", "__proto__", "constructor", "toString", [], {}, [0], [1, 2], ["d", 0], ["d", 9]],
  ...["float64", "int8", "int64", "bool", "float8_e5m2", "int4", "arena", "param", "input", "output", "state", "loop", "if", "../x", "x".repeat(200)],
];
const SIZES = [["d", 0], ["d", 1], ["d", 2], ["+", ["d", 0], 1], ["*", ["d", 0], 2], ["/", ["d", 1], 2], ["%", ["d", 0], 3], ["min", ["d", 2], 4], ["max", 1, ["d", 2]],
  ["+", -5, ["d", 0]], ["/", 5, 0], ["/", 5, ["d", 0]], ["^", 2], ["+"], ["d"], ["d", 0, 0], ["d", "0"], [["+"], 1, 1], ["+", ...Array(129).fill(0)], ["+", ...Array(128).fill(0)],
  Array(31).fill(0).reduce((e) => ["+", e, 1], 1), ["*", 2 ** 31, 2 ** 31], ["+", 0, 1], ["*", ["d", 0], ["d", 1], 4]]; // prettier-ignore

/** A graph with one of everything, for the kernels of fuzz.c. */
function base() {
  /** @type {(name: string, dtype: string, dims: any[], place: string, offset: number, bytes: number, more?: any) => any} */
  const value = (name, dtype, dims, place, offset, bytes, { origin = 0, strides, ...more } = {}) => {
    const dense = dims.map((_, axis) => (axis === dims.length - 1 ? 1 : dims[dims.length - 1]));
    return { name, dtype, dims, storage: { class: place, offset, bytes, origin, strides: strides ?? dense }, ...more };
  };
  const node = (/** @type {string} */ name, /** @type {number} */ kernel, /** @type {any} */ more) => ({ name, kernel, in: [0], out: [4], tasks: [1, 4, 8, 1, 2][kernel], sources: [name], ...more });
  return {
    abi: 1, producer: "fuzz", model: "fuzz",
    target: { name: "browser-baseline", triple: "wasm32-freestanding", pointer_bits: 32, cpu_features: [] },
    options: {},
    files: { "params.bin": { bytes: params.length, hash: hash64(params) }, "model.wasm": { bytes: code.length, hash: hash64(code), static_bytes: 131072 } },
    library: "model.wasm", arena: { bytes: 1024, live_bytes: 64 }, scratch_bytes: 64,
    symbols: [{ name: "batch", lo: 1, hi: 4 }, { name: "seq", lo: 2, hi: 9 }, { name: "found", lo: 0, hi: 6, value: 3 }],
    kernels: [{ name: "a" }, { name: "b" }, { name: "c" }, { name: "fails" }, { name: "traps" }],
    values: [
      value("x", "float32", [["d", 0], 4], "input", 0, 64),
      value("flag", "bool", [1], "input", 0, 1),
      value("trips", "int64", [], "input", 0, 8),
      value("found", "int64", [1], "arena", 0, 8),
      value("mid", "float32", [["d", 0], 4], "arena", 64, 160, { origin: ["d", 0], strides: [8, 1], fleeting: true }),
      value("w", "float32", [6], "param", 64, 24),
      value("kept", "float32", [4], "state", 256, 16),
      value("y", "float32", [["d", 0], ["+", ["d", 1], 1]], "output", 0, 160, { strides: [["+", ["d", 1], 1], 1] }),
      value("rows", "int16", [["d", 2], 2], "output", 0, 24),
      value("number", "int64", [1], "arena", 320, 8),
      value("more", "bool", [1], "arena", 328, 1),
    ],
    inputs: [0, 1, 2], outputs: [7, 8], states: [{ value: 6, initial_at: 64 }, { value: 6 }],
    nodes: [
      node("n0", 1, { params_at: 64, params_bytes: 24 }), node("n1", 0, { in: [4], out: [3] }), node("n2", 2, { in: [4, 3], out: [8], tasks: ["min", ["d", 2], 8] }),
      node("n3", 0, { in: [6], out: [9] }), node("n4", 0, { in: [5], out: [6, 10] }), node("n5", 3, {}), node("n6", 4, {}), node("n7", 1, { in: [4], out: [7] }),
    ],
    control: [
      { op: "loop", name: "l", nodes: [3, 5], count: 3, condition: 1, number: 9, limit: 10 },
      { op: "if", name: "i", nodes: [3, 4, 5], condition: 10 },
      { op: "if", name: "j", nodes: [5, 7, 8], condition: 1 },
      { op: "loop", name: "k", nodes: [7, 8], trips: 2, limit: 5 },
    ],
    metadata: { labels: { rows: ["a", "b"] } },
  }; // prettier-ignore
}
const BASE = base();

/** Numbers from 0 to 1 that a seed gives: mulberry32. @param {number} state */
const random = (state) => () => {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};

/** @typedef {{text: Uint8Array, version: number, strict: boolean}} Case A text behind the first line; `strict`: with one fault at most. */

/** The case of a number. @param {number} index @param {number} seed @returns {Case} */
function make(index, seed) {
  const next = random(Math.imul(index, 0x9e3779b1) ^ seed);
  const below = (/** @type {number} */ n) => Math.floor(next() * n);
  const pick = (/** @type {any[]} */ list) => list[below(list.length)];
  const graph = base();
  const kind = next();
  const changes = kind < 0.6 ? 1 : below(4);
  for (let n = 0; n < changes; n++) change(graph, pick, below);
  if (kind > 0.85) graph.control = controls(pick, below);
  let text = new TextEncoder().encode(JSON.stringify(graph).slice(1));
  const flips = next() < 0.15 ? 1 + below(3) : 0;
  for (let n = 0; n < flips; n++) text = spoil(text, pick, below);
  return { text, version: next() < 0.01 ? below(4) : 2, strict: changes <= 1 && kind <= 0.85 && !flips };
}

/** Makes one member or element of a graph odd. */
function change(/** @type {any} */ graph, /** @type {(list: any[]) => any} */ pick, /** @type {(n: number) => number} */ below) {
  const holders = /** @type {any[]} */ ([]);
  (function walk(/** @type {any} */ tree) {
    if (!(tree instanceof Object)) return;
    if (Object.keys(tree).length) holders.push(tree);
    Object.values(tree).forEach(walk);
  })(graph);
  const holder = pick(holders);
  const key = pick(Object.keys(holder));
  const action = below(9);
  if (action < 4) holder[key] = typeof holder[key] === "number" && below(2) ? holder[key] + pick([-1, 1, 8, 64]) : structuredClone(pick(ODD));
  else if (action < 6) holder[key] = structuredClone(pick(SIZES));
  else if (action < 7) Array.isArray(holder) ? holder.splice(Number(key), 1) : delete holder[key];
  else if (action < 8 && Array.isArray(holder)) holder.push(structuredClone(holder[Number(key)]));
  else holder[key] = structuredClone(pick(pick(holders.map((each) => Object.values(each)))));
}

/** Ranges that lie in each other, and some that do not. */
const controls = (/** @type {(list: any[]) => any} */ pick, /** @type {(n: number) => number} */ below) =>
  Array.from({ length: below(5) }, () => {
    const nodes = [below(9), below(9), below(9)].sort();
    const loop = below(2);
    const often = pick([{ count: below(4) }, { trips: 2 }, { condition: 1 }, { condition: 10, count: 2 }, {}, { count: 1, trips: 2 }]);
    return loop ? { op: "loop", nodes: nodes.slice(1), limit: below(20), ...often, ...pick([{}, { number: 9 }]) } : { op: "if", nodes, condition: pick([1, 10]) };
  }).sort((a, b) => (below(8) ? a.nodes[0] - b.nodes[0] || b.nodes[b.nodes.length - 1] - a.nodes[a.nodes.length - 1] : 0));

/** Bytes that are flipped, gone or new. */
function spoil(/** @type {Uint8Array} */ text, /** @type {(list: any[]) => any} */ pick, /** @type {(n: number) => number} */ below) {
  const at = below(text.length);
  const action = below(4);
  if (action === 0) return text.with ? text.with(at, text[at] ^ (1 << below(8))) : text.map((byte, i) => (i === at ? byte ^ 1 : byte));
  const gone = action === 1 ? 1 + below(20) : 0;
  const more = action === 2 ? Buffer.from(pick(["0", "[", "]", "{", "}", '"', ",", ":", "\\", "\\u0061", "9", "-", ".", "e1", "null", '"abi":1,', "\n", "\u00ff"])) : [];
  if (action === 3) return text.slice(0, at);
  return new Uint8Array([...text.slice(0, at), ...more, ...text.slice(at + gone)]);
}

/**
 * Why the two runtimes may differ over a graph: what docs/bundle.md names.
 *
 * @param {Case} given
 */
function differsByDesign({ text }) {
  let graph, bare;
  try {
    const decoded = new TextDecoder("utf-8", { fatal: true }).decode(text);
    graph = JSON.parse(`{${decoded}`);
    bare = decoded.replace(/"(\\.|[^"\\])*"/g, "");
    if (/[0-9](\.|e)/i.test(bare)) return true; // how an integer was written
  } catch (problem) {
    return !(problem instanceof SyntaxError); // not UTF-8
  }
  const same = (/** @type {(graph: any) => any} */ of) => JSON.stringify(of(graph)) === JSON.stringify(of(BASE));
  // What only one of them reads.
  return LARGE.test(bare) || graph.variants !== undefined ||
    !same((g) => [g?.library, g?.model, g?.files, g?.target, g?.metadata]) ||
    graph.values?.some?.((/** @type {any} */ value) => value?.quantization !== undefined);
}

/** Graphs that were good. */
let loaded = 0;

/** @param {Case} given @returns {Promise<string | undefined>} what is wrong */
async function execute(given) {
  const graph = rehashed(given.text, given.version);
  const [model, refused] = await attempt(() => Model.load({ graph, params, module: kernels }));
  if (refused && !(refused instanceof SternaError)) return `load: ${refused.stack}`;
  const theirs = reader.load(graph);
  const design = differsByDesign(given) || /occurs twice/.test(refused?.message ?? "");
  const memory = refused?.code === "E0502" || theirs === "E0502";
  if (!design && !memory) {
    if (!refused !== !theirs) return `load: JavaScript says ${refused?.message ?? "yes"}, C ${theirs ?? "yes"}`;
    const order = ["E0504", "E0508"].includes(refused?.code) && ["E0504", "E0508"].includes(theirs);
    if (refused && given.strict && refused.code !== theirs && !order) return `load: JavaScript says ${refused.message}, C ${theirs}`;
  }
  if (!model) return;
  loaded++;
  return use(model, given, !design && !theirs);
}

/** Calls, sound and not. @param {Model} model @param {Case} given @param {boolean} compared */
async function use(model, given, compared) {
  const graph = JSON.parse(new TextDecoder().decode(given.text).replace(/^/, "{"));
  const iterations = (graph.control ?? []).reduce((/** @type {number} */ n, /** @type {any} */ c) => n * (c.op === "loop" ? Math.min(c.limit, c.count ?? Infinity) + 1 : 1), 1);
  const steps = [["digest"], ["run", 0], ["digest"], ["resize", 0], ["digest"], ["run", 1], ["digest"], ["resize", 2], ["digest"], ["run", 255], ["resize", 1], ["run", 0], ["digest"]];
  for (const [what, byte] of steps) {
    if (what === "run" && iterations > MOST_ITERATIONS) continue;
    const [mine, problem] = await attempt(() => ours[/** @type {"run"} */ (what)](model, byte));
    if (problem && !(problem instanceof SternaError)) return `${what}: ${problem.stack}`;
    if (!compared) continue;
    const theirs = reader[/** @type {"run"} */ (what)](byte);
    const result = problem?.code ?? mine;
    if (result !== theirs) return `${what} ${byte}: JavaScript says ${problem?.message ?? mine}, C ${theirs}`;
    compared = !problem; // what a failed run leaves is not promised
  }
  return given.text.length % ABUSED ? undefined : abuse(model, iterations <= MOST_ITERATIONS);
}

/** Arguments that no caller should give. @param {Model} model @param {boolean} runs */
async function abuse(model, runs) {
  const gone = new Float32Array(16);
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  const odd = [gone, new Float32Array(16), new BigInt64Array(1), new Uint8Array(1), new DataView(new ArrayBuffer(8)), new SharedArrayBuffer(8), Object.create(null), Symbol("x"), NaN, -1, 2 ** 53, "x", null, [[]], () => 1];
  const calls = /** @type {((x: any) => any)[]} */ ([
    (x) => runs && model.run({ x }), (x) => runs && model.run({ x: { data: x, dims: [4, 4] } }), (x) => runs && model.run({ x: { data: new Float32Array(16), dims: [x, 4] } }),
    (x) => runs && model.run({ flag: x, trips: x }), (x) => model.setDims({ batch: x }), (x) => model.setDims({ found: x }), (x) => model.setDims(x), (x) => model.input(x), (x) => model.output(x), (x) => tensor(model, x),
    (x) => tensor(model, "mid"), (x) => tensor(model, "y"), () => plan(model), () => model.resetState(), () => runs && model.profile({}, { runs: 1 }), (x) => new Strings(x), () => model.dims,
    () => model.inputs.map(({ name }) => model.input(name)), () => model.outputs.map(({ name }) => model.output(name)), () => model.memory, (x) => plan(x),
  ]); // prettier-ignore
  for (const call of calls)
    for (const x of call.length ? odd : [undefined]) {
      const [, problem] = await attempt(() => call(x));
      if (problem && !(problem instanceof SternaError)) return `${call} of ${Object.prototype.toString.call(x)}: ${problem.stack}`;
    }
  model.dispose();
  model.dispose();
  for (const call of [() => model.run(), () => model.setDims({}), () => model.resetState(), () => plan(model), () => model.profile()]) {
    const [, problem] = await attempt(call);
    if (problem?.code !== "E0520") return `${call} after dispose: ${problem?.message ?? "no error"}`;
  }
}

/** @template T @param {() => T | Promise<T>} action @returns {Promise<[T | undefined, any]>} */
async function attempt(action) {
  try {
    return [await action(), undefined];
  } catch (problem) {
    return [undefined, problem ?? new Error("undefined was thrown")];
  }
}

const ours = {
  run: (/** @type {Model} */ model, /** @type {number} */ byte) => {
    for (const { name } of model.inputs) {
      const { buffer, byteOffset, byteLength } = model.input(name);
      new Uint8Array(buffer, byteOffset, byteLength).fill(byte);
    }
    model.run();
  },
  resize: (/** @type {Model} */ model, /** @type {number} */ at) =>
    model.setDims(Object.fromEntries(model.dims.filter((d) => !d.computed).map(({ name, lo, hi }) => [name, [lo, hi, lo + Math.floor((hi - lo) / 2)][at]]))),
  digest: (/** @type {Model} */ model) => {
    let hash = 2166136261;
    const add = (/** @type {number} */ n) => (hash = Math.imul(Math.imul(hash ^ n, 16777619) ^ Math.floor(n / 2 ** 32), 16777619));
    for (const { size } of model.dims) add(size);
    for (const { dims } of [...model.inputs, ...model.outputs]) [dims.length, ...dims].forEach(add);
    return hash >>> 0;
  },
};

/** The C runtime, as a module of its own. @param {BufferSource} bytes */
async function cRuntime(bytes) {
  const { module, instance } = /** @type {any} */ (await WebAssembly.instantiate(bytes, stubs(await WebAssembly.compile(bytes))));
  const { memory, take, give, load, run, resize, digest, _initialize } = instance.exports;
  _initialize?.();
  const status = (/** @type {number} */ n) => (n === 0 ? undefined : `E05${String(-n).padStart(2, "0")}`);
  const put = (/** @type {Uint8Array} */ data) => {
    const at = take(data.length);
    new Uint8Array(memory.buffer, at, data.length).set(data);
    return at;
  };
  const weights = Math.ceil(take(params.length + 64) / 64) * 64;
  new Uint8Array(memory.buffer).set(params, weights);
  return {
    load: (/** @type {Uint8Array} */ graph) => {
      const at = put(graph);
      const result = load(at, graph.length, weights, params.length);
      give(at);
      return status(result);
    },
    run: (/** @type {number} */ byte) => status(run(byte)),
    resize: (/** @type {number} */ at) => status(resize(at)),
    digest: () => digest() >>> 0,
  };
}

/** What a C library asks of a system: nothing of it is called. @param {WebAssembly.Module} module */
function stubs(module) {
  const imports = /** @type {any} */ ({});
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = () => 52;
  return imports;
}

/** @param {Case} given */
const saved = ({ text, version, strict }) => Buffer.from(JSON.stringify({ version, strict, text: Buffer.from(text).toString("base64") })).toString("base64");

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...rest] = line.split(" ");
  const cases = /** @type {Case[]} */ ([]);
  if (command === "cases") {
    const [first, count, seed] = rest.map(Number);
    for (let n = 0; n < count; n++) cases.push(make(first + n, seed));
  } else {
    const { version, strict, text } = JSON.parse(Buffer.from(rest[0], "base64").toString());
    cases.push({ version, strict, text: new Uint8Array(Buffer.from(text, "base64")) });
  }
  const findings = [];
  loaded = 0;
  for (const given of cases) {
    const text = await execute(given);
    if (text !== undefined) findings.push({ text, data: saved(given) });
  }
  process.stdout.write(`${JSON.stringify({ made: cases.length, loaded, rss: process.memoryUsage().rss, findings })}\n`);
}
