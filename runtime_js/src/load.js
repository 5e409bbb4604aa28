import { attempt, fail } from "./errors.js";
import { page } from "./graph.js";
import { hash64 } from "./hash.js";

/**
 * @typedef {ArrayBuffer | Uint8Array} Bytes
 * @typedef {{file: string, loaded: number, total: number | undefined}} Progress Bytes of one file; `total` where the
 *   server says it.
 * @typedef {{signal?: AbortSignal, onProgress?: (progress: Progress) => void}} FetchOptions
 * @typedef {{graph: Bytes, params?: Bytes, module: WebAssembly.Module | Bytes}} Parts
 * @typedef {Record<string, string | URL>} Files Addresses of `graph.json` and the files that it names.
 * @typedef {string | URL | Response | Bytes | Parts | Files} Source
 * @typedef {import("./graph.js").FileEntry} FileEntry
 * @typedef {{graph: Uint8Array, params: () => Promise<Uint8Array | undefined>,
 *   library: (name: string, entry: FileEntry) => Promise<WebAssembly.Module>, whole: boolean}} Opened `whole`: everything
 *   lies in the library.
 */

/** Of a module: "\0asm", version 1. */
const MAGIC = [0, 97, 115, 109, 1, 0, 0, 0];

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
    if (/^(data|blob):|\.wasm$/.test(url.protocol + url.pathname)) return single(await read(url, "model.wasm", options));
    if (!url.pathname.endsWith("/")) url.pathname = url.pathname.replace(/\/graph\.json$/, "") + "/";
    return remote((file) => new URL(file, url), options);
  }
  if (isFiles(source)) return remote((file) => absolute(source[file]), options);
  if (typeof Response === "function" && source instanceof Response)
    return single(await body(source, "model.wasm", options));
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return single(toBytes(source));
  const { graph, params, module } = /** @type {Parts} */ (source ?? {});
  if (!isBytes(graph) || !(isBytes(params) || params === undefined) || !(isBytes(module) || module instanceof WebAssembly.Module))
    fail("E0501", "a model is loaded from a URL, a Response, bytes of a single file, or {graph, params, module}");
  return {
    graph: toBytes(graph),
    params: async () => params && toBytes(params),
    library: async (name, entry) => (module instanceof WebAssembly.Module ? module : compile(name, toBytes(module), entry)),
    whole: params === undefined,
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
  const get = async (/** @type {string} */ file) => read(await address(file), file, options);
  const params = get("params.bin");
  params.catch(() => {}); // whoever asks for it hears of it
  const library = async (/** @type {string} */ name, /** @type {FileEntry} */ entry) => compile(name, await get(name), entry);
  return { graph: await get("graph.json"), params: () => params, library, whole: false };
}

/** @param {any} source @returns {source is Files} */
export const isFiles = (source) => source?.["graph.json"] !== undefined;

/** @param {unknown} data */
const isBytes = (data) => data instanceof ArrayBuffer || ArrayBuffer.isView(data);

/** @param {any} data */
const toBytes = (data) =>
  data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

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
  if (!graph) fail("E0504", `${name}: has no graph: it is no single-file bundle; load the directory it is in`);
  const library = async (/** @type {string} */ _, /** @type {FileEntry} */ entry) => {
    checkFile(name, entry, bytes.subarray(0, entry.bytes));
    return module;
  };
  return { graph: toBytes(graph), params: async () => undefined, library, whole: true };
}

/**
 * Refuses bytes that are not those that `graph.json` describes.
 *
 * @param {string} name
 * @param {FileEntry} entry
 * @param {Uint8Array} bytes
 */
export function checkFile(name, entry, bytes) {
  if (bytes.length !== entry.bytes)
    fail("E0505", `${name}: has ${bytes.length} bytes; it had ${entry.bytes} when it was compiled${page(bytes)}`);
  const hash = hash64(bytes);
  if (hash !== entry.hash) fail("E0505", `${name}: hash is ${hash}; it was ${entry.hash} when it was compiled`);
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @param {FileEntry} [entry] what `graph.json` says of them
 * @returns {Promise<WebAssembly.Module>}
 */
async function compile(name, bytes, entry) {
  if (MAGIC.some((byte, i) => bytes[i] !== byte)) {
    const given = JSON.stringify(new TextDecoder().decode(bytes.slice(0, 24)));
    fail("E0503", `${name}: wanted WebAssembly, given ${given}${page(bytes)}`);
  }
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
 * @param {URL} url
 * @param {string} file
 * @param {FetchOptions} options
 * @returns {Promise<Uint8Array>}
 */
async function read(url, file, options) {
  const { signal, onProgress } = options;
  signal?.throwIfAborted();
  if (url.protocol === "file:") {
    const { readFile } = await nodeModule("fs/promises");
    const data = await attempt("E0503", `${file}: cannot be read`, () => readFile(url, { signal }), signal);
    onProgress?.({ file, loaded: data.length, total: data.length });
    return data;
  }
  const response = await attempt("E0503", `${file}: cannot be fetched from ${url}`, () => fetch(url, { signal: signal ?? null }), signal);
  return body(response, file, options);
}

/**
 * @param {Response} response
 * @param {string} file
 * @param {FetchOptions} options
 * @returns {Promise<Uint8Array>}
 */
async function body(response, file, { signal, onProgress }) {
  if (!response.ok) fail("E0503", `${file}: ${response.url || "the server"} answered ${response.status} ${response.statusText}`);
  if (!onProgress || !response.body) return new Uint8Array(await response.arrayBuffer());
  // Of a compressed answer, the header counts other bytes than arrive here.
  const length = response.headers.get("content-encoding") ? null : response.headers.get("content-length");
  const total = length === null ? undefined : Number(length);
  let loaded = 0;
  const counter = new TransformStream({
    transform(part, controller) {
      loaded += part.length;
      onProgress({ file, loaded, total });
      controller.enqueue(part);
    },
  });
  const counted = new Response(response.body.pipeThrough(counter, { signal }));
  return new Uint8Array(await counted.arrayBuffer());
}
