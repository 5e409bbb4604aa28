import { ABI, ALIGNMENT, FORMAT, MOST_BYTES, MOST_DIMS, MOST_NESTED, MOST_SYMBOLS, OLDEST_FORMAT } from "./abi.js";
import { readControl } from "./control.js";
import { evaluate } from "./dims.js";
import { attempt, bad, fail } from "./errors.js";
import { hash64 } from "./hash.js";
import { arrayType, isScalar, isSize } from "./tensors.js";


/**
 * @typedef {import("./dims.js").Expression} Expression
 * @typedef {{name: string, dtype: string, dims: number[], strides: number[], origin: number, class: string,
 *   offset: number, bytes: number, elementBytes: number, fleeting: boolean, stage: number, computes?: number,
 *   row: any}} Value One tensor; `dims`, `strides` and `origin` at the present sizes. `computes`: the symbol whose size it is.
 * @typedef {{name: string, kernel: number, in: number[], out: number[], tasks: number, stage: number, sources: string[], computes?: number, row: any, paramsAt?: number,
 *   most?: number, call: (first: number, last: number) => number}} Node `computes`: the value that is a symbol's size;
 *   `most` and `call` are the library's.
 * @typedef {{bytes: number, hash: string, static_bytes?: number}} FileEntry
 * @typedef {{library: string, cpu_features: string[]}} Variant
 * @typedef {{model: string, target: any, files: Record<string, FileEntry>, library: string, variants: Variant[],
 *   arenaBytes: number, scratchBytes: number, paramsBytes: number, widened?: [number, number][], symbols: {name: string, lo: number, hi: number, value?: number}[],
 *   open: number, sizes: number[], kernels: string[], values: Value[], inputs: number[], outputs: number[], nodes: Node[],
 *   states: {value: number, initialAt?: number}[], control: import("./control.js").Control[], own?: number}} Graph `own`: how many
 *   kernels are the library's; all, if it is undefined.
 *
 * A number is known at a stage: 0 at once, 1 when the caller has set the first `open` symbols, 2 + k when the model has
 * computed symbol k, the last one in its expression.
 */

/** @type {(good: boolean, what: string) => void} */
const must = (good, what) => good || bad(`${what} is missing or wrong`);
/** @type {(s: any, form?: RegExp) => boolean} */
const isName = (s, form = /^[^\0]*$/) => typeof s === "string" && form.test(s);
/**
 * The value of an index, which must be one.
 *
 * @type {(graph: Graph, index: any) => Value}
 */
const pick = ({ values }, index) => (isSize(index) && values[index]) || bad("an index is of no value");

/**
 * Reads and checks `graph.json`: version, hash, machine, then every index and range in it. Nothing in the file is
 * believed; docs/bundle.md describes the format.
 *
 * @param {Uint8Array} bytes
 * @param {(json: any) => any} [prepare] makes what this module reads of what it does not know
 * @returns {Promise<Graph>}
 */
export async function readGraph(bytes, prepare) {
  const end = bytes.indexOf(10) + 1;
  const [, version, rest, wanted] = /^\{"sterna":(\d{1,6})(,"hash":"([0-9a-f]{16})",\n)?/.exec(firstText(bytes)) ?? [];
  if (+version < OLDEST_FORMAT || +version > FORMAT) fail("E0506", `graph.json: format version is ${version}; this runtime reads ${OLDEST_FORMAT} to ${FORMAT}`);
  if (!rest) bad(`not the graph of a Sterna bundle${page(bytes)}`);
  must(bytes.length <= MOST_BYTES, "size");
  checkHash("graph.json", hash64(bytes.subarray(end)), wanted);
  return attempt("E0504", "graph.json", () => {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.slice());
    const json = JSON.parse(text);
    // What is left of the text is a colon for each member.
    if (members(json, MOST_NESTED) < text.replace(/"([^"\\]+|\\.)*"|[^":]+/g, "").length) bad("a member occurs twice");
    return checked(prepare ? prepare(json) : json);
  });
}

/**
 * How many members a tree has; refuses one that is nested too deep.
 *
 * @param {unknown} tree
 * @param {number} depth that is left
 * @returns {number}
 */
