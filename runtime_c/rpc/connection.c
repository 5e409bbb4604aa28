#define _POSIX_C_SOURCE 200809L
#if defined(__linux__)
#define _GNU_SOURCE /* POLLRDHUP, MAP_ANONYMOUS */
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../port/port.h"
#include "device.h"

#ifdef MSG_NOSIGNAL
#define QUIETLY MSG_NOSIGNAL
#else
#define QUIETLY 0
#endif
#ifndef POLLRDHUP
#define POLLRDHUP POLLHUP
#endif

enum { READS, WORKS, WRITES };             /* what the model's process does */
enum { LEFT = 100 };                       /* its status is this and why it left */
/* Bytes a second; milliseconds between looks at that process, and until a place in the queue is told. */
enum { SLOWEST = 4096, LOOK = 100, SETTLES = 25 };

/* What the model's process and the one that watches it share. */
typedef struct shared {
  volatile uint64_t started, largest_input;
  volatile uint32_t stage, id, limit;
  uint32_t reload_id, reload_bytes;
  uint8_t reload[RPC_MOST_LOAD];
} shared;

typedef struct connection {
  int client, control;
  const rpc_settings *settings;
  const rpc_board *board;
  shared *shared;
  rpc_store store;
  rpc_session *session;
  uint64_t known_until; /* a client that has not proved who it is then is too slow */
  pid_t parent;
} connection;

static uint64_t milliseconds(void) { return port_now() / 1000000u; }

/* ---- The socket: every wait ends, and looks at the time and at the parent ---- */

static int read_all(void *context, void *to, size_t bytes, bool waits) {
  connection *c = context;
  uint64_t start = milliseconds(), heard = start, most = c->settings->slow + (uint64_t)bytes * 1000u / SLOWEST;
  c->shared->stage = READS;
  for (size_t done = 0; done < bytes;) {
    ssize_t got = recv(c->client, (uint8_t *)to + done, bytes - done, 0);
    if (got > 0) {
      done += (size_t)got;
      if (done == bytes) break;
      heard = milliseconds();
      if (waits && done == (size_t)got) start = heard;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return RPC_GONE;
    uint64_t now = milliseconds();
    if (getppid() != c->parent) return RPC_GONE;
    if (c->session->state < RPC_KNOWN && now >= c->known_until) return RPC_TOO_SLOW;
    bool begun = !waits || done > 0;
    if (begun && (now - heard >= c->settings->slow || now - start >= most)) return RPC_TOO_SLOW;
    if (!begun && c->board->waiting > 0 && now - start >= c->settings->idle) return RPC_TOO_IDLE;
  }
  return RPC_GOOD;
}

static int write_all(void *context, const void *head, size_t head_bytes, const void *bytes, size_t count) {
  connection *c = context;
  struct iovec parts[2] = {{(void *)(uintptr_t)head, head_bytes}, {(void *)(uintptr_t)bytes, count}};
  struct msghdr message;
  uint64_t start = milliseconds(), heard = start, most = c->settings->slow + (uint64_t)count * 1000u / SLOWEST;
  memset(&message, 0, sizeof message);
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  c->shared->stage = WRITES;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    ssize_t sent = sendmsg(c->client, &message, QUIETLY);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return RPC_GONE;
    uint64_t now = sent > 0 && (size_t)sent == parts[0].iov_len + parts[1].iov_len ? heard : milliseconds();
    if (sent > 0) heard = now;
    if (now - heard >= c->settings->slow || now - start >= most) return RPC_GONE;
    for (int i = 0; i < 2 && sent > 0; i++) {
      size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
      parts[i].iov_base = (uint8_t *)parts[i].iov_base + part;
      parts[i].iov_len -= part;
      sent -= (ssize_t)part;
    }
  }
  return RPC_GOOD;
}

/* ---- What the session asks of its host ---- */

static bool random_bytes(void *context, uint8_t *bytes, size_t count) {
  (void)context;
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t got = file >= 0 ? read(file, bytes, count) : -1;
  if (file >= 0) (void)close(file);
  return got == (ssize_t)count;
}

static void denied(void *context) {
  const struct timespec quarter = {0, 250000000};
  (void)context;
  (void)nanosleep(&quarter, NULL);
}

