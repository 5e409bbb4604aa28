// The parts of the page of examples/browser that need no page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromHalf, imageSize, largest, plane, real, stretch, toHalf, toInput, withChannels } from "../../examples/browser/image.js";
import { seen } from "../../examples/browser/strokes.js";
import { shortened, sortedBy } from "../../examples/browser/table.js";
import { Model } from "../src/index.js";
import { about } from "../src/inspect.js";
import { parts, skip } from "./bundles.js";

const drawings = JSON.parse(readFileSync(new URL("../../tests/targets/drawings.json", import.meta.url), "utf-8"));
const nothing = { metadata: {}, quantization: {} };

test("drawings of other people are recognised, wherever and however large they are", { skip }, async () => {
  const model = await Model.load(await parts("digits"));
  const wrong = drawings.filter(({ digit, strokes }) => {
    const { scores } = model.run({ image: seen(strokes) });
    return scores.indexOf(Math.max(...scores)) !== digit;
  });
  const names = wrong.map(({ hand, digit }) => `${hand} ${digit}`).join(", ");
  assert.equal(drawings.length, 200);
  assert.ok(wrong.length <= 10, `${wrong.length} of 200 are wrong: ${names}`);
  const place = (scale, x, y) => (stroke) => stroke.map(([u, v]) => [x + scale * u, y + scale * v]);
  for (const { strokes } of drawings.slice(0, 20)) assert.deepEqual(seen(strokes.map(place(0.25, 240, 16))), seen(strokes));
});

test("what is hardly a drawing", () => {
  assert.equal(seen([]), undefined);
  for (const strokes of [[[[5, 5]]], [[[5, 5], [5, 5]]], [[[0, 0]], [[320, 0]]]]) {
    const image = seen(strokes);
    assert.ok(image.every((v) => v >= 0 && v <= 1) && image.some((v) => v > 0));
  }
});

test("inputs that hold one image", () => {
  const of = (dims, dtype = "float32") => plane({ name: "x", dtype, dims });
  assert.deepEqual(of([1, 3, 224, 200]), { height: 224, width: 200, channels: 3, last: false });
  assert.deepEqual(of([1, 224, 200, 3], "uint8"), { height: 224, width: 200, channels: 3, last: true });
  assert.deepEqual(of([28, 30]), { height: 28, width: 30, channels: 1, last: true });
  for (const dims of [[1, 128], [], [2, 3, 8, 8], [1, 8, 8, 2], [10]]) assert.equal(of(dims), undefined);
  assert.equal(of([1, 1, 8, 8], "bool"), undefined);
});

test("pixels become what the model says of its input", () => {
  const pixels = new Uint8ClampedArray([0, 128, 255, 10, 20, 30]); // two pixels
  const info = (dtype) => ({ name: "x", dtype, dims: [] });
  const last = { height: 1, width: 2, channels: 3, last: true };
  const first = { ...last, last: false };
  assert.deepEqual([...toInput(pixels, info("uint8"), first, nothing)], [0, 10, 128, 20, 255, 30]);
  assert.deepEqual([...toInput(pixels, info("int8"), last, nothing)], [-128, 0, 127, -118, -108, -98]);
  assert.deepEqual([...toInput(pixels, info("float32"), last, nothing)], [0, 128, 255, 10, 20, 30].map((p) => Math.fround(p / 255)));
  assert.deepEqual([...toInput(pixels, info("int64"), last, nothing)], [0n, 128n, 255n, 10n, 20n, 30n]);
  const said = { metadata: { normalization: { x: { mean: [127.5], std: [127.5] } } }, quantization: { x: { scale: [1 / 128], zero_point: [128] } } };
  assert.deepEqual([...toInput(pixels, info("uint8"), last, said)], [0, 129, 255, 10, 20, 30]);
  const channels = { metadata: { normalization: { x: { mean: [0, 100, 200], std: [1, 2, 5] } } }, quantization: {} };
  assert.deepEqual([...toInput(pixels, info("float64"), last, channels)], [0, 14, 11, 10, -40, -34]);
  const two = { metadata: { normalization: { x: { mean: [0, 1], std: [1] } } }, quantization: {} };
  assert.throws(() => toInput(pixels, info("float32"), last, two), /2 numbers; the image has 3 channels/);
  assert.deepEqual([...withChannels(new Uint8ClampedArray([255, 0, 0, 255, 10, 10, 10, 0]), 1)], [76, 10]);
});

test("half floats", () => {
  for (const [value, bits] of [[0, 0], [1, 0x3c00], [-2, 0xc000], [65504, 0x7bff], [65520, 0x7c00], [2 ** -24, 1], [0.1, 0x2e66], [2047.5, 0x6800]])
    assert.equal(toHalf(value), bits, String(value));
  for (let bits = 0; bits < 0x7c00; bits++) assert.equal(toHalf(fromHalf(bits)), bits);
  assert.ok(Number.isNaN(fromHalf(0x7e01)));
  assert.equal(fromHalf(0xfc00), -Infinity);
});

