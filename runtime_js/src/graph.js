import { readControl } from "./control.js";
import { evaluate } from "./dims.js";
import { attempt, bad, fail } from "./errors.js";
import { hash64 } from "./hash.js";
import { arrayType } from "./tensors.js";

/** Format versions: 2 has control flow. */
const FORMATS = [1, 2];
const ABI = 1;
const MOST_BYTES = 64 << 20;
const MOST_DIMENSIONS = 16;

/**
 * @typedef {import("./dims.js").Expression} Expression
 * @typedef {{name: string, dtype: string, dims: number[], strides: number[], origin: number, class: string,
 *   offset: number, bytes: number, elementBytes: number, fleeting: boolean, open: boolean,
 *   row: any}} Value One tensor; `dims`, `strides` and `origin` at the present sizes.
 * @typedef {{name: string, kernel: number, in: number[], out: number[], tasks: number, open: boolean, sources: string[], row: any}} Node
 * @typedef {{bytes: number, hash: string, static_bytes?: number}} FileEntry
 * @typedef {{library: string, cpu_features: string[]}} Variant
 * @typedef {{model: string, target: any, files: Record<string, FileEntry>, library: string, variants: Variant[],
 *   arenaBytes: number, scratchBytes: number, paramsBytes: number, symbols: {name: string, lo: number, hi: number}[],
 *   sizes: number[], kernels: string[], values: Value[], inputs: number[], outputs: number[], nodes: Node[],
 *   states: {value: number, initialAt: number | null}[], control: import("./control.js").Control[]}} Graph
 */

/** @type {(good: boolean, what: string) => void} */
const must = (good, what) => good || bad(`${what} is missing or wrong`);
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
  must(bytes.length <= MOST_BYTES, `a size of under ${MOST_BYTES} bytes`);
  const end = bytes.indexOf(10) + 1;
  const line = new TextDecoder().decode(bytes.slice(0, Math.min(end || 200, 200)));
  const found = /^\{"sterna":(\d{1,6}),"hash":"([0-9a-f]{16})",\n$/.exec(line);
  if (!found) bad(`its first line is not that of a Sterna bundle: ${JSON.stringify(line.slice(0, 60))}${page(bytes)}`);
  if (!FORMATS.includes(+found[1])) fail("E0506", `graph.json: format version is ${found[1]}; this runtime reads ${FORMATS.join(" and ")}`);
  const hash = hash64(bytes.subarray(end));
  if (hash !== found[2]) fail("E0505", `graph.json: hash is ${hash}; it was ${found[2]} when it was compiled`);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const json = await attempt("E0504", "graph.json: not JSON", () => JSON.parse(decoder.decode(bytes.slice())));
  if (json.abi !== ABI) fail("E0506", `graph.json: kernel ABI is ${json.abi}; this runtime speaks ${ABI}`);
  const { target } = json;
  must(isName(target?.triple) && Array.isArray(target.cpu_features), "target");
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
  const { model, files, library, arena, symbols = [], states = [], variants = [], control = [] } = json;
  must(/^\w{1,127}$/.test(model), "model");
  for (const key of ["kernels", "values", "inputs", "outputs", "nodes"]) must(Array.isArray(json[key]), key);
  must(Array.isArray(symbols) && symbols.length <= 256, "symbols");
  must(Array.isArray(states), "states");
  must(Array.isArray(variants), "variants");
  const libraries = [{ library, cpu_features: json.target.cpu_features }, ...variants];
  for (const { library: name, cpu_features: features } of libraries)
    must(isName(name) && /^[^./\\:][^/\\:]*$/.test(name) && Array.isArray(features), "library");
  for (const name of ["params.bin", ...libraries.map((each) => each.library)]) {
    const entry = Object.hasOwn(files ?? {}, name) ? files[name] : undefined;
    const good = isSize(entry?.bytes) && /^[0-9a-f]{16}$/.test(entry.hash);
    must(good && (name === "params.bin" || isSize(entry.static_bytes)), `files of "${name}"`);
  }
  must(isSize(arena?.bytes), "arena");
  must(isSize(json.scratch_bytes) && json.scratch_bytes % 64 === 0, "scratch_bytes");
  symbols.forEach((/** @type {any} */ { name, lo, hi, value }, /** @type {number} */ i) => {
    if (value !== undefined) fail("E0512", `the model computes the size "${name}", which this runtime does not follow`);
    const first = symbols.findIndex((/** @type {any} */ s) => s.name === name);
    must(isName(name) && isSize(lo) && isSize(hi) && lo <= hi && first === i, `symbol "${name}"`);
  });
  /** @type {Graph} */
  const graph = {
    ...json,
    variants: variants.length ? variants : libraries,
    arenaBytes: arena.bytes,
    scratchBytes: json.scratch_bytes,
    paramsBytes: files["params.bin"].bytes,
    symbols,
    sizes: symbols.map((/** @type {any} */ s) => s.hi),
    kernels: json.kernels.map((/** @type {any} */ k) => k?.name),
    values: [],
    nodes: [],
    states: [],
    control: [],
  };
  must(graph.kernels.every(isName), "a kernel's name");
  graph.values = json.values.map((/** @type {any} */ row, /** @type {number} */ i) => readValue(graph, row, i));
  const signature = new Set();
  for (const side of /** @type {const} */ (["input", "output"]))
    graph[`${side}s`].forEach((index, i) => {
      must(graph.values[index]?.class === side && !signature.has(index), `${side}s[${i}]`);
      signature.add(index);
    });
  graph.values.forEach((v, i) => must(!inSignature(v.class) || signature.has(i), `"${v.name}", which is no ${v.class},`));
  graph.states = states.map((/** @type {any} */ row, /** @type {number} */ i) => {
    const { value: index, initial_at: at = null } = row ?? {};
    const value = graph.values[index];
    must(value?.class === "state" && (at === null || (isSize(at) && at + value.bytes <= graph.paramsBytes)), `states[${i}]`);
    return { value: index, initialAt: at };
  });
  graph.nodes = json.nodes.map((/** @type {any} */ row, /** @type {number} */ i) => readNode(graph, row, i));
  resize(graph, graph.sizes, true);
  must(Array.isArray(control), "control");
  graph.control = readControl(graph, control);
  return graph;
}

