/**
 * Rows of a bar chart; widths are set by script alone, since the page's policy allows no style in its text.
 *
 * @param {Element} place
 * @param {{label: string, share: number, value: string, title?: string}[]} rows
 */
export function showBars(place, rows) {
  while (place.children.length > rows.length) place.lastElementChild.remove();
  rows.forEach(({ label, share, value, title }, n) => {
    let row = place.children[n];
    if (!row) {
      row = document.createElement(place.tagName === "OL" ? "li" : "div");
      row.className = "bar";
      const [name, track, number] = ["label", "track", "value"].map((kind) => {
        const span = document.createElement("span");
        span.className = kind;
        return span;
      });
      const fill = document.createElement("span");
      fill.className = "fill";
      track.append(fill);
      row.append(name, track, number);
      place.append(row);
    }
    const [name, track, number] = row.children;
    name.textContent = label;
    name.title = title ?? label;
    track.firstElementChild.style.transform = `scaleX(${share})`;
    number.textContent = value;
  });
}
