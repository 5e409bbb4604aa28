// Replays golden sets: node replay-main.js THREADS BUNDLE...; prints one JSON object with a result per bundle.
import { readFile } from "node:fs/promises";
import { Model } from "../src/index.js";
import { replay } from "./replay.js";

const [threads, ...bundles] = process.argv.slice(2);
const results = {};
for (const bundle of bundles) {
  const read = async (file) => {
    const { buffer, byteOffset, byteLength } = await readFile(`${bundle}/${file}`);
    return buffer.slice(byteOffset, byteOffset + byteLength);
  };
  results[bundle] = await replay(Model, bundle, read, { threads: Number(threads) }).catch((e) => ({ problem: String(e) }));
}
console.log(JSON.stringify(results));
