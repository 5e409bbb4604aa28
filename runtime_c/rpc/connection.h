/* One client's connection, in a process of its own: the socket with its deadlines, the turn that the listener gives, and
 * the process that runs the model, which this one watches. */
#ifndef RPC_CONNECTION_H
#define RPC_CONNECTION_H

#include "session.h"

typedef struct rpc_settings {
  const char *token; /* NULL: none */
  size_t token_bytes;
  const char *scratch;
  uint64_t quota;
  uint32_t limit, slow, idle; /* milliseconds: of a request, of a frame, between requests */
} rpc_settings;

/* What the listener tells all connections. */
typedef struct rpc_board {
  volatile uint32_t waiting, busy;
} rpc_board;

/* Of the listener's and a connection's socket pair: the connection asks for the turn or gives it up, the listener says
 * positions, or that it has heard. */
enum { RPC_ASKS = 'T', RPC_GIVES_UP = 'G' };
#define RPC_HEARD UINT32_MAX

/* Serves the client until its connection ends. */
void rpc_connection(int client, int control, const rpc_settings *settings, const rpc_board *board);

#endif
