/* XXH64, after its public specification (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md), over data that pass
 * through a buffer: 64-bit products are one instruction in WebAssembly and a page of code in JavaScript.
 * build.py compiles this into src/hash-module.js. */
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name))) name
#define BUFFER 32768

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;
static uint8_t data[BUFFER] __attribute__((aligned(8)));
static uint64_t a, b, c, d;

#define SMALL __attribute__((noinline)) static

SMALL uint64_t rotate(uint64_t x, unsigned bits) { return (x << bits) | (x >> (64 - bits)); }
SMALL uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }
SMALL uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * P1 + P4; }

/* Starts a new hash; returns the address of the buffer. */
uint8_t *EXPORT(begin)(void) {
  a = P1 + P2;
  b = P2;
  c = 0;
  d = 0 - P1;
  return data;
}

/* Takes `bytes` of the buffer, a multiple of 32. */
void EXPORT(update)(uint32_t bytes) {
  for (const uint64_t *p = (const uint64_t *)data; p < (const uint64_t *)(data + bytes); p += 4) {
    a = mix(a, p[0]);
    b = mix(b, p[1]);
    c = mix(c, p[2]);
    d = mix(d, p[3]);
  }
}

/* Takes the last `left` bytes, under 32, of `total`; the hash. */
uint64_t EXPORT(finish)(uint32_t left, uint32_t total) {
  uint64_t hash = P5;
  if (total >= 32) {
    hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += total;
  const uint8_t *p = data;
  for (; left >= 8; p += 8, left -= 8) hash = rotate(hash ^ mix(0, *(const uint64_t *)p), 27) * P1 + P4;
  if (left >= 4) {
    hash = rotate(hash ^ *(const uint32_t *)p * P1, 23) * P2 + P3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; p++, left--) hash = rotate(hash ^ *p * P5, 11) * P1;
  hash ^= hash >> 33;
  hash *= P2;
  hash ^= hash >> 29;
  hash *= P3;
  return hash ^ hash >> 32;
}
