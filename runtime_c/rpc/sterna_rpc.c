/* Makes this machine a device: `sterna_rpc` listens, and runs what clients send. docs/rpc.md describes the protocol.
 *
 * The listener accepts connections, each of which gets a process of its own, and gives one of them the turn. It reads nothing
 * that a client has sent. */
#define _POSIX_C_SOURCE 200809L
#if defined(__linux__)
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"

enum { MOST_CLIENTS = 32, LEAST_TOKEN = 16, MOST_TOKEN = 4096, NO_PLACE = -1 };

#define WRONG_OPTION "E0002"
#define REFUSED_BY_SYSTEM "E0010"

static const char usage[] =
    "sterna_rpc [--listen ADDRESS] [--port N] [--scratch FOLDER] [--quota BYTES] [--token-file FILE]\n"
    "           [--limit SECONDS] [--slow SECONDS] [--idle SECONDS]\n"
    "Runs bundles for other machines. The token stands in STERNA_RPC_TOKEN or in a file; without one it listens on the\n"
    "loopback interface alone.\n";

typedef struct client {
  int control;
  pid_t process;
  int place; /* in the queue: 0 has the turn; NO_PLACE: it has not asked */
} client;

typedef struct server {
  rpc_settings settings;
  rpc_board *board;
  int listens;
  client clients[MOST_CLIENTS];
  int count;
} server;

static volatile sig_atomic_t stops;

static void stop(int number) { stops = number; }

/* Says what ends the program, in the form of all errors (docs/errors.md); what it ends with. */
static int refuse(const char *code, const char *where, const char *why, const char *fix) {
  (void)fprintf(stderr, "error[%s]: %s: %s\n  fix: %s\n", code, where, why, fix);
  return strcmp(code, WRONG_OPTION) == 0 ? 2 : 1;
}

/* ---- The queue ---- */

static void tell(const client *c, uint32_t word) {
  ssize_t wrote = write(c->control, &word, sizeof word);
  (void)wrote; /* one that is gone is seen at the next poll */
}

static void count_all(server *s) {
  uint32_t waiting = 0, busy = 0;
  for (int i = 0; i < s->count; i++) {
    waiting += s->clients[i].place > 0;
    busy |= s->clients[i].place == 0;
  }
  s->board->waiting = waiting;
  s->board->busy = busy;
}

/* Gives a client's place to who stands behind it. */
static void leave(server *s, int index) {
  int place = s->clients[index].place;
  s->clients[index].place = NO_PLACE;
  for (int i = 0; i < s->count && place != NO_PLACE; i++)
    if (s->clients[i].place > place) tell(&s->clients[i], (uint32_t)--s->clients[i].place);
  count_all(s);
}

static void ask(server *s, int index) {
  int last = NO_PLACE;
  for (int i = 0; i < s->count; i++)
    if (s->clients[i].place > last) last = s->clients[i].place;
  if (s->clients[index].place == NO_PLACE) s->clients[index].place = last + 1;
  count_all(s);
  tell(&s->clients[index], (uint32_t)s->clients[index].place);
}

static void forget(server *s, int index) {
  leave(s, index);
  (void)close(s->clients[index].control);
  (void)kill(-s->clients[index].process, SIGKILL); /* the model's process, should it still be there */
  s->clients[index] = s->clients[--s->count];
}

static void hear(server *s, int index) {
  char word;
  ssize_t got = read(s->clients[index].control, &word, 1);
  if (got == 1 && word == RPC_ASKS) {
    ask(s, index);
  } else if (got == 1 && word == RPC_GIVES_UP) {
    leave(s, index);
    tell(&s->clients[index], RPC_HEARD);
  } else if (got == 0 || (got < 0 && errno != EINTR)) {
    forget(s, index);
  }
}

/* ---- Connections ---- */

static void take(server *s) {
  int pair[2], one = 1;
  int socket = accept(s->listens, NULL, NULL);
  if (socket < 0) return;
  if (s->count == MOST_CLIENTS || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
    (void)close(socket); /* a client that is refused so tries again later */
    return;
  }
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  pid_t process = fork();
  if (process == 0) {
    (void)setpgid(0, 0); /* Ctrl-C ends the listener, and that its connections */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)close(s->listens);
    (void)close(pair[0]);
    for (int i = 0; i < s->count; i++) (void)close(s->clients[i].control);
    rpc_connection(socket, pair[1], &s->settings, s->board);
    _exit(0);
  }
  (void)setpgid(process, process);
  (void)close(socket);
  (void)close(pair[1]);
  if (process < 0) {
    (void)close(pair[0]);
    return;
  }
  const client fresh = {pair[0], process, NO_PLACE};
  s->clients[s->count++] = fresh;
}

