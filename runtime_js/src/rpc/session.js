import { hasFeature } from "../features.js";
import { startWorker } from "../threads.js";
import { checkName, Incoming, MOST_UNREAD, randomBytes } from "./device.js";
import { BOUNDS, ERROR, HASH, HEAD, hex, joined, Kind, MOST_FILES, MOST_MESSAGE, NONCE, Reader, Refusal, REPLY, Status, VERSION, Writer } from "./protocol.js";
import { hmac, same } from "./sha256.js";

/** @typedef {import("./device.js").Device} Device */

const NEW = 0, CHALLENGED = 1, KNOWN = 2, FIRST = 3;
/** Bytes a second that a frame has to come with; milliseconds before a wrong proof is answered. */
const SLOWEST = 4096, QUARTER = 250;
/** Milliseconds that a timer can take. */
const MOST_WAIT = 2 ** 31 - 1;
const SIDES = ["client", "server"].map((side) => new TextEncoder().encode(`sterna-rpc ${side}`));
const NONE = new Uint8Array();
const NEEDED = /** @type {Record<number, number>} */ ({ [Kind.STATUS]: KNOWN, [Kind.HAS]: KNOWN, [Kind.TURN]: KNOWN, [Kind.BYE]: KNOWN, [Kind.HAVE]: FIRST, [Kind.PUT]: FIRST, [Kind.LOAD]: FIRST, [Kind.LIMIT]: FIRST });

/** One client of a device: docs/rpc.md, from HELLO to BYE. Its model runs in a worker, which is ended where it takes too long. */
export class Session {
  #device;
  #send;
  #state = NEW;
  /** @type {Uint8Array} */ #clientNonce = NONE;
  /** @type {Uint8Array} */ #serverNonce = NONE;
  /** @type {any} */ #worker;
  /** @type {(answer: any) => void} */ #answered = () => {};
  #largest = 0;
  #limit;
  /** @type {Set<string>} files that are not to be removed */ #kept = new Set();
  /** @type {((position: number) => void) | undefined} */ #moved;
  incoming = new Incoming();
  #opened = Date.now();
  #position = -1;

  /**
   * @param {Device} device
   * @param {(bytes: Uint8Array) => void} send
   */
  constructor(device, send) {
    this.#device = device;
    this.#send = send;
    this.#limit = device.limits.milliseconds;
  }

  /** Told by the device. @param {number} position */
  tell(position) {
    this.#position = position;
    this.#moved?.(position);
  }

