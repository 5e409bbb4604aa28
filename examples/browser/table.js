/**
 * A table of nodes whose columns sort it. What a column shows is text; long names are shortened in the middle, and whole in
 * the row that has the focus or the pointer, and for those who listen.
 *
 * @typedef {{title: string, key: string, isName?: boolean, text?: (value: any) => string, bar?: boolean}} Column
 */

/**
 * @param {HTMLTableElement} table
 * @param {Column[]} columns
 * @param {Record<string, any>[]} rows
 * @param {Record<string, number>} most characters of the names of a column
 */
export function showTable(table, columns, rows, most) {
  let sorted = { key: columns[0].key, ascending: true };
  const short = Object.fromEntries(columns.filter(({ isName }) => isName).map(({ key }) => [key, shortened(rows.map((row) => row[key]), most[key])]));
  const full = Object.fromEntries(columns.filter(({ bar }) => bar).map(({ key }) => [key, Math.max(1e-9, ...rows.map((row) => row[key]))]));
  const body = document.createElement("tbody");
  const lines = rows.map((row, n) => {
    const line = document.createElement("tr");
    line.append(...columns.map((column) => cell(column, row[column.key], short[column.key]?.[n], full[column.key])));
    return { row, line };
  });
  const headings = columns.map(({ title, key }) => {
    const [heading, button] = [document.createElement("th"), document.createElement("button")];
    heading.scope = "col";
    button.textContent = title;
    button.addEventListener("click", () => {
      // The first click on numbers shows the greatest first, on names the alphabet.
      const isNumber = typeof rows[0]?.[key] === "number" && key !== columns[0].key;
      sort({ key, ascending: sorted.key === key ? !sorted.ascending : !isNumber });
    });
    heading.append(button);
    return heading;
  });
  const sort = (by) => {
    sorted = by;
    headings.forEach((heading, n) => {
      if (columns[n].key === by.key) heading.setAttribute("aria-sort", by.ascending ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    body.append(...sortedBy(lines, by).map(({ line }) => line));
  };
  const head = document.createElement("thead");
  head.append(document.createElement("tr"));
  head.firstElementChild.append(...headings);
  table.replaceChildren(head, body);
  sort(sorted);
}

/**
 * @param {{row: Record<string, any>}[]} lines
 * @param {{key: string, ascending: boolean}} by
 */
export function sortedBy(lines, { key, ascending }) {
  const compare = ({ row: { [key]: a } }, { row: { [key]: b } }) =>
    typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return [...lines].sort((a, b) => (ascending ? compare(a, b) : compare(b, a)));
}

function cell({ isName, text, bar }, value, short, full) {
  const place = document.createElement("td");
  if (!isName) place.className = "number";
  if (isName && short !== value) {
    const [name, cut, whole] = ["span", "span", "span"].map((kind) => document.createElement(kind));
    Object.assign(name, { className: "name", tabIndex: 0, title: value });
    [cut.className, cut.textContent] = ["cut", short];
    cut.setAttribute("aria-hidden", "true");
    [whole.className, whole.textContent] = ["whole", value];
    name.append(cut, whole);
    place.append(name);
  } else place.append(text ? text(value) : String(value));
  if (bar) {
    const fill = document.createElement("span");
    fill.className = "share";
    fill.style.transform = `scaleX(${value / full})`;
    place.append(fill);
  }
  return place;
}

/**
 * Names with what all of them begin with left out, shortened in the middle to a number of characters. Of names that would
 * then look alike, what they differ in is kept instead, or, where that is long too, they are numbered.
 *
 * @param {string[]} names
 * @param {number} most
 */
export function shortened(names, most) {
  const whole = [...new Set(names)];
  const common = whole.length > 1 ? shared(whole) : 0;
  const start = Math.max(...["/", ".", "_"].map((end) => whole[0]?.slice(0, common).lastIndexOf(end) ?? -1)) + 1;
  const rests = new Map(whole.map((name) => [name, start > 1 ? `…${name.slice(start)}` : name]));
  const result = new Map(whole.map((name) => [name, around(rests.get(name), most)]));
  for (const alike of groups(whole, result)) {
    const texts = alike.map((name) => rests.get(name));
    const [before, after] = [shared(texts), shared(texts.map((text) => [...text].reverse().join("")))];
    for (const name of alike) result.set(name, around(rests.get(name), most, before, after));
  }
  for (const alike of groups(whole, result)) alike.forEach((name, n) => result.set(name, `${result.get(name)} (${n + 1})`));
  return names.map((name) => result.get(name));
}

/** @param {string[]} names @param {Map<string, string>} texts names whose texts are equal, together */
function groups(names, texts) {
  const by = new Map();
  for (const name of names) by.set(texts.get(name), [...(by.get(texts.get(name)) ?? []), name]);
  return [...by.values()].filter((group) => group.length > 1);
}

/**
 * A text with its middle left out; or, where it differs from others between what they share before and after, both sides of
 * that.
 *
 * @param {string} text
 * @param {number} most
 * @param {number} [before]
 * @param {number} [after]
 */
function around(text, most, before = 0, after = 0) {
  if (text.length <= most) return text;
  const own = before || after ? text.slice(before, Math.max(before, text.length - after)) : "";
  const room = most - own.length - (own ? 2 : 1);
  if (room < 2) return around(text, most);
  const [head, tail] = [text.slice(0, Math.ceil(room / 2)), text.slice(text.length - Math.floor(room / 2))];
  return own ? `${head}…${own}…${tail}` : `${head}…${tail}`;
}

/** How many characters all texts begin with. @param {string[]} texts */
function shared(texts) {
  let length = Math.min(...texts.map((text) => text.length));
  for (const text of texts) while (!text.startsWith(texts[0].slice(0, length))) length--;
  return length;
}
