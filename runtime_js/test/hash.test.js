import assert from "node:assert/strict";
import { test } from "node:test";
import { hash64, hasher } from "../src/hash.js";

// Values of the specification's reference implementation, as in runtime_c/test/test_parts.c.
const bytes = (n) => Uint8Array.from({ length: n }, (_, i) => (i * 131 + 7) & 255);

test("the empty hash, and lengths around the buffer's", async () => {
  assert.equal(hash64(new Uint8Array()), "ef46db3751d8e999");
  assert.equal(hash64(new TextEncoder().encode("abc")), "44bc2cf5ad770999");
  const seen = new Set();
  for (const n of [1, 31, 32, 33, 32767, 32768, 32769, 100000]) seen.add(hash64(bytes(n)));
  assert.equal(seen.size, 8);
});

test("what was hashed before leaves nothing behind", async () => {
  const wanted = hash64(bytes(100));
  hash64(bytes(70000));
  assert.equal(hash64(bytes(100)), wanted);
});

test("pieces give what the whole gives", async () => {
  for (const piece of [1, 31, 4096, 32768, 50001]) {
    const data = bytes(70001);
    const hash = hasher();
    for (let at = 0; at < data.length; at += piece) hash.add(data.subarray(at, at + piece));
    assert.equal(hash.end(), hash64(data));
  }
});
