import { Model } from "./sterna/index.js";
import { showBars } from "./bars.js";

const SIDE = 8;
const get = (id) => document.getElementById(id);

/** The first tab: a drawing, made into what the network was trained on, recognised after every stroke. */
export async function start() {
  const paper = get("paper");
  const pen = paper.getContext("2d", { willReadFrequently: true });
  let model;

  Object.assign(pen, { lineWidth: 34, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  const place = (event) => {
    const { left, top, width, height } = paper.getBoundingClientRect();
    return [((event.clientX - left) * paper.width) / width, ((event.clientY - top) * paper.height) / height];
  };
  let drawing = false;
  paper.addEventListener("pointerdown", (event) => {
    drawing = true;
    paper.setPointerCapture(event.pointerId);
    pen.beginPath();
    pen.moveTo(...place(event));
    pen.lineTo(...place(event));
    pen.stroke();
    look();
  });
  paper.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    pen.lineTo(...place(event));
    pen.stroke();
    look();
  });
  for (const end of ["pointerup", "pointercancel"]) paper.addEventListener(end, () => (drawing = false));
  get("clear").addEventListener("click", () => {
    pen.clearRect(0, 0, paper.width, paper.height);
    look();
  });

  function look() {
    if (!model) return;
    const image = shrink(pen.getImageData(0, 0, paper.width, paper.height));
    const before = performance.now();
    const { scores } = model.run({ image: image ?? new Float32Array(SIDE * SIDE) });
    const ms = performance.now() - before;
    preview(image);
    const best = scores.indexOf(Math.max(...scores));
    const [digit, certainty] = get("answer").children;
    digit.textContent = image ? String(best) : "?";
    certainty.textContent = image ? `${(100 * scores[best]).toFixed(1)} % sure` : "waiting for a digit";
    showBars(
      get("scores"),
      Array.from(scores, (p, n) => ({ label: String(n), share: image ? p : 0, value: image ? `${(100 * p).toFixed(1)} %` : "" })),
    );
    const speed = ms > 0 ? `, the last time in ${Math.max(1, Math.round(1000 * ms))} µs` : "";
    get("draw-note").textContent = `${model.memory.library} runs${speed}; ${(model.memory.total / 1024).toFixed(0)} KB of memory.`;
  }

  try {
    model = await Model.load(new URL("./digits/", import.meta.url));
    look();
  } catch (problem) {
    get("draw-note").textContent = String(problem.message);
  }
}

/**
 * The drawing as the network's training set has its digits: cut out, 8 by 8, in 16 steps from 0 to 1. Undefined for an empty
 * drawing.
 *
 * @param {ImageData} drawing
 */
function shrink({ data, width, height }) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (data[4 * (y * width + x) + 3] > 32) [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  if (right < 0) return undefined;
  // Digits of the set fill its height; narrow ones stand in the middle.
  const size = Math.max(bottom - top, right - left) + 1;
  const [x0, y0] = [(left + right + 1 - size) / 2, (top + bottom + 1 - size) / 2];
  const sums = new Float32Array(SIDE * SIDE);
  const cell = size / SIDE;
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      let [sum, count] = [0, 0];
      for (let v = Math.floor(y0 + y * cell); v < y0 + (y + 1) * cell; v++)
        for (let u = Math.floor(x0 + x * cell); u < x0 + (x + 1) * cell; u++, count++)
          if (u >= 0 && v >= 0 && u < width && v < height) sum += data[4 * (v * width + u) + 3];
      sums[y * SIDE + x] = Math.round((16 * sum) / (255 * Math.max(1, count))) / 16;
    }
  return sums;
}

/** @param {Float32Array | undefined} image */
function preview(image) {
  const context = get("seen").getContext("2d");
  const pixels = context.createImageData(SIDE, SIDE);
  pixels.data.forEach((_, i) => (pixels.data[i] = i % 4 === 3 ? 255 : image ? image[i >> 2] * 255 : 0));
  context.putImageData(pixels, 0, 0);
}
