import { attempt, fail, returned } from "../errors.js";
import { ALIGNED, up } from "./plan.js";

/** Commands for the device, as they are encoded, submitted and waited for. */
export class Commands {
  /** @type {any} */ #pass;
  /** @type {[number, number, number][]} */ #wanted = [];

  /** @param {import("./engine.js").Engine} engine */
  constructor(engine) {
    this.engine = engine;
    this.end = ALIGNED;
    this.#begin();
  }

  #begin() {
    this.encoder = this.engine.device.createCommandEncoder();
  }

  /** The pass that kernels are launched in. */
  pass() {
    return (this.#pass ??= this.encoder.beginComputePass());
  }

  #close() {
    this.#pass?.end();
    this.#pass = undefined;
  }

  /** What is written to the device from here on comes after these commands. */
  submit() {
    this.#close();
    this.engine.device.queue.submit([this.encoder.finish()]);
    this.#begin();
  }

  /** Copies a value to where the CPU finds it when the commands are finished. @param {number} v */
  bring(v) {
    const { memory, staged } = this.engine;
    const { offset, size } = this.engine.region(v);
    if (!size) return;
    this.#close();
    this.encoder.copyBufferToBuffer(memory, offset, staged, this.end, up(size, 4));
    this.#wanted.push([v, this.end, size]);
    this.end += up(size);
  }

  /**
   * Submits, and waits if anything is wanted.
   *
   * @param {(value: number, bytes: Uint8Array) => void} take
   */
  async finish(take) {
    const { checks, memory, staged } = this.engine;
    const { end } = this;
    this.#close();
    if (checks) this.encoder.copyBufferToBuffer(memory, 0, staged, 0, 4);
    this.submit();
    if (!checks && end === ALIGNED) return;
    await attempt("E0511", "the GPU did not finish", () => staged.mapAsync(1, 0, end));
    const bytes = staged.getMappedRange(0, end);
    const [status] = new Int32Array(bytes, 0, 1);
    for (const [v, at, size] of this.#wanted) take(v, new Uint8Array(bytes, at, size));
    this.#wanted = [];
    this.end = ALIGNED;
    staged.unmap();
    if (checks && status) fail("E0511", `a kernel ${returned(status)}`);
  }
}
