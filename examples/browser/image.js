/**
 * From pixels to a model's input and from its outputs to answers, by the rules of `sterna run --input image.png --top 5`
 * (compiler/sterna/cli/inputs.py). Nothing here needs a page.
 *
 * @typedef {{name: string, dtype: string, dims: number[]}} Tensor
 * @typedef {{height: number, width: number, channels: number, last: boolean}} Plane `last`: whether channels come last.
 * @typedef {{scale: number[], zero_point: number[], axis?: number}} Quantization
 * @typedef {{metadata: any, quantization: Record<string, Quantization>}} About what `about()` of a model gives
 */

const CHANNELS = [1, 3, 4];
const RANGES = { int8: [-128, 127], uint8: [0, 255], int16: [-32768, 32767], uint16: [0, 65535], int32: [-(2 ** 31), 2 ** 31 - 1], uint32: [0, 2 ** 32 - 1] };
const FLOATS = ["float32", "float64", "float16", "bfloat16"];

/**
 * How an input holds one image; undefined: it holds none.
 *
 * @param {Tensor} input
 * @returns {Plane | undefined}
 */
export function plane({ dtype, dims }) {
  if (!FLOATS.includes(dtype) && !/^u?int(8|16|32|64)$/.test(dtype)) return undefined;
  if (dims.length === 2 && Math.min(...dims) > 1) return { height: dims[0], width: dims[1], channels: 1, last: true };
  const shape = dims.length === 4 && dims[0] === 1 ? dims.slice(1) : dims;
  if (shape.length !== 3) return undefined;
  if (CHANNELS.includes(shape[0])) return { height: shape[1], width: shape[2], channels: shape[0], last: false };
  if (CHANNELS.includes(shape[2])) return { height: shape[0], width: shape[1], channels: shape[2], last: true };
  return undefined;
}

/**
 * Width and height as the head of a PNG, JPEG, GIF, BMP or WebP file says; undefined for other files. Asked before a file
 * is decoded: a few kilobytes may say that they are billions of pixels.
 *
 * @param {Uint8Array} bytes
 * @returns {{width: number, height: number} | undefined}
 */
export function imageSize(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (/** @type {number} */ from, /** @type {number} */ to) => String.fromCharCode(...bytes.subarray(from, to));
  if (text(1, 4) === "PNG" && bytes.length >= 24) return { width: view.getUint32(16), height: view.getUint32(20) };
  if (text(0, 3) === "GIF" && bytes.length >= 10) return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  if (text(0, 2) === "BM" && bytes.length >= 26) return { width: Math.abs(view.getInt32(18, true)), height: Math.abs(view.getInt32(22, true)) };
  if (text(8, 12) === "WEBP" && bytes.length >= 30) {
    const three = (/** @type {number} */ at) => view.getUint16(at, true) + 65536 * bytes[at + 2];
    if (text(12, 16) === "VP8X") return { width: three(24) + 1, height: three(27) + 1 };
    if (text(12, 16) === "VP8L") return { width: (view.getUint16(21, true) & 0x3fff) + 1, height: ((view.getUint32(21, true) >> 14) & 0x3fff) + 1 };
    return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  }
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return undefined;
  // A JPEG is a chain of segments; those of C0 to CF, but for three, begin the image.
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff; at += 2 + view.getUint16(at + 2)) {
    const kind = bytes[at + 1];
    if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind)) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
  }
  return undefined;
}

/**
 * Pixels with fewer or more channels.
 *
 * @param {Uint8ClampedArray} rgba
 * @param {number} channels 1 (grey as of television, ITU-R 601), 3 or 4
 */
export function withChannels(rgba, channels) {
  if (channels === 4) return rgba;
  const result = new Uint8ClampedArray((rgba.length / 4) * channels);
  for (let from = 0, to = 0; from < rgba.length; from += 4, to += channels) {
    const [r, g, b] = [rgba[from], rgba[from + 1], rgba[from + 2]];
    if (channels === 1) result[to] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    else [result[to], result[to + 1], result[to + 2]] = [r, g, b];
  }
  return result;
}

/**
 * An image stretched to another size: triangles over the pixels that each new one covers, first along rows, then along
 * columns, in whole steps of 0 to 255 after each. Pillow's BILINEAR gives the same, but for one step here and there.
 *
 * @param {Uint8ClampedArray} pixels rows of pixels of channels
 * @param {{width: number, height: number, channels: number}} from
 * @param {{width: number, height: number}} to
 */
export function stretch(pixels, { width, height, channels }, to) {
  const rows = along(pixels, { outer: height, count: width, inner: channels }, to.width);
  return along(rows, { outer: 1, count: height, inner: to.width * channels }, to.height);
}

/**
 * @param {Uint8ClampedArray} pixels [outer, count, inner]
 * @param {{outer: number, count: number, inner: number}} sizes
 * @param {number} wanted the new count
 */
function along(pixels, { outer, count, inner }, wanted) {
  if (count === wanted) return pixels;
  const result = new Uint8ClampedArray(outer * wanted * inner);
  const step = count / wanted;
  const reach = Math.max(1, step);
  for (let at = 0; at < wanted; at++) {
    const middle = (at + 0.5) * step;
    const first = Math.max(0, Math.trunc(middle - reach + 0.5));
    const length = Math.min(count, Math.trunc(middle + reach + 0.5)) - first;
    const weights = Array.from({ length }, (_, n) => Math.max(0, 1 - Math.abs((first + n + 0.5 - middle) / reach)));
    const total = weights.reduce((a, b) => a + b);
    for (let row = 0; row < outer; row++)
      for (let c = 0; c < inner; c++) {
        let [sum, from] = [0, (row * count + first) * inner + c];
        for (let n = 0; n < length; n++, from += inner) sum += weights[n] * pixels[from];
        result[(row * wanted + at) * inner + c] = Math.floor(sum / total + 0.5);
      }
  }
  return result;
}

