import { fail } from "../errors.js";
import { isSize } from "../tensors.js";

/**
 * @typedef {import("../graph.js").Graph} Graph
 * @typedef {{buffer: any, offset: number, size: number}} Region Bytes of a GPUBuffer.
 * @typedef {{name: string, tasks: number, threads?: number[], most_threads: number, shared_bytes?: number, checks?: boolean, subgroup?: number}} Launch
 *   `subgroup`: threads that exchange values in registers.
 * @typedef {{value: number, to: number, before: number}} Copy Of a value, to the device (1) or back (0), before a node.
 * @typedef {Graph & {own: number, device: {module: string, needs: string[], scratch_bytes: number, params: [number, number]},
 *   launches: Launch[], others: Launch[], copies: Copy[]}} GpuGraph `others`: kernels in whose place launches have others.
 */

/** Bytes to whose multiples buffers are bound. */
export const ALIGNED = 256;

export const up = (/** @type {number} */ bytes, to = ALIGNED) => Math.ceil(bytes / to) * to;

const isText = (/** @type {any} */ text) => typeof text === "string";

/**
 * graph.json of kernels on WebGPU, and beside it in WebAssembly, as if all were of one library: copies and launches stand
 * apart. What has nothing on a device stays as it is.
 *
 * @param {any} json
 * @param {number} least threads of a subgroup, at least; 0: there are none
 */
export function ofDevice(json, least) {
  const { devices: [device] = [], control = [], values, files } = json;
  if (!device) return json;
  const { kind, module, needs, params: [first, size], arena_bytes: bytes, scratch_bytes: scratch } = device;
  if (kind !== "webgpu") fail("E0507", `graph.json: compiled for ${kind}: compile with --target webgpu`);
  // In place of a kernel the first one that does the same by exchanges in subgroups which are as wide.
  const taken = json.kernels.map((/** @type {any} */ k) => k.exchanging?.findIndex((/** @type {any} */ e) => e.subgroup <= least) ?? -1);
  const kernels = json.kernels.map((/** @type {any} */ k, /** @type {number} */ n) => ({ ...k, ...k.exchanging?.[taken[n]] }));
  const all = json.nodes.map((/** @type {any} */ node) => (taken[node.kernel] >= 0 ? { ...node, tasks: node.exchanging_tasks[taken[node.kernel]] } : node));
  const own = kernels.findIndex((/** @type {any} */ k) => k.device);
  const launches = kernels.slice(own);
  /** @type {any[]} */ const nodes = [];
  /** @type {any[]} */ const copies = [];
  const at = all.map((/** @type {any} */ node) => (node.op === "copy" ? copies.push({ ...node, before: nodes.length }) && nodes.length : nodes.push(node) - 1));
  at.push(nodes.length);
  const launched = (/** @type {any} */ k) => k.device === 1 && isSize(k.tasks) && (k.threads ?? [k.most_threads]).every((/** @type {any} */ n) => isSize(n) && n > 0);
  const placed = (/** @type {any} */ { device, kernel }) => (device === undefined ? kernel < own : device === 1 && kernel >= own);
  const copied = (/** @type {any} */ { value, from, to }) => values[value] && from + to === 1 && from * to === 0;
  const controlled = control.flatMap((/** @type {any} */ { nodes: [begin, ...ends] }) => json.nodes.slice(begin, ends.at(-1)));
  const good = own >= 0 && launches.every(launched) && nodes.every(placed) && copies.every(copied) && !controlled.some((/** @type {any} */ n) => n.device || n.op);
  if (!good || !needs.every(isText) || !isText(files[module].hash) || !isSize(bytes) || !isSize(scratch) || !isSize(first) || !isSize(size) || first + size > files["params.bin"].bytes)
    fail("E0504", "graph.json: devices or kernels is missing or wrong");
  return {
    ...json,
    kernels,
    ...(json.library ? {} : { library: module, target: { triple: "wasm32", pointer_bits: 32, cpu_features: [] } }),
    arena: { bytes: Math.max(bytes, json.arena.bytes) },
    nodes,
    control: control.map((/** @type {any} */ row) => ({ ...row, nodes: row.nodes.map((/** @type {number} */ n) => at[n]) })),
    device,
    devices: undefined,
    own,
    launches,
    others: json.kernels.slice(own),
    copies,
  };
}

/**
 * What a run does: copies, nodes of the device, and nodes of the CPU from one to before another. Copies of inputs to the
 * device are left out, and those of outputs behind the last node, which depend on what a run is given and asked for.
 *
 * @param {GpuGraph} graph
 * @returns {{copy?: Copy, node?: number, first: number, last: number}[]}
 */
export function stepsOf({ nodes, copies, values }) {
  const steps = [];
  for (let n = 0; n <= nodes.length; n++) {
    for (const copy of copies.filter(({ before }) => before === n))
      if (values[copy.value].class !== "input" && !isLast(copy, nodes.length)) steps.push({ copy, first: n, last: n });
    const before = steps.at(-1);
    if (nodes[n]?.row.device) steps.push({ node: n, first: n, last: n });
    else if (before && before.last > before.first) before.last = n + 1;
    else steps.push({ first: n, last: n + 1 });
  }
  return steps;
}

/** @param {Copy} copy @param {number} nodes */
export const isLast = ({ before, to }, nodes) => before === nodes && !to;

/**
 * Where everything lies in the buffer that kernels write: the status, the arena, inputs, outputs and weights that are
 * operands, and scratch.
 *
 * @param {GpuGraph} graph
 */
export function places(graph) {
  let end = ALIGNED;
  const take = (/** @type {number} */ bytes) => ((end = up(end) + up(Math.max(bytes, 4))), end - up(Math.max(bytes, 4)));
  const arena = take(graph.arenaBytes);
  const own = new Map(graph.values.flatMap(({ class: kind, bytes }, v) => (/put$|^param$/.test(kind) ? [[v, take(bytes)]] : [])));
  const scratch = take(graph.device.scratch_bytes);
  return { arena, own, scratch, bytes: end };
}
