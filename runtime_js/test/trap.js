// What a trap in a kernel leaves behind: `node trap.js FOLDER THREADS`, with the modules that fuzz/javascript.py builds. Of
// several threads, all but the first trap.
import { readFileSync } from "node:fs";
import { Model } from "../src/index.js";
import { Model as WorkerModel } from "../src/worker.js";
import { rehashed } from "./bundles.js";
import { hash64 } from "../src/hash.js";

const [folder, threads] = process.argv.slice(2);
const module = new Uint8Array(readFileSync(`${folder}/${Number(threads) > 1 ? "threads" : "kernels"}.wasm`));
const params = new Uint8Array(0);
const graph = rehashed(
  JSON.stringify({
    abi: 1, model: "fuzz", library: "model.wasm", arena: { bytes: 64 }, scratch_bytes: 64,
    target: { triple: "wasm32-freestanding", pointer_bits: 32, cpu_features: Number(threads) > 1 ? ["threads"] : [] },
    files: { "params.bin": { bytes: 0, hash: hash64(params) }, "model.wasm": { bytes: module.length, hash: hash64(module), static_bytes: 131072 } },
    kernels: ["a", "b", "c", "fails", "traps"].map((name) => ({ name })), values: [], inputs: [], outputs: [],
    nodes: [{ name: "n", kernel: 4, in: [], out: [], tasks: 2 }],
  }).slice(1), // prettier-ignore
);

/** @param {() => any} action */
const said = async (action) => {
  try {
    await action();
    return "no error";
  } catch (problem) {
    const { code, message } = /** @type {any} */ (problem);
    return `${code}: ${message}`;
  }
};
/** A worker is not always awake in time to take a task: until one is. @param {() => any} run */
const untilItTraps = async (run) => {
  for (let n = 0; n < 100_000; n++) {
    const result = await said(run);
    if (result !== "no error") return result;
  }
};

const options = { threads: Number(threads) };
const model = await Model.load({ graph, params, module }, options);
console.log(await untilItTraps(() => model.run()));
console.log(await said(() => model.run()));
const worker = await WorkerModel.load({ graph, params, module }, options);
console.log(await untilItTraps(() => worker.run()));
worker.dispose();
