#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/drivers.h"

void rpc_reply(rpc_session *session, uint16_t kind, uint32_t id, const void *bytes, size_t count) {
  uint8_t head[RPC_HEAD];
  rpc_head h = {(uint32_t)count, RPC_VERSION, (uint16_t)(kind | RPC_REPLY), id};
  rpc_put_head(head, &h);
  int end = count <= UINT32_MAX ? session->stream.write(session->stream.context, head, sizeof head, bytes, count) : RPC_GONE;
  if (end != RPC_GOOD) session->leave = RPC_CLOSED;
}

void rpc_fail(rpc_session *session, uint32_t id, int32_t status, const char *message) {
  rpc_buffer *out = &session->out;
  size_t length = strlen(message);
  out->used = 0;
  out->bad = false;
  rpc_put_u32(out, (uint32_t)status);
  rpc_put_u32(out, (uint32_t)(length < RPC_MOST_MESSAGE ? length : RPC_MOST_MESSAGE));
  rpc_put(out, message, length < RPC_MOST_MESSAGE ? length : RPC_MOST_MESSAGE);
  if (out->bad) session->leave = RPC_CLOSED;
  else rpc_reply(session, RPC_ERROR, id, out->bytes, out->used);
}

static void reply_made(rpc_session *session, uint16_t kind, uint32_t id) {
  if (session->out.bad) rpc_fail(session, id, STERNA_RESOURCES, "the device has no memory for the reply");
  else rpc_reply(session, kind, id, session->out.bytes, session->out.used);
}

static void fail_and_close(rpc_session *session, uint32_t id, int32_t status, const char *message) {
  rpc_fail(session, id, status, message);
  session->leave = RPC_CLOSED;
}

static void malformed(rpc_session *session, uint32_t id, const char *message) {
  rpc_fail(session, id, RPC_MALFORMED, message);
}

/* ---- Who it is ---- */

static void proof(const rpc_session *session, bool of_server, uint8_t digest[SHA256_BYTES]) {
  const uint8_t *nonces[] = {session->server_nonce, session->client_nonce};
  hmac mac;
  hmac_open(&mac, session->host->token, session->host->token_bytes);
  hmac_add(&mac, of_server ? "sterna-rpc server" : "sterna-rpc client", 17);
  hmac_add(&mac, nonces[of_server], RPC_NONCE);
  hmac_add(&mac, nonces[!of_server], RPC_NONCE);
  hmac_close(&mac, digest);
}

static void hello(rpc_session *session, uint32_t id, rpc_reader *r) {
  const uint8_t *nonce = rpc_take(r, RPC_NONCE);
  (void)rpc_take(r, rpc_take_u32(r));
  if (session->state != RPC_NEW || !rpc_done(r)) {
    fail_and_close(session, id, session->state != RPC_NEW ? RPC_STATE : RPC_MALFORMED, "HELLO comes once, with a nonce and a name");
    return;
  }
  if (!session->host->random(session->host->context, session->server_nonce, RPC_NONCE)) {
    fail_and_close(session, id, RPC_SYSTEM, "the device has no random numbers");
    return;
  }
  memcpy(session->client_nonce, nonce, RPC_NONCE);
  bool demanded = session->host->token != NULL;
  session->out.used = 0;
  rpc_put_u32(&session->out, demanded);
  rpc_put(&session->out, session->server_nonce, RPC_NONCE);
  session->state = demanded ? RPC_CHALLENGED : session->store != NULL ? RPC_KNOWN : RPC_LOADED;
  reply_made(session, RPC_HELLO, id);
}

static void check_proof(rpc_session *session, uint32_t id, rpc_reader *r) {
  uint8_t wanted[SHA256_BYTES];
  const uint8_t *given = rpc_take(r, SHA256_BYTES);
  if (session->state != RPC_CHALLENGED) {
    fail_and_close(session, id, RPC_STATE, "PROOF follows HELLO, where a token is demanded");
    return;
  }
  proof(session, false, wanted);
  if (given == NULL || !rpc_done(r) || !same_digest(given, wanted)) {
    if (session->host->denied != NULL) session->host->denied(session->host->context);
    fail_and_close(session, id, RPC_DENIED, "the token is not the device's");
    return;
  }
  proof(session, true, wanted);
  session->state = session->store != NULL ? RPC_KNOWN : RPC_LOADED;
  rpc_reply(session, RPC_PROOF, id, wanted, sizeof wanted);
}

/* ---- Files ---- */

