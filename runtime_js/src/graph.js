import { evaluate } from "./dims.js";
import { fail } from "./errors.js";
import { hash64 } from "./hash.js";
import { arrayType } from "./tensors.js";

const FORMAT = 1;
const ABI = 1;
const MOST_BYTES = 64 << 20;
const MOST_DIMENSIONS = 16;

/**
 * @typedef {import("./dims.js").Expression} Expression
 * @typedef {{name: string, dtype: string, dims: number[], strides: number[], origin: number, class: string,
 *   offset: number, bytes: number, elementBytes: number, fleeting: boolean, open: boolean,
 *   row: any}} Value One tensor; `dims`, `strides` and `origin` at the present sizes.
 * @typedef {{name: string, kernel: number, in: number[], out: number[], paramsAt: number, paramsBytes: number,
 *   tasks: number, open: boolean, sources: string[], row: any}} Node
 * @typedef {{bytes: number, hash: string, static_bytes?: number}} FileEntry
 * @typedef {{library: string, cpu_features: string[]}} Variant
 * @typedef {{model: string, target: any, files: Record<string, FileEntry>, library: string, variants: Variant[],
 *   arenaBytes: number, scratchBytes: number, paramsBytes: number, symbols: {name: string, lo: number, hi: number}[],
 *   sizes: number[], kernels: string[], values: Value[], inputs: number[], outputs: number[], nodes: Node[]}} Graph
 */

/** @type {(what: string) => never} */
const bad = (what) => fail("E0504", `graph.json: ${what}`);
const isSize = (/** @type {unknown} */ n) => Number.isSafeInteger(n) && /** @type {number} */ (n) >= 0;
const isName = (/** @type {unknown} */ s) => typeof s === "string";

/**
 * Reads and checks `graph.json`: version, hash, machine, then every index and range in it. Nothing in the file is
 * believed; docs/bundle.md describes the format.
 *
 * @param {Uint8Array} bytes
 * @returns {Promise<Graph>}
 */
export async function readGraph(bytes) {
  const end = bytes.indexOf(10) + 1;
  const line = new TextDecoder().decode(bytes.slice(0, Math.min(end || 200, 200)));
  const found = /^\{"sterna":(\d{1,6}),"hash":"([0-9a-f]{16})",\n$/.exec(line);
  if (bytes.length > MOST_BYTES) bad(`has ${bytes.length} bytes; at most ${MOST_BYTES} are read`);
  if (!found) bad(`its first line is not that of a Sterna bundle: ${JSON.stringify(line.slice(0, 60))}${page(bytes)}`);
  if (+found[1] !== FORMAT) fail("E0506", `graph.json: format version is ${found[1]}; this runtime reads ${FORMAT}`);
  const hash = await hash64(bytes.subarray(end));
  if (hash !== found[2]) fail("E0505", `graph.json: hash is ${hash}; it was ${found[2]} when it was compiled`);
  let json;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.slice()));
  } catch (problem) {
    fail("E0504", `graph.json: not JSON: ${/** @type {Error} */ (problem).message}`, problem);
  }
  if (json.abi !== ABI) fail("E0506", `graph.json: kernel ABI is ${json.abi}; this runtime speaks ${ABI}`);
  const { target } = json;
  if (!isName(target?.triple) || !Array.isArray(target.cpu_features)) bad("target has no triple or cpu_features");
  if (!target.triple.startsWith("wasm32") || target.pointer_bits !== 32)
    fail("E0507", `graph.json: compiled for ${target.triple}; this runtime runs wasm32: compile with --target browser`);
  return checked(json);
}

/**
 * What to add to a message when a server's page came in place of a file.
 *
 * @param {Uint8Array} bytes
 */
export function page(bytes) {
  const text = new TextDecoder().decode(bytes.slice(0, 64)).trimStart();
  return text.startsWith("<") ? "; it is a page of HTML: does the server answer unknown addresses with one?" : "";
}

/**
 * @param {any} json
 * @returns {Graph}
 */
