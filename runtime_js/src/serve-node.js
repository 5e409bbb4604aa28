import { hasFeature } from "./features.js";
import { Model } from "./model.js";
import { nodeModule } from "./node.js";
import { inWasm, serve } from "./serve.js";

/** node serve-node.js DIRECTORY THREADS: `serve` over standard input and output. `--cpu-has FEATURE` prints 1 or 0. */
const { argv, stdin, stdout } = await nodeModule("process");
const [, , place, more] = argv;
// Node.js before 21 has relaxed SIMD, but behind a flag.
if (!hasFeature("relaxed-simd")) (await nodeModule("v8")).setFlagsFromString("--experimental-wasm-relaxed-simd");
if (place === "--cpu-has") stdout.write(`${Number(hasFeature(more))}\n`);
else {
  const take = await serve(async () => inWasm(await Model.load(place, { threads: Number(more) })), (bytes) => stdout.write(bytes));
  stdin.on("data", take);
  stdin.on("end", () => stdout.end(() => (/** @type {any} */ (globalThis)).process.exit()));
}
