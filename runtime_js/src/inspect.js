import { fail, shown } from "./errors.js";
import { addressOf } from "./memory.js";
import { internals } from "./internals.js";
import { arrayType, product } from "./tensors.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./tensors.js").TypedArray} TypedArray
 * @typedef {{name: string, dtype: string, dims: number[], offset: number, bytes: number, first: number, last: number}} Lifetime
 *   A tensor of the arena: its bytes, and the first and last node that touches it.
 */

/** @param {any} model */
const inside = (model) => /** @type {ReturnType<Model[typeof internals]>} */ (model?.[internals]?.() ?? fail("E0501", `expected a model; given: ${shown(model)}`));

/**
 * What lies where in the arena, and when.
 *
 * @param {Model} model
 * @returns {Lifetime[]}
 */
export function plan(model) {
  const { nodes, values } = inside(model).graph;
  return values.flatMap(({ name, dtype, dims, offset, bytes, class: kind }, index) => {
    const used = nodes.flatMap((node, n) => (node.in.includes(index) || node.out.includes(index) ? [n] : []));
    return kind === "arena" && used.length
      ? [{ name, dtype, dims: [...dims], offset, bytes, first: used[0], last: used[used.length - 1] }]
      : [];
  });
}

/**
 * What the source model says of its signature (docs/bundle.md): `metadata` with normalizations of inputs and labels of outputs,
 * and by name of a tensor the scales and zero points of integers that stand for real numbers.
 *
 * @param {Model} model
 * @returns {{metadata: any, quantization: Record<string, {scale: number[], zero_point: number[], axis?: number}>}}
 */
export function about(model) {
  const { graph } = inside(model);
  const { metadata = {} } = /** @type {any} */ (graph);
  const known = [...graph.inputs, ...graph.outputs].map((index) => graph.values[index]).filter(({ row }) => row.quantization);
  return { metadata, quantization: Object.fromEntries(known.map(({ name, row }) => [name, row.quantization])) };
}

/**
 * A copy of any tensor of the last run that is still in memory; a bundle compiled with `--debug` keeps them all.
 *
 * @param {Model} model
 * @param {string} name
 * @returns {TypedArray}
 */
export function tensor(model, name) {
  const { graph, layout, buffer, hasRun } = inside(model);
  const index = graph.values.findIndex((v) => v.name === name);
  const value = graph.values[index] ?? fail("E0509", `the model has no tensor "${shown(name)}"`);
  if (value.fleeting) fail("E0510", `"${name}" does not outlive its last use: its memory is used again; compile with --debug to keep it`);
  if (!hasRun && value.class !== "input") fail("E0510", `"${name}" has no value before the first run at these sizes`);
  const type = /** @type {any} */ (arrayType(value.dtype));
  return gather(new type(buffer, addressOf(graph, layout, index), Math.floor(value.bytes / value.elementBytes)), value);
}

/**
 * A dense copy of a tensor that lies in a buffer with strides.
 *
 * @param {TypedArray} buffer
 * @param {{dims: number[], strides: number[], origin: number}} place
 * @returns {TypedArray}
 */
function gather(buffer, { dims, strides, origin }) {
  const out = /** @type {any} */ (buffer.slice(0, 0)).constructor;
  const result = new out(product(dims));
  const rank = dims.length;
  const inner = rank ? dims[rank - 1] : 1;
  const step = rank ? strides[rank - 1] : 1;
  const counter = new Array(Math.max(0, rank - 1)).fill(0);
  for (let at = 0; at < result.length; at += inner) {
    const from = counter.reduce((sum, n, axis) => sum + n * strides[axis], origin);
    if (step === 1) result.set(buffer.subarray(from, from + inner), at);
    else for (let n = 0; n < inner; n++) result[at + n] = buffer[from + n * step];
    for (let axis = rank - 2; axis >= 0 && ++counter[axis] === dims[axis]; axis--) counter[axis] = 0;
  }
  return result;
}