/**
 * The numbers that pixels become: what the model says of its input, else 0 to 1 for floats and whole steps for integers.
 *
 * @param {Uint8ClampedArray} pixels rows of pixels of channels, of the input's size
 * @param {Tensor} input
 * @param {Plane} place
 * @param {About} about
 */
export function toInput(pixels, { name, dtype }, { height, width, channels, last }, about) {
  const normal = about.metadata?.normalization?.[name];
  const { scale: [step] = [1], zero_point: [zero] = [0] } = about.quantization[name] ?? {};
  const isFloat = FLOATS.includes(dtype);
  const [lowest, highest] = RANGES[dtype] ?? [-Infinity, Infinity];
  const values = new Float64Array(pixels.length);
  for (let n = 0; n < pixels.length; n++) {
    const c = n % channels;
    let value = pixels[n];
    if (normal) {
      value = (value - perChannel(normal.mean, c, channels)) / perChannel(normal.std, c, channels);
      if (!isFloat) value = value / step + zero;
    } else if (isFloat) value /= 255;
    else if (dtype === "int8") value -= 128;
    const at = last ? n : c * height * width + Math.floor(n / channels);
    values[at] = isFloat ? value : Math.min(highest, Math.max(lowest, evenly(value)));
  }
  return encoded(values, dtype);
}

/** @param {number[]} numbers @param {number} c @param {number} channels */
function perChannel(numbers, c, channels) {
  if (numbers.length !== 1 && numbers.length !== channels) throw new Error(`the model's normalization has ${numbers.length} numbers; the image has ${channels} channels`);
  return numbers[numbers.length === 1 ? 0 : c];
}

/** The nearest whole number; halves go to the even one. @param {number} x */
function evenly(x) {
  const near = Math.round(x);
  return near - x === 0.5 && near % 2 ? near - 1 : near;
}

/** @param {Float64Array} values @param {string} dtype */
function encoded(values, dtype) {
  if (dtype === "float16") return Uint16Array.from(values, toHalf);
  if (dtype === "bfloat16") return Uint16Array.from(values, toShort);
  if (/64/.test(dtype) && dtype !== "float64") return (dtype === "int64" ? BigInt64Array : BigUint64Array).from(Array.from(values, BigInt));
  const arrays = { float32: Float32Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array };
  return (arrays[dtype] ?? Float64Array).from(values);
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** A number as the bits of a half float; rounding to even. @param {number} value */
export function toHalf(value) {
  float[0] = value;
  const sign = (bits[0] >>> 16) & 0x8000;
  const size = Math.abs(float[0]);
  if (Number.isNaN(size)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | evenly(size * 2 ** 24);
  const exponent = Math.floor(Math.log2(size));
  return sign + ((exponent + 14) << 10) + evenly((size / 2 ** exponent) * 1024);
}

/** A number as the bits of a bfloat16. @param {number} value */
function toShort(value) {
  float[0] = value;
  return (bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)) >>> 16;
}

/** @param {number} half the bits */
export function fromHalf(half) {
  const [exponent, rest] = [(half >> 10) & 31, half & 1023];
  const size = exponent === 31 ? (rest ? NaN : Infinity) : exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest * 2 ** -24;
  return half & 0x8000 ? -size : size;
}

/**
 * An output as real numbers.
 *
 * @param {ArrayLike<number | bigint>} data
 * @param {Tensor} output
 * @param {Quantization} [quantization]
 */
export function real(data, { dtype, dims }, quantization) {
  const numbers = Float64Array.from(data, Number);
  if (dtype === "float16") return numbers.map(fromHalf);
  if (dtype === "bfloat16") return numbers.map((n) => ((bits[0] = n << 16), float[0]));
  if (!quantization) return numbers;
  const { scale, zero_point: zero, axis = 0 } = quantization;
  const inner = dims.slice(axis + 1).reduce((a, b) => a * b, 1);
  return numbers.map((n, at) => {
    const k = scale.length > 1 ? Math.floor(at / inner) % scale.length : 0;
    return (n - (zero[k] ?? 0)) * scale[k];
  });
}

/**
 * The largest elements, the greatest first; of equal ones the first.
 *
 * @param {Float64Array} values
 * @param {number} count
 * @param {unknown} [labels] what the elements stand for, if the model says so
 */
export function largest(values, count, labels) {
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
  const full = Math.max(...order.map((n) => Math.abs(values[n]))) || 1;
  const sum = values.reduce((a, b) => a + b, 0);
  // Of eight bits, shares add up to about one.
  const isShare = Math.abs(sum - 1) < 0.2 && values.every((v) => v >= 0 && v <= 1);
  return order.map((index) => ({
    index,
    label: Array.isArray(labels) && typeof labels[index] === "string" ? labels[index] : undefined,
    share: Math.max(0, values[index]) / full,
    value: isShare ? `${(100 * values[index]).toFixed(1)} %` : Number(values[index].toPrecision(4)).toString(),
  }));
}
