import { Model } from "./sterna/webgpu.js";

const get = (id) => document.getElementById(id);
/** A run is timed for so long, at least so often. */
const MILLISECONDS = 1000, RUNS = 5;

/** Whether `sterna serve --gpu BUNDLE` has the model for WebGPU, too. */
export async function isBeside() {
  const response = await fetch(new URL("./served/gpu.json", import.meta.url)).catch(() => undefined);
  return Boolean(response?.ok) && (await response.json());
}

/** The median of runs, by this page's clock: all that a page waits for. */
async function median(model, inputs) {
  const times = [];
  for (const end = performance.now() + MILLISECONDS; performance.now() < end || times.length < RUNS; ) {
    const before = performance.now();
    await model.run(inputs);
    times.push(performance.now() - before);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}

/** The largest difference of two models' outputs, in parts of the largest of each. */
function apart(here, there) {
  const largest = (numbers) => numbers.reduce((most, x) => Math.max(most, Math.abs(Number(x))), 0);
  return Object.entries(here).reduce((most, [name, numbers]) => {
    const differences = Array.from(numbers, (x, n) => Number(x) - Number(there[name][n]));
    return Math.max(most, largest(differences) / Math.max(largest(Array.from(numbers)), Number.MIN_VALUE));
  }, 0);
}

/**
 * Runs the model by WebGPU on what it ran on by WebAssembly, and shows both.
 *
 * @param {any} wasm the other model, which is not in use meanwhile
 * @param {Record<string, any>} inputs
 * @param {number} startup its milliseconds from the beginning to the first result
 * @param {{milliseconds: (ms: number) => string, megabytes: (bytes: number) => string, isWanted: () => boolean}} page
 */
export async function showBeside(wasm, inputs, startup, { milliseconds, megabytes, isWanted }) {
  const started = performance.now();
  const note = get("beside-note");
  let gpu;
  get("beside").hidden = false;
  get("beside-rows").replaceChildren();
  note.textContent = "Measuring …";
  try {
    gpu = await Model.load(new URL("./gpu/", import.meta.url).href);
    const found = await gpu.run(inputs);
    const first = performance.now() - started;
    const wanted = await wasm.run(inputs);
    const [slow, fast] = [await median(wasm, inputs), await median(gpu, inputs)];
    if (!isWanted()) return;
    const rows = [
      ["one run, with inputs and outputs", milliseconds(slow), milliseconds(fast)],
      ["start to first result", milliseconds(startup), milliseconds(first)],
      ["memory", megabytes(wasm.memory.total), megabytes(gpu.memory.total)],
    ];
    get("beside-rows").replaceChildren(...rows.map(row));
    note.textContent = `The largest difference of their outputs is ${apart(wanted, found).toExponential(1)} of the largest output.`;
  } catch (problem) {
    if (isWanted()) note.textContent = problem.message;
  } finally {
    gpu?.dispose();
  }
}

/** @param {string[]} cells the first one is the heading */
function row([heading, ...cells]) {
  const tr = document.createElement("tr");
  const th = document.createElement("th");
  th.scope = "row";
  th.textContent = heading;
  tr.append(th, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return tr;
}
