// What needs a real browser. Node: `chromium.js replay BASE THREADS NAME...` prints results of golden sets; `chromium.js page
// BASE SHOTS FILES` tries the page of examples/browser; `chromium.js built URL` a page that a bundler made;
// `chromium.js packaged URL GPU` what such a page shows, and which files it asked for, with WebGPU or with "none"; `chromium.js
// beside BASE` prints what that shows of WebAssembly beside WebGPU; `chromium.js webgpu BASE TRIES` what JSON says, [[function, argument, ...], ...], of webgpu.js beside this file, on SwiftShader.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { tryPage } from "./pages.js";

const FLAGS = [
  "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
/** What shows WebGPU where there is no GPU. */
const SOFTWARE = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--use-vulkan=swiftshader", "--disable-vulkan-surface"];
const [what, base, ...rest] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: ["webgpu", "beside", "packaged"].includes(what) ? [...FLAGS, ...SOFTWARE] : FLAGS });
try {
  await { replay, page, built, packaged, speed, webgpu, beside }[what](base, ...rest);
} finally {
  await browser.close();
}

/** A page that fails the test with everything that goes wrong in it. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 800 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (problem) => problems.push(String(problem)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.goto(url);
  return { page, problems, context };
}

async function replay(base, threads, ...names) {
  const { page, problems } = await open(`${base}test/blank.html`);
  const results = {};
  for (const name of names)
    results[name] = await page.evaluate(
      async ({ name, threads }) => {
        const { Model } = await import("/sterna/index.js");
        const { replay } = await import("/test/replay.js");
        const read = async (file) => (await fetch(`/bundles/${name}/${file}`)).arrayBuffer();
        return replay(Model, `/bundles/${name}/`, read, { threads }).catch((problem) => ({ problem: String(problem) }));
      },
      { name, threads: Number(threads) },
    );
  assert.deepEqual(problems, []);
  assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), true);
  console.log(JSON.stringify(results));
}

/** Best milliseconds of a run, by bundle and threads: interleaved, so that a change of the machine's speed meets all. */
async function speed(base, threads, rounds, ...names) {
  const { page } = await open(`${base}test/blank.html`);
  const result = await page.evaluate(
    async ({ names, threads, rounds }) => {
      const { Model } = await import("/sterna/index.js");
      const models = await Promise.all(names.map((name) => Model.load(`/bundles/${name}/`, { threads })));
      const best = names.map(() => Infinity);
      for (let round = 0; round < rounds; round++)
        models.forEach((model, n) => {
          const start = performance.now();
          model.run();
          best[n] = Math.min(best[n], performance.now() - start);
        });
      return Object.fromEntries(names.map((name, n) => [name, best[n]]));
    },
    { names, threads: Number(threads), rounds: Number(rounds) },
  );
  console.log(JSON.stringify(result));
}

async function webgpu(base, tries) {
  const { page, problems } = await open(`${base}test/blank.html`);
  const results = [];
  for (const [name, ...given] of JSON.parse(tries))
    results.push(await page.evaluate(async ({ name, given }) => (await import("/test/webgpu.js"))[name](...given).catch((problem) => ({ problem: String(problem.stack) })), { name, given }));
  assert.deepEqual(problems, []);
  console.log(JSON.stringify(results));
}

/** What the page says to pictures, as JSON. */
async function page(base, shots, given) {
  console.log(JSON.stringify(await tryPage(open, base, shots, given)));
}

/** The table of the tab Measure, and the line below it, as JSON. */
async function beside(base) {
  const { page, problems } = await open(base);
  await page.click("#tab-measure");
  await page.waitForFunction(() => !/^$|…/.test(document.getElementById("beside-note").textContent), null, { timeout: 120_000 });
  const rows = await page.locator("#beside-rows tr").evaluateAll((all) => all.map((tr) => [...tr.children].map((cell) => cell.textContent)));
  console.log(JSON.stringify({ rows, note: await page.textContent("#beside-note"), problems }));
}

async function packaged(url, gpu) {
  const context = await browser.newContext();
  if (gpu === "none") await context.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  const page = await context.newPage();
  const problems = [], asked = [];
  page.on("pageerror", (problem) => problems.push(String(problem)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(url);
  await page.waitForFunction(() => /\d|rror/.test(document.querySelector("#result")?.textContent ?? ""), null, { timeout: 60_000 });
  console.log(JSON.stringify({ text: await page.textContent("#result"), asked, problems }));
}

async function built(url) {
  const { page, problems } = await open(url);
  await page.waitForFunction(() => /\d|rror/.test(document.querySelector("#result")?.textContent ?? ""), null, { timeout: 30_000 });
  console.log(await page.textContent("#result"));
  assert.deepEqual(problems, []);
}