static bool says(const connection *c, char word) { return write(c->control, &word, 1) == 1; }

static bool hears(const connection *c, uint32_t *position) { return read(c->control, position, sizeof *position) == sizeof *position; }

/* No wait for who is gone, and none for longer than was asked. */
static int32_t turn(void *context, rpc_session *session, uint32_t id, uint32_t most) {
  connection *c = context;
  uint64_t end = milliseconds() + most;
  uint32_t position = RPC_HEARD;
  if (!says(c, RPC_ASKS)) return RPC_SYSTEM;
  for (;;) {
    uint64_t now = milliseconds();
    struct pollfd waits[2] = {{c->control, POLLIN, 0}, {c->client, POLLRDHUP, 0}};
    uint64_t left = position == RPC_HEARD ? 10000 : end > now ? end - now : 0;
    int ready = left > 0 ? poll(waits, 2, (int)(left < 60000 ? left : 60000)) : 0;
    if (waits[1].revents != 0) return RPC_SYSTEM;
    if (ready > 0 && waits[0].revents != 0) {
      uint8_t number[4];
      if (!hears(c, &position)) return RPC_SYSTEM;
      if (position == 0) return RPC_OK;
      if (poll(waits, 1, SETTLES) > 0) continue; /* who was before it is just leaving */
      for (int i = 0; i < 4; i++) number[i] = (uint8_t)(position >> (8 * i));
      rpc_reply(session, RPC_TURN, id, number, sizeof number);
      if (session->leave != RPC_STAYS) return RPC_SYSTEM;
    }
    if (milliseconds() >= end && position != RPC_HEARD) break;
  }
  if (!says(c, RPC_GIVES_UP)) return RPC_SYSTEM;
  while (hears(c, &position))
    if (position == RPC_HEARD) return RPC_BUSY;
  return RPC_SYSTEM;
}

static void status(void *context, rpc_buffer *json) {
  connection *c = context;
  rpc_put_pair(json, "sterna", STERNA_VERSION);
  rpc_put_pair(json, "end", "c");
  rpc_put_json(json, ", \"protocol\": [1, 1]");
  rpc_put_device(json);
  rpc_put_count(json, "queue", c->board->waiting);
  rpc_put_json(json, c->board->busy ? ", \"busy\": true" : ", \"busy\": false");
  rpc_put_json(json, ", \"limits\": {");
  rpc_put_count(json, "milliseconds", c->settings->limit);
  rpc_put_json(json, "}, \"scratch\": {");
  rpc_put_count(json, "used", rpc_store_used(&c->store));
  rpc_put_count(json, "quota", c->store.quota);
  rpc_put_count(json, "free", rpc_store_free(&c->store));
  rpc_put_json(json, "}");
}

static void begins(void *context, uint32_t id) {
  connection *c = context;
  c->shared->id = id;
  c->shared->started = port_now();
  c->shared->stage = WORKS;
}

static void ends(void *context) {
  connection *c = context;
  c->shared->started = 0;
}

static void set_limit(void *context, uint32_t most) {
  connection *c = context;
  c->shared->limit = most;
}

/* ---- The model's process ---- */

static void run_model(connection *c, rpc_session *session, const char *folder, uint32_t threads, uint32_t id, pid_t watcher) {
  const struct rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  c->parent = watcher;
  session->hosted = true;
  rpc_load_here(session, folder, threads, id);
  ends(c);
  c->shared->largest_input = session->largest_input;
  if (session->model == NULL) session->leave = session->leave == RPC_STAYS ? RPC_UNLOADED : RPC_CLOSED;
  else if (session->leave == RPC_STAYS) rpc_serve(session);
  if (session->leave == RPC_RELOADS) {
    c->shared->reload_id = session->latest;
    c->shared->reload_bytes = (uint32_t)session->in.used;
    memcpy(c->shared->reload, session->in.bytes, session->in.used);
  }
  _exit(LEFT + (int)session->leave);
}

