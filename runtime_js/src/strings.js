import { fail } from "./errors.js";

/**
 * @typedef {import("./model.js").Input} Input
 * @typedef {import("./model.js").TypedArray} TypedArray
 * @typedef {string[] | {data: string[], dims: number[]}} Texts
 * @typedef {{strings: string[], inputs: string[], outputs: string[]}} Table What `strings.json` of a bundle holds.
 * @typedef {{run: (inputs: Record<string, Input>) => any}} Runs Either kind of model.
 */

/**
 * A model with tensors of strings. Its kernels see numbers; this is the table from one to the other:
 *
 *     const words = new Strings(await (await fetch("model/strings.json")).json());
 *     const { label } = await words.run(model, { x: ["tern", "gull"] });
 */
export class Strings {
  #table;
  #numbers;

  /** @param {Table} table */
  constructor(table) {
    this.#table = table;
    this.#numbers = new Map(table.strings.map((text, n) => [text, n]));
  }

  /**
   * Runs a model: `model.run` but for tensors of strings, which are arrays of strings here. A string that the model does
   * not know has a number behind those that it does for the length of this run, so that it may pass through.
   *
   * @param {Runs} model
   * @param {Record<string, Input | Texts>} inputs
   * @returns {Promise<Record<string, TypedArray | string[]>>}
   */
  async run(model, inputs) {
    const words = [...this.#table.strings];
    /** @type {Map<string, number>} */
    const passing = new Map();
    /** @type {(text: unknown, name: string) => bigint} */
    const number = (text, name) => {
      if (typeof text !== "string") return fail("E0603", `an element of the input "${name}" is a ${typeof text}, not a string`);
      const known = this.#numbers.get(text) ?? passing.get(text) ?? words.push(text) - 1;
      if (known >= this.#table.strings.length) passing.set(text, known);
      return BigInt(known);
    };
    const numbered = { ...inputs };
    for (const name of this.#table.inputs) {
      if (!(name in inputs)) continue;
      const given = /** @type {any} */ (inputs[name]);
      const texts = given?.dims ? given.data : given;
      if (!Array.isArray(texts)) return fail("E0603", `input "${name}" holds strings and wants an array of them`);
      const data = BigInt64Array.from(texts, (text) => number(text, name));
      numbered[name] = given.dims ? { data, dims: given.dims } : data;
    }
    const outputs = { ...(await model.run(/** @type {Record<string, Input>} */ (numbered))) };
    for (const name of this.#table.outputs) outputs[name] = Array.from(outputs[name], (n) => words[Number(n)] ?? "");
    return outputs;
  }
}
