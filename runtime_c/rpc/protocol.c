#include "protocol.h"

#include <stdlib.h>
#include <string.h>

static void write_number(uint8_t *to, uint64_t n, int bytes) {
  for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t read_number(const uint8_t *from, int bytes) {
  uint64_t n = 0;
  for (int i = bytes; i-- > 0;) n = n << 8 | from[i];
  return n;
}

void rpc_put_head(uint8_t bytes[RPC_HEAD], const rpc_head *head) {
  write_number(bytes, head->length, 4);
  write_number(bytes + 4, head->version, 2);
  write_number(bytes + 6, head->kind, 2);
  write_number(bytes + 8, head->id, 4);
}

rpc_head rpc_get_head(const uint8_t bytes[RPC_HEAD]) {
  rpc_head head;
  head.length = (uint32_t)read_number(bytes, 4);
  head.version = (uint16_t)read_number(bytes + 4, 2);
  head.kind = (uint16_t)read_number(bytes + 6, 2);
  head.id = (uint32_t)read_number(bytes + 8, 4);
  return head;
}

int64_t rpc_bound(uint16_t kind, uint64_t largest_input) {
  switch (kind) {
#define RPC_KIND_BOUND(name, number, most) \
  case number: return (most) + (number == RPC_SET ? (int64_t)largest_input : 0);
    RPC_KINDS(RPC_KIND_BOUND)
#undef RPC_KIND_BOUND
    default: return -1;
  }
}

bool rpc_room(rpc_buffer *b, size_t bytes) {
  if (bytes <= b->size && b->bytes != NULL) return true;
  void *more = bytes < SIZE_MAX / 4 ? realloc(b->bytes, 2 * bytes + 16) : NULL;
  if (more == NULL) {
    b->bad = true;
    return false;
  }
  b->bytes = more;
  b->size = 2 * bytes + 16;
  return true;
}

void rpc_put(rpc_buffer *b, const void *from, size_t bytes) {
  if (b->bad || bytes > SIZE_MAX / 4 - b->used || !rpc_room(b, b->used + bytes)) {
    b->bad = true;
    return;
  }
  if (bytes > 0) memcpy(b->bytes + b->used, from, bytes);
  b->used += bytes;
}

void rpc_put_u32(rpc_buffer *b, uint32_t n) {
  uint8_t bytes[4];
  write_number(bytes, n, 4);
  rpc_put(b, bytes, sizeof bytes);
}

void rpc_put_u64(rpc_buffer *b, uint64_t n) {
  uint8_t bytes[8];
  write_number(bytes, n, 8);
  rpc_put(b, bytes, sizeof bytes);
}

void rpc_put_text(rpc_buffer *b, const char *text) {
  size_t length = text != NULL ? strlen(text) : 0;
  rpc_put_u32(b, (uint32_t)length);
  rpc_put(b, text, length);
}

const uint8_t *rpc_take(rpc_reader *r, size_t bytes) {
  if (r->bad || bytes > r->left) {
    r->bad = true;
    return NULL;
  }
  const uint8_t *at = r->at;
  r->at += bytes;
  r->left -= bytes;
  return at;
}

uint32_t rpc_take_u32(rpc_reader *r) {
  const uint8_t *at = rpc_take(r, 4);
  return at != NULL ? (uint32_t)read_number(at, 4) : 0;
}

uint64_t rpc_take_u64(rpc_reader *r) {
  const uint8_t *at = rpc_take(r, 8);
  return at != NULL ? read_number(at, 8) : 0;
}

bool rpc_done(const rpc_reader *r) { return !r->bad && r->left == 0; }
