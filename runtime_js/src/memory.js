import { fail } from "./errors.js";

/**
 * @typedef {import("./graph.js").Graph} Graph
 * @typedef {import("./graph.js").Value} Value
 * @typedef {{params: number, arena: number, scratch: number, stacks: number, control: number, sizes: number,
 *   signature: Map<number, number>, records: number, bytes: number}} Layout Addresses in the linear memory.
 */

const PAGE = 65536;
export const STACK_BYTES = 65536;
/** Words of a call record of the kernel ABI on a 32-bit machine. */
const RECORD = 10;
/** Words of the record that an entry of the library's table is. */
const KERNEL = 5;

/**
 * Where everything lies: behind the module's own data and first stack come weights, arena, scratch and a stack for each
 * further worker, inputs and outputs, and the call records. The memory is made in this size and never grows, so that
 * views of it stay good.
 *
 * @param {Graph} graph
 * @param {number} staticBytes of the module
 * @param {number} workers
 * @param {boolean} paramsInside the weights are among the module's data
 * @returns {Layout}
 */
export function layOut(graph, staticBytes, workers, paramsInside) {
  let end = staticBytes;
  const take = (/** @type {number} */ bytes) => {
    const at = Math.ceil(end / 64) * 64;
    end = at + bytes;
    return at;
  };
  const params = take(paramsInside ? 0 : graph.paramsBytes);
  const arena = take(graph.arenaBytes);
  const scratch = take(graph.scratchBytes * workers);
  const stacks = take(STACK_BYTES * (workers - 1));
  const signature = new Map([...graph.inputs, ...graph.outputs].map((v) => [v, take(graph.values[v].bytes)]));
  const sizes = take(8 * graph.symbols.length);
  const control = take(4 * (8 + graph.nodes.length));
  const words = graph.nodes.reduce((n, node) => n + node.in.length + node.out.length + RECORD * workers, 0);
  const records = take(4 * words);
  if (end > 65536 * PAGE) fail("E0502", `the model needs ${end} bytes of memory; WebAssembly addresses ${65536 * PAGE}`);
  return { params, arena, scratch, stacks, control, sizes, signature, records, bytes: Math.ceil(end / PAGE) * PAGE };
}

/**
 * Address of a value's buffer.
 *
 * @param {Graph} graph
 * @param {Layout} layout
 * @param {number} index
 */
export function addressOf(graph, layout, index) {
  const value = graph.values[index];
  return layout.signature.get(index) ?? (value.class === "param" ? layout.params : layout.arena) + value.offset;
}

/**
 * Writes every call record, once for each worker.
 *
 * @param {ArrayBufferLike} buffer
 * @param {Graph} graph
 * @param {Layout} layout
 * @param {number} workers
 * @returns {number[][]} addresses of the records, by worker and node
 */
export function writeRecords(buffer, graph, layout, workers) {
  const words = new Uint32Array(buffer);
  let at = layout.records / 4;
  const put = (/** @type {number[]} */ list) => {
    words.set(list, at);
    at += list.length;
    return 4 * (at - list.length);
  };
  const lists = graph.nodes.map((node) => [node.in, node.out].map((list) => put(list.map((v) => addressOf(graph, layout, v)))));
  const sizes = graph.symbols.length ? layout.sizes : 0;
  return Array.from({ length: workers }, (_, worker) => {
    const scratch = graph.scratchBytes ? layout.scratch + worker * graph.scratchBytes : 0;
    return graph.nodes.map((node, n) => {
      const params = node.row.params_bytes ? layout.params + (node.row.params_at ?? 0) : 0;
      return put([4 * RECORD, workers, ...lists[n], params, scratch, sizes, worker, 0, 0]);
    });
  });
}

/**
 * Reads the library's table, checks it against the graph, and tells every node what its kernel does.
 *
 * @param {WebAssembly.Exports} exports
 * @param {ArrayBufferLike} buffer
 * @param {Graph} graph
 * @returns {number[]} by node: index into the module's table of functions
 */
export function readTable(exports, buffer, graph) {
  const { library } = graph;
  /** @type {(what: string) => never} */
  const wrong = (what) => fail("E0508", `${library}: ${what}`);
  const symbol = `sterna_${graph.model}_library`;
  const describe = exports[symbol];
  if (typeof describe !== "function") wrong(`has no function ${symbol}`);
  const words = new Uint32Array(buffer);
  const record = describe() / 4;
  const [size, abi, count, , kernels] = words.subarray(record, record + 5);
  if (size < 24) wrong(`its table has ${size} bytes`);
  if (abi !== 1) fail("E0506", `${library}: kernel ABI is ${abi}; this runtime speaks 1`);
  if (count !== graph.kernels.length) wrong(`has ${count} kernels; graph.json has ${graph.kernels.length}`);
  const table = words.subarray(kernels / 4, kernels / 4 + KERNEL * count);
  if (table.length < KERNEL * count) wrong("its table lies outside of the memory");
  graph.kernels.forEach((kernel, k) => {
    const [, , scratch, flags] = table.subarray(KERNEL * k);
    if (scratch > graph.scratchBytes)
      wrong(`kernel "${kernel}" needs ${scratch} bytes of scratch; graph.json has ${graph.scratchBytes}`);
    if (flags) fail("E0512", `${library}: kernel "${kernel}" needs a barrier`);
  });
  return graph.nodes.map((node) => {
    const [index, tasks] = table.subarray(KERNEL * node.kernel);
    node.mostTasks = tasks;
    return index;
  });
}