function checked(json) {
  const { model, files, library, arena, symbols = [], variants = [] } = json;
  if (!/^\w{1,127}$/.test(model)) bad("model is not a C identifier");
  for (const key of ["kernels", "values", "inputs", "outputs", "nodes"])
    if (!Array.isArray(json[key])) bad(`${key} is missing or not a list`);
  if (!Array.isArray(symbols) || symbols.length > 256) bad("symbols is not a list of at most 256");
  if (!Array.isArray(variants)) bad("variants is not a list");
  const libraries = [{ library, cpu_features: json.target.cpu_features }, ...variants];
  for (const { library: name, cpu_features: features } of libraries)
    if (!isName(name) || !/^[^./\\:][^/\\:]*$/.test(name) || !Array.isArray(features)) bad("library is not a file name");
  for (const name of ["params.bin", ...libraries.map((each) => each.library)]) {
    const entry = Object.hasOwn(files ?? {}, name) ? files[name] : undefined;
    if (!isSize(entry?.bytes) || !/^[0-9a-f]{16}$/.test(entry.hash)) bad(`files has no size and hash of "${name}"`);
    if (name !== "params.bin" && !isSize(entry.static_bytes)) bad(`files has no static_bytes of "${name}"`);
  }
  if (!isSize(arena?.bytes)) bad("arena has no bytes");
  if (!isSize(json.scratch_bytes) || json.scratch_bytes % 64) bad("scratch_bytes is missing or no multiple of 64");
  const names = new Set();
  for (const { name, lo, hi } of symbols) {
    if (!isName(name) || !isSize(lo) || !isSize(hi) || lo > hi) bad("a symbol is not an object with a name and bounds");
    if (names.has(name)) bad(`two symbols are named "${name}"`);
    names.add(name);
  }
  /** @type {Graph} */
  const graph = {
    model,
    target: json.target,
    files,
    library,
    variants: variants.length ? variants : libraries,
    arenaBytes: arena.bytes,
    scratchBytes: json.scratch_bytes,
    paramsBytes: files["params.bin"].bytes,
    symbols,
    sizes: symbols.map((/** @type {any} */ s) => s.hi),
    kernels: json.kernels.map((/** @type {any} */ k, /** @type {number} */ i) => (isName(k?.name) ? k.name : bad(`kernel ${i} has no name`))),
    values: json.values.map(readValue),
    inputs: json.inputs,
    outputs: json.outputs,
    nodes: [],
  };
  for (const value of graph.values) checkPlace(graph, value);
  const signature = new Set();
  for (const [side, list] of /** @type {const} */ ([["input", graph.inputs], ["output", graph.outputs]]))
    list.forEach((index, i) => {
      const value = graph.values[index];
      if (value?.class !== side || signature.has(index)) bad(`${side}s[${i}] is not a value of that class, or occurs twice`);
      signature.add(index);
    });
  graph.values.forEach((v, i) => {
    if ((v.class === "input" || v.class === "output") && !signature.has(i)) bad(`"${v.name}" is an ${v.class} but not in the signature`);
  });
  graph.nodes = json.nodes.map((/** @type {any} */ row, /** @type {number} */ i) => readNode(graph, row, i));
  resize(graph, graph.sizes, true);
  return graph;
}

/**
 * @param {any} row
 * @param {number} index
 * @returns {Value}
 */
function readValue(row, index) {
  const { name, dtype, dims, storage, fleeting = false } = row ?? {};
  if (!isName(name)) bad(`value ${index} is not an object with a name`);
  const type = arrayType(dtype);
  if (!type) bad(`value "${name}" has no known dtype: ${JSON.stringify(dtype)}`);
  if (!isSize(storage?.offset) || !isSize(storage.bytes)) bad(`value "${name}": storage is incomplete`);
  if (!["input", "output", "arena", "param"].includes(storage.class)) bad(`value "${name}": unknown storage class`);
  const { strides } = storage;
  if (!Array.isArray(dims) || !Array.isArray(strides) || dims.length > MOST_DIMENSIONS || dims.length !== strides.length)
    bad(`value "${name}": dims or strides are not a list of at most ${MOST_DIMENSIONS} sizes each`);
  if (typeof fleeting !== "boolean") bad(`value "${name}": fleeting is neither true nor false`);
  return {
    name, dtype, fleeting, row,
    class: storage.class, offset: storage.offset, bytes: storage.bytes, elementBytes: type.BYTES_PER_ELEMENT,
    dims: [], strides: [], origin: 0,
    open: [...dims, ...strides, storage.origin].some(Array.isArray),
  };
}

