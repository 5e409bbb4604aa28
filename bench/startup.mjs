// From import to the first result in a page, and what fetching the same bytes takes there.
// `startup.mjs ROOT WAYS ROUNDS`: a server for ROOT, and for each way a new Chromium by turns. WAYS is JSON, a list of
// {name, head, script, fetches}: `head` is HTML for the page's head, `script` the body of an asynchronous function that
// imports, loads and runs, `fetches` the addresses of everything that it needs. A line of JSON for each page.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

const [root, ways, rounds] = [process.argv[2], JSON.parse(process.argv[3]), +process.argv[4]];
const { chromium } = createRequire(process.env.BENCH_MODULES ? `${process.env.BENCH_MODULES}/` : import.meta.url)("playwright-core");
/** The browser has work of its own when it has started. */
const SETTLE_MS = 1500;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json" };
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const PAGE = ({ head, script, fetches }) => `<!doctype html><meta charset=utf-8><link rel=icon href=data:,>${head ?? ""}<script type=module>
const start = performance.now();
try {
  ${script}
  const end = performance.now();
  const entries = performance.getEntriesByType("resource").map((e) => [new URL(e.name).pathname, e.startTime, e.responseStart, e.responseEnd].map((n) => n.toFixed?.(1) ?? n));
  const alone = async () => {
    const begun = performance.now();
    await Promise.all(${JSON.stringify(fetches)}.map(async (url) => (await fetch(url, { cache: "no-store" })).arrayBuffer()));
    return performance.now() - begun;
  };
  const fetching = Math.min(await alone(), await alone());
  window.done = { startup: end - start, navigation: end, fetching, entries, marks: performance.getEntriesByType("mark").map((m) => [m.name, +(m.startTime - start).toFixed(1)]) };
} catch (problem) {
  window.done = { problem: String(problem.stack) };
}
</script>`;

let way;
const server = http.createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const headers = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
  const send = (type, body) => {
    response.writeHead(200, { ...headers, "Content-Type": type, "Content-Length": body.length });
    response.end(body);
  };
  if (pathname === "/page.html") return send("text/html", Buffer.from(PAGE(way)));
  fs.readFile(path.join(root, path.normalize(pathname)), (problem, body) => {
    if (!problem) return send(TYPES[path.extname(pathname)] ?? "application/octet-stream", body);
    response.writeHead(404);
    response.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
for (let round = 0; round < rounds; round++)
  for (way of ways) {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), "startup-"));
    const browser = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
    try {
      const page = await browser.newPage();
      await new Promise((done) => setTimeout(done, SETTLE_MS));
      await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
      const done = await page.waitForFunction(() => window.done, null, { timeout: 60_000 });
      console.log(JSON.stringify({ name: way.name, ...(await done.jsonValue()) }));
    } finally {
      await browser.close();
      fs.rmSync(profile, { recursive: true, force: true });
    }
  }
server.close();
