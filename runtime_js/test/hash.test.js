import assert from "node:assert/strict";
import { test } from "node:test";
import { hash64 } from "../src/hash.js";

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
