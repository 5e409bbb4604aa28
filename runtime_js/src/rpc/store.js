import { CHUNK, hex, joined, Refusal, Status } from "./protocol.js";
import { same, Sha256 } from "./sha256.js";

/**
 * Files by the SHA-256 of their contents, in memory, those last that were used last.
 *
 * @typedef {{parts: Uint8Array[], held: number, whole: boolean}} File
 */
export class Store {
  /** @type {Map<string, File>} */ #files = new Map();

  /** @param {number} quota bytes */
  constructor(quota) {
    this.quota = quota;
  }

  get used() {
    return [...this.#files.values()].reduce((sum, file) => sum + file.held, 0);
  }

  /** @param {Uint8Array} hash @returns {{held: number, whole: boolean}} */
  has(hash) {
    const name = hex(hash);
    const file = this.#files.get(name);
    if (!file) return { held: 0, whole: false };
    this.#files.delete(name);
    this.#files.set(name, file);
    return file;
  }

  /**
   * Adds bytes to a file.
   *
   * @param {Uint8Array} hash
   * @param {number} total
   * @param {number} offset
   * @param {Uint8Array} bytes
   * @param {Set<string>} kept hashes of files that are not to be removed
   * @returns {number} bytes that are held then
   */
  add(hash, total, offset, bytes, kept) {
    const { held, whole } = this.has(hash);
    if (whole) return held;
    if (offset !== held) throw new Refusal(Status.OFFSET, `PUT goes on at byte ${offset}; the device holds ${held}`);
    if (offset > total || bytes.length > total - offset || (!bytes.length && offset < total) || bytes.length > CHUNK)
      throw new Refusal(Status.MALFORMED, "PUT has more bytes than the file, or none");
    const name = hex(hash);
    this.#makeRoom(total - offset, new Set([...kept, name]), total);
    const file = this.#files.get(name) ?? { parts: [], held: 0, whole: false };
    this.#files.set(name, file);
    if (bytes.length) file.parts.push(bytes.slice());
    file.held += bytes.length;
    if (file.held < total) return file.held;
    const found = file.parts.reduce((all, part) => all.add(part), new Sha256()).end();
    if (!same(found, hash)) {
      this.#files.delete(name);
      throw new Refusal(Status.HASH, "what was sent has another hash; it was dropped");
    }
    file.parts = [joined(file.parts)];
    file.whole = true;
    return file.held;
  }

  /** A whole file. @param {Uint8Array} hash @param {string} name of it, for messages */
  get(hash, name) {
    const file = /** @type {File} */ (this.has(hash));
    if (!file.whole) throw new Refusal(Status.MISSING, `the device does not have ${name} in whole: HAVE, PUT, then LOAD`);
    return file.parts[0];
  }

  /** @param {number} bytes @param {Set<string>} kept @param {number} total */
  #makeRoom(bytes, kept, total) {
    for (const [name, file] of [...this.#files]) {
      if (this.used + bytes <= this.quota) return;
      if (!kept.has(name) && file.held) this.#files.delete(name);
    }
    if (this.used + bytes > this.quota)
      throw new Refusal(Status.FULL, `a file of ${total} bytes does not fit: the quota is ${this.quota}, in use ${this.used}`);
  }
}
