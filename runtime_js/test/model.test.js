import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Model, SternaError } from "../src/index.js";
import { plan, tensor } from "../src/inspect.js";
import { Model as WorkerModel } from "../src/worker.js";
import { Strings } from "../src/strings.js";
import { file, parts, place, skip } from "./bundles.js";
import { replay } from "./replay.js";

const read = (name) => async (part) => {
  const bytes = await file(`${name}/${part}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};
const image = () => new Float32Array(64).map((_, i) => (i % 7) - 3);

for (const name of ["all", "llvm"]) // tests/targets/test_golden_matrix.py replays the others
  for (const threads of name === "all" ? [1, 2] : [1])
    test(`golden sets: ${name}, ${threads} threads`, { skip }, async () => {
      const result = await replay(Model, `${place}/${name}/`, read(name), { threads });
      assert.ok(result.sets >= 3);
      assert.ok(result.error <= result.tolerance, `${result.error}`);
      assert.equal(result.library.includes("threads"), threads > 1);
    });

test("golden sets in a worker", { skip }, async () => {
  const result = await replay(WorkerModel, `${place}/all/`, read("all"), { threads: 2 });
  assert.ok(result.error <= result.tolerance);
});

test("states go back to what they were after loading", { skip }, async () => {
  for (const Kind of [Model, WorkerModel]) {
    const model = await Kind.load(`${place}/counter`);
    const sums = async () => [...Object.values(await model.run({ [model.inputs[0].name]: new Float32Array([1, 2]) }))[0]];
    assert.deepEqual([await sums(), await sums()], [[8, 9], [9, 11]]);
    await model.resetState();
    assert.deepEqual(await sums(), [8, 9]);
    model.dispose();
  }
});

test("every way to load gives the same", { skip }, async () => {
  const bytes = await file("single/model.wasm");
  const given = await parts("digits");
  const module = await WebAssembly.compile(given.module);
  const sources = [
    `${place}/digits`, new URL(`file://${place}/digits/`), `${place}/digits/graph.json`, `${place}/single/model.wasm`,
    bytes, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength),
    new Response(bytes, { headers: { "content-type": "application/wasm" } }), given, { ...given, module },
  ];
  const wanted = (await Model.load(sources[0])).run({ image: image() }).scores.slice();
  for (const source of sources.slice(1)) {
    const model = await Model.load(source);
    assert.deepEqual(model.run({ image: image() }).scores, wanted);
    model.dispose();
  }
});

test("the signature", { skip }, async () => {
  const model = await Model.load(`${place}/digits`);
  assert.equal(model.name, "digits");
  assert.deepEqual(model.inputs, [{ name: "image", dtype: "float32", dims: [1, 1, 8, 8] }]);
  assert.deepEqual(model.outputs, [{ name: "scores", dtype: "float32", dims: [1, 10] }]);
  assert.deepEqual(model.dims, []);
  assert.throws(() => new Model(), { code: "E0501" });
});

test("inputs are written and outputs read without copies", { skip }, async () => {
  const model = await Model.load(`${place}/digits`);
  const copied = model.run({ image: image() }).scores.slice();
  model.input("image").fill(0);
  const { scores } = model.run();
  assert.notDeepEqual(scores, copied);
  model.input("image").set(image());
  model.run();
  assert.deepEqual(scores, copied);
  assert.equal(scores.buffer, model.input("image").buffer);
  assert.deepEqual(model.output("scores"), scores);
});

test("a thousand runs leave the memory as it was", { skip }, async () => {
  const model = await Model.load(`${place}/digits`);
  const view = model.input("image");
  const { total } = model.memory;
  for (let n = 0; n < 1000; n++) model.run({ image: image() });
  assert.equal(model.memory.total, total);
  assert.equal(model.input("image").buffer, view.buffer);
  assert.equal(view.length, 64);
  assert.equal(view.buffer.byteLength, total);
});

test("profile, plan and intermediate tensors", { skip }, async () => {
  const model = await Model.load(`${place}/debug`);
  assert.throws(() => tensor(model, "scores"), { code: "E0510" });
  const times = model.profile({ image: image() }, { runs: 3 });
  assert.ok(times.length > 3);
  for (const { name, kernel, ms, tasks, sources } of times) {
    assert.ok(name && kernel && ms >= 0 && tasks >= 1 && Array.isArray(sources));
  }
  const { arena } = model.memory;
  const lives = plan(model);
  for (const { offset, bytes, first, last } of lives) assert.ok(offset + bytes <= arena && first <= last && last < times.length);
  const { scores } = model.run({ image: image() });
  assert.deepEqual(tensor(model, "scores"), scores);
  for (const { name, dims } of lives) assert.equal(tensor(model, name).length, dims.reduce((a, b) => a * b, 1));
  const usual = await Model.load(`${place}/digits`);
  usual.run({ image: image() });
  assert.throws(() => tensor(usual, plan(usual)[0].name), { code: "E0510" });
});

