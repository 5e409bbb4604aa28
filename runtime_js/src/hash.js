import code from "./hash-module.js";

/** @type {WebAssembly.Module} */
let module;

/** @param {string} text hexadecimal digits, two a byte */
export const fromHex = (text) => Uint8Array.from(/** @type {any} */ (text.match(/../g)), (digits) => /** @type {any} */ ("0x" + digits));

/**
 * XXH64 with seed 0, as 16 hex digits: what `graph.json` says of every file of a bundle.
 *
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function hash64(bytes) {
  const hash = hasher();
  hash.add(bytes);
  return hash.end();
}

/** The same of data that come in pieces. */
export function hasher() {
  module ??= new WebAssembly.Module(fromHex(code));
  const { m: memory, u: update, f: finish } = /** @type {any} */ (new WebAssembly.Instance(module).exports);
  const buffer = new Uint8Array(memory.buffer, update(0), 32768);
  let total = 0;
  const filled = () => total % buffer.length;
  return {
    /** @param {Uint8Array} bytes */
    add(bytes) {
      for (let at = 0; at < bytes.length; ) {
        const part = bytes.subarray(at, at + buffer.length - filled());
        buffer.set(part, filled());
        at += part.length;
        total += part.length;
        if (!filled()) update(buffer.length);
      }
    },
    end() {
      const left = total % 32;
      update(filled() - left);
      buffer.copyWithin(0, filled() - left);
      return BigInt.asUintN(64, finish(left, total)).toString(16).padStart(16, "0");
    },
  };
}
