// Builds the page's script and style into templates/report, or into the folder that is named, with the licences of the
// libraries in them. The same bytes every time.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const place = process.argv[2] ?? here("../templates/report");
const { metafile } = await build({
  absWorkingDir: here("."),
  entryPoints: { page: "src/main.jsx" },
  outdir: place,
  bundle: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "ascii",
  minify: true,
  legalComments: "eof",
  lineLimit: 160,
  logLevel: "warning",
  metafile: true,
});
const inside = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean);
const licences = [...new Set(inside)].sort().map((name) => {
  const file = readdirSync(here(`node_modules/${name}`)).find((each) => /^licen[cs]e/i.test(each));
  return `${name}\n\n${readFileSync(here(`node_modules/${name}/${file}`), "utf-8").trim()}\n`;
});
writeFileSync(`${place}/licenses.txt`, `What page.js is built from, beside Sterna's own sources.\n\n${licences.join("\n\n")}`);
