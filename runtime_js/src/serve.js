import { Model } from "./model.js";
import { output, profiled, setDims, setInput, table, timedRun, value } from "./rpc/answers.js";
import { joined, MOST_MESSAGE, MOST_RUNS, Reader, statusOf, Writer } from "./rpc/protocol.js";

/**
 * Runs a bundle for another process, as runtime_c/tools/sterna_remote.c does: requests and replies are those that its head
 * describes, in little endian. A reply to RUN has the nanoseconds that the run took, in 64 bits.
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
 * @param {Model} model
 * @param {number} what
 * @param {number} number
 * @param {Uint8Array} given
 * @returns {Uint8Array}
 */
function answer(model, what, number, given) {
  if (what === RUN) return new Writer().u64(timedRun(model)).made;
  if (what === PROFILE) return joined(Array.from({ length: Math.min(Math.max(number, 1), MOST_RUNS) }, () => profiled(model)));
  if (what === GET_OUTPUT) return output(model, number);
  if (what === GET_VALUE) return value(model, number);
  if (what >= INPUTS && what <= MEMORY) return table(model, what - INPUTS);
  if (what === SET_INPUT) setInput(model, number, given);
  else if (what === SET_DIMS) {
    const sizes = new Reader(given, "a request");
    setDims(model, Array.from({ length: number }, () => sizes.i64()));
  } else if (what === RESET) model.resetState();
  else throw new RangeError(`there is no request ${what}`);
  return NONE;
}

/**
 * Loads a bundle, says so, and answers requests as they arrive.
 *
 * @param {import("./model.js").Source} source
 * @param {number} threads
 * @param {(bytes: Uint8Array) => void} post
 * @returns {Promise<(bytes: Uint8Array) => void>} takes what arrives, in pieces of any length
 */
export async function serve(source, threads, post) {
  /** @type {Model | undefined} */
  let model;
  try {
    model = await Model.load(source, { threads });
    post(reply(0, NONE));
  } catch (problem) {
    post(refusal(problem));
  }
  /** @type {Uint8Array[]} */
  let parts = [];
  let wanted = HEAD;
  return (bytes) => {
    parts.push(bytes);
    while (parts.reduce((sum, part) => sum + part.length, 0) >= wanted) {
      const all = joined(parts);
      const head = new Reader(all, "a request");
      const [what, number] = [head.u32(), head.u32()];
      wanted = HEAD + head.u64();
      parts = [all];
      if (all.length < wanted) continue;
      post(answered(model, what, number, all.subarray(HEAD, wanted)));
      parts = [all.subarray(wanted)];
      wanted = HEAD;
    }
  };
}

/**
 * @param {Model | undefined} model
 * @param {number} what
 * @param {number} number
 * @param {Uint8Array} given
 */
function answered(model, what, number, given) {
  try {
    if (!model) throw new RangeError("no model is loaded");
    return reply(0, answer(model, what, number, given));
  } catch (problem) {
    return refusal(problem);
  }
}
