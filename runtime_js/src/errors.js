/**
 * Everything that this package throws, aborted loads aside.
 *
 * `code` is the same as in the compiler and the other runtimes: E05xx for a bundle, E06xx for inputs; docs/cli.md and
 * `sterna.errors.CODES` list them.
 */
export class SternaError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, options) {
    super(`${code}: ${message}`, options);
    this.name = "SternaError";
    this.code = code;
  }
}

/**
 * @param {string} code
 * @param {string} message
 * @param {unknown} [cause]
 * @returns {never}
 */
export function fail(code, message, cause) {
  throw new SternaError(code, message, /** @type {any} */ (cause && { cause }));
}

/**
 * What a kernel returned that failed, for a message. A check of the model returns -11 (docs/bundle.md).
 *
 * @param {number} status
 */
export const returned = (status) => `returned ${status}${status === -11 ? ": an input has wrong values" : ""}`;

/**
 * Something that was given, for a message: none of its own code runs.
 *
 * @param {unknown} given
 * @returns {string | number}
 */
export const shown = (given) => (/^(str|num)/.test(typeof given) ? /** @type {any} */ (given) : {}.toString.call(given).slice(8, -1));

/**
 * What the engine or the network makes of an action; where they refuse, the code says so.
 *
 * @template T
 * @param {string} code
 * @param {string} what
 * @param {() => T | Promise<T>} action
 * @param {AbortSignal} [signal] whose abortion is no failure
 * @returns {Promise<T>}
 */
export async function attempt(code, what, action, signal) {
  try {
    return await action();
  } catch (problem) {
    signal?.throwIfAborted();
    if (problem instanceof SternaError) throw problem;
    fail(code, `${what}: ${/** @type {Error} */ (problem).message}`, problem);
  }
}

/**
 * Refuses graph.json.
 *
 * @param {string} what
 * @returns {never}
 */
export function bad(what) {
  fail("E0504", `graph.json: ${what}`);
}
