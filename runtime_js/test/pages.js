// The page of `sterna serve` in a browser, used as people use it: drawn upon, given pictures and wrong files, measured.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";

const SIZES = [["wide", { width: 1000, height: 800 }, "light"], ["tablet", { width: 700, height: 900 }, "dark"], ["phone", { width: 390, height: 844 }, "light"]];
const drawings = JSON.parse(readFileSync(new URL("../../tests/targets/drawings.json", import.meta.url), "utf-8"));

/**
 * @param {(url: string, options: any) => Promise<any>} open a page that collects what goes wrong in it
 * @param {string} base the address, with a bundle of the digits to serve
 * @param {string} shots where pictures of the page go
 * @param {string} given a folder with picture.png and wrong files; with bundles: means, of a picture, and vector, of none
 */
export async function tryPage(open, base, shots, given) {
  let said;
  for (const [device, viewport, colorScheme] of SIZES) {
    const { page, problems, context } = await open(base, { viewport, colorScheme, deviceScaleFactor: 2, hasTouch: device === "phone" });
    await page.waitForFunction(() => /runs/.test(document.getElementById("draw-note").textContent));
    await tryDrawing(page, drawings.filter((_, n) => n % (device === "wide" ? 10 : 50) === 0));
    await shoot(page, `${shots}/draw-${device}.png`);
    said = await tryPictures(page, given, `${shots}/picture-${device}.png`);
    await page.reload();
    await tryMeasuring(page, `${shots}/measure-${device}.png`);
    // What the tab made of wrong files is what was meant to be seen, and no error of the page.
    assert.deepEqual(problems, []);
    await context.close();
  }
  return said;
}

async function shoot(page, path) {
  await page.screenshot({ path, fullPage: true });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(overflow <= 0, `${path}: the page is ${overflow} pixels wider than the screen`);
}

/** With the mouse, as they are stored, on a paper of 320 by 320; and with the keyboard. */
async function tryDrawing(page, some) {
  const wrong = [];
  for (const { hand, digit, strokes } of some) {
    await page.click("#clear");
    const box = await page.locator("#paper").boundingBox();
    const at = ([x, y]) => [box.x + (x * box.width) / 320, box.y + (y * box.height) / 320];
    for (const stroke of strokes) {
      await page.mouse.move(...at(stroke[0]));
      await page.mouse.down();
      for (const point of stroke.slice(1)) await page.mouse.move(...at(point));
      await page.mouse.up();
    }
    const answer = await page.textContent("#answer b");
    if (answer !== String(digit)) wrong.push(`${hand} ${digit}: ${answer}`);
  }
  assert.ok(wrong.length <= 0.1 * some.length, wrong.join(", "));
  await page.focus("#paper");
  await page.keyboard.press("Escape");
  assert.equal(await page.textContent("#answer b"), "?");
  const press = async (key, times) => {
    for (let n = 0; n < times; n++) await page.keyboard.press(key);
  };
  await press("ArrowUp", 5);
  await press(" ", 1);
  await press("ArrowDown", 10);
  await press(" ", 1);
  assert.equal(await page.textContent("#answer b"), "1");
  assert.match(await page.textContent("#answer span"), /\d % sure/);
}

const note = (page) => page.textContent("#picture-note");
const isAnswered = (page) => page.waitForSelector("#answers:not([hidden])");
const rows = (page) => page.locator("#outputs .bar").evaluateAll((bars) => bars.map((bar) => [...bar.children].map((c) => c.textContent)));
const folder = (path) => readdirSync(path).map((name) => `${path}/${name}`);