  /** Answers frames until the connection is to be closed, or the other side has. */
  async serve() {
    try {
      while (await this.#frame());
    } catch (problem) {
      const { status, message } = problem instanceof Refusal ? problem : new Refusal(Status.SYSTEM, String(problem));
      this.#fail(0, status, message);
    } finally {
      this.#device.leave(this);
      this.#unload();
    }
  }

  // ---- Frames ----

  /** @param {boolean} begun @returns {(held: number) => number | undefined} */
  #patience(begun, bytes = 0) {
    const start = Date.now();
    const { slow, idle } = this.#device.limits;
    return (held) => {
      const now = Date.now();
      const late = () => {
        throw new Refusal(Status.SLOW, "a frame began and did not end in time");
      };
      if (this.#state < KNOWN && now - this.#opened >= slow) late();
      if (!begun && !held) {
        if (this.#device.waiting && now - start >= idle) throw new Refusal(Status.IDLE, "there was no request for long, and others wait");
        return this.#state < KNOWN ? this.#opened + slow - now : Math.min(idle, 1000);
      }
      const heard = Math.max(start, this.incoming.heard);
      const most = slow + (1000 * bytes) / SLOWEST;
      if (now - heard >= slow || now - start >= most) late();
      return Math.min(heard + slow, start + most) - now;
    };
  }

  async #frame() {
    const bytes = await this.incoming.take(HEAD, this.#patience(false));
    if (!bytes) return false;
    const view = new DataView(bytes.buffer);
    const [length, version, kind, id] = [view.getUint32(0, true), view.getUint16(4, true), view.getUint16(6, true), view.getUint32(8, true)];
    try {
      const most = kind in BOUNDS ? BOUNDS[kind] + (kind === Kind.SET ? this.#largest : 0) : -1;
      if (version !== VERSION) throw new Refusal(Status.VERSION, "this server speaks version 1 of the protocol", true);
      if (this.#state < KNOWN && kind !== Kind.HELLO && kind !== Kind.PROOF) throw new Refusal(Status.STATE, "HELLO, then PROOF come first", true);
      if (most < 0) throw new Refusal(Status.UNKNOWN, "no request has that kind", length > 0);
      if (length > most) throw new Refusal(Status.TOO_LARGE, "the frame is longer than its kind may be", true);
      const payload = await this.incoming.take(length, this.#patience(true, length));
      if (!payload) return false;
      const reply = await this.#answer(kind, id, payload);
      this.#reply(kind | REPLY, id, reply);
      return kind !== Kind.BYE;
    } catch (problem) {
      if (!(problem instanceof Refusal)) throw problem;
      const { status, message, closes } = problem;
      const late = status === Status.SLOW || status === Status.IDLE; // answers no request
      this.#fail(late ? 0 : id, status, message);
      return !closes && !late;
    }
  }

  /** @param {number} kind @param {number} id @param {Uint8Array} payload */
  #reply(kind, id, payload) {
    this.#send(joined([new Writer().u32(payload.length).u16(VERSION).u16(kind).u32(id).made, payload]));
  }

  /** @param {number} id @param {number} status @param {string} message */
  #fail(id, status, message) {
    const text = new TextEncoder().encode(message).subarray(0, MOST_MESSAGE);
    this.#reply(ERROR, id, new Writer().u32(status).u32(text.length).bytes(text).made);
  }

  // ---- Requests ----

  /** @param {number} kind @param {number} id @param {Uint8Array} payload @returns {Promise<Uint8Array>} */
  async #answer(kind, id, payload) {
    const asked = new Reader(payload, "a request");
    if (kind === Kind.HELLO) return this.#hello(asked);
    if (kind === Kind.PROOF) return this.#proof(asked);
    if (this.#state < (NEEDED[kind] ?? FIRST)) throw new Refusal(Status.STATE, "TURN comes first");
    if (!(kind in NEEDED) && !this.#worker) throw new Refusal(Status.STATE, "no model is loaded");
    switch (kind) {
      case Kind.STATUS:
        return new TextEncoder().encode(await this.#device.status());
      case Kind.HAS: {
        const feature = asked.text();
        asked.end();
        return new Writer().u32(hasFeature(feature) ? 1 : ["simd128", "relaxed-simd", "threads"].includes(feature) ? 0 : -1).made;
      }
      case Kind.TURN: {
        const milliseconds = asked.u32();
        asked.end();
        return this.#turn(id, milliseconds);
      }
      case Kind.HAVE:
        return this.#have(asked);
      case Kind.PUT: {
        const [hash, total, offset] = [asked.bytes(HASH), asked.u64(), asked.u64()];
        const held = this.#device.store.add(hash, total, offset, asked.bytes(asked.left), this.#kept);
        this.#kept.add(hex(hash));
        return new Writer().u64(held).made;
      }
      case Kind.LOAD:
        return this.#load(asked);
      case Kind.UNLOAD:
        this.#unload();
        return NONE;
      case Kind.LIMIT: {
        const [wanted, most] = [asked.u32(), this.#device.limits.milliseconds];
        asked.end();
        if (wanted > most) throw new Refusal(Status.MALFORMED, "LIMIT is above the most that the server allows");
        this.#limit = wanted || most;
        return NONE;
      }
      case Kind.BYE:
        return NONE;
      default:
        return this.#ask({ kind, payload }, kind === Kind.SET ? [payload.buffer] : []);
    }
  }

  /** @param {Reader} asked */
  async #hello(asked) {
    if (this.#state !== NEW) throw new Refusal(Status.STATE, "HELLO comes once", true);
    try {
      this.#clientNonce = asked.bytes(NONCE);
      asked.text();
      asked.end();
    } catch {
      throw new Refusal(Status.MALFORMED, "HELLO comes with a nonce and a name", true);
    }
    this.#serverNonce = await randomBytes(NONCE);
    const { token } = this.#device;
    this.#state = token ? CHALLENGED : KNOWN;
    return new Writer().u32(Number(Boolean(token))).bytes(this.#serverNonce).made;
  }

  /** @param {Reader} asked */
  async #proof(asked) {
    const { token } = this.#device;
    if (this.#state !== CHALLENGED || !token) throw new Refusal(Status.STATE, "PROOF follows HELLO, where a token is demanded", true);
    const given = asked.bytes(asked.left);
    if (!same(given, hmac(token, SIDES[0], this.#serverNonce, this.#clientNonce))) {
      await new Promise((resolve) => setTimeout(resolve, QUARTER));
      throw new Refusal(Status.DENIED, "the token is not the device's", true);
    }
    this.#state = KNOWN;
    return hmac(token, SIDES[1], this.#clientNonce, this.#serverNonce);
  }

  /** @param {number} id @param {number} milliseconds */
  async #turn(id, milliseconds) {
    if (this.#state === KNOWN) {
      const came = new Promise((resolve) => {
        const timer = setTimeout(() => resolve(false), Math.min(milliseconds, MOST_WAIT));
        this.#moved = (position) => {
          if (position) return this.#reply(Kind.TURN | REPLY, id, new Writer().u32(position).made);
          clearTimeout(timer);
          resolve(true);
        };
      });
      this.#device.enter(this);
      const mine = await came;
      this.#moved = undefined;
      if (!mine) {
        this.#device.leave(this);
        throw new Refusal(Status.BUSY, "another client uses the device, and its turn did not end in time");
      }
      this.#state = FIRST;
    }
    return new Writer().u32(0).made;
  }

  /** @param {Reader} asked */
  #have(asked) {
    const count = asked.u32();
    if (!count || count > MOST_FILES || asked.left !== count * HASH) throw new Refusal(Status.MALFORMED, "HAVE has not as many hashes as it says");
    const to = new Writer().u32(count);
    for (let n = 0; n < count; n++) {
      const { held, whole } = this.#device.store.has(asked.bytes(HASH));
      to.u64(held).u32(Number(whole));
    }
    return to.made;
  }

  // ---- The model ----

  /** @param {Reader} asked */
  async #load(asked) {
    this.#unload();
    const [threads, count] = [asked.u32(), asked.u32()];
    if (!count || count > MOST_FILES || threads > 1024) throw new Refusal(Status.MALFORMED, "LOAD has no files, or too many of them or of threads");
    /** @type {Record<string, Uint8Array>} */
    const files = Object.create(null);
    for (let n = 0; n < count; n++) {
      const name = checkName(asked.text());
      const hash = asked.bytes(HASH);
      if (name in files) throw new Refusal(Status.MALFORMED, `LOAD names ${name} twice`);
      files[name] = this.#device.store.get(hash, name);
      this.#kept.add(hex(hash));
    }
    asked.end();
    if (!("graph.json" in files)) throw new Refusal(-3, "graph.json is not among the files");
    const worker = await startWorker(() => new Worker(new URL("./model-main.js", import.meta.url), { type: "module" }), "rpc/model-main.js");
    this.#worker = worker;
    worker.onmessage = (/** @type {any} */ { data }) => this.#answered(data);
    worker.onerror = (/** @type {any} */ problem) => this.#answered({ status: Status.CRASHED, message: `the worker failed: ${problem?.message ?? problem}` });
    try {
      await this.#ask({ files: { ...files }, threads: Math.max(1, threads) });
    } catch (problem) {
      this.#unload();
      throw problem;
    }
    return NONE;
  }

  /**
   * Asks the worker, and ends it where it takes too long.
   *
   * @param {any} request
   * @param {Transferable[]} [transfer]
   * @returns {Promise<Uint8Array>}
   */
  async #ask(request, transfer = []) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const { status, message, bytes, largest } = await new Promise((resolve) => {
      this.#answered = resolve;
      timer = setTimeout(() => resolve({ status: Status.HUNG, message: `the request took longer than ${this.#limit} ms, and was ended` }), this.#limit);
      this.#worker.postMessage(request, transfer);
    });
    clearTimeout(timer);
    if (status === Status.HUNG || status === Status.CRASHED) this.#unload();
    if (status) throw new Refusal(status, message);
    this.#largest = largest ?? this.#largest;
    return bytes;
  }

  #unload() {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#largest = 0;
  }

  /** Bytes that came. Whoever sends more than is read is hung up on. @param {Uint8Array} bytes */
  receive(bytes) {
    if (this.incoming.held + bytes.length > MOST_UNREAD + this.#largest) this.incoming.end();
    else this.incoming.push(bytes);
  }
}
