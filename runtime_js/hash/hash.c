/* XXH64, after its public specification (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md), over data that pass
 * through a buffer: 64-bit products are one instruction in WebAssembly and a page of code in JavaScript.
 * build.py compiles this into src/hash-module.js. */
#include <stdint.h>

/* Names are part of every page, too. */
#define EXPORT(letter, name) __attribute__((export_name(#letter))) name
#define BUFFER 32768

/* Neither const nor static: a load is shorter than the 64-bit constant, and the module is part of every page. */
uint64_t primes[] = {0x9E3779B185EBCA87u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u, 0x85EBCA77C2B2AE63u,
                            0x27D4EB2F165667C5u};
#define P1 primes[0]
#define P2 primes[1]
#define P3 primes[2]
#define P4 primes[3]
#define P5 primes[4]
static uint8_t data[BUFFER] __attribute__((aligned(8)));

static uint64_t rotate(uint64_t x, unsigned bits) { return (x << bits) | (x >> (64 - bits)); }
static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

/* Takes `bytes` of the buffer, a multiple of 32; returns the buffer's address. An instance of the module is good for one
 * hash: it begins with these lanes. */
uint64_t lanes[] = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0, 0x61C8864E7A143579u};
uint8_t *EXPORT(u, update)(uint32_t bytes) {
  uint64_t *lane = lanes;
  for (const uint64_t *p = (const uint64_t *)data; p < (const uint64_t *)(data + bytes); p++) {
    *lane = mix(*lane, *p);
    lane = lane == lanes + 3 ? lanes : lane + 1;
  }
  return data;
}

/* Takes the last `left` bytes, under 32, of `total`; the hash. */
uint64_t EXPORT(f, finish)(uint32_t left, uint32_t total) {
  uint64_t hash = P5;
  if (total >= 32) {
    hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) hash = (hash ^ mix(0, lanes[i])) * P1 + P4;
  }
  hash += total;
  const uint8_t *p = data;
  for (; left >= 8; p += 8, left -= 8) hash = rotate(hash ^ mix(0, *(const uint64_t *)p), 27) * P1 + P4;
  for (; left >= 4; p += 4, left -= 4) hash = rotate(hash ^ *(const uint32_t *)p * P1, 23) * P2 + P3;
  for (; left > 0; p++, left--) hash = rotate(hash ^ *p * P5, 11) * P1;
  hash ^= hash >> 33;
  hash *= P2;
  hash ^= hash >> 29;
  hash *= P3;
  return hash ^ hash >> 32;
}
