import { hasFeature } from "../features.js";
import { nodeModule } from "../node.js";
import { Refusal, Status } from "./protocol.js";
import { Store } from "./store.js";

/**
 * @typedef {{token?: string | Uint8Array, quota?: number, milliseconds?: number, slow?: number, idle?: number}} DeviceOptions
 *   `token`: that clients have to know, of 16 bytes or more; `quota`: bytes of files that are kept (1 GiB);
 *   `milliseconds`: that a request may take at most (60,000); `slow`, `idle`: milliseconds that a frame may stand still, and
 *   that a client may be silent while others wait.
 * @typedef {{tell: (position: number) => void}} Waiting
 */
const LEAST_TOKEN = 16;
const FEATURES = ["simd128", "relaxed-simd", "threads"];
const SYSTEM = /** @type {any} */ (globalThis).process?.version ? "Node.js" : "browser";

/** What all connections of one device share: its token, files, limits, and whose turn it is. */
export class Device {
  /** @type {Waiting[]} the first one has the turn */ #queue = [];

  /** @param {DeviceOptions} [options] */
  constructor({ token, quota = 1 << 30, milliseconds = 60_000, slow = 10_000, idle = 300_000 } = {}) {
    const secret = typeof token === "string" ? new TextEncoder().encode(token) : token;
    if (secret && secret.length < LEAST_TOKEN) throw new RangeError(`the token has ${secret.length} bytes; it needs ${LEAST_TOKEN}`);
    this.token = secret;
    this.store = new Store(quota);
    this.limits = { milliseconds, slow, idle };
  }

  get waiting() {
    return Math.max(0, this.#queue.length - 1);
  }

  /** Puts a client at the end of the queue; it is told its position, and again whenever that changes. @param {Waiting} client */
  enter(client) {
    if (this.#queue.includes(client)) return;
    this.#queue.push(client);
    client.tell(this.#queue.length - 1);
  }

  /** @param {Waiting} client */
  leave(client) {
    const at = this.#queue.indexOf(client);
    if (at < 0) return;
    this.#queue.splice(at, 1);
    this.#queue.forEach((other, position) => position >= at && other.tell(position));
  }

  /** What STATUS says, as JSON. */
  async status() {
    const { hardwareConcurrency: cores, userAgent: processor } = /** @type {any} */ (globalThis.navigator ?? {});
    const here = SYSTEM === "browser" ? { cores, processor } : await ofNode();
    return JSON.stringify({
      sterna: "0.1.0",
      end: "javascript",
      protocol: [1, 1],
      machine: "wasm32",
      system: SYSTEM,
      ...here,
      features: FEATURES.filter(hasFeature),
      scratch: { used: this.store.used, quota: this.store.quota, free: this.store.quota - this.store.used },
      queue: this.waiting,
      busy: this.#queue.length > 0,
      limits: { milliseconds: this.limits.milliseconds },
    });
  }
}

async function ofNode() {
  const [{ cpus, totalmem }, { version, arch }] = await Promise.all([nodeModule("os"), nodeModule("process")]);
  const all = cpus();
  return { release: version, processor: `${all[0]?.model ?? arch} (V8)`, cores: all.length, memory: totalmem() };
}

/** Random bytes of the system. @param {number} count @returns {Promise<Uint8Array>} */
export async function randomBytes(count) {
  const source = /** @type {Crypto} */ (globalThis.crypto ?? (await nodeModule("crypto")).webcrypto);
  return source.getRandomValues(new Uint8Array(count));
}

/** The most bytes that a client may have sent that were not read yet. */
export const MOST_UNREAD = 1 << 26;

/**
 * What arrives, as it is asked for.
 */
export class Incoming {
  /** @type {Uint8Array[]} */ #parts = [];
  /** @type {(() => void) | undefined} */ #wake;
  held = 0;
  ended = false;
  /** Told when something was taken. @type {(() => void) | undefined} */ read;
  /** When the last byte came. */
  heard = Date.now();

  /** @param {Uint8Array} bytes */
  push(bytes) {
    this.#parts.push(bytes);
    this.held += bytes.length;
    this.heard = Date.now();
    this.#wake?.();
  }

  end() {
    this.ended = true;
    this.#wake?.();
  }

  /**
   * The next bytes; undefined where the other side is gone.
   *
   * @param {number} count
   * @param {(held: number) => number | undefined} left milliseconds that it may take, asked for again after each piece;
   *   undefined: it has taken too long. Throws to say so in its own words.
   * @returns {Promise<Uint8Array | undefined>}
   */
  async take(count, left) {
    while (this.held < count) {
      if (this.ended) return undefined;
      const milliseconds = left(this.held);
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      let timer;
      await new Promise((resolve) => {
        this.#wake = () => resolve(undefined);
        if (milliseconds !== undefined) timer = setTimeout(resolve, Math.max(1, milliseconds));
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    const taken = new Uint8Array(count);
    for (let at = 0; at < count; ) {
      const part = this.#parts[0].subarray(0, count - at);
      taken.set(part, at);
      at += part.length;
      if (part.length === this.#parts[0].length) this.#parts.shift();
      else this.#parts[0] = this.#parts[0].subarray(part.length);
    }
    this.held -= count;
    this.read?.();
    return taken;
  }
}

/** Names of a bundle's files: no path, nowhere. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}$/;

/** @param {string} name */
export function checkName(name) {
  if (!NAME.test(name)) throw new Refusal(Status.MALFORMED, "LOAD has a name that is none");
  return name;
}