function members(tree, depth) {
  if (!(tree instanceof Object)) return 0;
  if (!depth) bad(`nested more than ${MOST_NESTED} deep`);
  const list = Object.values(tree);
  return list.reduce((sum, part) => sum + members(part, depth - 1), Array.isArray(tree) ? 0 : list.length);
}

/**
 * @param {string} file
 * @param {string} hash
 * @param {string} wanted
 */
export function checkHash(file, hash, wanted) {
  if (hash !== wanted) fail("E0505", `${file}: hash is ${hash}; it was ${wanted} when it was compiled`);
}

/** The first bytes of a file as text. @param {Uint8Array} bytes */
export const firstText = (bytes) => new TextDecoder().decode(bytes.slice(0, 64));

/**
 * What to add to a message when a server's page came in place of a file.
 *
 * @param {Uint8Array} bytes
 */
export function page(bytes) {
  return /^\s*</.test(firstText(bytes)) ? "; it is a page of HTML" : "";
}

/**
 * @param {any} json
 * @returns {Graph}
 */
function checked(json) {
  const { abi, target, model, files, library, arena, scratch_bytes: scratchBytes, symbols = [], states = [], variants = [], control = [], arenas, devices } = json;
  must(isSize(abi), "abi");
  if (abi !== ABI) fail("E0506", `graph.json: kernel ABI is ${abi}; this runtime reads ${ABI}`);
  const { triple, pointer_bits: bits } = target;
  must(isName(triple) && isSize(bits), "target");
  if (devices || arenas || !/^wasm32/.test(triple) || bits !== 32) fail("E0507", `graph.json: compiled for ${target.name}: compile with --target browser`);
  must(isName(model, /^\w{1,127}$/), "model");
  const libraries = [{ library, cpu_features: target.cpu_features }, ...variants];
  for (const { library: name, cpu_features: features } of libraries)
    must(isName(name, /^[^./\\:\0][^/\\:\0]{0,126}$/) && features.every((/** @type {any} */ f) => f && isName(f)), "library");
  for (const name of ["params.bin", ...libraries.map((each) => each.library)]) {
    const { bytes, hash, static_bytes: data = 0 } = files[name];
    must(isSize(bytes) && isSize(data) && isName(hash, /^[0-9a-f]{16}$/), `"${name}"`);
  }
  must(isSize(arena.bytes) && isSize(scratchBytes) && scratchBytes % ALIGNMENT === 0, "arena or scratch_bytes");
  const open = symbols.filter((/** @type {any} */ s) => s.value === undefined).length;
  const names = new Set();
  symbols.forEach((/** @type {any} */ { name, lo, hi, value }, /** @type {number} */ i) =>
    must(isName(name) && names.add(name).size > i && isSize(lo) && isSize(hi) && lo <= hi && (value === undefined) === i < open && i < MOST_SYMBOLS, "symbols"),
  );
  /** @type {Graph} */
  const graph = {
    ...json,
    variants: variants.length ? variants : libraries,
    arenaBytes: arena.bytes,
    scratchBytes,
    paramsBytes: files["params.bin"].static_bytes ?? files["params.bin"].bytes,
    symbols,
    open,
    sizes: symbols.map((/** @type {any} */ s) => s.hi),
    kernels: json.kernels.map((/** @type {any} */ { name }) => (must(isName(name), "kernels"), name)),
  };
  graph.values = graph.values.map((row) => readValue(graph, row));
  for (const side of /** @type {const} */ (["input", "output"])) {
    const list = graph[`${side}s`];
    const own = new Set(list.filter(isSize));
    must(own.size === list.length && graph.values.every((v, i) => (v.class === side) === own.delete(i)) && !own.size, `${side}s`);
  }
  graph.states = states.map((/** @type {any} */ { value, initial_at: initialAt }) => {
    const { class: kind, bytes } = pick(graph, value);
    must(kind === "state" && (initialAt === undefined || (isSize(initialAt) && initialAt + bytes <= graph.paramsBytes)), "states");
    return { value, initialAt };
  });
  const computed = symbols.slice(open).map((/** @type {any} */ s) => pick(graph, s.value));
  computed.forEach((/** @type {Value} */ value, /** @type {number} */ i) => (value.computes = open + i));
  let next = open;
  graph.nodes = graph.nodes.map((row) => {
    const node = readNode(graph, row);
    for (const index of node.out.filter((v) => graph.values[v].computes !== undefined)) {
      must(node.computes === undefined && graph.values[index].computes === next++, "symbols");
      node.computes = index;
    }
    return node;
  });
  resize(graph, graph.sizes, 0, Infinity);
  const good = graph.values.filter((v) => v.computes !== undefined && isScalar(v, "int64") && !v.origin && /^(arena|output)$/.test(v.class));
  must(next === symbols.length && good.length === computed.length, "symbols");
  graph.control = readControl(graph, control);
  return graph;
}

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Value} without what follows the sizes
 */
