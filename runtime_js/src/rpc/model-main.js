import { Model } from "../model.js";
import { listen } from "../port.js";
import { answer, largestInput } from "./answers.js";
import { Status, statusOf } from "./protocol.js";

/** @type {Model | undefined} */
let model;

/** The worker of a device's model: loads files, answers requests. A model that a kernel has broken is lost. */
listen(async ({ files, threads, kind, payload }, post) => {
  try {
    if (files) {
      model = await Model.load(files, { threads });
      return post({ bytes: new Uint8Array(), largest: largestInput(model) });
    }
    const bytes = answer(/** @type {Model} */ (model), kind, payload).slice();
    post({ bytes }, [bytes.buffer]);
  } catch (problem) {
    const trap = /** @type {any} */ (problem).cause instanceof Error && /** @type {any} */ (problem).code === "E0511";
    const { status, message } = statusOf(problem);
    post({ status: trap ? Status.CRASHED : status, message });
  }
});