static void serve(server *s) {
  while (stops == 0) {
    struct pollfd waits[1 + MOST_CLIENTS];
    waits[0].fd = s->listens;
    for (int i = 0; i < s->count; i++) waits[1 + i].fd = s->clients[i].control;
    for (int i = 0; i <= s->count; i++) waits[i].events = POLLIN, waits[i].revents = 0;
    int count = s->count, ready = poll(waits, (nfds_t)count + 1, 1000);
    for (int i = count; i-- > 0 && ready > 0;) /* backwards: the last one takes the place of one that is forgotten */
      if (waits[1 + i].revents != 0) hear(s, i);
    if (ready > 0 && waits[0].revents != 0) take(s);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
  for (int i = 0; i < s->count; i++) (void)kill(-s->clients[i].process, SIGKILL);
}

/* ---- The beginning ---- */

static bool is_loopback(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int listen_on(server *s, const char *address, const char *port) {
  struct addrinfo hints, *found = NULL;
  struct sockaddr_storage bound;
  socklen_t bytes = sizeof bound;
  char number[16];
  int one = 1;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (getaddrinfo(address, port, &hints, &found) != 0) 
    return refuse(WRONG_OPTION, address, "not the address of an interface and a port", "--listen 127.0.0.1, or 0.0.0.0 for all of IPv4; --port 0 to 65535");
  memcpy(&bound, found->ai_addr, found->ai_addrlen);
  if (!is_loopback(&bound) && s->settings.token == NULL) {
    freeaddrinfo(found);
    return refuse(WRONG_OPTION, address, "other machines can reach it, and there is no token", "set STERNA_RPC_TOKEN, or --token-file FILE");
  }
  s->listens = socket(found->ai_family, SOCK_STREAM, 0);
  bool good = s->listens >= 0 && setsockopt(s->listens, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
              bind(s->listens, found->ai_addr, found->ai_addrlen) == 0 && listen(s->listens, 16) == 0 &&
              getsockname(s->listens, (struct sockaddr *)(void *)&bound, &bytes) == 0;
  freeaddrinfo(found);
  if (!good) {
    int why = errno;
    bool elsewhere = why == EADDRNOTAVAIL; /* it is the address that is at fault, not the port */
    (void)snprintf(number, sizeof number, "port %s", port);
    return refuse(REFUSED_BY_SYSTEM, elsewhere ? address : number, strerror(why),
                  elsewhere ? "--listen takes an address of this machine; 0.0.0.0 is all of them" : "--port 0 takes any that is free");
  }
  (void)fcntl(s->listens, F_SETFD, FD_CLOEXEC);
  (void)fcntl(s->listens, F_SETFL, O_NONBLOCK);
  if (getnameinfo((struct sockaddr *)(void *)&bound, bytes, NULL, 0, number, sizeof number, NI_NUMERICSERV) != 0) number[0] = 0;
  bool wide = bound.ss_family == AF_INET6;
  (void)printf("listens on %s%s%s:%s, %s\n", wide ? "[" : "", address, wide ? "]" : "", number,
               s->settings.token != NULL ? "a token is demanded" : "without a token");
  (void)fflush(stdout);
  return 0;
}

/* The token from a file that no other user may read; its bytes are counted, since a token may be any. */
static int read_token(const char *path, char token[MOST_TOKEN + 1], size_t *bytes) {
  static const char fix[] = "--token-file takes a file with the token";
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for whoever writes it */
  if (file < 0 || fstat(file, &info) != 0) return refuse(REFUSED_BY_SYSTEM, path, strerror(errno), fix);
  if (!S_ISREG(info.st_mode)) return refuse(WRONG_OPTION, path, "it is no file", fix);
  if ((info.st_mode & 077) != 0) return refuse(WRONG_OPTION, path, "other users may read or write it", "chmod 600");
  ssize_t got = read(file, token, MOST_TOKEN + 1);
  int why = errno;
  (void)close(file);
  if (got < 0) return refuse(REFUSED_BY_SYSTEM, path, strerror(why), fix);
  *bytes = (size_t)got;
  return 0;
}

/* The token of --token-file, of STERNA_RPC_TOKEN, or of the file that STERNA_RPC_TOKEN_FILE names, as clients look for
   it; without the white space at its end. */
static int settle_token(rpc_settings *settings, const char *path) {
  static char token[MOST_TOKEN + 1]; /* one more byte than a token has tells one that is longer */
  static const char fix[] = "take another one, such as that of: openssl rand -hex 16";
  const char *given = getenv("STERNA_RPC_TOKEN"), *named = getenv("STERNA_RPC_TOKEN_FILE");
  bool is_given = given != NULL && given[0] != 0;
  if (path == NULL && !is_given && named != NULL && named[0] != 0) path = named;
  size_t bytes = path == NULL && is_given ? strlen(given) : 0;
  int failed = path == NULL ? 0 : read_token(path, token, &bytes);
  if (failed != 0) return failed;
  if (bytes > MOST_TOKEN) return refuse(WRONG_OPTION, "the token", "it has more than 4096 bytes", fix);
  if (path == NULL && is_given) memcpy(token, given, bytes);
  (void)unsetenv("STERNA_RPC_TOKEN");
  while (bytes > 0 && memchr(" \t\r\n", token[bytes - 1], 4) != NULL) bytes--;
  if (path == NULL && bytes == 0) return 0;
  if (bytes < LEAST_TOKEN) return refuse(WRONG_OPTION, "the token", "it has fewer than 16 bytes", fix);
  settings->token = token;
  settings->token_bytes = bytes;
  return 0;
}

/* Seconds, with a fraction, as milliseconds; 0 for what is none. */
static uint32_t seconds(const char *text) {
  double value = strtod(text, NULL);
  return value >= 0.001 && value <= 1e6 ? (uint32_t)(value * 1000) : 0;
}

int main(int argc, char **argv) {
  static char scratch[512];
  const char *address = "127.0.0.1", *port = "9190", *folder = NULL, *token = NULL;
  server s;
  memset(&s, 0, sizeof s);
  s.settings.quota = (uint64_t)4 << 30;
  s.settings.limit = 60000;
  s.settings.slow = 10000;
  s.settings.idle = 300000;
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    bool good = value != NULL;
    if (!good) break;
    if (strcmp(name, "--listen") == 0) address = value;
    else if (strcmp(name, "--port") == 0) port = value;
    else if (strcmp(name, "--scratch") == 0) folder = value;
    else if (strcmp(name, "--token-file") == 0) token = value;
    else if (strcmp(name, "--quota") == 0) good = (s.settings.quota = strtoull(value, NULL, 10)) > 0;
    else if (strcmp(name, "--limit") == 0) good = (s.settings.limit = seconds(value)) > 0;
    else if (strcmp(name, "--slow") == 0) good = (s.settings.slow = seconds(value)) > 0;
    else if (strcmp(name, "--idle") == 0) good = (s.settings.idle = seconds(value)) > 0;
    else good = false;
    if (!good) return refuse(WRONG_OPTION, name, "not an option, or not a value of it", "--help lists what there is");
  }
  if (argc % 2 == 0) return fputs(usage, strcmp(argv[argc - 1], "--help") == 0 ? stdout : stderr) < 0 || strcmp(argv[argc - 1], "--help") != 0 ? 2 : 0;
  if (folder == NULL) {
    const char *home = getenv("TMPDIR");
    (void)snprintf(scratch, sizeof scratch, "%s/sterna-rpc-%u-%s", home != NULL ? home : "/tmp", (unsigned)geteuid(), port);
    folder = scratch;
  }
  rpc_store store;
  s.settings.scratch = folder;
  int failed = settle_token(&s.settings, token);
  if (failed != 0) return failed;
  if (!rpc_store_open(&store, folder, s.settings.quota)) return refuse(REFUSED_BY_SYSTEM, "the scratch folder", store.message, "--scratch FOLDER takes one that this user can write");
  s.board = mmap(NULL, sizeof *s.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s.board == MAP_FAILED) return refuse(REFUSED_BY_SYSTEM, "memory", strerror(errno), "end other programs");
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGTERM, stop);
  (void)signal(SIGINT, stop);
  if ((failed = listen_on(&s, address, port)) != 0) return failed;
  serve(&s);
  return 0;
}
