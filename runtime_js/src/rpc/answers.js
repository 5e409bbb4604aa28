import { about, tensor } from "../inspect.js";
import { internals } from "../internals.js";
import { joined, Kind, MOST_DIMS, MOST_RUNS, Reader, Refusal, Status, Writer } from "./protocol.js";

/**
 * What a loaded model is asked for, of docs/rpc.md: tables, inputs, runs, outputs.
 *
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../graph.js").Value} Value
 */
const Table = Object.freeze({ INPUTS: 0, OUTPUTS: 1, VALUES: 2, DIMS: 3, NODES: 4, MEMORY: 5 });
/** Of TIME, where the system does not tell: temperature and processor. */
const NO_TEMPERATURE = -2147483648, NO_PROCESSOR = 4294967295;

/** @param {import("../tensors.js").TypedArray} array */
const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Bytes of a value at the present sizes. @param {Value} value */
const sizeOf = ({ dims, elementBytes }) => dims.reduce((a, b) => a * b, elementBytes);

/** The most bytes that an input of the model has. @param {Model} model */
export function largestInput(model) {
  const { inputs, values } = model[internals]().graph;
  return Math.max(0, ...inputs.map((index) => values[index].bytes));
}

/** @param {Writer} to @param {Model} model @param {number[]} indices */
function putTensors(to, model, indices) {
  const { values } = model[internals]().graph;
  const { metadata, quantization } = about(model);
  to.u32(indices.length);
  for (const index of indices) {
    const { name, dtype, dims } = values[index];
    const { scale = [], zero_point: zeros = [], axis = 0 } = /** @type {any} */ (quantization[name] ?? {});
    const labels = metadata.labels?.[name] ?? [];
    to.text(name).text(dtype).u32(dims.length);
    dims.forEach((size) => to.u64(size));
    to.u64(sizeOf(values[index])).u32(scale.length).u32(axis);
    scale.forEach((/** @type {number} */ s) => to.f32(s));
    zeros.forEach((/** @type {number} */ zero) => to.u32(zero));
    to.u32(labels.length);
    labels.forEach((/** @type {string} */ label) => to.text(label));
  }
}

/**
 * @param {Model} model
 * @param {number} which
 * @returns {Uint8Array}
 */
export function table(model, which) {
  const to = new Writer();
  const { graph } = model[internals]();
  if (which === Table.DIMS) {
    to.u32(model.dims.length);
    for (const { name, lo, hi, size, computed } of model.dims) to.text(name).u64(lo).u64(hi).u64(size).u32(Number(computed));
  } else if (which === Table.NODES) {
    const rows = nodesOf(graph);
    to.u32(rows.length);
    for (const { name, kernel, tasks } of rows) to.text(name).text(graph.kernels[kernel] ?? "copy").u32(tasks ?? 0);
  } else if (which === Table.MEMORY) {
    const signature = [...graph.inputs, ...graph.outputs].reduce((sum, index) => sum + graph.values[index].bytes, 0);
    const { arena, scratch, params } = model.memory;
    to.u64(arena).u64(scratch).u64(signature).u64(params);
  } else if (which < Table.DIMS) {
    putTensors(to, model, [graph.inputs, graph.outputs, graph.values.map((_, n) => n)][which]);
  } else throw new Refusal(Status.MALFORMED, "TABLE asks for one that there is not");
  return to.made;
}

/** @param {Model} model @param {number} number @param {Uint8Array} bytes */
export function setInput(model, number, bytes) {
  const { graph } = model[internals]();
  const index = graph.inputs[number];
  const place = index === undefined ? undefined : bytesOf(model.input(graph.values[index].name));
  if (place?.length !== bytes.length) throw new Refusal(Status.MALFORMED, "SET has not the bytes of an input");
  place.set(bytes);
}

/** @param {Model} model @param {number[]} sizes */
export function setDims(model, sizes) {
  const open = model.dims.filter(({ computed }) => !computed);
  if (sizes.length !== open.length) throw new Refusal(-1, `the model has ${open.length} open dimensions, not ${sizes.length}`);
  model.setDims(Object.fromEntries(open.map(({ name }, n) => [name, sizes[n]])));
}