async function tryPictures(page, given, shot) {
  await page.keyboard.press("Tab"); // away from the paper
  await page.focus("#tab-draw");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => location.hash), "#picture");

  // The bundle that is served; it has no labels.
  await page.setInputFiles("#picture-file", `${given}/three.png`);
  await isAnswered(page);
  assert.equal((await rows(page)).length, 5);
  assert.deepEqual((await rows(page))[0][0], "no. 3");

  // Wrong files: plain words, and the old answer is gone.
  for (const [file, words] of [["notes.txt", /“notes.txt” is not a picture/], ["damaged.png", /“damaged.png” is damaged/], ["huge.png", /100000 × 100000 pixels: too many/], ["empty.png", /“empty.png” is empty/]]) {
    await page.setInputFiles("#picture-file", `${given}/three.png`);
    await isAnswered(page);
    await page.setInputFiles("#picture-file", `${given}/${file}`);
    await page.waitForFunction(() => !/^(Looking.*)?$/.test(document.getElementById("picture-note").textContent));
    assert.match(await note(page), words);
    assert.equal(await page.locator("#answers").isVisible(), false, file);
  }
  await page.setInputFiles("#files", [`${given}/picture.png`]);
  assert.match(await note(page), /“picture.png”: no bundle for browsers; graph.json and params.bin and a .wasm file are missing/);

  // A model of vectors takes none.
  await page.setInputFiles("#picture-file", `${given}/picture.png`);
  await page.setInputFiles("#files", folder(`${given}/vector`));
  await page.waitForFunction(() => /takes no picture/.test(document.getElementById("picture-note").textContent));
  assert.match(await note(page), /vector takes no picture. Its inputs: x, float32 \[1, 16\]\./);

  // One with labels, normalization and quantization sees the picture at once; again when it is dropped, and when it is pasted.
  await page.setInputFiles("#files", folder(`${given}/means`));
  await isAnswered(page);
  const said = await rows(page);
  for (const how of ["drop", "paste"]) {
    await page.setInputFiles("#picture-file", `${given}/notes.txt`);
    await page.waitForFunction(() => /notes/.test(document.getElementById("picture-note").textContent));
    await page.evaluate(give, { how, bytes: [...readFileSync(`${given}/picture.png`)] });
    await isAnswered(page);
    assert.deepEqual(await rows(page), said);
  }
  await shoot(page, shot);
  return said;
}

/** In the page: a file as it comes with a drop or a paste. */
function give({ how, bytes }) {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(bytes)], "picture.png", { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  const event = how === "drop" ? new DragEvent("drop", { ...options, dataTransfer: data }) : new ClipboardEvent("paste", { ...options, clipboardData: data });
  document.getElementById("drop").dispatchEvent(event);
}

async function tryMeasuring(page, shot) {
  await page.click("#tab-measure");
  const isMeasured = async () => {
    await page.waitForSelector("#report:not([hidden])", { timeout: 60_000 });
    await page.waitForFunction(() => !document.getElementById("again").disabled, null, { timeout: 60_000 });
  };
  await isMeasured();
  const column = (n) => page.locator(`#times tbody td:nth-child(${n})`).allTextContents();
  const numbers = (await column(1)).map(Number);
  assert.ok(numbers.length > 3);
  assert.deepEqual(numbers, [...numbers].sort((a, b) => a - b));
  // Every heading sorts, once in each direction, and says so.
  for (const n of [1, 2, 3, 4, 5]) {
    const heading = page.locator(`#times th:nth-child(${n})`);
    await heading.locator("button").press("Enter");
    const [first, way] = [await column(1), await heading.getAttribute("aria-sort")];
    await heading.locator("button").click();
    assert.deepEqual([...(await column(1))].sort(), [...first].sort());
    assert.notEqual(await heading.getAttribute("aria-sort"), way);
    assert.equal(await page.locator("#times th[aria-sort]").count(), 1);
  }
  assert.match(await page.textContent("#times-note"), /^\d+ nodes\. A heading sorts\.$/);
  // A name that is cut is whole for those who listen, and in the row that has the focus.
  for (const name of await page.locator("#times .name").all()) {
    const whole = name.locator(".whole");
    assert.equal(await whole.textContent(), await name.getAttribute("title"));
    await name.focus();
    assert.ok((await whole.boundingBox()).width > 20);
  }
  const shown = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("#facts div")].map((d) => [...d.children].map((c) => c.textContent))));
  assert.equal((await shown()).threads, "1");
  // With less room the table scrolls, and says so.
  await page.evaluate(() => (document.getElementById("times-box").style.maxHeight = "90px"));
  await page.selectOption("#threads", "2");
  await page.waitForFunction(() => document.querySelector("#facts").textContent.includes("threads2"), null, { timeout: 60_000 });
  await isMeasured();
  assert.match((await shown()).kernels, /threads/);
  assert.match(await page.textContent("#times-note"), /scroll the table for the rest/);
  await page.evaluate(() => (document.getElementById("times-box").style.maxHeight = ""));
  const painted = await page.evaluate(() => {
    const canvas = document.getElementById("arena");
    return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v);
  });
  assert.ok(painted, "the arena's picture is empty");
  await shoot(page, shot);
  // Another bundle that is none: plain words, and the old report is gone.
  await page.setInputFiles("#files", { name: "model.wasm", mimeType: "application/wasm", buffer: Buffer.from("<html>") });
  await page.waitForFunction(() => /E05\d\d|wasm/.test(document.getElementById("measure-note").textContent));
  assert.equal(await page.locator("#report").isVisible(), false);
  // The report on the bundle that is served has its times now.
  await page.click("#report-link");
  await page.waitForSelector("#panel");
  await page.click("#tab-time");
  assert.match(await page.textContent("#panel"), /mean of \d+ runs in this browser; 2 threads; kernels \S*threads/);
}