test("an image is stretched as Pillow does it", () => {
  // Image.fromarray(...).resize((5, 2) and (2, 5), Image.Resampling.BILINEAR) of what follows, in grey; it rounds once more in
  // the direction that it takes first.
  const pixels = new Uint8ClampedArray([0, 50, 100, 150, 200, 250, 30, 60, 90, 120, 7, 255]);
  const from = { width: 4, height: 3, channels: 1 };
  assert.deepEqual([...stretch(pixels, from, { width: 4, height: 3 })], [...pixels]);
  const near = (given, wanted) => assert.ok(given.length === wanted.length && wanted.every((v, n) => Math.abs(v - given[n]) <= 1), given.join());
  near(stretch(pixels, from, { width: 5, height: 2 }), [75, 110, 100, 87, 116, 131, 158, 93, 66, 182]);
  near(stretch(pixels, from, { width: 2, height: 5 }), [36, 114, 100, 98, 197, 74, 133, 107, 91, 129]);
});

test("answers", () => {
  assert.deepEqual(
    largest(Float64Array.of(0.1, 0.7, 0.2), 2, ["a", "b", "c"]),
    [{ index: 1, label: "b", share: 1, value: "70.0 %" }, { index: 2, label: "c", share: 0.2 / 0.7, value: "20.0 %" }],
  );
  assert.deepEqual(largest(Float64Array.of(-4, 8, 8), 5).map((row) => [row.index, row.label, row.share, row.value]), [
    [1, undefined, 1, "8"], [2, undefined, 1, "8"], [0, undefined, 0, "-4"],
  ]);
  assert.deepEqual(largest(new Float64Array(0), 5), []);
  const info = (dtype, dims) => ({ name: "y", dtype, dims });
  assert.deepEqual([...real(Uint8Array.of(0, 128, 255), info("uint8", [1, 3]), { scale: [0.5], zero_point: [128] })], [-64, 0, 63.5]);
  assert.deepEqual([...real(Int8Array.of(1, 1, 1, 1), info("int8", [2, 2]), { scale: [1, 10], zero_point: [0, 1], axis: 1 })], [1, 0, 1, 0]);
  assert.deepEqual([...real(BigInt64Array.of(3n), info("int64", [1]))], [3]);
  assert.deepEqual([...real(Uint16Array.of(0x3c00), info("float16", [1]))], [1]);
  assert.deepEqual([...real(Uint16Array.of(0x3f80, 0xc000), info("bfloat16", [2]))], [1, -2]);
});

test("the size of a picture is known before it is decoded", () => {
  const png = new Uint8Array(24);
  png.set([0x89, 0x50, 0x4e, 0x47]);
  new DataView(png.buffer).setUint32(16, 100000);
  new DataView(png.buffer).setUint32(20, 70000);
  assert.deepEqual(imageSize(png), { width: 100000, height: 70000 });
  const jpeg = Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc2, 0, 17, 8, 0x10, 0, 0x20, 1, 3);
  assert.deepEqual(imageSize(jpeg), { width: 0x2001, height: 0x1000 });
  assert.deepEqual(imageSize(new TextEncoder().encode("GIF89a\u0001\u0000\u0002\u0000")), { width: 1, height: 2 });
  const random = (n) => Uint8Array.from({ length: n % 40 }, (_, i) => (n * 2654435761 + i * 40503) >>> (i % 24));
  for (const head of [[], [0xff, 0xd8, 0xff], [0x89, 0x50, 0x4e, 0x47], [0x42, 0x4d], [0x47, 0x49, 0x46]])
    for (let n = 0; n < 500; n++) imageSize(Uint8Array.of(...head, ...random(n)));
  assert.equal(imageSize(new Uint8Array(0)), undefined);
});

test("names are shortened in the middle and stay different", () => {
  assert.deepEqual(shortened(["a", "b"], 9), ["a", "b"]);
  assert.deepEqual(shortened(["model/block/a", "model/block/b"], 30), ["…a", "…b"]);
  const long = ["conv_stage_one_with_a_long_name_relu", "conv_stage_two_with_a_long_name_relu", "short"];
  const texts = shortened(long, 16);
  assert.ok(texts.every((text) => text.length <= 16), texts.join());
  assert.ok(texts[0].includes("one") && texts[1].includes("two"), texts.join());
  for (let n = 0; n < 300; n++) {
    const names = Array.from({ length: 30 }, (_, i) => `${"stem/".repeat(n % 3)}${"x".repeat((n * i) % 40)}${i % 7}${"y".repeat((n + i) % 40)}`);
    assert.equal(new Set(shortened(names, 5 + (n % 30))).size, new Set(names).size);
  }
  assert.deepEqual(shortened([], 10), []);
});

test("rows are sorted by numbers and by names with numbers in them", () => {
  const lines = ["k10", "k9", "a"].map((name, n) => ({ row: { name, ms: [3, 20, 1][n] } }));
  const by = (key, ascending) => sortedBy(lines, { key, ascending }).map(({ row }) => row.name);
  assert.deepEqual(by("name", true), ["a", "k9", "k10"]);
  assert.deepEqual(by("ms", false), ["k9", "k10", "a"]);
});

test("about a model", { skip }, async () => {
  assert.deepEqual(about(await Model.load(await parts("digits"))), nothing);
});
