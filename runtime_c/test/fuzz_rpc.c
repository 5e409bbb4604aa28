/* Sessions of the server of devices, from frames that are drawn from a grammar and damaged, without sockets and processes.
 *
 *   fuzz_rpc sessions SEED FIRST COUNT PROGRESS FILE...   COUNT sessions, from number FIRST on
 *   fuzz_rpc sessions SEED NUMBER print FILE...           what one session is sent, to standard output
 *   fuzz_rpc replay INPUT...                              executes inputs
 *
 * FILEs are those of a bundle, which sessions send and load; what they send is stored in the folder `scratch` of the current one.
 * A session follows from the seed and its number alone. At the end it prints how many frames were sent, and how many runs
 * of a model were answered.
 * Built with sanitizers. What they do not see is checked here: that every reply is a frame, that it answers the request that it
 * should, and that nothing but HELLO and PROOF is answered to who has not shown the token. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

#define WRONG(...) (fprintf(stderr, "WRONG: " __VA_ARGS__), fputc('\n', stderr), abort())

enum { MOST_FILES = 8, MOST_FRAMES = 24 };
static const char token[] = "a token of many bytes";

typedef struct file {
  char name[64];
  uint8_t *bytes, hash[SHA256_BYTES];
  size_t size;
} file;

typedef struct execution {
  rpc_buffer sent; /* to the session */
  size_t read, replies;
  bool guarded, known; /* a token is demanded; a proof was accepted */
} execution;

static file files[MOST_FILES];
static size_t n_files;
static uint64_t frames, runs;
static const char *const scratch = "scratch";

/* ---- Random numbers (xorshift) ---- */

static uint64_t state;

static uint32_t below(uint32_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return bound > 0 ? (uint32_t)(state >> 16) % bound : 0;
}

/* ---- The stream: what was made, and checks of what comes back ---- */

static int read_made(void *context, void *to, size_t bytes, bool waits) {
  execution *e = context;
  (void)waits;
  if (bytes > e->sent.used - e->read) return bytes % 7 == 0 ? RPC_TOO_SLOW : RPC_GONE;
  memcpy(to, e->sent.bytes + e->read, bytes);
  e->read += bytes;
  return RPC_GOOD;
}

static int check_reply(void *context, const void *head, size_t head_bytes, const void *bytes, size_t count) {
  execution *e = context;
  volatile uint8_t sum = 0;
  if (head_bytes != RPC_HEAD) WRONG("a head of %zu bytes", head_bytes);
  rpc_head h = rpc_get_head(head);
  if (h.length != count || h.version != RPC_VERSION) WRONG("a head says %u bytes of version %u", h.length, h.version);
  for (size_t i = 0; i < count; i++) sum = (uint8_t)(sum + ((const uint8_t *)bytes)[i]);
  if (h.kind == RPC_ERROR) {
    if (count < 8 || count > 8 + RPC_MOST_MESSAGE) WRONG("an error of %zu bytes", count);
  } else if (h.kind == (RPC_REPLY | RPC_PROOF)) {
    e->known = true;
  } else if (h.kind != (RPC_REPLY | RPC_HELLO) && e->guarded && !e->known) {
    WRONG("kind %u is answered before the proof", h.kind);
  }
  runs += h.kind == (RPC_REPLY | RPC_RUN);
  if ((h.kind & RPC_REPLY) == 0) WRONG("a reply of kind %u", h.kind);
  e->replies++;
  return below(1000) == 0 ? RPC_GONE : RPC_GOOD;
}

/* ---- The host: nonces that are known, no other processes ---- */

static bool known_bytes(void *context, uint8_t *bytes, size_t count) {
  (void)context;
  memset(bytes, 5, count);
  return true;
}

static void load_here(void *context, rpc_session *session, const char *folder, uint32_t threads, uint32_t id) {
  (void)context;
  rpc_load_here(session, folder, threads > 2 ? 2 : threads, id);
}

static void execute(const uint8_t *bytes, size_t count) {
  execution e;
  rpc_session session;
  rpc_store store;
  if (count == 0) return;
  memset(&e, 0, sizeof e);
  memset(&session, 0, sizeof session);
  e.guarded = (bytes[0] & 1) != 0;
  rpc_put(&e.sent, bytes + 1, count - 1);
  rpc_store_use(&store, scratch, bytes[0] & 2 ? 1 << 16 : 1 << 22);
  rpc_host host = {&e, e.guarded ? token : NULL, sizeof token - 1, 60000, known_bytes, NULL, NULL, load_here, NULL, NULL, NULL, NULL};
  session.stream.context = &e;
  session.stream.read = read_made;
  session.stream.write = check_reply;
  session.host = &host;
  session.store = bytes[0] & 4 && bytes[0] & 8 ? NULL : &store;
  rpc_serve(&session);
  if (session.leave != RPC_CLOSED) WRONG("a session of this process leaves for %d", session.leave);
  rpc_session_close(&session);
  free(e.sent.bytes);
}

