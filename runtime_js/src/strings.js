import { attempt, fail, shown } from "./errors.js";
import { checkFile } from "./load.js";
import { internals } from "./internals.js";

/**
 * @typedef {import("./model.js").Input} Input
 * @typedef {import("./model.js").TypedArray} TypedArray
 * @typedef {string[] | {data: string[], dims: number[]}} Texts
 * @typedef {{strings: string[], inputs: string[], outputs: string[]}} Table What `strings.json` of a bundle holds.
 * @typedef {{run: (inputs: Record<string, Input>) => any, [internals]: () => {graph: {files: import("./graph.js").Graph["files"]}}}} Runs
 *   Either kind of model.
 */

const FILE = "strings.json";

/** @param {any} table @returns {Table} */
function checked({ strings, inputs, outputs }) {
  const good = [strings, inputs, outputs].every((list) => list.every((/** @type {unknown} */ text) => typeof text === "string"));
  return good ? { strings, inputs, outputs } : fail("E0505", `${FILE}: something that is no string is among strings, inputs or outputs`);
}

/**
 * A model with tensors of strings. Its kernels see numbers; this is the table from one to the other:
 *
 *     const words = new Strings(await (await fetch("model/strings.json")).arrayBuffer());
 *     const { label } = await words.run(model, { x: ["tern", "gull"] });
 */
export class Strings {
  #bytes;
  /** @type {Table | undefined} */
  #table;
  /** @type {Map<string, number>} */
  #numbers = new Map();

  /** @param {ArrayBuffer | Uint8Array} bytes of `strings.json`; a model has its hash, and takes no other */
  constructor(bytes) {
    if (!(bytes instanceof ArrayBuffer || bytes instanceof Uint8Array)) fail("E0501", `give the bytes of ${FILE}, as fetch returns them`);
    this.#bytes = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
  }

  /**
   * The table, once it is known to be this model's.
   *
   * @param {Runs} model
   */
  async #of(model) {
    const { files } = /** @type {any} */ (model)?.[internals]?.().graph ?? fail("E0501", `expected a model; given: ${shown(model)}`);
    const entry = Object.hasOwn(files, FILE) ? files[FILE] : fail("E0505", `${FILE}: the model has no strings`);
    return attempt("E0505", `${FILE}: damaged`, () => {
      checkFile(FILE, entry, this.#bytes);
      const table = (this.#table ??= checked(JSON.parse(new TextDecoder().decode(this.#bytes))));
      this.#numbers = new Map(table.strings.map((text, n) => [text, n]));
      return table;
    });
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
    const table = await this.#of(model);
    const words = [...table.strings];
    /** @type {Map<string, number>} */
    const passing = new Map();
    /** @type {(text: unknown, name: string) => bigint} */
    const number = (text, name) => {
      if (typeof text !== "string") return fail("E0603", `an element of the input "${name}" is a ${typeof text}, not a string`);
      const known = this.#numbers.get(text) ?? passing.get(text) ?? words.push(text) - 1;
      if (known >= table.strings.length) passing.set(text, known);
      return BigInt(known);
    };
    const numbered = new Map(Object.entries(inputs ?? {}));
    for (const name of table.inputs) {
      if (!numbered.has(name)) continue;
      const given = /** @type {any} */ (numbered.get(name));
      const texts = given?.dims ? given.data : given;
      if (!Array.isArray(texts)) return fail("E0603", `input "${name}" needs an array of strings`);
      const data = BigInt64Array.from(texts, (text) => number(text, name));
      numbered.set(name, given.dims ? { data, dims: given.dims } : data);
    }
    // Objects are made of entries: a tensor may be called __proto__.
    /** @type {Map<string, TypedArray | string[]>} */
    const outputs = new Map(Object.entries(await model.run(/** @type {any} */ (Object.fromEntries(numbered)))));
    for (const name of table.outputs) {
      const numbers = outputs.get(name);
      if (!(numbers instanceof BigInt64Array)) return fail("E0505", `${FILE}: "${name}" is no output of the model that holds strings`);
      outputs.set(name, /** @type {any} */ (Array.from(numbers, (n) => words[Number(n)] ?? "")));
    }
    return Object.fromEntries(outputs);
  }
}
