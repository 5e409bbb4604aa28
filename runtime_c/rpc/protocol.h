/* What docs/rpc.md says, in C: kinds of frames, their bounds, statuses, and numbers as they travel. */
#ifndef RPC_PROTOCOL_H
#define RPC_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPC_VERSION = 1, RPC_HEAD = 12, RPC_REPLY = 0x8000, RPC_ERROR = 0xffff, RPC_NONCE = 32 };
enum { RPC_CHUNK = 1 << 20, RPC_MOST_FILES = 256, RPC_MOST_LOAD = 1 << 16, RPC_MOST_DIMS = 64, RPC_MOST_RUNS = 100000 };
enum { RPC_MOST_MESSAGE = 251, RPC_MOST_NAME = 127 };

/* X(name, number, most bytes of a request's payload). That of SET depends on the model. */
#define RPC_KINDS(X)                                                                                                  \
  X(HELLO, 1, 256) X(PROOF, 2, 32) X(TURN, 3, 4) X(STATUS, 4, 0) X(HAS, 5, 256) X(HAVE, 6, 4 + RPC_MOST_FILES * 32)   \
  X(PUT, 7, RPC_CHUNK + 48) X(LOAD, 8, RPC_MOST_LOAD) X(UNLOAD, 9, 0) X(TABLE, 10, 4) X(SET, 11, 4)                   \
  X(DIMS, 12, 4 + 8 * RPC_MOST_DIMS) X(RUN, 13, 0) X(TIME, 14, 24) X(PROFILE, 15, 0) X(RESET, 16, 0) X(GET, 17, 4)    \
  X(VALUE, 18, 4) X(LIMIT, 19, 4) X(BYE, 20, 0)

typedef enum rpc_kind {
#define RPC_KIND_ENUM(name, number, most) RPC_##name = (number),
  RPC_KINDS(RPC_KIND_ENUM)
#undef RPC_KIND_ENUM
} rpc_kind;

/* Above 0, so that they differ from those of the runtime. */
enum {
  RPC_OK, RPC_MALFORMED, RPC_TOO_LARGE, RPC_WRONG_VERSION, RPC_DENIED, RPC_STATE, RPC_BUSY, RPC_SLOW, RPC_IDLE, RPC_FULL,
  RPC_HASH, RPC_MISSING, RPC_CRASHED, RPC_HUNG, RPC_UNKNOWN, RPC_SYSTEM, RPC_OFFSET, RPC_UNSUPPORTED
};

typedef struct rpc_head {
  uint32_t length;
  uint16_t version, kind;
  uint32_t id;
} rpc_head;

void rpc_put_head(uint8_t bytes[RPC_HEAD], const rpc_head *head);
rpc_head rpc_get_head(const uint8_t bytes[RPC_HEAD]);

/* The most bytes that the payload of a request may have; -1 for a kind that is none. `largest_input`: of the model. */
int64_t rpc_bound(uint16_t kind, uint64_t largest_input);

/* Bytes that grow; `bad` once memory has run out. */
typedef struct rpc_buffer {
  uint8_t *bytes;
  size_t used, size;
  bool bad;
} rpc_buffer;

/* Room for so many bytes in all; false, and `bad`, without memory. */
bool rpc_room(rpc_buffer *b, size_t bytes);
void rpc_put(rpc_buffer *b, const void *from, size_t bytes);
void rpc_put_u32(rpc_buffer *b, uint32_t n);
void rpc_put_u64(rpc_buffer *b, uint64_t n);
void rpc_put_text(rpc_buffer *b, const char *text);

/* Reads a payload from its beginning to its end; `bad` once it was too short. */
typedef struct rpc_reader {
  const uint8_t *at;
  size_t left;
  bool bad;
} rpc_reader;

const uint8_t *rpc_take(rpc_reader *r, size_t bytes);
uint32_t rpc_take_u32(rpc_reader *r);
uint64_t rpc_take_u64(rpc_reader *r);
/* Whether all was read and nothing was missing. */
bool rpc_done(const rpc_reader *r);

#endif
