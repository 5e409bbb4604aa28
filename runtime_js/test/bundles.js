// Where the tests find their bundles: tests/targets/test_runtime_js.py compiles them and says so.
import { readFile } from "node:fs/promises";

export const place = process.env.STERNA_BUNDLES;
export const skip = place ? false : "STERNA_BUNDLES names no bundles: run tests/targets/test_runtime_js.py";

/** @param {string} path @returns {Promise<Uint8Array>} */
export const file = async (path) => new Uint8Array(await readFile(`${place}/${path}`));

/** The parts of a bundle's directory, to be damaged. */
export async function parts(name) {
  return { graph: await file(`${name}/graph.json`), params: await file(`${name}/params.bin`), module: await file(`${name}/model.wasm`) };
}

/** graph.json with changes, and a right hash: what a compiler with a bug could write. */
export async function changed(graph, change) {
  const { hash64 } = await import("../src/hash.js");
  const json = JSON.parse(new TextDecoder().decode(graph));
  const { sterna = 1, hash, ...rest } = (change(json), json);
  const text = new TextEncoder().encode(JSON.stringify(rest).slice(1));
  const head = new TextEncoder().encode(`{"sterna":${sterna},"hash":"${hash64(text)}",\n`);
  return new Uint8Array([...head, ...text]);
}