static void have(rpc_session *session, uint32_t id, rpc_reader *r) {
  uint32_t count = rpc_take_u32(r);
  if (count == 0 || count > RPC_MOST_FILES || r->left != count * (size_t)SHA256_BYTES) {
    malformed(session, id, "HAVE has not as many hashes as it says");
    return;
  }
  session->out.used = 0;
  rpc_put_u32(&session->out, count);
  for (uint32_t i = 0; i < count; i++) {
    bool whole;
    rpc_put_u64(&session->out, rpc_store_has(session->store, rpc_take(r, SHA256_BYTES), &whole));
    rpc_put_u32(&session->out, whole);
  }
  reply_made(session, RPC_HAVE, id);
}

static void put(rpc_session *session, uint32_t id, rpc_reader *r) {
  const uint8_t *hash = rpc_take(r, SHA256_BYTES);
  uint64_t total = rpc_take_u64(r), offset = rpc_take_u64(r), held = 0;
  if (r->bad || r->left > RPC_CHUNK) {
    malformed(session, id, "PUT is too short or too long");
    return;
  }
  int32_t status = rpc_store_add(session->store, hash, total, offset, r->at, r->left, &held);
  if (status != RPC_OK) {
    rpc_fail(session, id, status, session->store->message);
    return;
  }
  session->out.used = 0;
  rpc_put_u64(&session->out, held);
  reply_made(session, RPC_PUT, id);
}

/* Letters, digits, "_", "-" and ".", not first one of the last two: no path, nowhere. */
static bool is_name(const uint8_t *name, size_t bytes) {
  if (name == NULL || bytes == 0 || bytes > RPC_MOST_NAME || name[0] == '.' || name[0] == '-') return false;
  for (size_t i = 0; i < bytes; i++) {
    uint8_t c = name[i];
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!good) return false;
  }
  return true;
}

static int32_t gather(rpc_session *session, rpc_reader *r, uint32_t count, const char *folder) {
  for (uint32_t i = 0; i < count; i++) {
    char name[RPC_MOST_NAME + 1] = {0};
    uint32_t bytes = rpc_take_u32(r);
    const uint8_t *text = rpc_take(r, bytes), *hash = rpc_take(r, SHA256_BYTES);
    if (r->bad || !is_name(text, bytes)) {
      (void)snprintf(session->store->message, sizeof session->store->message, "LOAD has a name that is none, or ends early");
      return RPC_MALFORMED;
    }
    memcpy(name, text, bytes);
    int32_t status = rpc_store_put_in(session->store, folder, name, hash);
    if (status != RPC_OK) return status;
  }
  return RPC_OK;
}

static void unload(rpc_session *session) {
  sterna_unload(session->model);
  session->model = NULL;
  if (session->state == RPC_LOADED) session->state = RPC_FIRST;
}

static void load(rpc_session *session, uint32_t id, rpc_reader *r) {
  char folder[512];
  if (session->hosted) { /* the process that watches this one takes the frame again */
    session->leave = RPC_RELOADS;
    return;
  }
  unload(session);
  uint32_t threads = rpc_take_u32(r), count = rpc_take_u32(r);
  if (r->bad || count == 0 || count > RPC_MOST_FILES || threads > 1024) {
    malformed(session, id, "LOAD has no files, or too many of them or of threads");
    return;
  }
  int32_t status = rpc_store_new_model(session->store, folder, sizeof folder);
  if (status == RPC_OK) status = gather(session, r, count, folder);
  if (status == RPC_OK && r->left != 0) {
    (void)snprintf(session->store->message, sizeof session->store->message, "LOAD has more bytes than files");
    status = RPC_MALFORMED;
  }
  if (status == RPC_OK) session->host->load(session->host->context, session, folder, threads, id);
  else rpc_fail(session, id, status, session->store->message);
  if (folder[0] != 0) rpc_store_drop_model(folder); /* what was loaded from it is mapped */
}

void rpc_load_here(rpc_session *session, const char *folder, uint32_t threads, uint32_t id) {
  sterna_options options;
  sterna_error error;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads;
  drivers found;
  char text[560];
  (void)snprintf(text, sizeof text, "%s/graph.json", folder);
  drivers_find(fopen(text, "rb"), &found, &options);
  sterna_status status = sterna_load(folder, &options, &session->model, &error);
  if (status != STERNA_OK) {
    const char *advice = drivers_advice(&found, &error);
    (void)snprintf(text, sizeof text, "%s%s%s", error.message, advice != NULL ? "; on the server " : "", advice != NULL ? advice : "");
    rpc_fail(session, id, status, text);
    return;
  }
  session->state = RPC_LOADED;
  session->largest_input = rpc_largest_input(session->model);
  rpc_reply(session, RPC_LOAD, id, NULL, 0);
}

/* ---- The model ---- */

static void begins(const rpc_session *session, uint32_t id) {
  if (session->host->begins != NULL) session->host->begins(session->host->context, id);
}