const inSignature = (/** @type {string} */ kind) => kind === "input" || kind === "output";

/**
 * @param {Graph} graph
 * @param {any} row
 * @param {number} index
 * @returns {Value}
 */
function readValue(graph, row, index) {
  const { name, dtype, dims, storage, fleeting = false } = row ?? {};
  must(isName(name), `value ${index}`);
  const where = (/** @type {string} */ what) => `value "${name}": ${what}`;
  const elementBytes = arrayType(dtype)?.BYTES_PER_ELEMENT ?? bad(where("dtype"));
  const { class: kind, offset, bytes, strides, origin } = storage ?? {};
  const { arenaBytes: arena, paramsBytes: param } = graph;
  const limit = { input: bytes, output: bytes, arena, state: arena, param }[/** @type {string} */ (kind)];
  const inside = isSize(offset) && isSize(bytes) && offset + bytes <= limit && offset % elementBytes === 0;
  must(inside && typeof fleeting === "boolean", where(`storage (bytes ${offset} to ${offset}+${bytes} of ${limit} in ${kind})`));
  must(Array.isArray(dims) && Array.isArray(strides) && dims.length <= MOST_DIMENSIONS && dims.length === strides.length, where("dims"));
  const open = [...dims, ...strides, origin].some(Array.isArray);
  return { ...row, ...storage, row, elementBytes, open, dims: [], strides: [], origin: 0 };
}

/**
 * @param {Graph} graph
 * @param {any} row
 * @param {number} index
 * @returns {Node}
 */
function readNode(graph, row, index) {
  const { name, kernel, in: ins, out: outs, params_at: at = 0, params_bytes: size = 0, tasks } = row ?? {};
  must(isName(name), `node ${index}`);
  const where = (/** @type {string} */ what) => `node "${name}": ${what}`;
  must(isSize(kernel) && kernel < graph.kernels.length, where("kernel"));
  must(isSize(at) && isSize(size) && at % 64 === 0 && at + size <= graph.paramsBytes, where("params"));
  must(Array.isArray(ins) && ins.every((v) => isSize(v) && v < graph.values.length), where("in"));
  // Inputs and weights are only for reading.
  must(Array.isArray(outs) && outs.every((v) => ["arena", "state", "output"].includes(graph.values[v]?.class)), where("out"));
  return { sources: [], ...row, open: Array.isArray(tasks), tasks: 0, row };
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
  const whole = !inSignature(kind) || (dense && (open || elements * elementBytes === bytes));
  must(elements === 0 || ((last + 1) * elementBytes <= bytes && whole), `"${name}", of [${dims}] with strides [${strides}] in ${bytes} bytes,`);
  return { dims, strides, origin };
}