/* Waits until the process has ended, and ends it where a request takes too long or the client is gone. Whether it did. */
static bool watch(connection *c, pid_t process, int life, int *code) {
  struct pollfd waits[2] = {{life, POLLIN, 0}, {c->client, POLLRDHUP, 0}};
  bool killed = false;
  nfds_t both = 2;
  while (poll(waits, both, LOOK) >= 0 || errno == EINTR) {
    if (waits[0].revents != 0) break;
    uint64_t started = c->shared->started;
    bool works = started != 0, gone = both == 2 && waits[1].revents != 0;
    if (gone) both = 1; /* one that reads sees it itself */
    bool late = works && port_now() - started > (uint64_t)c->shared->limit * 1000000u;
    if ((works && gone) || late || getppid() != c->parent) {
      (void)kill(process, SIGKILL);
      killed = true;
      break;
    }
  }
  while (waitpid(process, code, 0) < 0 && errno == EINTR) continue;
  return killed;
}

static void conclude(connection *c, rpc_session *session, bool killed, int code) {
  char message[160];
  int why = WIFEXITED(code) ? WEXITSTATUS(code) - LEFT : RPC_STAYS;
  if (why == RPC_CLOSED || why == RPC_RELOADS) session->leave = (rpc_leave)why;
  if (why > RPC_STAYS && why <= RPC_RELOADS) return;
  if (killed)
    (void)snprintf(message, sizeof message, "the request took longer than %u ms, and was ended", (unsigned)c->shared->limit);
  else if (WIFSIGNALED(code))
    (void)snprintf(message, sizeof message, "a kernel ended its process: %s (signal %d)", strsignal(WTERMSIG(code)), WTERMSIG(code));
  else
    (void)snprintf(message, sizeof message, "a kernel ended its process with status %d", WEXITSTATUS(code));
  bool between = c->shared->stage == WORKS; /* frames: otherwise nobody knows where the next one begins */
  rpc_fail(session, between ? c->shared->id : 0, killed ? RPC_HUNG : RPC_CRASHED, message);
  if (!between) session->leave = RPC_CLOSED;
}

static void load(void *context, rpc_session *session, const char *folder, uint32_t threads, uint32_t id) {
  connection *c = context;
  int life[2], code = 0;
  pid_t self = getpid();
  if (pipe(life) != 0) {
    rpc_fail(session, id, RPC_SYSTEM, "the device has no pipe left");
    return;
  }
  begins(c, id);
  pid_t process = fork();
  if (process == 0) {
    (void)close(life[0]);
    run_model(c, session, folder, threads, id, self);
  }
  (void)close(life[1]);
  if (process < 0) {
    rpc_fail(session, id, RPC_SYSTEM, "the device has no process left");
  } else {
    bool killed = watch(c, process, life[0], &code);
    session->largest_input = c->shared->largest_input;
    conclude(c, session, killed, code);
  }
  c->shared->started = 0;
  c->store.counted = false; /* the process may have taken files, too */
  (void)close(life[0]);
}

static void set_times(const connection *c) {
  uint32_t look = c->settings->slow / 4 < 1000 ? c->settings->slow / 4 : 1000;
  const struct timeval most = {look / 1000, (look % 1000) * 1000};
  (void)setsockopt(c->client, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  (void)setsockopt(c->client, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

void rpc_connection(int client, int control, const rpc_settings *settings, const rpc_board *board) {
  connection c = {client, control, settings, board, NULL, {NULL, 0, 0, false, 0, ""}, NULL, 0, getppid()};
  const rpc_host host = {&c, settings->token, settings->token_bytes, settings->limit, random_bytes, turn, denied, load, status, begins, ends, set_limit};
  rpc_session session;
  c.shared = mmap(NULL, sizeof *c.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (c.shared == MAP_FAILED) return;
  c.shared->limit = settings->limit;
  c.known_until = milliseconds() + settings->slow;
  set_times(&c);
  memset(&session, 0, sizeof session);
  c.session = &session;
  session.stream.context = &c;
  session.stream.read = read_all;
  session.stream.write = write_all;
  session.host = &host;
  session.store = &c.store;
  rpc_store_use(&c.store, settings->scratch, settings->quota);
  rpc_serve(&session);
  while (session.leave == RPC_RELOADS) {
    session.leave = RPC_STAYS;
    rpc_take_frame(&session, RPC_LOAD, c.shared->reload_id, c.shared->reload, c.shared->reload_bytes);
    if (session.leave == RPC_STAYS) rpc_serve(&session);
  }
  rpc_session_close(&session);
}
