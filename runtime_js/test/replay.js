/**
 * Replays the golden sets of a bundle, in Node and in pages.
 *
 * @param {typeof import("../src/model.js").Model} Model
 * @param {string} bundle its directory's address, with a slash at the end
 * @param {(file: string) => Promise<ArrayBuffer>} read a file of the bundle
 * @param {object} [options] of Model.load
 * @returns {Promise<{error: number, tolerance: number, sets: number, library: string}>} the largest error of any output,
 *   relative to that output's largest magnitude, less where the output has a wider tolerance of its own; Infinity where
 *   what must be equal is not
 */
export async function replay(Model, bundle, read, options = {}) {
  const golden = JSON.parse(new TextDecoder().decode(await read("golden.json")));
  const data = await read("golden.bin");
  const model = await Model.load(bundle, options);
  const library = model.memory.library;
  const words = JSON.stringify(golden).includes('"dtype":"string"') ? await strings(read) : null;
  let worst = 0;
  for (const { inputs, outputs } of golden.sets) {
    const given = Object.fromEntries(inputs.map((t) => [t.name, tensor(model, t, data)]));
    await model.resetState();
    const got = words ? await words.run(model, given) : await model.run(given);
    for (const wanted of outputs) {
      const scale = golden.tolerance / Math.max(golden.tolerance, wanted.tolerance ?? 0);
      worst = Math.max(worst, scale * difference(got[wanted.name], array(model.outputs, wanted, data), wanted.dtype));
    }
    for (const info of model.outputs) {
      const dims = outputs.find((t) => t.name === info.name).dims;
      if (String(info.dims) !== String(dims)) throw new Error(`${info.name} is [${info.dims}], not [${dims}]`);
    }
  }
  model.dispose();
  return { error: worst, tolerance: golden.tolerance, sets: golden.sets.length, library };
}

const arrays = {
  float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array, uint32: Uint32Array,
  uint64: BigUint64Array, int8: Int8Array, int16: Int16Array, uint16: Uint16Array, float16: Uint16Array, bfloat16: Uint16Array,
};

/** What turns strings into numbers; not loaded without need: pages of tests do not serve it. */
async function strings(read) {
  const { Strings } = await import("../src/strings.js");
  return new Strings(await read("strings.json"));
}

/** What `run` takes for an input: strings as they are, other elements with their sizes. */
function tensor(model, row, data) {
  const elements = array(model.inputs, row, data);
  return row.dtype === "string" ? elements : { data: elements, dims: row.dims };
}

function array(signature, { name, dtype, offset, bytes, strings }, data) {
  if (dtype === "string") return strings;
  const info = signature.find((t) => t.name === name);
  if (info?.dtype !== dtype) throw new Error(`"${name}" is ${info?.dtype}, not ${dtype}`);
  return new (arrays[dtype] ?? Uint8Array)(data.slice(offset, offset + bytes));
}

/** The number that the bits of a float16 are. */
function half(bits) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const magnitude = exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? (fraction + 1024) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits & 0x8000 ? -magnitude : magnitude;
}

function difference(got, wanted, dtype) {
  if (got.length !== wanted.length) return Infinity;
  if (dtype === "float16") return difference(Array.from(got, half), Array.from(wanted, half), "float64");
  if (!/^float(32|64)$/.test(dtype)) return got.every((x, i) => x === wanted[i]) ? 0 : Infinity;
  let most = 0, largest = 1e-30;
  for (let i = 0; i < wanted.length; i++) {
    if (!Number.isFinite(wanted[i])) {
      if (!Object.is(got[i], wanted[i])) return Infinity;
      continue;
    }
    largest = Math.max(largest, Math.abs(wanted[i]));
    const apart = Math.abs(got[i] - wanted[i]);
    most = apart <= most ? most : Number.isNaN(apart) ? Infinity : apart;
  }
  return most / largest;
}