static void ends(const rpc_session *session) {
  if (session->host->ends != NULL) session->host->ends(session->host->context);
}

static void ask_model(rpc_session *session, uint16_t kind, uint32_t id, rpc_reader *r) {
  rpc_asked asked = {kind, *r, &session->out, NULL, 0, NULL};
  session->out.used = 0;
  session->out.bad = false;
  begins(session, id);
  int32_t status = rpc_answer(session->model, &asked);
  ends(session);
  if (status != RPC_OK) {
    char message[RPC_MOST_MESSAGE + 1]; /* the reply's buffer may hold it */
    (void)snprintf(message, sizeof message, "%s", asked.message != NULL ? asked.message : "the request was refused");
    rpc_fail(session, id, status, message);
  } else if (asked.bytes != NULL) {
    rpc_reply(session, kind, id, asked.bytes, asked.count);
  } else {
    rpc_reply(session, kind, id, session->out.bytes, session->out.used);
  }
}

/* Reads what SET has for an input right to where the model wants it. */
static int set_input(rpc_session *session, const rpc_head *head) {
  uint8_t number[4];
  sterna_tensor tensor;
  int end = session->stream.read(session->stream.context, number, sizeof number, false);
  if (end != RPC_GOOD) return end;
  rpc_reader r = {number, sizeof number, false};
  uint32_t input = rpc_take_u32(&r), bytes = head->length - 4;
  void *memory = sterna_input_buffer(session->model, input);
  bool good = sterna_input_info(session->model, input, &tensor) == STERNA_OK && tensor.bytes == bytes;
  if (!good && !rpc_room(&session->in, bytes)) return RPC_GONE;
  if (bytes > 0) end = session->stream.read(session->stream.context, good ? memory : session->in.bytes, bytes, false);
  if (end != RPC_GOOD) return end;
  if (good) rpc_reply(session, RPC_SET, head->id, NULL, 0);
  else malformed(session, head->id, "SET has not the bytes of an input");
  return RPC_GOOD;
}

/* ---- All of them ---- */

static void answer_status(rpc_session *session, uint32_t id) {
  session->out.used = 0;
  rpc_put(&session->out, "{", 1);
  if (session->host->status != NULL) session->host->status(session->host->context, &session->out);
  rpc_put(&session->out, "}", 1);
  reply_made(session, RPC_STATUS, id);
}

static void has_feature(rpc_session *session, uint32_t id, rpc_reader *r) {
  char name[256] = {0};
  uint32_t bytes = rpc_take_u32(r);
  const uint8_t *text = rpc_take(r, bytes);
  if (!rpc_done(r) || bytes >= sizeof name) {
    malformed(session, id, "HAS has not the name that it says");
    return;
  }
  memcpy(name, text, bytes);
  session->out.used = 0;
  rpc_put_u32(&session->out, (uint32_t)sterna_cpu_has(name));
  reply_made(session, RPC_HAS, id);
}

static void turn(rpc_session *session, uint32_t id, rpc_reader *r) {
  static const uint8_t first[4];
  uint32_t milliseconds = rpc_take_u32(r);
  if (!rpc_done(r)) {
    malformed(session, id, "TURN has not a number of milliseconds");
    return;
  }
  int32_t status = RPC_OK;
  if (session->state == RPC_KNOWN && session->host->turn != NULL)
    status = session->host->turn(session->host->context, session, id, milliseconds);
  if (status == RPC_BUSY) rpc_fail(session, id, status, "another client uses the device, and its turn did not end in time");
  else if (status != RPC_OK) session->leave = RPC_CLOSED;
  if (status != RPC_OK) return;
  if (session->state == RPC_KNOWN) {
    session->state = RPC_FIRST;
    if (session->store != NULL) rpc_store_begin(session->store);
  }
  rpc_reply(session, RPC_TURN, id, first, sizeof first);
}

static void set_limit(rpc_session *session, uint32_t id, rpc_reader *r) {
  uint32_t wanted = rpc_take_u32(r), most = session->host->most_milliseconds;
  if (!rpc_done(r) || (most > 0 && wanted > most)) {
    malformed(session, id, "LIMIT is above the most that the server allows");
    return;
  }
  if (session->host->limit != NULL) session->host->limit(session->host->context, wanted > 0 ? wanted : most);
  rpc_reply(session, RPC_LIMIT, id, NULL, 0);
}

/* The least state in which a request is answered. */
static rpc_state needed(uint16_t kind) {
  if (kind == RPC_STATUS || kind == RPC_HAS || kind == RPC_TURN || kind == RPC_BYE) return RPC_KNOWN;
  if (kind == RPC_HAVE || kind == RPC_PUT || kind == RPC_LOAD || kind == RPC_LIMIT) return RPC_FIRST;
  return RPC_LOADED;
}

