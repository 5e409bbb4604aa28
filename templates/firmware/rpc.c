/* Frames over a line that may lose bytes: each begins with A5 5A and ends with its CRC-32. What does not fit is dropped, and
 * the client sends it again: a run that a repeated request asks for has taken place, and is answered from memory. */
#include "rpc.h"

#include "protocol.h" /* of runtime_c/rpc */

enum { MOST_SAMPLES = 256, MOST_PAYLOAD = 256, TIME_HEAD = 36 };

static uint32_t crc;
static int known, counted_nodes, profiling;
static uint32_t done_id = 0xFFFFFFFFu; /* of the latest run: its answer is below */
static int32_t done_status;
static uint64_t took, samples[MOST_SAMPLES], node_began;
static uint32_t n_samples;
static unsigned now_node;

void board_node(unsigned number);

/* ---- Bytes ---- */

static void checked(uint8_t byte) {
  crc ^= byte;
  for (int i = 0; i < 8; i++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
}

static int taken(uint8_t *to, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) {
    const int byte = rpc_board_get(0);
    if (byte < 0) return 0;
    checked((uint8_t)byte);
    if (to != 0) to[i] = (uint8_t)byte;
  }
  return 1;
}

static uint32_t number_at(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put(const void *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) {
    const uint8_t byte = ((const uint8_t *)from)[i];
    checked(byte);
    rpc_board_put(byte);
  }
}

static void put_number(uint64_t number, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) {
    const uint8_t byte = (uint8_t)(number >> (8 * i));
    put(&byte, 1);
  }
}

static void begin(uint32_t kind, uint32_t id, uint32_t bytes) {
  rpc_board_put(0xA5);
  rpc_board_put(0x5A);
  crc = 0xFFFFFFFFu;
  put_number(bytes, 4);
  put_number(RPC_VERSION, 2);
  put_number(kind, 2);
  put_number(id, 4);
}

static void end(void) {
  const uint32_t sum = ~crc;
  for (int i = 0; i < 4; i++) rpc_board_put((uint8_t)(sum >> (8 * i)));
}

static void reply(uint32_t kind, uint32_t id, const void *bytes, uint32_t count) {
  begin(kind | RPC_REPLY, id, count);
  put(bytes, count);
  end();
}

static uint32_t length_of(const char *text) {
  uint32_t length = 0;
  while (text[length] != 0) length++;
  return length;
}

static void fail(uint32_t id, int32_t status, const char *message) {
  const uint32_t length = length_of(message);
  begin(RPC_ERROR, id, 8 + length);
  put_number((uint32_t)status, 4);
  put_number(length, 4);
  put(message, length);
  end();
}

/* ---- The model ---- */

/* Called before each node by a model that is compiled with node.h included. */
void board_node(unsigned number) {
  const uint64_t now = rpc_board_clock();
  if (profiling && number < rpc_model.n_nodes) {
    if (counted_nodes) rpc_model.nodes[now_node] += now - node_began;
    counted_nodes = 1;
    now_node = number;
    node_began = rpc_board_clock();
  }
}

static int32_t run_once(int profile) {
  counted_nodes = 0;
  profiling = profile;
  for (uint32_t i = 0; profile && i < rpc_model.n_nodes; i++) rpc_model.nodes[i] = 0;
  const uint64_t before = rpc_board_clock();
  const int32_t status = rpc_model.run();
  const uint64_t after = rpc_board_clock();
  profiling = 0;
  took = after - before;
  if (profile && counted_nodes) rpc_model.nodes[now_node] += after - node_began;
  else if (profile && rpc_model.n_nodes == 1) rpc_model.nodes[0] = took;
  return status;
}

