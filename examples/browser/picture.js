import { showBars } from "./bars.js";
import { onBundle } from "./bundle.js";
import { imageSize, largest, plane, real, stretch, toInput, withChannels } from "./image.js";
import { Model } from "./sterna/worker.js";

const get = (id) => document.getElementById(id);
/** Of a file, and of the image in it: what a browser decodes without harm. */
const [MOST_BYTES, MOST_PIXELS, MOST_SIDE] = [64e6, 50e6, 16384];
const [ANSWERS, OUTPUTS] = [5, 4];

/** The second tab: what a model says to a picture. The model runs in a worker. */
export function start() {
  /** @type {{source?: any, problem?: string}} */
  let chosen = {};
  /** @type {Promise<any> | undefined} the model of the chosen bundle, once a picture asks for it */
  let loading;
  /** @type {Blob | undefined} */
  let picture;
  let asked = 0;

  const look = async () => {
    const turn = ++asked;
    get("answers").hidden = true;
    if (!picture) return;
    say("Looking …");
    try {
      if (!chosen.source) throw new Error(chosen.problem ?? "There is no bundle yet.");
      loading ??= Model.load(chosen.source);
      const model = await loading;
      const shown = await answer(model, picture);
      if (turn !== asked) return;
      show(model, shown);
      say("");
    } catch (problem) {
      if (turn === asked) say(/** @type {Error} */ (problem).message);
    }
  };
  onBundle((next) => {
    loading?.then((model) => model.dispose(), () => {});
    loading = undefined;
    chosen = next;
    say(next.problem ?? "");
    look();
  });
  const take = (/** @type {Iterable<File> | null | undefined} */ files) => {
    const file = [...(files ?? [])][0];
    if (!file) return;
    picture = file;
    look();
  };
  get("picture-file").addEventListener("change", ({ target }) => {
    take(/** @type {HTMLInputElement} */ (target).files);
    /** @type {HTMLInputElement} */ (target).value = ""; // the same file may be chosen again
  });
  document.addEventListener("paste", (event) => !get("picture").hidden && take(event.clipboardData?.files));
  // A file that misses the place would otherwise replace the page.
  for (const event of /** @type {const} */ (["dragover", "drop"])) document.addEventListener(event, (e) => e.preventDefault());
  const place = get("picture");
  place.addEventListener("dragover", () => get("drop").classList.add("over"));
  for (const event of ["dragleave", "drop"]) place.addEventListener(event, () => get("drop").classList.remove("over"));
  place.addEventListener("drop", (event) => take(event.dataTransfer?.files));
}

/** @param {string} text */
function say(text) {
  get("picture-note").textContent = text;
}

/**
 * What a model says to a picture, or an error in plain words.
 *
 * @param {any} model
 * @param {Blob & {name?: string}} file
 */
async function answer(model, file) {
  // A batch that may be one picture is one picture.
  const open = model.dims.filter(({ computed, lo, size }) => !computed && lo <= 1 && size > 1);
  if (open.length && !model.inputs.some(plane)) await model.setDims(Object.fromEntries(open.map(({ name }) => [name, 1])));
  const list = model.inputs.map(({ name, dtype, dims }) => `${name}, ${dtype} [${dims.join(", ")}]`).join("; ");
  const input = model.inputs.find(plane);
  if (!input) throw new Error(`${model.name} takes no picture. Its inputs: ${list || "none"}.`);
  if (model.inputs.length > 1) throw new Error(`${model.name} wants more than a picture. Its inputs: ${list}.`);
  const about = await model.about();
  const size = /** @type {import("./image.js").Plane} */ (plane(input));
  const { data, width, height } = await decode(file);
  const pixels = stretch(withChannels(data, size.channels), { width, height, channels: size.channels }, size);
  const before = performance.now();
  const results = await model.run({ [input.name]: toInput(pixels, input, size, about) });
  const ms = performance.now() - before;
  const outputs = model.outputs.map((output) => ({ output, values: real(results[output.name], output, about.quantization[output.name]) }));
  return { pixels, size, about, outputs, ms };
}

/**
 * The pixels of a file; errors say in plain words what is wrong with it.
 *
 * @param {Blob & {name?: string}} file
 */
async function decode(file) {
  const name = `“${file.name || "the picture"}”`;
  if (!file.size) throw new Error(`${name} is empty.`);
  if (file.size > MOST_BYTES) throw new Error(`${name} has ${(file.size / 1e6).toFixed(0)} MB: more than the ${MOST_BYTES / 1e6} MB that this page reads.`);
  const said = imageSize(new Uint8Array(await file.arrayBuffer()));
  const check = ({ width, height }) => {
    if (width * height > MOST_PIXELS || Math.max(width, height) > MOST_SIDE)
      throw new Error(`${name} has ${width} × ${height} pixels: too many for this page. Make it smaller first.`);
  };
  if (said) check(said);
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(said ? `${name} is damaged: it begins like a picture, but this browser cannot decode it.` : `${name} is not a picture that this browser knows.`);
  });
  check(bitmap);
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, width, height);
}

/**
 * @param {any} model
 * @param {Awaited<ReturnType<typeof answer>>} shown
 */
function show(model, { pixels, size, about, outputs, ms }) {
  const canvas = /** @type {HTMLCanvasElement} */ (get("picture-seen"));
  [canvas.width, canvas.height] = [size.width, size.height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(size.width, size.height);
  for (let n = 0; n < size.width * size.height; n++)
    for (let c = 0; c < 4; c++) image.data[4 * n + c] = c === 3 ? 255 : pixels[n * size.channels + (size.channels === 1 ? 0 : c)];
  context.putImageData(image, 0, 0);
  get("picture-facts").textContent = `${model.name} saw it as ${size.width} × ${size.height} pixels, and answered in ${ms.toFixed(1)} ms.`;
  get("outputs").replaceChildren(
    ...outputs.slice(0, OUTPUTS).map(({ output, values }) => {
      const [part, title, list] = ["section", "h2", "ol"].map((kind) => document.createElement(kind));
      title.textContent = `${output.name}  [${output.dims.join(", ")}]`;
      list.className = "labels";
      const rows = largest(values, ANSWERS, about.metadata?.labels?.[output.name]);
      showBars(list, rows.map(({ index, label, share, value }) => ({ label: label ?? `no. ${index}`, title: `${index}${label ? `: ${label}` : ""}`, share, value })));
      part.append(title, list);
      return part;
    }),
  );
  const more = outputs.length - OUTPUTS;
  if (more > 0) get("outputs").append(`and ${more} outputs more`);
  get("answers").hidden = false;
}
