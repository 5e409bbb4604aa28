import { ABI, ALIGNMENT, CALL_WORDS, KERNEL_WORDS, LIBRARY_BYTES } from "./abi.js";
import { PAGE, STACK, TASKS } from "./constants.js";
import { fail } from "./errors.js";

/**
 * @typedef {import("./graph.js").Graph} Graph
 * @typedef {import("./graph.js").Value} Value
 * @typedef {{params: number, arena: number, scratch: number, stacks: number, control: number, sizes: number,
 *   signature: Map<number, number>, records: number, bytes: number}} Layout Addresses in the linear memory.
 */

/**
 * Where everything lies: behind the module's own data and first stack come weights, arena, scratch and a stack for each
 * further worker, inputs and outputs, and the call records. The memory is made in this size and never grows, so that
 * views of it stay good.
 *
 * @param {Graph} graph
 * @param {number} staticBytes of the module
 * @param {number} workers
 * @returns {Layout}
 */
export function layOut(graph, staticBytes, workers) {
  let end = staticBytes;
  const take = (/** @type {number} */ bytes) => {
    const at = Math.ceil(end / ALIGNMENT) * ALIGNMENT;
    end = at + bytes;
    return at;
  };
  const params = take(graph.paramsBytes);
  const arena = take(graph.arenaBytes);
  const scratch = take(graph.scratchBytes * workers);
  const stacks = take(STACK * (workers - 1));
  const signature = new Map([...graph.inputs, ...graph.outputs].map((v) => [v, take(graph.values[v].bytes)]));
  const sizes = take(8 * graph.symbols.length);
  const control = take(4 * (TASKS + graph.nodes.length));
  const words = graph.nodes.reduce((n, node) => n + node.in.length + node.out.length + CALL_WORDS * workers, 0);
  const records = take(4 * words);
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
 * Writes every call record, once for each worker. That its words, and those of the library's records below, stand as
 * compiler/sterna_runtime/abi/records.py has them is what tests/runtime/test_abi.py tests.
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
  const sizes = graph.symbols.length && layout.sizes;
  return Array.from({ length: workers }, (_, worker) => {
    const scratch = graph.scratchBytes && layout.scratch + worker * graph.scratchBytes;
    return graph.nodes.map((node, n) => {
      const params = node.paramsAt === undefined ? 0 : layout.params + node.paramsAt;
      return put([4 * CALL_WORDS, workers, ...lists[n], params, scratch, sizes, worker, 0, 0]);
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
  const { library, scratchBytes } = graph;
  const names = graph.kernels.slice(0, graph.own);
  /** @type {(what: string) => never} */
  const wrong = (what) => fail("E0508", `${library}: ${what}`);
  const symbol = `sterna_${graph.model}_library`;
  const describe = /** @type {any} */ (exports[symbol] ?? wrong(`has no function ${symbol}`));
  const words = new Uint32Array(buffer);
  const functions = /** @type {WebAssembly.Table} */ (exports.__indirect_function_table);
  const [size, abi, count, , kernels] = words.subarray(describe() / 4);
  if (size >= 8 && abi !== ABI) fail("E0506", `${library}: kernel ABI is ${abi}; this runtime reads ${ABI}`);
  const table = words.subarray(kernels / 4, kernels / 4 + KERNEL_WORDS * count);
  if (!(size >= LIBRARY_BYTES && count === names.length && table.length === KERNEL_WORDS * count)) wrong(`has ${count} kernels; graph.json has ${names.length}`);
  names.forEach((name, k) => {
    const [index, , scratch, flags] = table.subarray(KERNEL_WORDS * k);
    if (scratch > scratchBytes || !functions.get(index)) wrong(`kernel "${name}" is wrong`);
    if (flags) fail("E0512", `${library}: kernel "${name}" needs a barrier`);
  });
  return graph.nodes.map((node) => {
    const [index = 0, tasks] = table.subarray(KERNEL_WORDS * node.kernel); // 0 has no function
    node.most = tasks;
    return index;
  });
}
