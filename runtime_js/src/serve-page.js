import { fail } from "./errors.js";
import { value } from "./rpc/answers.js";
import { inWasm, serve } from "./serve.js";
import { Engine } from "./webgpu/engine.js";

/** In a page: `serve` over a WebSocket to where the page came from. Its address says ?bundle=ADDRESS&threads=N. */
const asked = new URLSearchParams(location.search);
const socket = new WebSocket(new URL("/socket", location.href.replace(/^http/, "ws")));
socket.binaryType = "arraybuffer";
await new Promise((resolve) => (socket.onopen = resolve));
const take = await serve(load, (bytes) => socket.send(/** @type {BufferSource} */ (bytes)));
socket.onmessage = ({ data }) => take(new Uint8Array(data));
socket.onclose = () => close(); // whoever asked is gone, and the browser ends with its last page

/** The bundle, on the GPU if it was compiled for WebGPU. */
async function load() {
  const loaded = await Engine.load(asked.get("bundle") ?? "/bundle/", { threads: Number(asked.get("threads") ?? 1) });
  return loaded instanceof Engine ? onGpu(loaded) : inWasm(loaded);
}

/**
 * A bundle that the GPU runs: its inputs are taken from where WebAssembly would read them, and its outputs put where
 * it would write them.
 *
 * @param {Engine} engine
 * @returns {import("./serve.js").Loaded}
 */
function onGpu(engine) {
  const model = /** @type {import("./model.js").Model} */ (engine.signature);
  const given = () => Object.fromEntries(model.inputs.map(({ name }) => [name, model.input(name)]));
  const run = async () => {
    const results = await engine.run(given(), []);
    for (const [name, values] of Object.entries(results)) model.output(name).set(values);
  };
  const held = (/** @type {number} */ number) => {
    const { name, class: kind } = engine.graph.values[number] ?? {};
    if (name !== undefined && !/put$/.test(kind)) fail("E0510", `"${name}" lies in the GPU's memory, of which inputs and outputs alone are read`);
    return value(model, number);
  };
  return { model, run, profile: () => engine.profile(given(), 1), resetState: () => engine.resetState(), value: held };
}