/** Runs it; nanoseconds. @param {Model} model */
function timedRun(model) {
  const start = performance.now();
  model.run();
  return since(start);
}

/** Nanoseconds that have passed. @param {number} start of `performance.now` */
export const since = (start) => Math.round(1e6 * (performance.now() - start));

/**
 * Nodes as graph.json counts them: copies to a GPU and back, which an engine keeps apart, are among them.
 *
 * @param {any} graph
 * @returns {any[]}
 */
function nodesOf({ nodes, copies = [] }) {
  const before = (/** @type {number} */ n) => copies.filter((/** @type {any} */ copy) => copy.before === n);
  return [...nodes.flatMap((/** @type {any} */ node, /** @type {number} */ n) => [...before(n), node]), ...before(nodes.length)];
}

/**
 * @param {Model} model
 * @param {import("../model.js").NodeTime[]} times
 * @returns {Uint8Array} of every node its number and nanoseconds; copies are not timed apart
 */
export function nodeTimes(model, times) {
  const to = new Writer();
  const { graph } = model[internals]();
  nodesOf(graph).forEach((row, number) => to.u32(number).u64(Math.round(1e6 * (times[graph.nodes.indexOf(row)]?.ms ?? 0))));
  return to.made;
}

/** @param {Model} model @param {number} number @returns {Uint8Array} a view, or a copy */
export function output(model, number) {
  const { graph } = model[internals]();
  return bytesOf(model.output(graph.values[graph.outputs[number] ?? missing("output")].name));
}

/** @param {Model} model @param {number} number @returns {Uint8Array} a copy */
export function value(model, number) {
  const { values } = model[internals]().graph;
  return bytesOf(tensor(model, (values[number] ?? missing("tensor")).name));
}

/** @param {string} what @returns {never} */
function missing(what) {
  throw new Refusal(-1, `the model has no ${what} of that number`);
}

/** @param {Model} model @param {Reader} asked */
function timedRuns(model, asked) {
  const [warmUp, least, most, , enough] = [asked.u32(), asked.u32(), asked.u32(), asked.u32(), asked.u64()];
  asked.end();
  if (!most || most > MOST_RUNS || least > most || warmUp > MOST_RUNS)
    throw new Refusal(Status.MALFORMED, "TIME asks for no run, more than 100,000, or more at least than at most");
  for (let n = 0; n < warmUp; n++) model.run();
  const samples = [];
  for (let sum = 0; samples.length < most && (samples.length < Math.max(1, least) || sum < enough); ) {
    const nanoseconds = timedRun(model);
    samples.push(nanoseconds);
    sum += nanoseconds;
  }
  const to = new Writer().u32(samples.length).u32(0).u32(0).u32(NO_TEMPERATURE).u32(NO_TEMPERATURE).u32(NO_PROCESSOR).u32(NO_PROCESSOR).u64(0);
  return joined([to.made, new Uint8Array(BigUint64Array.from(samples, BigInt).buffer)]);
}

/**
 * The payload of the reply to a request.
 *
 * @param {Model} model
 * @param {number} kind
 * @param {Uint8Array} payload
 * @returns {Uint8Array}
 */
export function answer(model, kind, payload) {
  const asked = new Reader(payload, "a request");
  const { TABLE, SET, DIMS, RUN, TIME, PROFILE, RESET, GET, VALUE } = Kind;
  const number = kind === TABLE || kind === SET || kind === DIMS || kind === GET || kind === VALUE ? asked.u32() : 0;
  if (kind === SET) setInput(model, number, asked.bytes(asked.left));
  else if (kind === DIMS) {
    if (number > MOST_DIMS) throw new Refusal(Status.MALFORMED, "DIMS has not as many sizes as it says");
    const sizes = Array.from({ length: number }, () => asked.i64());
    asked.end();
    setDims(model, sizes);
  } else if (kind === TIME) return timedRuns(model, asked);
  else {
    asked.end();
    if (kind === TABLE) return table(model, number);
    if (kind === RUN) return new Writer().u64(timedRun(model)).made;
    if (kind === PROFILE) return nodeTimes(model, model.profile({}, { runs: 1 }));
    if (kind === GET) return output(model, number);
    if (kind === VALUE) return value(model, number);
    if (kind === RESET) model.resetState();
  }
  return new Uint8Array();
}
