import { bad } from "./errors.js";

/** @typedef {number | [string, ...any[]]} Expression A dimension expression of docs/bundle.md. */

const MOST_TERMS = 256;

/**
 * The value of a dimension expression: a safe integer that is not negative. What does not fit one has no place in the
 * 32 bits of WebAssembly's memory.
 *
 * @param {Expression} expression
 * @param {number[]} sizes of the symbols
 * @param {() => string} where for the message
 * @returns {number}
 */
export function evaluate(expression, sizes, where) {
  let terms = 0;
  /** @type {(e: any) => number} */
  const value = (e) => {
    if (++terms > MOST_TERMS) wrong();
    const result = Array.isArray(e) ? operate(e) : e;
    return Number.isSafeInteger(result) ? result : wrong();
  };
  /** @type {(e: any[]) => number} */
  const operate = ([operator, first, ...rest]) => {
    if (operator === "d") return rest.length || !Number.isInteger(first) ? wrong() : (sizes[first] ?? wrong());
    if (first === undefined) wrong();
    let result = value(first);
    if (operator === "/" || operator === "%") {
      const [divisor] = rest;
      if (rest.length !== 1 || !Number.isSafeInteger(divisor) || divisor < 1) wrong();
      const quotient = Math.floor(result / divisor);
      return operator === "/" ? quotient : result - quotient * divisor;
    }
    for (const e of rest) {
      const next = value(e);
      if (operator === "+") result += next;
      else if (operator === "*") result *= next;
      else if (operator === "min") result = Math.min(result, next);
      else if (operator === "max") result = Math.max(result, next);
      else wrong();
      if (!Number.isSafeInteger(result)) wrong();
    }
    return ["+", "*", "min", "max"].includes(operator) ? result : wrong();
  };
  const wrong = () => bad(`${where()} is not a size: ${JSON.stringify(expression)}`);
  const result = value(expression);
  return result >= 0 ? result + 0 : wrong();
}
