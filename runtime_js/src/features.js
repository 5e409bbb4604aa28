/**
 * Modules of a single function that only an engine with the feature accepts: `i8x16.splat` and drop;
 * `f32x4.relaxed_madd` and drop.
 */
const head = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10];
const zero = [65, 0, 253, 15];
const bodies = /** @type {Record<string, number[]>} */ (/** @type {any} */ ({
  __proto__: null,
  simd128: [9, 1, 7, 0, ...zero, 26, 11],
  "relaxed-simd": [20, 1, 18, 0, ...zero, ...zero, ...zero, 253, 133, 2, 26, 11],
}));

/**
 * Whether this engine runs kernels that need a feature, one of the names in `graph.json`. Threads need memory that is
 * shared between them: in browsers, only where the page is isolated from others.
 *
 * @param {string} feature
 */
export const hasFeature = (feature) =>
  feature === "threads"
    ? typeof SharedArrayBuffer === "function" && globalThis.crossOriginIsolated !== false
    : feature in bodies && WebAssembly.validate(new Uint8Array([...head, ...bodies[feature]]));