/**
 * The buffer lies within its class.
 *
 * @param {Graph} graph
 * @param {Value} value
 */
function checkPlace(graph, { name, class: kind, offset, bytes, elementBytes }) {
  if (kind === "input" || kind === "output") {
    if (offset) bad(`value "${name}": offset is not 0 in class ${kind}`);
    return;
  }
  const limit = kind === "arena" ? graph.arenaBytes : graph.paramsBytes;
  if (offset + bytes > limit || offset % elementBytes)
    bad(`value "${name}": bytes ${offset} to ${offset}+${bytes} do not lie in the ${limit} bytes of ${kind}`);
}

/**
 * @param {Graph} graph
 * @param {any} row
 * @param {number} index
 * @returns {Node}
 */
function readNode(graph, row, index) {
  const { name, kernel, in: ins, out: outs, params_at: at = 0, params_bytes: size = 0, tasks, sources = [] } = row ?? {};
  if (!isName(name)) bad(`node ${index} is not an object with a name`);
  if (!isSize(kernel) || kernel >= graph.kernels.length) bad(`node "${name}": kernel is not one of the ${graph.kernels.length}`);
  if (!isSize(at) || !isSize(size) || at % 64 || at + size > graph.paramsBytes)
    bad(`node "${name}": its parameters do not lie aligned in the ${graph.paramsBytes} bytes of params.bin`);
  if (!Array.isArray(ins) || !Array.isArray(outs)) bad(`node "${name}" has no lists of values in and out`);
  for (const v of [...ins, ...outs])
    if (!isSize(v) || v >= graph.values.length) bad(`node "${name}": ${v} is not one of the ${graph.values.length} values`);
  for (const v of outs)
    if (!["arena", "output"].includes(graph.values[v].class))
      bad(`node "${name}" writes to "${graph.values[v].name}", which is only for reading`);
  return { name, kernel, in: ins, out: outs, paramsAt: at, paramsBytes: size, tasks: 0, open: Array.isArray(tasks), sources, row };
}

/**
 * Evaluates everything that depends on the sizes of symbols, and checks it. After a failure the sizes are those before.
 *
 * @param {Graph} graph
 * @param {number[]} sizes
 * @param {boolean} [first] also what depends on none
 */
export function resize(graph, sizes, first = false) {
  const shapes = graph.values.map((v) => (v.open || first ? shapeAt(v, sizes) : {}));
  const tasks = graph.nodes.map(({ name, row }) => evaluate(row.tasks, sizes, () => `tasks of node "${name}"`));
  graph.values.forEach((v, i) => Object.assign(v, shapes[i]));
  graph.nodes.forEach((n, i) => (n.tasks = tasks[i]));
  graph.sizes = sizes;
}

/**
 * The dense size fits, and no element lies outside of the buffer.
 *
 * @param {Value} value
 * @param {number[]} sizes
 */
function shapeAt({ name, row, bytes, elementBytes, class: kind, open }, sizes) {
  const at = (/** @type {Expression} */ e, /** @type {string} */ what) => evaluate(e, sizes, () => `${what} of "${name}"`);
  const dims = row.dims.map((/** @type {any} */ e) => at(e, "a dimension"));
  const strides = row.storage.strides.map((/** @type {any} */ e) => at(e, "a stride"));
  const origin = at(row.storage.origin, "the origin");
  let elements = 1, last = origin, dense = origin === 0;
  for (let i = dims.length - 1; i >= 0; i--) {
    if (dims[i] > 1 && strides[i] !== elements) dense = false;
    elements *= dims[i];
    last += Math.max(0, dims[i] - 1) * strides[i];
  }
  const signature = kind === "input" || kind === "output";
  const fits = elements === 0 || ((last + 1) * elementBytes <= bytes && (!signature || (dense && (open || elements * elementBytes === bytes))));
  if (!fits || elements * elementBytes > 2 ** 32) bad(`value "${name}": dims and strides do not fit its ${bytes} bytes of ${kind}`);
  return { dims, strides, origin };
}
