import { useMemo, useState } from "preact/hooks";
import { cell, seen } from "./format.js";

/**
 * A table that sorts by its headings, filters by text and is copied as CSV.
 *
 * columns: [{ name, value(row) for sorting and CSV, show(row) for people, number: whether it is right-aligned }]
 */
export function Table({ caption, columns, rows, first, words, onPick, picked }) {
  const [sort, setSort] = useState(first ?? { column: 0, down: false });
  const [text, setText] = useState("");
  const [said, setSaid] = useState("");
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    const kept = wanted ? rows.filter((row) => columns.some((c) => String(c.value(row) ?? "").toLowerCase().includes(wanted))) : rows;
    const { value } = columns[sort.column];
    const way = sort.down ? -1 : 1;
    return [...kept].sort((a, b) => way * order(value(a), value(b)));
  }, [rows, columns, sort, text]);
  const csv = () => [columns.map((c) => cell(c.name)), ...shown.map((row) => columns.map((c) => cell(c.value(row))))].map((line) => line.join(",")).join("\r\n");
  const copy = async () => setSaid((await copied(csv())) ? `${shown.length} rows copied` : "the browser does not let this page copy");
  return (
    <div class="tabled">
      <div class="tools">
        <label>
          Filter <input type="search" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <button type="button" onClick={copy}>Copy as CSV</button>
        <span class="note" aria-live="polite">{said || (text ? `${shown.length} of ${rows.length}` : words ?? "")}</span>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map((c, n) => (
                <th key={n} scope="col" class={c.number ? "number" : ""} aria-sort={sort.column === n ? (sort.down ? "descending" : "ascending") : "none"}>
                  <button type="button" onClick={() => setSort({ column: n, down: sort.column === n ? !sort.down : Boolean(c.number) && n > 0 })}>
                    {c.name}
                    <span aria-hidden="true">{sort.column === n ? (sort.down ? " \u25be" : " \u25b4") : ""}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, n) => (
              <tr key={row.key ?? row.index ?? n} class={picked !== undefined && picked === row.index ? "picked" : ""}>
                {columns.map((c, k) => (
                  <td key={k} class={c.number ? "number" : "text"}>
                    {c.pick && onPick ? <button type="button" class="link" onClick={() => onPick(row)}>{show(c, row)}</button> : show(c, row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

const show = (column, row) => (column.show ? column.show(row) : String(column.value(row) ?? ""));

function order(a, b) {
  const [left, right] = [a ?? -Infinity, b ?? -Infinity];
  if (typeof left === "number" && typeof right === "number") return left - right || 0;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}

/** Puts a text on the clipboard; false where the browser forbids it. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** The name of a kernel, which may break between its words. */
export function Kernel({ name }) {
  return seen(name).split("_").flatMap((part, n) => (n ? ["_", <wbr key={n} />, part] : [part]));
}
