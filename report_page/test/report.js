// Reports in a browser, used as people use them. Node: `report.js tour SHOTS FILE...` opens every tab of every file at three
// widths and prints what it read; `report.js speed FILE` prints how fast a large graph opens and moves; `report.js hot FILE`
// prints which node three clicks lead to; `report.js visit URL` prints the title of a page that a server gives out.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");
const FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const SIZES = [["wide", { width: 1360, height: 850 }, "light"], ["tablet", { width: 800, height: 1000 }, "dark"], ["phone", { width: 390, height: 844 }, "light"]];
const [what, ...rest] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
try {
  console.log(JSON.stringify(await { tour, speed, hot, visit }[what](...rest)));
} finally {
  await browser.close();
}

/** A page that notes everything that goes wrong in it, and every request that is not for itself. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (problem) => problems.push(String(problem)));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("dialog", (dialog) => (problems.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => !request.url().startsWith("data:") && new URL(request.url()).href.split("#")[0] !== url && problems.push(`asks for ${request.url()}`));
  await page.goto(url);
  await page.waitForSelector("#panel");
  return { page, problems, context };
}

async function tabs(page) {
  return page.locator('[role="tab"]').evaluateAll((found) => found.map((tab) => tab.id.replace("tab-", "")));
}

/** Of every file, by name: what its tabs say. Fails with whatever went wrong. */
async function tour(shots, ...files) {
  const said = {};
  for (const file of files) {
    const name = basename(file, ".html");
    for (const [device, viewport, colorScheme] of SIZES) {
      const { page, problems, context } = await open(pathToFileURL(file).href, { viewport, colorScheme, deviceScaleFactor: device === "phone" ? 2 : 1, hasTouch: device === "phone" });
      const found = {};
      for (const tab of await tabs(page)) {
        await page.click(`#tab-${tab}`);
        assert.equal(await page.getAttribute(`#tab-${tab}`, "aria-selected"), "true");
        found[tab] = await page.textContent("#panel");
        if (tab === "graph") found.nodes = await clickNodes(page, device === "wide" ? 12 : 2);
        if (tab === "summary") found.facts = await page.locator(".facts div").evaluateAll((all) => Object.fromEntries(all.map((d) => [d.children[0].textContent, d.children[1].firstChild.textContent])));
        if (tab === "time" || tab === "summary") await useTables(page);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(overflow <= 0, `${name} ${tab} ${device}: ${overflow} pixels wider than the screen`);
        if (shots !== "-") await page.screenshot({ path: `${shots}/${name}-${tab}-${device}.png`, fullPage: tab !== "graph" });
        const faults = await axe(page);
        assert.deepEqual(faults, [], `${name} ${tab} ${device}`);
      }
      if (device === "wide") {
        found.printed = await print(page);
        said[name] = found;
      }
      assert.deepEqual(problems, [], `${name} ${device}`);
      await context.close();
    }
  }
  return said;
}

/** The headings of what is printed: every tab but a graph that is not open, of every bundle. */
async function print(page) {
  const shown = await tabs(page);
  await page.click("#tab-summary");
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const parts = await page.locator(".part").allTextContents();
  assert.ok(parts.length >= shown.length - 1, `prints ${parts}`);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator(".part").count(), 0);
  return parts;
}

/** Opens nodes one after another, by click and by key; gives what stands beside each. */
async function clickNodes(page, most) {
  const shown = await page.locator(".node").evaluateAll((all) => all.map((node) => Number(node.dataset.node)));
  const found = {};
  for (const node of shown.slice(0, most)) {
    await page.dispatchEvent(`.node[data-node="${node}"]`, "click");
    await page.waitForSelector(`.node.picked[data-node="${node}"]`);
    found[node] = await page.textContent(".side");
  }
  if (shown.length > 1) {
    await page.focus(".canvas svg");
    await page.keyboard.press("ArrowUp");
    await page.waitForSelector(".node.picked");
  }
  return found;
}

async function useTables(page) {
  for (const table of await page.locator(".tabled").all()) {
    const rows = await table.locator("tbody tr").count();
    for (const heading of (await table.locator("th button").all()).slice(0, 4)) {
      await heading.click();
      await heading.click();
    }
    assert.equal(await table.locator("tbody tr").count(), rows);
    await table.locator("input").fill("no such row, surely");
    assert.equal(await table.locator("tbody tr").count(), 0);
    await table.locator("input").fill("");
    assert.equal(await table.locator("tbody tr").count(), rows);
  }
}

/** Serious and critical findings of axe-core. It is run in a world of its own, which the page's policy does not bind. */
async function axe(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  const run = (expression) => session.send("Runtime.evaluate", { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
  await run(AXE);
  const { result, exceptionDetails } = await run(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")))`);
  await session.detach();
  assert.equal(exceptionDetails, undefined);
  return result.value;
}

/** Seconds until the graph of a report stands, by the clock and of the page's own thread, and frames a second while it is dragged and scaled. */
async function speed(file) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const begun = performance.now();
  await page.goto(`${pathToFileURL(file).href}#graph`);
  await page.waitForSelector(".node");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const opened = (performance.now() - begun) / 1e3;
  const cpu = (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
  const box = await page.locator(".canvas svg").boundingBox();
  const frames = async (move) => {
    await page.evaluate(() => {
      globalThis.counted = { frames: 0, from: performance.now(), going: true };
      const tick = () => globalThis.counted.going && (globalThis.counted.frames++, requestAnimationFrame(tick));
      requestAnimationFrame(tick);
    });
    await move();
    return page.evaluate(() => ((globalThis.counted.going = false), (1e3 * globalThis.counted.frames) / (performance.now() - globalThis.counted.from)));
  };
  const drag = async () => {
    for (const way of [1, -1, 1, -1]) {
      await page.mouse.move(box.x + 400, box.y + 300);
      await page.mouse.down();
      for (let k = 1; k <= 25; k++) await page.mouse.move(box.x + 400 - 2 * way * k, box.y + 300 - 10 * way * k);
      await page.mouse.up();
    }
  };
  const near = await frames(drag);
  await page.getByRole("button", { name: "All", exact: true }).click();
  const drawn = await page.locator(".node").count();
  const whole = await frames(drag);
  return { seconds: opened, cpu, near, whole, drawn };
}

/** As somebody who has never seen a report: the first link under "where the time goes", then its kernel. */
async function hot(file) {
  const { page, problems } = await open(pathToFileURL(file).href);
  await page.click(".hot li:first-child .link");
  const picked = await page.getAttribute(".node.picked", "data-node");
  const beside = await page.textContent(".side");
  assert.deepEqual(problems, []);
  return { clicks: 1, node: Number(picked), beside };
}

async function visit(url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (problem) => problems.push(String(problem)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.goto(url);
  await page.waitForSelector("#panel");
  const found = { title: await page.title(), tabs: await tabs(page) };
  await page.click("#tab-time");
  found.measure = await page.getAttribute("#panel a", "href");
  assert.deepEqual(problems, []);
  return found;
}
