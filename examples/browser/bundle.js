/** The bundle that the page shows: the one served with it, or one that is chosen from this device. */

/** @type {((chosen: {source?: any, problem?: string}) => void)[]} */
const listeners = [];
/** @type {string[]} */
let addresses = [];

/** @param {(chosen: {source?: any, problem?: string}) => void} listener called with every bundle that is chosen from now on */
export function onBundle(listener) {
  listeners.push(listener);
}

/** @param {{source?: any, problem?: string}} chosen */
function announce(chosen) {
  for (const listener of listeners) listener(chosen);
}

/** `sterna serve BUNDLE` has one ready: files, or all in one. */
export async function findServed() {
  for (const name of ["graph.json", "model.wasm"]) {
    const address = new URL(`./bundle/${name}`, import.meta.url);
    const response = await fetch(address, { method: "HEAD" }).catch(() => undefined);
    if (response?.ok) await findReport();
    if (response?.ok) return announce({ source: name === "model.wasm" ? address.href : new URL("./", address).href });
  }
  announce({ problem: "No bundle yet: choose its files, or start `sterna serve BUNDLE`." });
}

/** Beside a bundle there is a page that shows what is in it. */
async function findReport() {
  const response = await fetch(new URL("./report/index.html", import.meta.url), { method: "HEAD" }).catch(() => undefined);
  if (response?.ok) document.getElementById("report-link").hidden = false;
}

/** @param {File[]} files */
export async function choose(files) {
  for (const address of addresses) URL.revokeObjectURL(address);
  addresses = [];
  if (!files.length) return;
  const names = files.map((file) => file.name);
  if (files.length === 1 && names[0].endsWith(".wasm")) return announce({ source: await files[0].arrayBuffer() });
  const missing = ["graph.json", "params.bin"].filter((name) => !names.includes(name));
  if (!names.some((name) => name.endsWith(".wasm"))) missing.push("a .wasm file");
  if (missing.length) {
    const given = names.length > 3 ? `${names.length} files` : names.map((name) => `“${name}”`).join(", ");
    return announce({
      problem: `${given}: no bundle for browsers; ${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} missing. Choose all files of its folder together, or one model.wasm.`,
    });
  }
  addresses = files.map((file) => URL.createObjectURL(file));
  announce({ source: Object.fromEntries(names.map((name, n) => [name, addresses[n]])) });
}
