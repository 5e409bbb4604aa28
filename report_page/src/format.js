// Numbers and names as people read them.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu;

/** A name with what nobody sees, or what acts on the text around it, written out. */
export const seen = (name) => String(name).replace(HIDDEN, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);

/** The same, the middle of a long one left out. */
export function short(name, most = 48) {
  const text = seen(name);
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}\u2026${text.slice(text.length - (most - 1 - head))}`;
}

export const count = (n) => (n === null || n === undefined ? "" : n.toLocaleString("en-US"));

export function bytes(n) {
  if (n === null || n === undefined) return "";
  if (n < 10_000) return `${count(n)} B`;
  return n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

/** Nanoseconds, with three digits. */
export function duration(ns) {
  if (ns === null || ns === undefined) return "";
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]])
    if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

/** What a node took, in the unit of the measurement. */
export const taken = (time, n) => (time.unit === "ns" ? duration(n) : `${count(n)} instr.`);

export const percent = (share, digits = 1) => (share === null || share === undefined || !isFinite(share) ? "" : `${(100 * share).toFixed(digits)} %`);

/** A share of a limit: what is little is not nothing. */
export const roof = (share) => (share !== null && share > 0 && share < 0.005 ? "< 1 %" : percent(share, 0));

/** How often a loop goes round, as far as that is known before it does. */
export const rounds = ({ op, count: n, limit, exact }) => (op !== "loop" ? "" : exact ? `${count(n)} times` : limit && limit < 2 ** 31 - 1 ? `at most ${count(limit)} times` : "as often as the data ask for");

export const signed = (share) => (share === null || !isFinite(share) ? "" : `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} %`);

export const small = (n) => (n === null || n === undefined ? "" : n === 0 ? "0" : Math.abs(n) >= 1e-3 && Math.abs(n) < 1e5 ? String(Number(n.toPrecision(4))) : n.toExponential(2));

/** What the picture and the tables call a node: the model's own nodes in it. */
export const title = (node) => (node.sources.length ? node.sources.join(", ") : node.name);

export const type = (tensor) => `${tensor.dtype}[${tensor.shape === null ? "\u2026" : tensor.shape.join(", ")}]`;

/** A cell of CSV: quoted, and nothing in it is a formula. */
export function cell(value) {
  const text = value === null || value === undefined ? "" : typeof value === "number" ? String(value) : String(value).replace(/^[=+\-@\t\r]/, "'$&");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
