import { attempt, fail } from "./errors.js";
import { checkHash, firstText, page } from "./graph.js";
import { hash64, hasher } from "./hash.js";
import { nodeModule } from "./node.js";

/**
 * @typedef {ArrayBuffer | ArrayBufferView} Bytes
 * @typedef {{file: string, loaded: number, total: number | undefined}} Progress Bytes of one file; `total` where the
 *   server says it.
 * @typedef {{signal?: AbortSignal, onProgress?: (progress: Progress) => void}} FetchOptions
 * @typedef {{graph: Bytes, params?: Bytes, module: WebAssembly.Module | Bytes}} Parts
 * @typedef {Record<string, string | URL | Bytes>} Files `graph.json` and the files that it names: addresses, or what they
 *   hold.
 * @typedef {string | URL | Response | Bytes | Parts | Files} Source
 * @typedef {import("./graph.js").FileEntry} FileEntry
 * @typedef {AsyncGenerator<Uint8Array, void>} Pieces A file as it arrives.
 * @typedef {{graph: Uint8Array, params: Pieces,
 *   library: (name: string, entry: FileEntry) => Promise<WebAssembly.Module>, whole?: (name: string) => Promise<Uint8Array>}} Opened
 */

/**
 * Finds the parts of a bundle. What is large is only asked for when it is wanted.
 *
 * @param {Source} source
 * @param {FetchOptions} options
 * @returns {Promise<Opened>}
 */
export async function open(source, options) {
  if (typeof source === "string" || source instanceof URL) {
    const url = await absolute(source);
    if (/^(data|blob):|\.wasm$/.test(url.protocol + url.pathname)) return single(start(url, SINGLE, options));
    url.pathname = url.pathname.replace(/(\/graph\.json|\/?)$/, "/");
    return remote((file) => new URL(encodeURIComponent(file), url), options);
  }
  const { graph, params, module } = /** @type {any} */ (source ?? {});
  const files = /** @type {any} */ (isFiles(source) ? source : { "graph.json": graph, "params.bin": params });
  return isFiles(files) ? remote((file) => (file in files ? files[file] : module), options) : single(start(/** @type {any} */ (source), SINGLE, options));
}

/**
 * A bundle whose files have addresses.
 *
 * @param {(file: string) => string | URL | Bytes} address
 * @param {FetchOptions} options
 * @returns {Promise<Opened>}
 */
async function remote(address, options) {
  const ask = (/** @type {string} */ file) => start(address(file), file, options);
  const whole = (/** @type {string} */ file) => take({ pieces: ask(file), kept: new Uint8Array() }, Infinity);
  const library = async (/** @type {string} */ name, /** @type {FileEntry} */ entry) => {
    const given = /** @type {any} */ (address(name));
    return given instanceof WebAssembly.Module ? given : compile(name, await whole(name), entry);
  };
  const params = ask("params.bin");
  return { graph: await whole("graph.json"), params, whole, library };
}

/** @param {any} source @returns {source is Files} */
export const isFiles = (source) => source?.["graph.json"] !== undefined;

/**
 * A bundle of one file: a library whose first section is the graph, and whose last one the weights. docs/bundle.md counts
 * the bytes before each.
 *
 * @param {Pieces} pieces
 * @returns {Promise<Opened>}
 */
async function single(pieces) {
  const arriving = { pieces, kept: new Uint8Array() };
  const head = await take(arriving, 27);
  if (!checkModule(SINGLE, head).endsWith("sterna.graph")) fail("E0504", `${SINGLE}: not a single-file bundle: load its directory`);
  const graph = await take(arriving, head.slice(9, 14).reduceRight((size, byte) => size * 128 + (byte & 127), 0) - 13);
  const library = async (/** @type {string} */ name, /** @type {FileEntry} */ entry) =>
    compile(name, joined(head.subarray(0, 8), await take(arriving, entry.bytes - 8)), entry);
  const params = async function* () {
    await take(arriving, 20);
    yield arriving.kept;
    yield* pieces;
  };
  return { graph, params: params(), library };
}

const SINGLE = "model.wasm";

/**
 * The next bytes, as many as there are.
 *
 * @param {{pieces: Pieces, kept: Uint8Array}} arriving
 * @param {number} length
 */
async function take(arriving, length) {
  for (let piece; arriving.kept.length < length && (piece = (await arriving.pieces.next()).value); ) arriving.kept = joined(arriving.kept, piece);
  const found = arriving.kept.subarray(0, length);
  arriving.kept = arriving.kept.subarray(length);
  return found;
}

/** @param {Uint8Array} first @param {Uint8Array} second */
function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/**
 * Puts the weights into their place while they arrive, and refuses others than `graph.json` describes.
 *
 * Engines compile a function well only when it has run for a while. So each kernel runs once while weights are under way,
 * whatever it makes of those that are there: the first run is nearly as quick as later ones.
 *
 * @param {Opened} opened
 * @param {Uint8Array} place
 * @param {import("./graph.js").Graph} graph
 */