function readValue({ arenaBytes: arena, paramsBytes: param }, row) {
  const { name, dtype, dims, storage, fleeting = false } = row;
  const { class: kind, offset, bytes, strides } = storage;
  const elementBytes = /** @type {number} */ (arrayType(dtype)?.BYTES_PER_ELEMENT);
  const limit = { input: bytes, output: bytes, arena, state: arena, param }[/** @type {string} */ (kind)];
  must(
    isName(name) && isName(dtype) && isSize(offset) && isSize(bytes) && offset + bytes <= limit && offset % elementBytes === 0 &&
      dims.length === strides.length && dims.length <= MOST_DIMS && fleeting === !!fleeting,
    `value "${name}"`,
  );
  return /** @type {any} */ ({ name, dtype, class: kind, offset, bytes, elementBytes, fleeting, row, stage: 0 });
}

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Node} without its tasks and kernel
 */
function readNode(graph, row) {
  const { name, kernel, in: ins, out: outs, params_at: at = 0, params_bytes: size = 0, sources = [] } = row;
  must(
    isName(name) && isSize(kernel) && kernel < graph.kernels.length && isSize(at) && isSize(size) && at % ALIGNMENT === 0 &&
      at + size <= graph.paramsBytes && ins.every((/** @type {number} */ v) => pick(graph, v)) &&
      // Inputs and weights are only for reading.
      outs.every((/** @type {number} */ v) => /^(arena|state|output)$/.test(pick(graph, v).class)),
    `node "${name}"`,
  );
  return /** @type {any} */ ({ name, kernel, in: ins, out: outs, sources, row, paramsAt: size ? at : undefined, stage: 0 });
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
  /** @type {(item: any, at: (graph: Graph, item: any, size: (symbol: number) => number, known: {stage: number}) => object) => object} */
  const follow = (item, at) => {
    if (item.stage < from || item.stage > to) return item;
    const known = { stage: 0 };
    const size = (/** @type {number} */ k) => ((known.stage = Math.max(known.stage, k < graph.open ? 1 : 2 + k)), sizes[k]);
    return { ...item, ...at(graph, item, size, known), ...known };
  };
  Object.assign(graph, { values: graph.values.map((v) => follow(v, shapeAt)), nodes: graph.nodes.map((n) => follow(n, tasksAt)), sizes });
}

/**
 * As many as the kernel has; where the number depends on sizes, at most.
 *
 * @param {Graph} graph
 * @param {Node} node
 * @param {(symbol: number) => number | undefined} size
 * @param {{stage: number}} known
 */
function tasksAt({ library }, { name, row, most = Infinity }, size, known) {
  const tasks = evaluate(row.tasks, size, () => `tasks of node "${name}"`);
  if (tasks > most || (most < Infinity && !known.stage && (tasks < most || !tasks)))
    fail("E0508", `node "${name}" has ${tasks} tasks; its kernel in ${library} has ${most}`);
  return { tasks };
}

/**
 * The dense size fits, and no element lies outside of the buffer.
 *
 * @param {Graph} _
 * @param {Value} value
 * @param {(symbol: number) => number | undefined} size
 * @param {{stage: number}} known
 */
function shapeAt(_, { name, row, bytes, elementBytes, class: kind }, size, known) {
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
  const whole = !/put$/.test(kind) || (dense && (known.stage > 0 || elements * elementBytes === bytes));
  must(elements === 0 || ((last + 1) * elementBytes <= bytes && whole), `value "${name}"`);
  return { dims, strides, origin };
}
