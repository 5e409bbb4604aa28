/** SHA-256 (FIPS 180-4) and HMAC (RFC 2104): the browser's own are only for pages with a certificate. */

/** The first 32 bits behind the point of the nth root of the first primes. @param {number} count @param {number} root */
function fractions(count, root) {
  const found = [];
  for (let n = 2; found.length < count; n++)
    if (Array.from({ length: n - 2 }, (_, k) => k + 2).every((k) => n % k)) found.push(Math.floor((n ** (1 / root) % 1) * 2 ** 32));
  return Uint32Array.from(found);
}

const START = fractions(8, 2), ROUND = fractions(64, 3);
const BLOCK = 64;

export class Sha256 {
  #state = START.slice();
  #words = new Uint32Array(64);
  #rest = new Uint8Array(BLOCK);
  #bytes = 0;

  /** @param {Uint8Array} data */
  add(data) {
    let at = 0;
    const held = this.#bytes % BLOCK;
    this.#bytes += data.length;
    if (held) {
      const part = data.subarray(0, BLOCK - held);
      this.#rest.set(part, held);
      if (held + part.length < BLOCK) return this;
      at = part.length;
      this.#block(this.#rest, 0);
    }
    for (; at + BLOCK <= data.length; at += BLOCK) this.#block(data, at);
    this.#rest.set(data.subarray(at));
    return this;
  }

  /** @returns {Uint8Array} its 32 bytes; nothing can be added any more */
  end() {
    const bits = BigInt(this.#bytes) * 8n;
    const tail = new Uint8Array(((119 - (this.#bytes % BLOCK)) % BLOCK) + 9);
    tail[0] = 128;
    new DataView(tail.buffer).setBigUint64(tail.length - 8, bits);
    this.add(tail);
    const digest = new Uint8Array(32);
    this.#state.forEach((word, n) => new DataView(digest.buffer).setUint32(4 * n, word));
    return digest;
  }

  /** @param {Uint8Array} data @param {number} at */
  #block(data, at) {
    const w = this.#words;
    for (let n = 0; n < 16; n++, at += 4) w[n] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
    for (let n = 16; n < 64; n++) {
      const x = w[n - 15], y = w[n - 2];
      w[n] = (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)) + w[n - 7] + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)) + w[n - 16];
    }
    let [a, b, c, d, e, f, g, h] = this.#state;
    for (let n = 0; n < 64; n++) {
      const one = (h + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))) + ((e & f) ^ (~e & g)) + ROUND[n] + w[n]) | 0;
      const two = ((((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, n) => (this.#state[n] += word));
  }
}

/** @param {Uint8Array[]} parts */
export const sha256 = (...parts) => parts.reduce((hash, part) => hash.add(part), new Sha256()).end();

/** @param {Uint8Array} key @param {Uint8Array[]} parts */
export function hmac(key, ...parts) {
  const block = new Uint8Array(BLOCK);
  block.set(key.length > BLOCK ? sha256(key) : key);
  return sha256(block.map((b) => b ^ 0x5c), sha256(block.map((b) => b ^ 0x36), ...parts));
}

/** Whether they are the same, in a time that does not say how far. @param {Uint8Array} a @param {Uint8Array} b */
export const same = (a, b) => a.length === b.length && !a.reduce((sum, byte, n) => sum | (byte ^ b[n]), 0);