export async function receive({ params }, place, { nodes, files, widened }) {
  const kernels = /** @type {import("./graph.js").Node[]} */ ([]);
  for (const node of nodes) kernels[node.kernel] = node;
  const hash = hasher();
  let length = 0;
  let warm = 0;
  for await (const part of params) {
    for (; warm < (kernels.length * length) / place.length; warm++)
      try {
        kernels[warm].call(0, kernels[warm].tasks);
      } catch {} // of what is no data
    if (length + part.length <= place.length) place.set(part, length);
    hash.add(part);
    length += part.length;
  }
  checkFile("params.bin", files["params.bin"], place, length, hash.end());
  // From the last to the first, as what is widened takes the place of what comes behind it.
  for (const [at, count] of widened ?? []) {
    const next = at + 4 * count;
    place.copyWithin(next, (length -= place.length - next));
    const from = new Int16Array(place.buffer, place.byteOffset + (length -= 2 * count));
    const bits = new Uint32Array(place.buffer, place.byteOffset + at);
    const floats = new Float32Array(place.buffer, place.byteOffset + at);
    // Sign, exponent and digits in their places; 2^112 lies between the two biases. All are finite.
    for (let n = count; n-- > 0; floats[n] *= 2 ** 112) bits[n] = (from[n] << 13) & 0x8fffe000;
    place = place.subarray(0, at);
  }
}

/**
 * Refuses bytes that are not those that `graph.json` describes.
 *
 * @param {string} name
 * @param {FileEntry} entry
 * @param {Uint8Array} bytes the first of them, if `length` says that there are more
 */
export function checkFile(name, entry, bytes, length = bytes.length, hash = hash64(bytes)) {
  if (length !== entry.bytes)
    fail("E0505", `${name}: has ${length} bytes; it had ${entry.bytes} when it was compiled${page(bytes)}`);
  checkHash(name, hash, entry.hash);
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @param {FileEntry} entry what `graph.json` says of them
 * @returns {Promise<WebAssembly.Module>}
 */
async function compile(name, bytes, entry) {
  checkModule(name, bytes);
  checkFile(name, entry, bytes);
  return attempt("E0508", `${name}: cannot be compiled`, () => WebAssembly.compile(/** @type {BufferSource} */ (bytes)));
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {string} how they begin
 */
function checkModule(name, bytes) {
  const given = firstText(bytes);
  if (!given.startsWith("\0asm")) fail("E0503", `${name}: not WebAssembly: ${JSON.stringify(given)}${page(bytes)}`);
  return given;
}

/**
 * Text and URLs as an absolute URL; in Node and Deno a text without a scheme is a path.
 *
 * @param {string | URL} source
 * @returns {Promise<URL>}
 */
async function absolute(source) {
  const text = String(source);
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  if (base ?? /^[a-z][a-z\d+.-]+:/i.test(text)) return new URL(text, base);
  const { pathToFileURL } = await nodeModule("url");
  return pathToFileURL(text);
}

/**
 * Asks for a file, unless it is there.
 *
 * @param {string | URL | Response | Bytes} given
 * @param {string} file
 * @param {FetchOptions} options
 * @returns {Pieces}
 */
function start(given, file, options) {
  const { signal } = options;
  const ask = async () => {
    if (given instanceof Response || given instanceof ArrayBuffer || ArrayBuffer.isView(given)) return given;
    if (typeof given !== "string" && !(given instanceof URL)) fail("E0501", `${file}: a model is loaded from addresses or bytes`);
    const url = await absolute(given);
    // Of Node and Deno, Node takes no address of a file, but takes its streams.
    if (url.protocol !== "file:" || /** @type {any} */ (globalThis).Deno) return fetch(url, /** @type {any} */ ({ signal }));
    const { createReadStream } = await nodeModule("fs");
    const stream = createReadStream(url, { highWaterMark: 1 << 20 });
    return new Response(stream.on("error", () => {})); // whoever reads it hears of it
  };
  const asked = attempt("E0503", `${file}: cannot be read from ${given}`, ask, signal);
  asked.catch(() => {}); // whoever reads it hears of it
  return pieces(asked, file, options);
}

/**
 * @param {Promise<Response | Bytes>} asked
 * @param {string} file
 * @param {FetchOptions} options
 * @returns {Pieces}
 */
async function* pieces(asked, file, { signal, onProgress }) {
  const given = await asked;
  if (!(given instanceof Response)) return yield new Uint8Array(/** @type {any} */ (given).buffer ?? given, /** @type {any} */ (given).byteOffset, given.byteLength);
  const { ok, url, status, headers, body } = given;
  if (!ok) fail("E0503", `${file}: ${url || "the server"} answered ${status}`);
  // Of a compressed answer, the header counts other bytes than arrive here.
  const total = (!headers.get("content-encoding") && Number(headers.get("content-length"))) || undefined;
  let loaded = 0;
  /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
  let reader;
  signal?.addEventListener("abort", () => reader?.cancel().catch(() => {}));
  for (;;) {
    const read = await attempt("E0503", `${file}: cannot be read`, () => (reader ??= body?.getReader())?.read(), signal);
    signal?.throwIfAborted();
    if (!read?.value) return;
    loaded += read.value.length;
    onProgress?.({ file, loaded, total });
    yield read.value;
  }
}
