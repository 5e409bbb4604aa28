/* SHA-256 and HMAC-SHA-256 (FIPS 180-4, FIPS 198-1). */
#ifndef RPC_SHA256_H
#define RPC_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

typedef struct sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
} sha256;

void sha256_open(sha256 *hash);
void sha256_add(sha256 *hash, const void *data, size_t bytes);
void sha256_close(sha256 *hash, uint8_t digest[SHA256_BYTES]);

typedef struct hmac {
  sha256 inner, outer;
} hmac;

void hmac_open(hmac *mac, const void *key, size_t bytes);
void hmac_add(hmac *mac, const void *data, size_t bytes);
void hmac_close(hmac *mac, uint8_t digest[SHA256_BYTES]);

/* In a time that does not depend on where they differ. */
bool same_digest(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
