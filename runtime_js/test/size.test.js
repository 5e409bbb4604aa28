import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const esbuild = await import("esbuild").catch(() => undefined);
const skip = esbuild ? false : "esbuild is not installed: npm ci";

test("under 10 KB, minified and compressed", { skip }, async () => {
  const entry = new URL("../src/index.js", import.meta.url).pathname;
  const { outputFiles } = await esbuild.build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", write: false });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`sterna: ${size} bytes`);
  assert.ok(size < 10_000, `${size} bytes`);
});

test("WebGPU adds less than 8 KB", { skip }, async () => {
  const sizes = await Promise.all(["index", "webgpu"].map(async (name) => {
    const entry = new URL(`../src/${name}.js`, import.meta.url).pathname;
    const { outputFiles } = await esbuild.build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", write: false });
    return gzipSync(outputFiles[0].contents, { level: 9 }).length;
  }));
  console.log(`sterna/webgpu: ${sizes[1] - sizes[0]} bytes more`);
  assert.ok(sizes[1] - sizes[0] < 8_000, `${sizes} bytes`);
});

test("nothing is evaluated: a page needs no unsafe-eval", { skip }, async () => {
  const entry = new URL("../src/index.js", import.meta.url).pathname;
  const { outputFiles } = await esbuild.build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
  assert.doesNotMatch(outputFiles[0].text, /\beval\(|new Function/);
});
