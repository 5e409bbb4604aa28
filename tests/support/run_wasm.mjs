// Runs a WebAssembly bundle on raw input files: node run_wasm.mjs BUNDLE THREADS IN0 [IN1 ...] PREFIX
import { readFileSync, writeFileSync } from "node:fs";
import { Model } from "../../runtime_js/src/index.js";

const [bundle, threads, ...files] = process.argv.slice(2);
const prefix = files.pop();
const model = await Model.load(bundle, { threads: Number(threads) });
if (model.threads !== Number(threads)) throw new Error(`${model.threads} threads`);
const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
model.inputs.forEach(({ name }, i) => bytes(model.input(name)).set(readFileSync(files[i])));
const outputs = model.run();
model.outputs.forEach(({ name }, i) => writeFileSync(`${prefix}${i}.bin`, bytes(outputs[name])));
model.dispose();
