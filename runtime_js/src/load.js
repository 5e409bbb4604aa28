import { attempt, fail } from "./errors.js";
import { page } from "./graph.js";
import { hash64, hasher } from "./hash.js";

/**
 * @typedef {ArrayBuffer | Uint8Array} Bytes
 * @typedef {{file: string, loaded: number, total: number | undefined}} Progress Bytes of one file; `total` where the
 *   server says it.
 * @typedef {{signal?: AbortSignal, onProgress?: (progress: Progress) => void}} FetchOptions
 * @typedef {{graph: Bytes, params?: Bytes, module: WebAssembly.Module | Bytes}} Parts
 * @typedef {Record<string, string | URL>} Files Addresses of `graph.json` and the files that it names.
 * @typedef {string | URL | Response | Bytes | Parts | Files} Source
 * @typedef {import("./graph.js").FileEntry} FileEntry
 * @typedef {(part: Uint8Array) => void} Take Is given a file piece by piece.
 * @typedef {{graph: Uint8Array, params?: ((take: Take) => void | Promise<unknown>),
 *   library: (name: string, entry: FileEntry) => Promise<WebAssembly.Module>}} Opened Without `params`, everything lies in
 *   the library.
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
    if (/^(data|blob):|\.wasm$/.test(url.protocol + url.pathname)) return single(await (await start(url, "model.wasm", options))());
    if (!url.pathname.endsWith("/")) url.pathname = url.pathname.replace(/\/graph\.json$/, "") + "/";
    return remote((file) => new URL(encodeURIComponent(file), url), options);
  }
  if (isFiles(source)) return remote((file) => absolute(source[file]), options);
  if (typeof Response === "function" && source instanceof Response)
    return single(await body(source, "model.wasm", options));
  const { graph, params, module } = /** @type {Parts} */ (source ?? {});
  if (!graph) return single(toBytes(source));
  const weights = params && toBytes(params);
  return {
    graph: toBytes(graph),
    params: weights && ((take) => take(weights)),
    library: async (name, entry) => (module instanceof WebAssembly.Module ? module : compile(name, toBytes(module), entry)),
  };
}

/**
 * A bundle whose files have addresses.
 *
 * @param {(file: string) => URL | Promise<URL>} address
 * @param {FetchOptions} options
 * @returns {Promise<Opened>}
 */
async function remote(address, options) {
  const ask = async (/** @type {string} */ file) => start(await address(file), file, options);
  const get = async (/** @type {string} */ file) => (await ask(file))();
  const params = ask("params.bin");
  params.catch(() => {}); // whoever asks for it hears of it
  const library = async (/** @type {string} */ name, /** @type {FileEntry} */ entry) => compile(name, await get(name), entry);
  return { graph: await get("graph.json"), params: async (take) => (await params)(take), library };
}

/** @param {any} source @returns {source is Files} */
export const isFiles = (source) => source?.["graph.json"] !== undefined;

/** @param {any} data @returns {Uint8Array} */
const toBytes = (data) =>
  data instanceof ArrayBuffer
    ? new Uint8Array(data)
    : ArrayBuffer.isView(data)
      ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
      : fail("E0501", "a model is loaded from a URL, a Response, bytes or {graph, params, module}");

/**
 * A bundle of one file: the graph is its last section, and describes the bytes before it.
 *
 * @param {Uint8Array} bytes
 * @returns {Promise<Opened>}
 */
async function single(bytes) {
  const name = "model.wasm";
  const module = await compile(name, bytes);
  const [graph] = WebAssembly.Module.customSections(module, "sterna.graph");
  if (!graph) fail("E0504", `${name}: not a single-file bundle: load its directory`);
  const library = async (/** @type {string} */ _, /** @type {FileEntry} */ entry) => {
    checkFile(name, entry, bytes.subarray(0, entry.bytes));
    return module;
  };
  return { graph: toBytes(graph), library };
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
export async function receive({ params }, place, { nodes, files }) {
  if (!params) return;
  const kernels = [...new Map(nodes.map((node) => [node.kernel, node])).values()];
  const hash = hasher();
  let length = 0;
  let warm = 0;
  await params((part) => {
    for (; warm < (kernels.length * length) / place.length; warm++)
      try {
        kernels[warm].call(0, kernels[warm].tasks);
      } catch {} // of what is no data
    if (length + part.length <= place.length) place.set(part, length);
    hash.add(part);
    length += part.length;
  });
  checkFile("params.bin", files["params.bin"], place, length, hash.end());
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
  if (hash !== entry.hash) fail("E0505", `${name}: hash is ${hash}; it was ${entry.hash} when it was compiled`);
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @param {FileEntry} [entry] what `graph.json` says of them
 * @returns {Promise<WebAssembly.Module>}
 */
async function compile(name, bytes, entry) {
  const given = new TextDecoder().decode(bytes.slice(0, 24));
  if (!given.startsWith("\0asm")) fail("E0503", `${name}: not WebAssembly: ${JSON.stringify(given)}${page(bytes)}`);
  if (entry) checkFile(name, entry, bytes);
  return attempt("E0508", `${name}: cannot be compiled`, () => WebAssembly.compile(/** @type {BufferSource} */ (bytes)));
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
 * A module of Node's own, which bundlers must not look for.
 *
 * @param {string} name
 * @returns {Promise<any>}
 */
export function nodeModule(name) {
  const specifier = `node:${name}`;
  return import(/* @vite-ignore */ /* webpackIgnore: true */ specifier);
}

/**
 * Asks for a file.
 *
 * @param {URL} url
 * @param {string} file
 * @param {FetchOptions} options
 * @returns {Promise<(take?: Take) => Promise<Uint8Array>>} what reads it, in pieces if somebody takes them
 */
async function start(url, file, options) {
  const { signal } = options;
  signal?.throwIfAborted();
  const ask = async () => {
    if (url.protocol !== "file:") return fetch(url, /** @type {any} */ ({ signal }));
    const { createReadStream } = await nodeModule("fs");
    const { Readable } = await nodeModule("stream");
    return new Response(Readable.toWeb(createReadStream(url, { highWaterMark: 1 << 20 })));
  };
  const response = await attempt("E0503", `${file}: cannot be fetched from ${url}`, ask, signal);
  return (take) => body(response, file, options, take);
}

/**
 * @param {Response} response
 * @param {string} file
 * @param {FetchOptions} options
 * @param {Take} [take] who is given the bytes, if they are not to be returned
 * @returns {Promise<Uint8Array>}
 */
async function body(response, file, { signal, onProgress }, take) {
  if (!response.ok) fail("E0503", `${file}: ${response.url || "the server"} answered ${response.status} ${response.statusText}`);
  // Of a compressed answer, the header counts other bytes than arrive here.
  const { headers } = response;
  const total = (!headers.get("content-encoding") && Number(headers.get("content-length"))) || undefined;
  const parts = /** @type {Uint8Array[]} */ ([]);
  let loaded = 0;
  const taker = new WritableStream({
    write(part) {
      loaded += part.length;
      onProgress?.({ file, loaded, total });
      take ? take(part) : parts.push(part);
    },
  });
  await attempt("E0503", `${file}: cannot be read`, () => response.body?.pipeTo(taker, /** @type {any} */ ({ signal })), signal);
  return new Uint8Array(await new Blob(/** @type {BlobPart[]} */ (parts)).arrayBuffer());
}
