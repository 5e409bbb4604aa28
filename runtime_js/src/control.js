import { MOST_NESTED } from "./abi.js";
import { bad, fail } from "./errors.js";
import { isScalar, isSize } from "./tensors.js";

/**
 * @typedef {import("./graph.js").Graph} Graph
 * @typedef {{loop: boolean, nodes: number[], count?: number, limit?: number, trips?: number, condition?: number, number?: number, parts:
 *   Control[][]}} Control A choice between two ranges of nodes, or a loop over one; values by their index;
 *   `parts`: the controls within each range.
 */

/**
 * Reads the list `control` of graph.json as a tree.
 *
 * @param {Graph} graph
 * @param {any} list
 * @returns {Control[]}
 */
export function readControl(graph, list) {
  /** @type {Control[]} */
  const all = list.map((/** @type {any} */ row, /** @type {number} */ i) => readOne(graph, row) || bad(`control ${i}`));
  let i = 0;
  /** @type {(first: number, last: number, depth: number) => Control[]} */
  const inside = (first, last, depth) => {
    const found = [];
    while (i < all.length) {
      const control = all[i];
      const { nodes } = control;
      if (nodes[0] >= last) break;
      if (nodes[0] < first || end(control) > last || depth > MOST_NESTED) bad(`control ${i}`);
      i++;
      control.parts = nodes.slice(1).map((end, n) => inside(nodes[n], end, depth + 1));
      first = end(control);
      found.push(control);
    }
    return found;
  };
  return inside(0, graph.nodes.length, 1);
}

/**
 * Runs all nodes once from the first on, but for those that controls say otherwise of.
 *
 * @param {Pick<Graph, "nodes" | "control">} graph
 * @param {(value: number) => Uint8Array} bytes of a value's one element
 * @param {(node: number) => void} runNode
 */
export function runControlled(graph, bytes, runNode, first = 0) {
  const word = (/** @type {number} */ value) => int64(bytes(value));
  /** @type {(first: number, last: number, controls: Control[]) => void} */
  const range = (first, last, controls) => {
    for (const control of controls) {
      const { loop, nodes, parts, count = Infinity, trips, condition, number, limit } = control;
      const holds = () => condition === undefined || bytes(condition)[0] !== 0;
      while (first < nodes[0]) runNode(first++);
      first = end(control);
      const part = loop || holds() ? 0 : 1;
      const times = trips === undefined ? count : Number(word(trips)[0]);
      for (let i = 0; i < times && (!loop || holds()); i++) {
        if (i === limit) fail("E0511", `a loop over nodes ${nodes} makes more than its ${i} iterations`);
        if (number !== undefined) word(number)[0] = BigInt(i);
        range(nodes[part], nodes[part + 1], parts[part]);
      }
    }
    while (first < last) runNode(first++);
  };
  range(first, graph.nodes.length, graph.control);
}

/** @param {Uint8Array} bytes of one element */
export const int64 = ({ buffer, byteOffset }) => new BigInt64Array(buffer, byteOffset, 1);

const end = (/** @type {Control} */ { nodes }) => /** @type {number} */ (nodes.at(-1));

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Control | false}
 */
function readOne(graph, row) {
  const { op, nodes, count, trips, condition, number, limit } = row;
  const loop = op === "loop";
  const scalar = (/** @type {any} */ index, /** @type {string} */ dtype) => index === undefined || (isSize(index) && isScalar(graph.values[index], dtype));
  const optional = (/** @type {any} */ n) => n === undefined || isSize(n);
  const good =
    scalar(condition, "bool") &&
    nodes.length === (loop ? 2 : 3) &&
    nodes.every((/** @type {number} */ n, /** @type {number} */ i) => isSize(n) && n >= (i && nodes[i - 1]) && n <= graph.nodes.length) &&
    nodes[0] < end(row) &&
    (loop
      ? scalar(trips, "int64") && scalar(number, "int64") && (number === undefined || graph.values[number].class === "arena") &&
        optional(count) && limit >>> 0 === limit && (count === undefined || trips === undefined) && (count ?? trips ?? condition) !== undefined
      : op === "if" && condition !== undefined) &&
    { loop, nodes, parts: [], condition };
  return good && { ...good, ...(loop ? { count, limit, trips, number } : { count: 1 }) };
}
