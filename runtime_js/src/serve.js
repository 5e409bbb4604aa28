import { Model } from "./model.js";
import { nodeTimes, output, setDims, setInput, since, table, value } from "./rpc/answers.js";
import { joined, MOST_MESSAGE, MOST_RUNS, Reader, statusOf, Writer } from "./rpc/protocol.js";

/**
 * Runs a bundle for another process, as runtime_c/tools/sterna_remote.c does: requests and replies are those that its head
 * describes, in little endian. A reply to RUN has the nanoseconds that all its runs took together, in 64 bits: the clocks of
 * pages are coarse.
 */
const [SET_INPUT, SET_DIMS, RUN, PROFILE, RESET, GET_OUTPUT, GET_VALUE, INPUTS, , , , , MEMORY] = Array.from({ length: 13 }, (_, n) => n + 1);
/** Bytes of a request before what it carries. */
const HEAD = 16;
const NONE = new Uint8Array();

/** The bytes of a reply. @param {number} status @param {Uint8Array} payload */
const reply = (status, payload) => joined([new Writer().u32(status).u64(payload.length).made, payload]);

/** @param {any} problem */
function refusal(problem) {
  const { status, message } = statusOf(problem);
  return reply(status > 0 ? -1 : status, new TextEncoder().encode(message).subarray(0, MOST_MESSAGE));
}

/**
 * @typedef {object} Loaded What runs a bundle.
 * @property {Model} model where its inputs and outputs lie, and what knows their types and sizes
 * @property {() => unknown} run once; what it gives is done where it is awaited
 * @property {() => import("./model.js").NodeTime[] | Promise<import("./model.js").NodeTime[]>} profile of one run
 * @property {() => void} resetState
 * @property {(number: number) => Uint8Array} value a copy of any tensor
 */

/** A bundle that WebAssembly runs. @param {Model} model @returns {Loaded} */
export const inWasm = (model) => ({
  model,
  run: () => void model.run(),
  profile: () => model.profile({}, { runs: 1 }),
  resetState: () => model.resetState(),
  value: (number) => value(model, number),
});

/**
 * @param {Loaded} loaded
 * @param {number} what
 * @param {number} number
 * @param {Uint8Array} given
 * @returns {Promise<Uint8Array>}
 */
async function answer(loaded, what, number, given) {
  const { model } = loaded;
  if (what === RUN) {
    const start = performance.now();
    for (let n = Math.min(Math.max(number, 1), MOST_RUNS); n > 0; n--) {
      const running = loaded.run();
      if (running) await running;
    }
    return new Writer().u64(since(start)).made;
  }
  if (what === PROFILE) {
    const runs = [];
    while (runs.length < Math.min(Math.max(number, 1), MOST_RUNS)) runs.push(nodeTimes(model, await loaded.profile()));
    return joined(runs);
  }
  if (what === GET_OUTPUT) return output(model, number);
  if (what === GET_VALUE) return loaded.value(number);
  if (what >= INPUTS && what <= MEMORY) return table(model, what - INPUTS);
  if (what === SET_INPUT) setInput(model, number, given);
  else if (what === SET_DIMS) {
    const sizes = new Reader(given, "a request");
    setDims(model, Array.from({ length: number }, () => sizes.i64()));
  } else if (what === RESET) loaded.resetState();
  else throw new RangeError(`there is no request ${what}`);
  return NONE;
}

/**
 * Loads a bundle, says so, and answers requests one after another as they arrive.
 *
 * @param {() => Promise<Loaded>} load
 * @param {(bytes: Uint8Array) => void} post
 * @returns {Promise<(bytes: Uint8Array) => void>} takes what arrives, in pieces of any length
 */
export async function serve(load, post) {
  /** @type {Loaded | undefined} */
  let loaded;
  try {
    loaded = await load();
    post(reply(0, NONE));
  } catch (problem) {
    post(refusal(problem));
  }
  /** @type {Uint8Array[]} */
  let parts = [];
  let wanted = HEAD;
  let last = Promise.resolve();
  return (bytes) => {
    parts.push(bytes);
    while (parts.reduce((sum, part) => sum + part.length, 0) >= wanted) {
      const all = joined(parts);
      const head = new Reader(all, "a request");
      const [what, number] = [head.u32(), head.u32()];
      wanted = HEAD + head.u64();
      parts = [all];
      if (all.length < wanted) continue;
      const given = all.subarray(HEAD, wanted);
      last = last.then(async () => post(await answered(loaded, what, number, given)));
      parts = [all.subarray(wanted)];
      wanted = HEAD;
    }
  };
}

/**
 * @param {Loaded | undefined} loaded
 * @param {number} what
 * @param {number} number
 * @param {Uint8Array} given
 */
async function answered(loaded, what, number, given) {
  try {
    if (!loaded) throw new RangeError("no model is loaded");
    return reply(0, await answer(loaded, what, number, given));
  } catch (problem) {
    return refusal(problem);
  }
}