static int32_t time_runs(const uint8_t *payload) {
  const uint32_t warm_up = number_at(payload), least = number_at(payload + 4);
  uint32_t most = number_at(payload + 8);
  const uint64_t wanted = number_at(payload + 16) | (uint64_t)number_at(payload + 20) << 32;
  uint64_t sum = 0;
  int32_t status = 0;
  if (most == 0 || most > RPC_MOST_RUNS || least > most || warm_up > RPC_MOST_RUNS) return RPC_MALFORMED;
  if (least > MOST_SAMPLES) return RPC_UNSUPPORTED;
  if (most > MOST_SAMPLES) most = MOST_SAMPLES;
  n_samples = 0;
  for (uint32_t i = 0; i < warm_up && status == 0; i++) status = run_once(0);
  while (status == 0 && n_samples < most && (n_samples < least || sum < wanted || n_samples == 0)) {
    status = run_once(0);
    samples[n_samples++] = took;
    sum += took;
  }
  return status;
}

static void reply_times(uint32_t id) {
  static const int32_t unknown[6] = {0, 0, INT32_MIN, INT32_MIN, -1, -1}; /* clock, temperature, processor */
  begin(RPC_TIME | RPC_REPLY, id, TIME_HEAD + 8 * n_samples);
  put_number(n_samples, 4);
  for (int i = 0; i < 6; i++) put_number((uint32_t)unknown[i], 4);
  put_number((uint64_t)rpc_board_counts(), 8);
  for (uint32_t i = 0; i < n_samples; i++) put_number(samples[i], 8);
  end();
}

static void reply_nodes(uint32_t id) {
  begin(RPC_PROFILE | RPC_REPLY, id, 12 * rpc_model.n_nodes);
  for (uint32_t i = 0; i < rpc_model.n_nodes; i++) {
    put_number(i, 4);
    put_number(rpc_model.nodes[i], 8);
  }
  end();
}

/* Whether an input holds what came damaged, and has not been set since. */
static int is_spoilt(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < rpc_model.n_inputs; i++) count += rpc_model.spoilt[i];
  return count > 0;
}

static void run_asked(uint32_t kind, uint32_t id, const uint8_t *payload) {
  if (id != done_id) {
    done_status = is_spoilt() ? RPC_STATE : kind == RPC_TIME ? time_runs(payload) : run_once(kind == RPC_PROFILE);
    done_id = id;
  }
  if (done_status == RPC_UNSUPPORTED) fail(id, done_status, "TIME asks for more samples than the board has room for");
  else if (done_status == RPC_STATE) fail(id, done_status, "an input came damaged, and was not set again");
  else if (done_status != 0) fail(id, done_status, "the model ended with an error");
  else if (kind == RPC_TIME) reply_times(id);
  else if (kind == RPC_RUN) {
    begin(RPC_RUN | RPC_REPLY, id, 8);
    put_number(took, 8);
    end();
  } else if (counted_nodes || rpc_model.n_nodes == 1) reply_nodes(id);
  else fail(id, RPC_UNSUPPORTED, "the model is not compiled to count nodes (-include node.h)");
}

/* ---- Requests ---- */