/* ---- Frames that are drawn ---- */

static void put_frame(rpc_buffer *b, uint16_t kind, const rpc_buffer *payload) {
  uint8_t head[RPC_HEAD];
  rpc_head h = {(uint32_t)payload->used, RPC_VERSION, kind, below(4)};
  uint32_t damage = below(60);
  if (damage == 0) h.length = below(2) ? 0xffffffffu : h.length + below(64);
  if (damage == 1 && h.length > 0) h.length = below(h.length);
  if (damage == 2) h.version = (uint16_t)below(3);
  if (damage == 3) h.kind = (uint16_t)below(0x10000);
  rpc_put_head(head, &h);
  rpc_put(b, head, sizeof head);
  rpc_put(b, payload->bytes, payload->used);
  frames++;
}

static void put_proof(rpc_buffer *payload) {
  uint8_t nonces[2 * RPC_NONCE], digest[SHA256_BYTES];
  hmac mac;
  memset(nonces, 5, RPC_NONCE);
  memset(nonces + RPC_NONCE, 9, RPC_NONCE);
  hmac_open(&mac, token, sizeof token - 1);
  hmac_add(&mac, "sterna-rpc client", 17);
  hmac_add(&mac, nonces, sizeof nonces);
  hmac_close(&mac, digest);
  rpc_put(payload, digest, sizeof digest);
}

static void put_file(rpc_buffer *payload) {
  const file *f = &files[below((uint32_t)n_files)];
  size_t half = f->size / 2, first = below(4) == 0 ? half : 0, end = below(4) == 0 ? half : f->size;
  rpc_put(payload, f->hash, SHA256_BYTES);
  rpc_put_u64(payload, below(20) == 0 ? below(1 << 20) : f->size);
  rpc_put_u64(payload, below(20) == 0 ? below(1 << 20) : first);
  if (end > first) rpc_put(payload, f->bytes + first, end - first);
}

static void put_load(rpc_buffer *payload) {
  rpc_put_u32(payload, below(3));
  rpc_put_u32(payload, below(20) == 0 ? below(300) : (uint32_t)n_files);
  for (size_t i = 0; i < n_files; i++) {
    rpc_put_text(payload, below(40) == 0 ? "../graph.json" : files[i].name);
    rpc_put(payload, files[below(40) == 0 ? 0 : i].hash, SHA256_BYTES);
  }
}

static void put_payload(rpc_buffer *p, uint16_t kind) {
  uint8_t nonce[RPC_NONCE];
  memset(nonce, 9, sizeof nonce);
  switch (kind) {
    case RPC_HELLO: rpc_put(p, nonce, sizeof nonce), rpc_put_text(p, "fuzz"); break;
    case RPC_PROOF: put_proof(p); break;
    case RPC_TURN: case RPC_LIMIT: rpc_put_u32(p, below(100000)); break;
    case RPC_HAS: rpc_put_text(p, below(2) ? "avx2" : "no such one"); break;
    case RPC_HAVE:
      rpc_put_u32(p, (uint32_t)n_files);
      for (size_t i = 0; i < n_files; i++) rpc_put(p, files[i].hash, SHA256_BYTES);
      break;
    case RPC_PUT: put_file(p); break;
    case RPC_LOAD: put_load(p); break;
    case RPC_TABLE: rpc_put_u32(p, below(7)); break;
    case RPC_GET: rpc_put_u32(p, below(2)); break;
    case RPC_VALUE: rpc_put_u32(p, below(12)); break;
    case RPC_SET:
      rpc_put_u32(p, below(8) == 0);
      for (int i = 0; i < 64; i++) rpc_put_u32(p, below(0x3f800000));
      break;
    case RPC_DIMS:
      rpc_put_u32(p, below(3));
      for (uint32_t i = below(3); i > 0; i--) rpc_put_u64(p, below(9));
      break;
    case RPC_TIME: rpc_put_u32(p, below(3)), rpc_put_u32(p, below(3)), rpc_put_u32(p, below(4)), rpc_put_u32(p, 0), rpc_put_u64(p, 0); break;
    default: break;
  }
  if (below(30) == 0 && p->used > 0) p->bytes[below((uint32_t)p->used)] = (uint8_t)below(256);
  if (below(60) == 0 && p->used > 0) p->used = below((uint32_t)p->used);
  if (below(60) == 0) rpc_put_u32(p, below(1000));
}

