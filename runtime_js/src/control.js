import { bad, fail } from "./errors.js";

const MOST_NESTED = 32;

/**
 * @typedef {import("./graph.js").Graph} Graph
 * @typedef {{loop: boolean, nodes: number[], count: number, limit: number, trips?: number, condition?: number, number?: number, parts:
 *   Control[][], name: string}} Control A choice between two ranges of nodes, or a loop over one; values by their index;
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
  let i = 0;
  /** @type {(first: number, last: number, depth: number) => Control[]} */
  const inside = (first, last, depth) => {
    const found = [];
    while (i < list.length) {
      const control = readOne(graph, list[i]) ?? bad(`control ${i} is wrong`);
      const { nodes } = control;
      if (nodes[0] >= last) break;
      if (nodes[0] < first || end(control) > last || depth > MOST_NESTED) bad(`control ${i} is misplaced`);
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
 * Runs all nodes once, but for those that controls say otherwise of.
 *
 * @param {Graph} graph
 * @param {(value: number) => Uint8Array} bytes of a value's one element
 * @param {(node: number) => void} runNode
 */
export function runControlled(graph, bytes, runNode) {
  const word = (/** @type {number} */ value) => int64(bytes(value));
  const holds = (/** @type {Control} */ { condition }) => condition === undefined || bytes(condition)[0] !== 0;
  /** @type {(first: number, last: number, controls: Control[]) => void} */
  const range = (first, last, controls) => {
    for (const control of controls) {
      while (first < control.nodes[0]) runNode(first++);
      const { nodes, parts } = control;
      first = end(control);
      if (!control.loop) {
        const part = holds(control) ? 0 : 1;
        range(nodes[part], nodes[part + 1], parts[part]);
        continue;
      }
      const trips = control.trips === undefined ? control.count : Number(word(control.trips)[0]);
      for (let i = 0; i < trips && holds(control); i++) {
        if (i === control.limit) fail("E0511", `"${control.name}" makes more than its ${i} iterations`);
        if (control.number !== undefined) word(control.number)[0] = BigInt(i);
        range(nodes[0], nodes[1], parts[0]);
      }
    }
    while (first < last) runNode(first++);
  };
  range(0, graph.nodes.length, graph.control);
}

/** @param {Uint8Array} bytes of one element */
export const int64 = ({ buffer, byteOffset }) => new BigInt64Array(buffer, byteOffset, 1);

const end = (/** @type {Control} */ { nodes }) => nodes[nodes.length - 1];

/**
 * @param {Graph} graph
 * @param {any} row
 * @returns {Control | undefined}
 */
function readOne(graph, row) {
  const { op, name = "a loop", nodes, count = Infinity, trips, condition, number, limit = Infinity } = row;
  const loop = op === "loop";
  /** @param {number | undefined} index @param {string} dtype */
  const scalar = (index, dtype) => {
    const value = graph.values[index ?? -1];
    return index === undefined || (value?.dtype === dtype && !value.stage && value.dims.every((n) => n === 1));
  };
  const good =
    (loop || (op === "if" && condition !== undefined)) &&
    nodes.length === (loop ? 2 : 3) &&
    nodes.every((/** @type {number} */ n, /** @type {number} */ i) => Number.isInteger(n) && n >= (i ? nodes[i - 1] : 0) && n <= graph.nodes.length) &&
    nodes[0] < nodes[nodes.length - 1] &&
    scalar(condition, "bool") && scalar(trips, "int64") && scalar(number, "int64") &&
    (number === undefined || graph.values[number].class === "arena") &&
    count >= 0 && limit >= 0 && (!loop || limit < 2 ** 32);
  return good ? { loop, name, nodes, count, limit, trips, condition, number, parts: [] } : undefined;
}
