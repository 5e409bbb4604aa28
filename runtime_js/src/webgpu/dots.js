/**
 * Kernels with the language's own dot products of words, where the browser has them, in place of the functions in their
 * text that take words apart (`templates/wgsl/helpers.j2`).
 *
 * @param {string} text
 * @param {{ has(name: string): boolean } | undefined} features of the language
 */
export function withDots(text, features) {
  if (!features?.has("packed_4x8_integer_dot_product")) return text;
  const own = /** @type {Record<string, string>} */ ({
    signed: "dot4I8Packed(a, b)",
    unsigned: "bitcast<i32>(dot4U8Packed(a, b))",
    // The first word's bytes are 128 more than signed ones.
    mixed: "dot4I8Packed(a ^ 0x80808080u, b) + 128 * dot4I8Packed(0x01010101u, b)",
  });
  return text.replace(/^(fn dot4_(\w+)\(a: u32, b: u32\) -> i32).*$/gm, (_, head, kind) => `${head} { return ${own[kind]}; }`);
}