static void draw(uint64_t seed, uint64_t number, rpc_buffer *made) {
  static const uint16_t usual[] = {RPC_HELLO, RPC_PROOF, RPC_TURN};
  rpc_buffer payload = {NULL, 0, 0, false};
  state = (seed + 1) * 0x9E3779B97F4A7C15u ^ (number + 1) * 0xC2B2AE3D27D4EB4Fu;
  for (int i = 0; i < 8; i++) (void)below(2);
  uint8_t setting = (uint8_t)below(16);
  rpc_put(made, &setting, 1);
  for (uint32_t i = 0, count = 1 + below(MOST_FRAMES); i < count; i++) {
    uint16_t kind = (uint16_t)(1 + below(20));
    if (i < 3 && below(30) != 0) kind = usual[i];
    if (kind == RPC_PROOF && (setting & 1) == 0) continue;
    if (i >= 3 && kind < 3 && below(5) != 0) kind = RPC_RUN;
    if (i >= 3 && i < 6 && below(4) != 0) kind = i < 5 ? RPC_PUT : RPC_LOAD;
    if (i >= 6 && below(2) != 0) kind = (uint16_t)(RPC_TABLE + below(9));
    if (i >= 3 && kind == RPC_BYE && below(8) != 0) kind = RPC_PROFILE;
    payload.used = 0;
    put_payload(&payload, kind);
    put_frame(made, kind, &payload);
  }
  free(payload.bytes);
}

/* ---- The program ---- */

static uint8_t *contents(const char *path, size_t *size) {
  FILE *in = fopen(path, "rb");
  if (in == NULL || fseek(in, 0, SEEK_END) != 0) exit(2);
  *size = (size_t)ftell(in);
  rewind(in);
  uint8_t *bytes = malloc(*size + 1);
  if (bytes == NULL || fread(bytes, 1, *size, in) != *size) exit(2);
  (void)fclose(in);
  return bytes;
}

static void take_files(char **paths, int count) {
  for (int i = 0; i < count && n_files < MOST_FILES; i++) {
    file *f = &files[n_files++];
    const char *slash = strrchr(paths[i], '/');
    sha256 hash;
    (void)snprintf(f->name, sizeof f->name, "%s", slash != NULL ? slash + 1 : paths[i]);
    f->bytes = contents(paths[i], &f->size);
    sha256_open(&hash);
    sha256_add(&hash, f->bytes, f->size);
    sha256_close(&hash, f->hash);
  }
}

static int replay(char **inputs, int count) {
  for (int i = 0; i < count; i++) {
    size_t size;
    uint8_t *bytes = contents(inputs[i], &size);
    execute(bytes, size);
    free(bytes);
  }
  return 0;
}

int main(int argc, char **argv) {
  rpc_store store;
  rpc_buffer made = {NULL, 0, 0, false};
  if (argc < 3 || !rpc_store_open(&store, scratch, 1 << 22)) return 2;
  if (strcmp(argv[1], "replay") == 0) return replay(argv + 2, argc - 2);
  if (argc < 6) return 2;
  bool prints = strcmp(argv[4], "print") == 0;
  take_files(argv + (prints ? 5 : 6), argc - (prints ? 5 : 6));
  uint64_t seed = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10), count = strtoull(argv[4], NULL, 10);
  int progress = prints ? -1 : open(argv[5], O_WRONLY | O_CREAT, 0600);
  for (uint64_t number = first; number < first + count; number++) {
    if (pwrite(progress, &number, sizeof number, 0) != sizeof number) return 2;
    made.used = 0;
    draw(seed, number, &made);
    execute(made.bytes, made.used);
  }
  if (prints) {
    draw(seed, first, &made);
    if (fwrite(made.bytes, 1, made.used, stdout) != made.used) return 2;
  } else {
    (void)close(progress);
    (void)printf("%llu frames, %llu runs\n", (unsigned long long)frames, (unsigned long long)runs);
  }
  free(made.bytes);
  for (size_t i = 0; i < n_files; i++) free(files[i].bytes);
  return 0;
}
