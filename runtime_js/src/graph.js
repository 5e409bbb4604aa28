import { readControl } from "./control.js";
import { evaluate } from "./dims.js";
import { attempt, bad, fail } from "./errors.js";
import { hash64 } from "./hash.js";
import { arrayType } from "./tensors.js";

/** Format versions: 2 has control flow. */
const FORMATS = [1, 2];
const ABI = 1;

/**
 * @typedef {import("./dims.js").Expression} Expression
 * @typedef {{name: string, dtype: string, dims: number[], strides: number[], origin: number, class: string,
 *   offset: number, bytes: number, elementBytes: number, fleeting: boolean, stage: number, computes?: number,
 *   row: any}} Value One tensor; `dims`, `strides` and `origin` at the present sizes. `computes`: the symbol whose size it is.
 * @typedef {{name: string, kernel: number, in: number[], out: number[], tasks: number, stage: number, sources: string[], computes?: number, row: any,
 *   mostTasks?: number, call: (first: number, last: number) => number}} Node `computes`: the value that is a symbol's size;
 *   `mostTasks` and `call` are the library's.
 * @typedef {{bytes: number, hash: string, static_bytes?: number}} FileEntry
 * @typedef {{library: string, cpu_features: string[]}} Variant
 * @typedef {{model: string, target: any, files: Record<string, FileEntry>, library: string, variants: Variant[],
 *   arenaBytes: number, scratchBytes: number, paramsBytes: number, symbols: {name: string, lo: number, hi: number, value?: number}[],
 *   open: number, sizes: number[], kernels: string[], values: Value[], inputs: number[], outputs: number[], nodes: Node[],
 *   states: {value: number, initialAt: number | null}[], control: import("./control.js").Control[]}} Graph
 *
 * A number is known at a stage: 0 at once, 1 when the caller has set the first `open` symbols, 2 + k when the model has
 * computed symbol k, the last one in its expression.
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
  return attempt("E0504", "graph.json: something is missing or wrong", () => checked(json));
}

/**
 * What to add to a message when a server's page came in place of a file.
 *
 * @param {Uint8Array} bytes
 */
export function page(bytes) {
  return /^\s*</.test(new TextDecoder().decode(bytes.slice(0, 64))) ? "; it is a page of HTML: is the address right?" : "";
}

/**
 * @param {any} json
 * @returns {Graph}
 */
function checked(json) {
  const { target, model, files, library, arena, symbols = [], states = [], variants = [], control = [] } = json;
  if (!target.triple.startsWith("wasm32"))
    fail("E0507", `graph.json: compiled for ${target.triple}: compile with --target browser`);
  must(/^\w{1,127}$/.test(model), "model");
  const libraries = [{ library, cpu_features: target.cpu_features }, ...variants];
  for (const { library: name, cpu_features: features } of libraries)
    must(isName(name) && /^[^./\\:][^/\\:]*$/.test(name) && Array.isArray(features), "library");
  for (const name of ["params.bin", ...libraries.map((each) => each.library)]) {
    const { bytes, static_bytes: data = 0 } = files[name];
    must(isSize(bytes) && isSize(data), `files of "${name}"`);
  }
  must(isSize(arena.bytes), "arena");
  must(isSize(json.scratch_bytes) && json.scratch_bytes % 64 === 0, "scratch_bytes");
  const open = symbols.filter((/** @type {any} */ s) => s.value === undefined).length;
  must(new Set(symbols.map((/** @type {any} */ s) => s.name)).size === symbols.length, "symbols");
  symbols.forEach((/** @type {any} */ { name, lo, hi, value }, /** @type {number} */ i) =>
    must(isName(name) && isSize(lo) && isSize(hi) && lo <= hi && (value === undefined) === i < open, `symbol "${name}"`),
  );
  /** @type {Graph} */
  const graph = {
    ...json,
    variants: variants.length ? variants : libraries,
    arenaBytes: arena.bytes,
    scratchBytes: json.scratch_bytes,
    paramsBytes: files["params.bin"].bytes,
    symbols,
    open,
    sizes: symbols.map((/** @type {any} */ s) => s.hi),
    kernels: json.kernels.map((/** @type {any} */ k) => k.name),
  };
  must(graph.kernels.every(isName), "a kernel's name");
  graph.values = graph.values.map((row) => readValue(graph, row));
  for (const side of /** @type {const} */ (["input", "output"])) {
    const list = graph[`${side}s`];
    const own = graph.values.filter((v) => v.class === side).length;
    must(list.every((v) => graph.values[v].class === side) && new Set(list).size === own && list.length === own, `${side}s`);
  }
  graph.states = states.map((/** @type {any} */ { value: index, initial_at: at = null }, /** @type {number} */ i) => {
    const value = graph.values[index];
    must(value.class === "state" && (at === null || (isSize(at) && at + value.bytes <= graph.paramsBytes)), `states[${i}]`);
    return { value: index, initialAt: at };
  });
  symbols.slice(open).forEach((/** @type {any} */ { name, value: index }, /** @type {number} */ i) => {
    const value = graph.values[index];
    const alone = value.dtype === "int64" && value.bytes === 8 && value.row.storage.origin === 0 && value.computes === undefined;
    must(alone && value.class !== "state", `the value of symbol "${name}"`);
    value.computes = open + i;
  });
  let next = open;
  graph.nodes = graph.nodes.map((row) => {
    const node = readNode(graph, row);
    for (const index of node.out.filter((v) => graph.values[v].computes !== undefined)) {
      must(node.computes === undefined && graph.values[index].computes === next++, `node "${node.name}": the order of computed sizes`);
      node.computes = index;
    }
    return node;
  });
  must(next === symbols.length, "the order of computed sizes");
  resize(graph, graph.sizes, 0, Infinity);
  must(Array.isArray(control), "control");
  graph.control = readControl(graph, control);
  return graph;
}

