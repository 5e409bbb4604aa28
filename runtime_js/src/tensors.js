import { fail, shown } from "./errors.js";

/** @type {(n: any) => boolean} */
export const isSize = (n) => Number.isSafeInteger(n) && n >= 0;

/** Whether a value is one element, whatever the sizes.
 *
 * @type {(value: import("./graph.js").Value, dtype: string) => boolean}
 */
export const isScalar = ({ dtype, stage, dims }, wanted) => dtype === wanted && !stage && dims.every((n) => n === 1);

/**
 * Arrays by dtype. Half floats and bfloat16 are their bits, bools bytes, narrower types one byte each.
 */
const ARRAYS = /** @type {Record<string, any>} */ ({
  __proto__: null,
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
});
/** Types of 8 bits and fewer that have no array of their own. */
const BYTE_TYPES = /^(float[48]_e\dm\w+|u?int[24])$/;

/**
 * @typedef {Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Uint8Array
 *   | Uint16Array | Uint32Array | BigUint64Array} TypedArray
 */

/**
 * The kind of typed array that holds elements of a dtype; undefined for a dtype that does not exist.
 *
 * @param {string} dtype
 * @returns {(new (buffer: ArrayBufferLike, at: number, length: number) => TypedArray) & {BYTES_PER_ELEMENT: number,
 *   name: string} | undefined}
 */
export function arrayType(dtype) {
  return ARRAYS[dtype] ?? (BYTE_TYPES.test(dtype) ? Uint8Array : undefined);
}

/** How many elements a tensor has. @param {number[]} dims */
export const product = (dims) => dims.reduce((a, b) => a * b, 1);

/**
 * Refuses an array that is not of the type or length of an input.
 *
 * @param {string} name
 * @param {{dtype: string, dims: number[]}} tensor
 * @param {unknown} data
 * @returns {TypedArray}
 */
export function checkArray(name, { dtype, dims }, data) {
  const wanted = /** @type {Function} */ (arrayType(dtype));
  if (!(data instanceof wanted) && !(wanted === Uint8Array && data instanceof Uint8ClampedArray))
    fail("E0603", `input "${name}" is ${dtype} and needs ${wanted.name}; given: ${shown(data)}`);
  const { length } = /** @type {TypedArray} */ (data);
  const elements = product(dims);
  if (length !== elements)
    fail("E0604", `input "${name}" is [${dims.join(", ")}] and needs ${elements} elements; given: ${length}`);
  return /** @type {TypedArray} */ (data);
}
