// What needs a real browser. Node: `chromium.js replay BASE THREADS NAME...` prints results of golden sets; `chromium.js page
// BASE SHOTS` tries the page of examples/browser; `chromium.js built URL` a page that a bundler made.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const [what, base, ...rest] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
try {
  await { replay, page, built, speed }[what](base, ...rest);
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

async function page(base, shots) {
  for (const [device, viewport] of [["wide", { width: 1000, height: 800 }], ["phone", { width: 390, height: 844 }]]) {
    const { page, problems, context } = await open(base, { viewport, deviceScaleFactor: 2, hasTouch: device === "phone" });
    await page.waitForFunction(() => /runs/.test(document.getElementById("draw-note").textContent));
    const digits = {
      0: [[.5, .12], [.3, .25], [.25, .5], [.3, .75], [.5, .88], [.7, .75], [.75, .5], [.7, .25], [.5, .12]],
      1: [[.4, .25], [.52, .12], [.52, .88]],
      2: [[.3, .3], [.4, .15], [.6, .15], [.7, .3], [.55, .55], [.3, .85], [.72, .85]],
      5: [[.7, .13], [.33, .13], [.33, .45], [.6, .45], [.7, .65], [.55, .87], [.3, .85]],
    };
    for (const [digit, points] of Object.entries(digits)) {
      await page.click("#clear");
      const box = await page.locator("#paper").boundingBox();
      const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
      await page.mouse.move(...at(points[0]));
      await page.mouse.down();
      for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 8 });
      await page.mouse.up();
      assert.equal(await page.textContent("#answer b"), digit);
    }
    assert.match(await page.textContent("#answer span"), /\d % sure/);
    await page.screenshot({ path: `${shots}/draw-${device}.png`, fullPage: true });

    await page.click("#tab-measure");
    await page.click("#again");
    await page.waitForSelector("#report:not([hidden])", { timeout: 60_000 });
    await page.waitForFunction(() => !document.getElementById("again").disabled, null, { timeout: 60_000 });
    assert.ok((await page.locator("#times .bar").count()) > 3);
    const shown = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("#facts div")].map((d) => [...d.children].map((c) => c.textContent))));
    assert.equal((await shown()).threads, "1");
    await page.selectOption("#threads", "2");
    await page.waitForFunction(() => document.querySelector("#facts").textContent.includes("threads2"), null, { timeout: 60_000 });
    assert.match((await shown()).kernels, /threads/);
    const painted = await page.evaluate(() => {
      const canvas = document.getElementById("arena");
      return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v);
    });
    assert.ok(painted, "the arena's picture is empty");
    await page.screenshot({ path: `${shots}/measure-${device}.png`, fullPage: true });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} pixels wider than the screen`);
    assert.deepEqual(problems, []);
    await context.close();
  }
  console.log("ok");
}

async function built(url) {
  const { page, problems } = await open(url);
  await page.waitForFunction(() => /\d|rror/.test(document.querySelector("#result")?.textContent ?? ""), null, { timeout: 30_000 });
  console.log(await page.textContent("#result"));
  assert.deepEqual(problems, []);
}