test("open dimensions", { skip }, async () => {
  const model = await Model.load(`${place}/open`);
  const [batch, seq] = model.dims;
  assert.deepEqual([batch.name, batch.size, seq.lo, seq.hi], ["batch", batch.hi, 1, 48]);
  model.setDims({ batch: 2, seq: 9 });
  assert.deepEqual(model.inputs[0].dims, [2, 9]);
  assert.equal(model.input("ids").length, 18);
  assert.throws(() => model.setDims({ seq: 49 }), { code: "E0501", message: /"seq" is 49; the model takes 1 to 48/ });
  assert.throws(() => model.setDims({ sequence: 4 }), { code: "E0501", message: /no dimension "sequence" to set; it has: batch, seq/ });
  assert.throws(() => model.setDims({ seq: 4.5 }), { code: "E0501" });
  assert.deepEqual(model.dims.map((d) => d.size), [2, 9]);
  const ids = { data: new BigInt64Array(15), dims: [3, 5] };
  model.run({ ids, mask: { data: new BigInt64Array(15).fill(1n), dims: [3, 5] } });
  assert.deepEqual(model.outputs[0].dims.slice(0, 2), [3, 5]);
  assert.throws(() => model.run({ ids: { data: new BigInt64Array(15), dims: [3, 50] } }), { code: "E0501" });
});

test("open dimensions of multiples", { skip }, async () => {
  const model = await Model.load(`${place}/multiples`);
  assert.deepEqual(model.dims.map(({ name, lo, hi }) => [name, lo, hi]), [["height/4", 2, 8]]);
  const image = (/** @type {number} */ height) => ({ image: { data: new Float32Array(3 * height * 8), dims: [1, 3, height, 8] } });
  model.run(image(20));
  assert.equal(model.dims[0].size, 5);
  assert.throws(() => model.run(image(22)), { code: "E0501", message: /height\/4.*5\.5/ });
  assert.throws(() => model.run(image(36)), { code: "E0501" });
});

test("sizes that the model computes", { skip }, async () => {
  const model = await Model.load(`${place}/sizes`);
  const [found] = model.dims;
  assert.deepEqual([found.computed, found.size, found.hi], [true, 90, 90]);
  assert.throws(() => model.setDims({ [found.name]: 4 }), { code: "E0501", message: /no dimension .* to set; it has: none/ });
  const boxes = new Float32Array(120).map((_, i) => 9 * (i >> 2) + 3 * Number((i & 3) > 1)); // apart from each other
  for (const best of [0, 1, 7, 90, 3]) {
    const { confidence, selected } = model.run({ boxes, scores: new Float32Array(90).map((_, i) => (i < best ? 0.9 : 0.1)) });
    assert.deepEqual([confidence.length, selected.length, model.dims[0].size], [best, 3 * best, best]);
    assert.ok(confidence.every((score) => score > 0.5));
    assert.deepEqual(model.outputs.find((t) => t.name === "table").dims, [best, 6]);
  }
});

test("strings", { skip }, async () => {
  const bytes = await file("strings/strings.json");
  const words = new Strings(bytes);
  const x = ["gull", "penguin", "tern", "penguin"];
  const wanted = { group: ["Laridae", "?", "Sternidae", "?"], number: new BigInt64Array([9n, -1n, 7n, -1n]), same: x };
  for (const Kind of [Model, WorkerModel]) {
    const model = await Kind.load(`${place}/strings`);
    assert.deepEqual(await words.run(model, { x }), wanted);
    assert.deepEqual(await words.run(model, { x: { data: x, dims: [4] } }), wanted);
    await assert.rejects(words.run(model, { x: ["gull", 7, "", ""] }), { code: "E0603", message: /element of the input "x" is a number/ });
    await assert.rejects(words.run(model, { x: "gull" }), { code: "E0603" });
    await assert.rejects(words.run(model, { x: ["gull"] }), { code: "E0604" });
    const swapped = new TextEncoder().encode(new TextDecoder().decode(bytes).replace("Laridae", "Larinae"));
    await assert.rejects(new Strings(swapped).run(model, { x }), { code: "E0505", message: /strings.json: hash/ });
    await assert.rejects(new Strings(bytes.slice(1)).run(model, { x }), { code: "E0505" });
    model.dispose();
  }
  assert.throws(() => new Strings(JSON.parse(new TextDecoder().decode(bytes))), { code: "E0501" });
  const other = await Model.load(`${place}/digits`);
  await assert.rejects(words.run(other, { x }), { code: "E0505", message: /has no strings/ });
  other.dispose();
});

