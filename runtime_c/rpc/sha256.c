#include "sha256.h"

#include <string.h>

static const uint32_t ROUNDS[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static uint32_t rotate(uint32_t x, unsigned bits) { return x >> bits | x << (32 - bits); }

static void add_block(uint32_t state[8], const uint8_t *p) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++, p += 4) w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = v[4], a = v[0];
    uint32_t first = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + ROUNDS[i] + w[i];
    uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

void sha256_open(sha256 *hash) {
  static const uint32_t first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                    0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  memcpy(hash->state, first, sizeof first);
  hash->bytes = 0;
}

void sha256_add(sha256 *hash, const void *data, size_t bytes) {
  const uint8_t *p = data;
  while (bytes > 0) {
    size_t used = (size_t)(hash->bytes % 64), take = 64 - used < bytes ? 64 - used : bytes;
    if (take == 64) {
      add_block(hash->state, p);
    } else {
      memcpy(hash->block + used, p, take);
      if (used + take == 64) add_block(hash->state, hash->block);
    }
    hash->bytes += take;
    p += take;
    bytes -= take;
  }
}

void sha256_close(sha256 *hash, uint8_t digest[SHA256_BYTES]) {
  static const uint8_t padding[64] = {0x80};
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(hash->bytes * 8 >> (56 - 8 * i));
  sha256_add(hash, padding, (size_t)(63 - (hash->bytes + 8) % 64 + 1));
  sha256_add(hash, length, sizeof length);
  for (int i = 0; i < SHA256_BYTES; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_open(hmac *mac, const void *key, size_t bytes) {
  uint8_t block[64] = {0};
  sha256_open(&mac->inner);
  sha256_open(&mac->outer);
  if (bytes > sizeof block) {
    sha256 short_key;
    sha256_open(&short_key);
    sha256_add(&short_key, key, bytes);
    sha256_close(&short_key, block);
  } else if (bytes > 0) {
    memcpy(block, key, bytes);
  }
  for (int i = 0; i < 64; i++) block[i] ^= 0x36;
  sha256_add(&mac->inner, block, sizeof block);
  for (int i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
  sha256_add(&mac->outer, block, sizeof block);
}

void hmac_add(hmac *mac, const void *data, size_t bytes) { sha256_add(&mac->inner, data, bytes); }

void hmac_close(hmac *mac, uint8_t digest[SHA256_BYTES]) {
  sha256_close(&mac->inner, digest);
  sha256_add(&mac->outer, digest, SHA256_BYTES);
  sha256_close(&mac->outer, digest);
}

bool same_digest(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]) {
  volatile uint8_t other = 0;
  for (int i = 0; i < SHA256_BYTES; i++) other = (uint8_t)(other | (a[i] ^ b[i]));
  return other == 0;
}
