import { load } from "digits";
import { recognise } from "./worker.js";

const image = new Float32Array(64).map((_, i) => (i % 8 === 4 ? 1 : 0)); // an upright stroke
const digit = (scores) => scores.indexOf(Math.max(...scores));
const result = document.querySelector("#result");

try {
  const model = await load();
  const here = digit((await model.run({ image })).scores);
  result.textContent = `page: ${here}, worker: ${digit(await recognise(image))}, kernels: ${model.memory.library}`;
} catch (problem) {
  result.textContent = `error: ${problem.message}`;
}
