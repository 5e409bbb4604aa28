import { isBeside, showBeside } from "./beside.js";
import { onBundle } from "./bundle.js";
import { Model } from "./sterna/worker.js";
import { showTable } from "./table.js";

const get = (id) => document.getElementById(id);
const megabytes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const milliseconds = (ms) => (ms < 1 ? `${(1000 * ms).toFixed(ms < 0.01 ? 1 : 0)} µs` : `${ms.toFixed(2)} ms`);

const COLUMNS = [
  { title: "#", key: "number" },
  { title: "node", key: "name", isName: true },
  { title: "kernel", key: "kernel", isName: true },
  { title: "time", key: "ms", text: milliseconds },
  { title: "share", key: "share", text: (share) => `${(100 * share).toFixed(1)} %`, bar: true },
];

/** The third tab: a bundle, its benchmark, its nodes and its arena. The model runs in a worker. */
export function start() {
  let source;
  let isMeasured = false;
  let asked = 0;
  const measure = async () => {
    const turn = ++asked;
    isMeasured = true;
    get("report").hidden = true;
    get("again").disabled = true;
    try {
      await report(source, Number(get("threads").value), () => turn === asked);
    } catch (problem) {
      if (turn === asked) get("measure-note").textContent = problem.message;
    }
    if (turn === asked) get("again").disabled = false;
  };
  /** Opening the tab shows what there is. */
  const first = () => source && !isMeasured && !get("measure").hidden && measure();
  onBundle((chosen) => {
    source = chosen.source;
    isMeasured = false;
    asked++;
    get("report").hidden = true;
    get("again").disabled = !source;
    get("measure-note").textContent = chosen.problem ?? "";
    first();
  });
  document.addEventListener("tab", first);
  for (const event of ["click", "change"]) get(event === "click" ? "again" : "threads").addEventListener(event, () => source && measure());
}

/**
 * @param {any} source
 * @param {number} threads
 * @param {() => boolean} isWanted whether nothing else has been asked for meanwhile
 */
async function report(source, threads, isWanted) {
  const note = get("measure-note");
  note.textContent = "Loading …";
  const started = performance.now();
  const model = await Model.load(source, {
    threads,
    onProgress: ({ file, loaded, total }) => (note.textContent = `Loading ${file}: ${megabytes(loaded)}${total ? ` of ${megabytes(total)}` : ""}`),
  });
  try {
    const inputs = Object.fromEntries(model.inputs.map((info) => [info.name, example(info)]));
    await model.run(inputs);
    const startup = performance.now() - started;
    if (!isWanted()) return;
    note.textContent = "Measuring …";
    // Engines compile in steps; after these runs the best code is there.
    await model.profile({}, { runs: 10 });
    const times = [];
    for (const end = performance.now() + 2000; performance.now() < end && times.length < 400; ) {
      const before = performance.now();
      await model.profile({}, { runs: 1 });
      times.push(performance.now() - before);
    }
    const runs = Math.min(50, Math.max(5, times.length));
    const nodes = await model.profile({}, { runs });
    const lives = await model.plan();
    if (!isWanted()) return;
    show(model, startup, nodes, lives, times.length);
    await keep(source, model, nodes, runs);
    note.textContent = "";
    // What is chosen in the page is another model than the one that is served for the GPU.
    get("beside").hidden = true;
    if (typeof source === "string" && (await isBeside())) await showBeside(model, inputs, startup, { milliseconds, megabytes, isWanted });
  } finally {
    model.dispose();
  }
}

/** For the report on the served bundle, which has no times of its own. */
async function keep(source, model, nodes, runs) {
  if (typeof source !== "string" || get("report-link").hidden) return;
  const response = await fetch(new URL("./report/hash.json", import.meta.url)).catch(() => undefined);
  if (!response?.ok) return;
  const took = nodes.map(({ ms }) => Math.round(1e6 * ms));
  const mean = took.reduce((sum, ns) => sum + ns, 0);
  const kernels = model.memory.library.replace(/^model\.(.+)\.wasm$/, "$1");
  sessionStorage.setItem("sterna-measured", JSON.stringify({ hash: await response.json(), nodes: took, mean, runs, threads: model.threads, kernels }));
}

function show(model, startup, nodes, lives, runs) {
  const total = nodes.reduce((sum, { ms }) => sum + ms, 0);
  const { memory } = model;
  const facts = {
    model: model.name,
    "one run": milliseconds(total),
    "start to first result": milliseconds(startup),
    threads: String(model.threads),
    memory: megabytes(memory.total),
    weights: megabytes(memory.params),
    kernels: memory.library.replace(/^model\.(.+)\.wasm$/, "$1"),
    "runs measured": String(runs),
  };
  get("facts").replaceChildren(
    ...Object.entries(facts).map(([name, value]) => {
      const row = document.createElement("div");
      const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
      dt.textContent = name;
      dd.textContent = value;
      row.append(dt, dd);
      return row;
    }),
  );
  const rows = nodes.map((node, n) => ({ ...node, number: n + 1, share: node.ms / Math.max(total, 1e-9) }));
  get("report").hidden = false; // from here on things have a size
  const box = get("times-box");
  showTable(get("times"), COLUMNS, rows, box.clientWidth < 520 ? { name: 18, kernel: 14 } : { name: 44, kernel: 24 });
  const scrolls = box.scrollHeight > box.clientHeight + 1;
  get("times-note").textContent = `${nodes.length} nodes${scrolls ? "; scroll the table for the rest" : ""}. A heading sorts.`;
  picture(get("arena"), lives, nodes.length, memory.arena);
  get("arena-note").textContent = `${lives.length} tensors in ${megabytes(memory.arena)}`;
}

function picture(canvas, lives, nodes, bytes) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  const [x, y] = [canvas.width / Math.max(1, bytes), canvas.height / Math.max(1, nodes)];
  lives.forEach(({ offset, bytes: size, first, last }, n) => {
    context.fillStyle = `hsl(${(n * 137.5) % 360} 55% 55%)`;
    context.fillRect(offset * x, first * y, Math.max(1, size * x - 1), Math.max(1, (last - first + 1) * y - 1));
  });
}

/** Something to run on: what a model sees does not change its speed. */
function example({ dtype, dims }) {
  const length = dims.reduce((a, b) => a * b, 1);
  const arrays = {
    float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
    uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, float16: Uint16Array, bfloat16: Uint16Array,
  };
  const data = new (arrays[dtype] ?? Uint8Array)(length);
  if (dtype === "float32" || dtype === "float64") data.forEach((_, i) => (data[i] = Math.sin(i * 0.37)));
  return data;
}