static void answer(uint32_t kind, uint32_t id, const uint8_t *payload, uint32_t bytes) {
  static const uint8_t zeros[4 + RPC_NONCE];
  static const uint8_t unknown[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  const uint32_t number = bytes >= 4 ? number_at(payload) : 0;
  if (kind == RPC_HELLO) {
    known = 1;
    done_id = 0xFFFFFFFFu;
    reply(kind, id, zeros, sizeof zeros); /* no token: who has the line has the board */
    return;
  }
  if (!known) {
    fail(id, RPC_STATE, "HELLO comes first");
    return;
  }
  switch (kind) {
    case RPC_STATUS: reply(kind, id, rpc_model.status, length_of(rpc_model.status)); break;
    case RPC_TURN: reply(kind, id, zeros, 4); break;
    case RPC_HAS: reply(kind, id, unknown, 4); break;
    case RPC_LIMIT: reply(kind, id, 0, 0); break;
    case RPC_BYE:
      reply(kind, id, 0, 0);
      known = 0;
      break;
    case RPC_TABLE:
      if (bytes == 4 && number < 6) reply(kind, id, rpc_model.tables[number].at, rpc_model.tables[number].bytes);
      else fail(id, RPC_MALFORMED, "TABLE asks for one that there is not");
      break;
    case RPC_GET:
      if (bytes == 4 && number < rpc_model.n_outputs) reply(kind, id, rpc_model.outputs[number].at, rpc_model.outputs[number].bytes);
      else fail(id, RPC_MALFORMED, "GET asks for an output that there is not");
      break;
    case RPC_RESET:
      rpc_model.reset();
      reply(kind, id, 0, 0);
      break;
    case RPC_TIME:
    case RPC_RUN:
    case RPC_PROFILE:
      if (bytes == (kind == RPC_TIME ? 24u : 0u)) run_asked(kind, id, payload);
      else fail(id, RPC_MALFORMED, "a request has other bytes than its kind has");
      break;
    case RPC_HAVE:
    case RPC_PUT:
    case RPC_LOAD:
    case RPC_UNLOAD:
    case RPC_DIMS:
    case RPC_PROOF:
    case RPC_VALUE: fail(id, RPC_UNSUPPORTED, "this end has one model, of fixed sizes, and no files"); break;
    default: fail(id, RPC_UNKNOWN, "there is no such kind of request");
  }
}

static uint32_t bound(uint32_t kind) {
  uint32_t most = 0;
  if (kind == RPC_SET) {
    for (uint32_t i = 0; i < rpc_model.n_inputs; i++)
      if (rpc_model.inputs[i].bytes > most) most = rpc_model.inputs[i].bytes;
    return most + 4;
  }
  switch (kind) {
#define RPC_BOUND(name, number, bytes) \
  case number: return bytes;
    RPC_KINDS(RPC_BOUND)
#undef RPC_BOUND
    default: return MOST_PAYLOAD;
  }
}

/* Reads what follows A5 5A, and answers it. What SET has goes right to where the model wants it. */
static void serve_frame(void) {
  static uint8_t payload[MOST_PAYLOAD];
  uint8_t head[RPC_HEAD], sum[4];
  crc = 0xFFFFFFFFu;
  if (!taken(head, sizeof head)) return;
  const uint32_t bytes = number_at(head), version = head[4] | (uint32_t)head[5] << 8;
  const uint32_t kind = head[6] | (uint32_t)head[7] << 8, id = number_at(head + 8);
  if (bytes > bound(kind)) {
    fail(id, RPC_TOO_LARGE, "a frame is longer than its kind may be");
    return;
  }
  const int sets = kind == RPC_SET && known && bytes >= 4;
  uint32_t read = sets ? 4 : bytes < MOST_PAYLOAD ? bytes : MOST_PAYLOAD;
  if (!taken(payload, read)) return;
  const uint32_t input = sets ? number_at(payload) : 0;
  const int fits = sets && input < rpc_model.n_inputs && rpc_model.inputs[input].bytes == bytes - 4;
  if (fits) rpc_model.spoilt[input] = 1; /* until its checksum fits: the number of the input may be what is damaged */
  if (!taken(fits ? rpc_model.inputs[input].at : 0, bytes - read)) return;
  const uint32_t wanted = ~crc;
  if (!taken(sum, sizeof sum) || number_at(sum) != wanted) return;
  if (fits) rpc_model.spoilt[input] = 0;
  if (version != RPC_VERSION) fail(id, RPC_WRONG_VERSION, "this board speaks version 1 of the protocol");
  else if (fits) reply(kind, id, 0, 0);
  else if (kind == RPC_SET && known) fail(id, RPC_MALFORMED, "SET has not the bytes of an input");
  else answer(kind, id, payload, bytes);
}

void rpc_serve(void) {
  int before = 0;
  for (;;) {
    const int byte = rpc_board_get(1);
    if (before == 0xA5 && byte == 0x5A) {
      serve_frame();
      before = 0;
    } else {
      before = byte;
    }
  }
}