test("progress and aborting, over HTTP", { skip }, async () => {
  const server = createServer(async (request, response) => {
    const data = await file(request.url.slice(1)).catch(() => undefined);
    if (!data) return response.writeHead(404).end("nothing here");
    response.writeHead(200, { "content-length": data.length });
    response.write(data.subarray(0, data.length >> 1));
    if (request.url.endsWith("params.bin") && slow) return; // never ends
    response.end(data.subarray(data.length >> 1));
  });
  let slow = false;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    const seen = {};
    const model = await Model.load(`${base}/digits`, { onProgress: ({ file, loaded, total }) => (seen[file] = [loaded, total]) });
    assert.equal(model.run({ image: image() }).scores.length, 10);
    assert.deepEqual(Object.keys(seen).sort(), ["graph.json", "model.wasm", "params.bin"]);
    for (const [loaded, total] of Object.values(seen)) assert.equal(loaded, total);
    slow = true;
    const stop = new AbortController();
    const load = Model.load(`${base}/digits`, { signal: stop.signal });
    setTimeout(() => stop.abort(), 50);
    await assert.rejects(load, { name: "AbortError" });
    await assert.rejects(Model.load(`${base}/digits`, { signal: AbortSignal.abort() }), { name: "AbortError" });
    await assert.rejects(WorkerModel.load(`${base}/digits`, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
    await assert.rejects(Model.load(`${base}/nowhere/`), { code: "E0503", message: /graph\.json: .* answered 404/ });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("weights that come in small pieces, and an answer that breaks off", { skip }, async () => {
  const server = createServer(async (request, response) => {
    const data = await file(request.url.slice(1).replace("broken", "digits")).catch(() => undefined);
    if (!data) return response.writeHead(404).end();
    response.writeHead(200, { "content-length": data.length });
    const piece = request.url.endsWith("params.bin") ? Math.ceil(data.length / 7) : data.length;
    for (let at = 0; at < data.length; at += piece) {
      response.write(data.subarray(at, at + piece));
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (piece < data.length && request.url.startsWith("/broken")) return response.destroy();
    }
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    for (const [name, threads] of [["digits", 1], ["open", 1], ["sizes", 1], ["all", 2]]) {
      const result = await replay(Model, `${base}/${name}/`, read(name), { threads });
      assert.ok(result.error <= result.tolerance, `${name}: ${result.error}`);
    }
    await assert.rejects(Model.load(`${base}/broken/`), { name: "SternaError", code: "E0503", message: /params\.bin: cannot be read/ });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("a disposed model says so", { skip }, async () => {
  const model = await Model.load(`${place}/all`, { threads: 2 });
  assert.equal(model.threads, 2);
  model.dispose();
  model.dispose();
  for (const call of [() => model.run(), () => model.input("image"), () => model.profile(), () => tensor(model, "x"), () => model.setDims({})])
    assert.throws(call, (e) => e instanceof SternaError && e.code === "E0520" && /"digits" has been disposed/.test(e.message));
  if (Symbol.dispose) assert.equal(Model.prototype[Symbol.dispose], Model.prototype.dispose);
  const worker = await WorkerModel.load(`${place}/digits`);
  const running = worker.run({ image: image() });
  worker.dispose();
  await assert.rejects(running, { code: "E0520" });
  await assert.rejects(worker.run(), { code: "E0520" });
});

test("threads that cannot be had: one, and a warning", { skip }, async (t) => {
  const warned = t.mock.method(console, "warn", () => {});
  const model = await Model.load(`${place}/digits`, { threads: 4 });
  assert.equal(model.threads, 1);
  assert.match(warned.mock.calls[0].arguments[0], /one thread instead of 4; compile with --all-variants/);
  globalThis.crossOriginIsolated = false;
  t.after(() => delete globalThis.crossOriginIsolated);
  assert.equal((await Model.load(`${place}/all`, { threads: 4 })).threads, 1);
  assert.match(warned.mock.calls[1].arguments[0], /serve the page with COOP and COEP/);
  await assert.rejects(Model.load(`${place}/all`, { threads: 0 }), { code: "E0501" });
});

test("the worker answers like the model", { skip }, async () => {
  const model = await Model.load(`${place}/open`);
  const worker = await WorkerModel.load(`${place}/open`);
  assert.deepEqual(worker.inputs, model.inputs);
  assert.deepEqual(worker.memory, model.memory);
  await worker.setDims({ batch: 1, seq: 3 });
  assert.deepEqual(worker.inputs[0].dims, [1, 3]);
  await assert.rejects(worker.run({ nothing: new Float32Array(1) }), { code: "E0602", name: "SternaError" });
  assert.ok((await worker.profile({}, { runs: 1 })).length);
  assert.deepEqual(await worker.plan(), (model.setDims({ batch: 1, seq: 3 }), plan(model)));
  worker.dispose();
  await assert.rejects(WorkerModel.load(`${place}/nowhere`), { code: "E0503" });
});
