import { fromHex } from "./hash.js";

/**
 * Modules of a single function that only an engine with the feature accepts: `i8x16.splat` and drop;
 * `f32x4.relaxed_madd` and drop.
 */
const head = "0061736d01000000010401600000030201000a";
const zero = "4100fd0f";
const bodies = /** @type {Record<string, string>} */ (/** @type {any} */ ({
  __proto__: null,
  simd128: `09010700${zero}1a0b`,
  "relaxed-simd": `14011200${zero + zero + zero}fd85021a0b`,
}));

/**
 * Whether this engine runs kernels that need a feature, one of the names in `graph.json`. Threads need memory that is
 * shared between them: in browsers, only where the page is isolated from others.
 *
 * @param {string} feature
 */
export const hasFeature = (feature) =>
  feature === "threads"
    ? !!globalThis.SharedArrayBuffer && globalThis.crossOriginIsolated !== false
    : feature in bodies && WebAssembly.validate(fromHex(head + bodies[feature]));
