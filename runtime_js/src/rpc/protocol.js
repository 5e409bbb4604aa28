/** What docs/rpc.md says, as data: kinds of requests with the most bytes that they may have, statuses, numbers as they travel. */

export const VERSION = 1, HEAD = 12, REPLY = 0x8000, ERROR = 0xffff, NONCE = 32, HASH = 32;
export const CHUNK = 1 << 20, MOST_FILES = 256, MOST_DIMS = 64, MOST_RUNS = 100_000, MOST_MESSAGE = 251, MOST_NAME = 127;

export const Kind = Object.freeze({
  HELLO: 1, PROOF: 2, TURN: 3, STATUS: 4, HAS: 5, HAVE: 6, PUT: 7, LOAD: 8, UNLOAD: 9, TABLE: 10, SET: 11, DIMS: 12, RUN: 13,
  TIME: 14, PROFILE: 15, RESET: 16, GET: 17, VALUE: 18, LIMIT: 19, BYE: 20,
});

/** Bytes of a request's payload, by kind; SET has those of the model's largest input besides. @type {Record<number, number>} */
export const BOUNDS = {
  [Kind.HELLO]: 256, [Kind.PROOF]: 32, [Kind.TURN]: 4, [Kind.STATUS]: 0, [Kind.HAS]: 256, [Kind.HAVE]: 4 + MOST_FILES * HASH,
  [Kind.PUT]: CHUNK + 48, [Kind.LOAD]: 1 << 16, [Kind.UNLOAD]: 0, [Kind.TABLE]: 4, [Kind.SET]: 4, [Kind.DIMS]: 4 + 8 * MOST_DIMS,
  [Kind.RUN]: 0, [Kind.TIME]: 24, [Kind.PROFILE]: 0, [Kind.RESET]: 0, [Kind.GET]: 4, [Kind.VALUE]: 4, [Kind.LIMIT]: 4, [Kind.BYE]: 0,
};

/** What an ERROR says, besides the runtime's own statuses, which are negative. */
export const Status = Object.freeze({
  MALFORMED: 1, TOO_LARGE: 2, VERSION: 3, DENIED: 4, STATE: 5, BUSY: 6, SLOW: 7, IDLE: 8, FULL: 9, HASH: 10, MISSING: 11,
  CRASHED: 12, HUNG: 13, UNKNOWN: 14, SYSTEM: 15, OFFSET: 16, UNSUPPORTED: 17,
});

/** A request that is answered with an error. `closes`: the connection, too. */
export class Refusal extends Error {
  /** @param {number} status @param {string} message @param {boolean} [closes] */
  constructor(status, message, closes = false) {
    super(message);
    this.status = status;
    this.closes = closes;
  }
}

/**
 * What a failure of the runtime is answered with: E0501 is status -1, and so on; whatever else went wrong is a kernel's failure.
 *
 * @param {any} problem
 * @returns {{status: number, message: string}}
 */
export function statusOf(problem) {
  if (problem instanceof Refusal) return problem;
  const [, number] = /^E05(\d\d)$/.exec(problem?.code ?? "") ?? [];
  const status = Number(number) >= 1 && Number(number) <= 12 ? -Number(number) : -11;
  return { status, message: String(problem?.message ?? problem).replace(/^E\d{4}: /, "") };
}

/** Bytes that grow. */
export class Writer {
  /** @type {Uint8Array[]} */ parts = [];

  /** @param {number} bytes @param {(view: DataView) => void} fill */
  #put(bytes, fill) {
    const part = new Uint8Array(bytes);
    fill(new DataView(part.buffer));
    this.parts.push(part);
    return this;
  }

  /** @param {number} n */
  u16(n) {
    return this.#put(2, (view) => view.setUint16(0, n, true));
  }

  /** @param {number} n */
  u32(n) {
    return this.#put(4, (view) => view.setUint32(0, n, true));
  }

  /** @param {number} n */
  f32(n) {
    return this.#put(4, (view) => view.setFloat32(0, n, true));
  }

  /** @param {number} n */
  u64(n) {
    return this.#put(8, (view) => view.setBigUint64(0, BigInt(n), true));
  }

  /** @param {Uint8Array} bytes */
  bytes(bytes) {
    this.parts.push(bytes);
    return this;
  }

  /** @param {string} text */
  text(text) {
    const bytes = new TextEncoder().encode(text);
    return this.u32(bytes.length).bytes(bytes);
  }

  get made() {
    return joined(this.parts);
  }
}

/** Reads a payload from its beginning to its end; one that is too short, or has more, is MALFORMED. */
export class Reader {
  #at = 0;

  /** @param {Uint8Array} data @param {string} what it is, for messages */
  constructor(data, what) {
    this.data = data;
    this.what = what;
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  get left() {
    return this.data.length - this.#at;
  }

  /** @param {number} count */
  bytes(count) {
    if (count > this.left) throw new Refusal(Status.MALFORMED, `${this.what} is too short`);
    return this.data.subarray(this.#at, (this.#at += count));
  }

  u32() {
    this.bytes(4);
    return this.view.getUint32(this.#at - 4, true);
  }

  /** A number above 2^53 is none that anything here can have. */
  u64() {
    this.bytes(8);
    return Number(this.view.getBigUint64(this.#at - 8, true));
  }

  i64() {
    this.bytes(8);
    return Number(this.view.getBigInt64(this.#at - 8, true));
  }

  text() {
    return new TextDecoder().decode(this.bytes(this.u32()));
  }

  end() {
    if (this.left) throw new Refusal(Status.MALFORMED, `${this.what} is too long`);
  }
}

/** @param {Uint8Array[]} parts */
export function joined(parts) {
  if (parts.length === 1) return parts[0];
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
