import { showBars } from "./bars.js";
import { Model } from "./sterna/worker.js";

const get = (id) => document.getElementById(id);
const megabytes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const milliseconds = (ms) => (ms < 1 ? `${(1000 * ms).toFixed(ms < 0.01 ? 1 : 0)} µs` : `${ms.toFixed(2)} ms`);

/** The second tab: a bundle, its benchmark, its nodes and its arena. The model runs in a worker. */
export function start() {
  let source;
  let measured = false;
  const measure = async () => {
    measured = true;
    get("again").disabled = true;
    try {
      await report(source, Number(get("threads").value));
    } catch (problem) {
      get("measure-note").textContent = problem.message;
    }
    get("again").disabled = false;
  };
  get("files").addEventListener("change", async ({ target }) => {
    const files = [...target.files];
    const single = files.length === 1 && files[0].name.endsWith(".wasm");
    source = single ? await files[0].arrayBuffer() : Object.fromEntries(files.map((file) => [file.name, URL.createObjectURL(file)]));
    await measure();
  });
  /** Whoever opens the tab need not ask for what there is to see. */
  const first = () => source && !measured && !get("measure").hidden && measure();
  get("tab-measure").addEventListener("click", first);
  for (const event of ["click", "change"]) get(event === "click" ? "again" : "threads").addEventListener(event, () => source && measure());
  // `sterna serve BUNDLE` has one ready.
  fetch("./bundle/graph.json", { method: "HEAD" }).then(
    (response) => {
      if (response.ok) source = new URL("./bundle/", import.meta.url).href;
      else get("measure-note").textContent = "`sterna serve BUNDLE` opens this page with a bundle.";
      get("again").disabled = !response.ok;
      first();
    },
    () => {},
  );
}

async function report(source, threads) {
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
    note.textContent = "Measuring …";
    // Engines compile in steps; after these runs the best code is there.
    await model.profile({}, { runs: 10 });
    const times = [];
    for (const end = performance.now() + 2000; performance.now() < end && times.length < 400; ) {
      const before = performance.now();
      await model.profile({}, { runs: 1 });
      times.push(performance.now() - before);
    }
    const nodes = await model.profile({}, { runs: Math.min(50, Math.max(5, times.length)) });
    const lives = await model.plan();
    show(model, startup, nodes, lives, times.length);
    note.textContent = "";
  } finally {
    model.dispose();
  }
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
  const most = Math.max(...nodes.map(({ ms }) => ms), 1e-9);
  showBars(
    get("times"),
    nodes.map(({ name, kernel, ms }) => ({ label: name, title: `${name}: ${kernel}`, share: ms / most, value: milliseconds(ms) })),
  );
  get("report").hidden = false;
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
