// Where the tests find their bundles: tests/targets/test_runtime_js.py compiles them and says so.
import { readFile } from "node:fs/promises";
import { hash64 } from "../src/hash.js";

export const place = process.env.STERNA_BUNDLES;
export const skip = place ? false : "STERNA_BUNDLES names no bundles: run tests/targets/test_runtime_js.py";

/** @param {string} path @returns {Promise<Uint8Array>} */
export const file = async (path) => new Uint8Array(await readFile(`${place}/${path}`));

/** The parts of a bundle's directory, to be damaged. */
export async function parts(name) {
  return { graph: await file(`${name}/graph.json`), params: await file(`${name}/params.bin`), module: await file(`${name}/model.wasm`) };
}

/** graph.json of a text behind its first line, with a right hash: what a compiler with a bug could write, or an attacker. */
export function rehashed(text, version = 1) {
  const rest = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const head = new TextEncoder().encode(`{"sterna":${version},"hash":"${hash64(rest)}",\n`);
  return new Uint8Array([...head, ...rest]);
}

/** graph.json with changes. */
export async function changed(graph, change) {
  const json = JSON.parse(new TextDecoder().decode(graph));
  const { sterna = 1, hash, ...rest } = (change(json), json);
  return rehashed(JSON.stringify(rest).slice(1), sterna);
}
