/* A client's session: reads frames, holds to the states of docs/rpc.md, answers. It knows neither sockets nor processes:
 * those are a stream and a host. */
#ifndef RPC_SESSION_H
#define RPC_SESSION_H

#include "model.h"
#include "protocol.h"
#include "sha256.h"
#include "store.h"

/* How reading and writing end. */
enum { RPC_GOOD, RPC_GONE, RPC_TOO_SLOW, RPC_TOO_IDLE };

typedef struct rpc_stream {
  void *context;
  /* Reads exactly so many bytes. `waits`: the first of them may take as long as the client likes. */
  int (*read)(void *context, void *to, size_t bytes, bool waits);
  int (*write)(void *context, const void *head, size_t head_bytes, const void *bytes, size_t count);
} rpc_stream;

typedef enum rpc_state { RPC_NEW, RPC_CHALLENGED, RPC_KNOWN, RPC_FIRST, RPC_LOADED } rpc_state;

/* Why a session has left `rpc_serve`. */
typedef enum rpc_leave { RPC_STAYS, RPC_CLOSED, RPC_UNLOADED, RPC_RELOADS } rpc_leave;

typedef struct rpc_session rpc_session;

/* What surrounds a session; a NULL where an end has none of it. */
typedef struct rpc_host {
  void *context;
  const char *token; /* NULL: none is demanded */
  size_t token_bytes;
  uint32_t most_milliseconds;
  bool (*random)(void *context, uint8_t *bytes, size_t count);
  /* Waits for the session's turn; tells positions itself. A status. */
  int32_t (*turn)(void *context, rpc_session *session, uint32_t id, uint32_t milliseconds);
  void (*denied)(void *context);
  /* Loads a model and answers LOAD, now or in a process of its own. */
  void (*load)(void *context, rpc_session *session, const char *folder, uint32_t threads, uint32_t id);
  void (*status)(void *context, rpc_buffer *json);
  /* A request to a model begins, with its id, and ends. */
  void (*begins)(void *context, uint32_t id);
  void (*ends)(void *context);
  void (*limit)(void *context, uint32_t milliseconds);
} rpc_host;

struct rpc_session {
  rpc_stream stream;
  const rpc_host *host;
  rpc_store *store; /* NULL: an end without files */
  rpc_state state;
  rpc_leave leave;
  bool hosted; /* in a process that another one watches: it ends where the model does */
  sterna_model *model;
  uint64_t largest_input;
  uint32_t latest; /* id of the latest request */
  uint8_t client_nonce[RPC_NONCE], server_nonce[RPC_NONCE];
  rpc_buffer in, out;
};

/* Reads requests and answers them until the session leaves. */
void rpc_serve(rpc_session *session);

/* Takes a request whose payload has been read already. */
void rpc_take_frame(rpc_session *session, uint16_t kind, uint32_t id, const uint8_t *payload, size_t bytes);

/* A reply, an error. */
void rpc_reply(rpc_session *session, uint16_t kind, uint32_t id, const void *bytes, size_t count);
void rpc_fail(rpc_session *session, uint32_t id, int32_t status, const char *message);

/* Loads a model into this process and answers LOAD. */
void rpc_load_here(rpc_session *session, const char *folder, uint32_t threads, uint32_t id);

/* Frees what a session holds, its model too. */
void rpc_session_close(rpc_session *session);

#endif