void rpc_take_frame(rpc_session *session, uint16_t kind, uint32_t id, const uint8_t *payload, size_t bytes) {
  rpc_reader r = {payload, bytes, false};
  session->out.bad = false;
  session->latest = id;
  if (kind == RPC_HELLO || kind == RPC_PROOF) {
    (kind == RPC_HELLO ? hello : check_proof)(session, id, &r);
    return;
  }
  bool files = kind == RPC_HAVE || kind == RPC_PUT || kind == RPC_LOAD || kind == RPC_UNLOAD;
  if (session->store == NULL && files && session->state >= RPC_KNOWN) {
    rpc_fail(session, id, RPC_UNSUPPORTED, "this end has one model and no files");
    return;
  }
  if (session->state < needed(kind) || (needed(kind) == RPC_LOADED && session->model == NULL)) {
    rpc_fail(session, id, RPC_STATE, session->state < RPC_KNOWN ? "HELLO, then PROOF come first"
                                     : session->state < RPC_FIRST ? "TURN comes first" : "no model is loaded");
    if (session->state < RPC_KNOWN) session->leave = RPC_CLOSED;
    return;
  }
  switch (kind) {
    case RPC_STATUS: answer_status(session, id); break;
    case RPC_HAS: has_feature(session, id, &r); break;
    case RPC_TURN: turn(session, id, &r); break;
    case RPC_HAVE: have(session, id, &r); break;
    case RPC_PUT: put(session, id, &r); break;
    case RPC_LOAD: load(session, id, &r); break;
    case RPC_LIMIT: set_limit(session, id, &r); break;
    case RPC_UNLOAD:
      unload(session);
      rpc_reply(session, kind, id, NULL, 0);
      if (session->hosted && session->leave == RPC_STAYS) session->leave = RPC_UNLOADED;
      break;
    case RPC_BYE:
      rpc_reply(session, kind, id, NULL, 0);
      session->leave = RPC_CLOSED;
      break;
    default: ask_model(session, kind, id, &r);
  }
}

static void end_of(rpc_session *session, int end) {
  if (end == RPC_TOO_SLOW) rpc_fail(session, 0, RPC_SLOW, "a frame began and did not end in time");
  if (end == RPC_TOO_IDLE) rpc_fail(session, 0, RPC_IDLE, "there was no request for long, and others wait");
  if (end != RPC_GOOD) session->leave = RPC_CLOSED;
}

/* Reads one frame and answers it. */
static void serve_frame(rpc_session *session) {
  uint8_t bytes[RPC_HEAD];
  const rpc_stream *stream = &session->stream;
  int end = stream->read(stream->context, bytes, sizeof bytes, true);
  if (end != RPC_GOOD) {
    end_of(session, end);
    return;
  }
  rpc_head head = rpc_get_head(bytes);
  int64_t most = rpc_bound(head.kind, session->largest_input);
  bool known = session->state >= RPC_KNOWN;
  if (head.version != RPC_VERSION) {
    fail_and_close(session, head.id, RPC_WRONG_VERSION, "this server speaks version 1 of the protocol");
  } else if (!known && head.kind != RPC_HELLO && head.kind != RPC_PROOF) {
    fail_and_close(session, head.id, RPC_STATE, "HELLO, then PROOF come first");
  } else if (most < 0 && head.length > 0) {
    fail_and_close(session, head.id, RPC_UNKNOWN, "no request has that kind, and its payload is not read");
  } else if (most < 0) {
    rpc_fail(session, head.id, RPC_UNKNOWN, "no request has that kind");
  } else if (head.length > (uint64_t)most) {
    fail_and_close(session, head.id, RPC_TOO_LARGE, "the frame is longer than its kind may be");
  } else if (head.kind == RPC_SET && head.length >= 4 && session->model != NULL) {
    end_of(session, set_input(session, &head));
  } else if (!rpc_room(&session->in, head.length)) {
    fail_and_close(session, head.id, STERNA_RESOURCES, "the device has no memory for the frame");
  } else {
    end = head.length > 0 ? stream->read(stream->context, session->in.bytes, head.length, false) : RPC_GOOD;
    session->in.used = head.length;
    if (end == RPC_GOOD) rpc_take_frame(session, head.kind, head.id, session->in.bytes, head.length);
    else end_of(session, end);
  }
}

void rpc_serve(rpc_session *session) {
  session->leave = RPC_STAYS;
  while (session->leave == RPC_STAYS) serve_frame(session);
}

void rpc_session_close(rpc_session *session) {
  sterna_unload(session->model);
  free(session->in.bytes);
  free(session->out.bytes);
  memset(session, 0, sizeof *session);
}
