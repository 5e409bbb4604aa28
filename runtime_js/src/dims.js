import { MOST_TERMS } from "./abi.js";
import { bad } from "./errors.js";

/** @typedef {number | [string, ...any[]]} Expression A dimension expression of docs/bundle.md. */

/** The remainder has the sign of the divisor, which is positive. */
const remainder = (/** @type {number} */ a, /** @type {number} */ b) => ((a % b) + b) % b;
/** @type {Map<unknown, (a: number, b: number) => number>} */
const OPERATIONS = new Map([
  ["+", (a, b) => a + b],
  ["*", (a, b) => a * b],
  ["/", (a, b) => (a - remainder(a, b)) / b],
  ["%", remainder],
  ["min", Math.min],
  ["max", Math.max],
]);

/**
 * The value of a dimension expression: a safe integer that is not negative. What does not fit one has no place in the
 * 32 bits of WebAssembly's memory.
 *
 * @param {Expression} expression
 * @param {(symbol: number) => number | undefined} size of a symbol
 * @param {() => string} where for the message
 * @returns {number}
 */
export function evaluate(expression, size, where) {
  let terms = 0;
  const good = (/** @type {boolean} */ right) => right || bad(`${where()} is not a size: ${JSON.stringify(expression)?.slice(0, 99)}`);
  const safe = (/** @type {any} */ n) => (good(Number.isSafeInteger(n)), n);
  /** @type {(e: any) => number} */
  const value = (e) => {
    if (!Array.isArray(e)) return good(++terms <= MOST_TERMS), safe(e);
    const [operator, ...operands] = e;
    if (operator === "d") return good(e.length === 2), value(size(safe(e[1])));
    const operation = OPERATIONS.get(operator);
    // The right side of a division is a constant, and no term of its own.
    const divides = operator === "/" || operator === "%";
    terms += divides ? 0 : operands.length - 1;
    good(!!operation && operands.length > 0 && (!divides || (operands.length === 2 && safe(operands[1]) > 0)));
    return operands.map(value).reduce((a, b) => safe(operation?.(a, b)));
  };
  if (Array.isArray(expression)) size(-1); // it is open even if it names no symbol
  const result = value(expression);
  good(result >= 0);
  return result + 0;
}
