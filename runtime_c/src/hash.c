/* XXH64, after its public specification (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md). */
#include <string.h>

#include "internal.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, unsigned bits) { return (x << bits) | (x >> (64 - bits)); }

/* Little-endian whatever the machine; compilers make one load of it. */
static uint64_t read64(const uint8_t *p) {
  uint64_t low = (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
  uint64_t high = (uint64_t)p[4] | (uint64_t)p[5] << 8 | (uint64_t)p[6] << 16 | (uint64_t)p[7] << 24;
  return low | high << 32;
}

static uint64_t read32(const uint8_t *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * P1 + P4; }

uint64_t sterna_hash64(const void *data, size_t bytes) {
  static const uint8_t nothing = 0;
  const uint8_t *p = data != NULL && bytes > 0 ? (const uint8_t *)data : &nothing;
  size_t left = data != NULL ? bytes : 0;
  uint64_t hash = P5;
  if (left >= 32) {
    uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
    for (; left >= 32; p += 32, left -= 32) {
      a = mix(a, read64(p));
      b = mix(b, read64(p + 8));
      c = mix(c, read64(p + 16));
      d = mix(d, read64(p + 24));
    }
    hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += bytes;
  for (; left >= 8; p += 8, left -= 8) hash = rotate(hash ^ mix(0, read64(p)), 27) * P1 + P4;
  if (left >= 4) {
    hash = rotate(hash ^ read32(p) * P1, 23) * P2 + P3;
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
