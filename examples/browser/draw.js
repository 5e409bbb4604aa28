import { Model } from "./sterna/index.js";
import { showBars } from "./bars.js";
import { SIDE, seen } from "./strokes.js";

const get = (id) => document.getElementById(id);
const STEP = 0.05; // of the paper, for each press of an arrow key

/** The first tab: strokes of a mouse, a finger or the arrow keys, recognised while they are drawn. */
export async function start() {
  const paper = get("paper");
  const pen = paper.getContext("2d");
  /** @type {import("./strokes.js").Stroke[]} */
  let strokes = [];
  let drawing = false;
  let cursor; // of the keys, [x, y] in pixels; undefined while they are not used
  let model;

  const place = (event) => {
    const { left, top, width, height } = paper.getBoundingClientRect();
    return [((event.clientX - left) * paper.width) / width, ((event.clientY - top) * paper.height) / height];
  };
  const draw = (point, isNew) => {
    if (isNew) strokes.push([]);
    strokes.at(-1).push(point);
    look();
  };
  paper.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drawing = true;
    cursor = undefined;
    paper.setPointerCapture(event.pointerId);
    draw(place(event), true);
  });
  paper.addEventListener("pointermove", (event) => {
    // Between two frames a quick hand has been in several places.
    const passed = event.getCoalescedEvents?.() ?? [];
    if (drawing) for (const each of passed.length ? passed : [event]) draw(place(each), false);
  });
  for (const end of ["pointerup", "pointercancel"]) paper.addEventListener(end, () => (drawing = false));
  paper.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === " ") {
      drawing = !drawing;
      cursor ??= [paper.width / 2, paper.height / 2];
      if (drawing) draw(cursor, true);
    } else if (event.key in moves) {
      cursor ??= [paper.width / 2, paper.height / 2];
      cursor = cursor.map((at, axis) => Math.min(paper.width, Math.max(0, at + moves[event.key][axis] * STEP * paper.width)));
      if (drawing) draw(cursor, false);
    } else if (event.key === "Escape" || event.key === "Delete") clear();
    else return;
    event.preventDefault();
    look();
  });
  paper.addEventListener("blur", () => ((drawing = false), (cursor = undefined), look()));
  get("clear").addEventListener("click", clear);

  function clear() {
    strokes = [];
    drawing = false;
    look();
  }

  function paint() {
    pen.clearRect(0, 0, paper.width, paper.height);
    Object.assign(pen, { lineWidth: 22, lineCap: "round", lineJoin: "round", strokeStyle: "#fff", fillStyle: "#38bdd4" });
    for (const stroke of strokes) {
      pen.beginPath();
      pen.moveTo(...stroke[0]);
      for (const point of stroke) pen.lineTo(...point);
      pen.stroke();
    }
    if (!cursor) return;
    pen.beginPath();
    pen.arc(...cursor, drawing ? 9 : 5, 0, 2 * Math.PI);
    pen.fill();
  }

  function look() {
    paint();
    if (!model) return;
    const image = seen(strokes);
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

/** @param {Float32Array | undefined} image */
function preview(image) {
  const context = get("seen").getContext("2d");
  const pixels = context.createImageData(SIDE, SIDE);
  pixels.data.forEach((_, i) => (pixels.data[i] = i % 4 === 3 ? 255 : image ? image[i >> 2] * 255 : 0));
  context.putImageData(pixels, 0, 0);
}