const inSignature = (/** @type {string} */ kind) => kind === "input" || kind === "output";

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Value}
 */
function readValue(graph, row) {
  const { name, dtype, dims, storage, fleeting = false } = row;
  must(isName(name), "a value's name");
  const where = (/** @type {string} */ what) => `value "${name}": ${what}`;
  const elementBytes = arrayType(dtype)?.BYTES_PER_ELEMENT ?? bad(where("dtype"));
  const { class: kind, offset, bytes, strides } = storage;
  const { arenaBytes: arena, paramsBytes: param } = graph;
  const limit = { input: bytes, output: bytes, arena, state: arena, param }[/** @type {string} */ (kind)];
  const inside = isSize(offset) && isSize(bytes) && offset + bytes <= limit && offset % elementBytes === 0;
  must(inside && typeof fleeting === "boolean", where(`storage (bytes ${offset} to ${offset}+${bytes} of ${limit} in ${kind})`));
  must(dims.length === strides.length, where("dims"));
  return { ...row, ...storage, row, elementBytes, stage: 0, dims: [], strides: [], origin: 0 };
}

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Node}
 */
function readNode(graph, row) {
  const { name, kernel, in: ins, out: outs, params_at: at = 0, params_bytes: size = 0 } = row;
  must(isName(name), "a node's name");
  const where = (/** @type {string} */ what) => `node "${name}": ${what}`;
  must(isSize(kernel) && kernel < graph.kernels.length, where("kernel"));
  must(isSize(at) && isSize(size) && at % 64 === 0 && at + size <= graph.paramsBytes, where("params"));
  must(ins.every((/** @type {number} */ v) => isSize(v) && v < graph.values.length), where("in"));
  // Inputs and weights are only for reading.
  must(outs.every((/** @type {number} */ v) => ["arena", "state", "output"].includes(graph.values[v].class)), where("out"));
  return { sources: [], ...row, stage: 0, tasks: 0, row };
}

/**
 * Evaluates everything that is known from one stage to another, and checks it. After a failure the sizes are those before.
 *
 * @param {Graph} graph
 * @param {number[]} sizes
 * @param {number} from
 * @param {number} to
 */
export function resize(graph, sizes, from, to) {
  /** @type {(item: any, at: (graph: Graph, item: any, size: (symbol: number) => number) => object) => object} */
  const follow = (item, at) => {
    if (item.stage < from || item.stage > to) return item;
    let stage = 0;
    const size = (/** @type {number} */ k) => ((stage = Math.max(stage, k < graph.open ? 1 : 2 + k)), sizes[k]);
    return { ...item, ...at(graph, item, size), stage };
  };
  const values = graph.values.map((v) => follow(v, shapeAt));
  Object.assign(graph, { nodes: graph.nodes.map((n) => follow(n, tasksAt)), values, sizes });
}

/**
 * As many as the kernel has; where the number depends on sizes, at most.
 *
 * @param {Graph} graph
 * @param {Node} node
 * @param {(symbol: number) => number | undefined} size
 */
function tasksAt({ library }, { name, row, mostTasks = Infinity }, size) {
  const tasks = evaluate(row.tasks, size, () => `tasks of node "${name}"`);
  if (tasks > mostTasks || (mostTasks < Infinity && !Array.isArray(row.tasks) && (tasks < mostTasks || !tasks)))
    fail("E0508", `node "${name}" has ${tasks} tasks; its kernel in ${library} has ${mostTasks}`);
  return { tasks };
}

/**
 * The dense size fits, and no element lies outside of the buffer.
 *
 * @param {Graph} _
 * @param {Value} value
 * @param {(symbol: number) => number | undefined} size
 */
function shapeAt(_, { name, row, bytes, elementBytes, class: kind }, size) {
  const at = (/** @type {Expression} */ e, /** @type {string} */ what) => evaluate(e, size, () => `${what} of "${name}"`);
  const dims = row.dims.map((/** @type {any} */ e) => at(e, "a dimension"));
  const strides = row.storage.strides.map((/** @type {any} */ e) => at(e, "a stride"));
  const origin = at(row.storage.origin, "the origin");
  let elements = 1, last = origin, dense = origin === 0;
  for (let i = dims.length - 1; i >= 0; i--) {
    if (dims[i] > 1 && strides[i] !== elements) dense = false;
    elements *= dims[i];
    last += Math.max(0, dims[i] - 1) * strides[i];
  }
  const open = [...row.dims, ...row.storage.strides, row.storage.origin].some(Array.isArray);
  const whole = !inSignature(kind) || (dense && (open || elements * elementBytes === bytes));
  must(elements === 0 || ((last + 1) * elementBytes <= bytes && whole), `"${name}", of [${dims}] with strides [${strides}] in ${bytes} bytes,`);
  return { dims, strides, origin };
}
