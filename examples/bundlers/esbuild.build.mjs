import { copyFile, cp } from "node:fs/promises";
import { build } from "esbuild";

await build({
  // The workers stand beside the page's script, where it looks for them.
  entryPoints: { main: "src/main.js", thread: "sterna/thread", "worker-main": "sterna/worker-main" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: "dist",
});
await cp("node_modules/digits/model", "dist/model", { recursive: true, dereference: true });
await copyFile("index.built.html", "dist/index.html");
