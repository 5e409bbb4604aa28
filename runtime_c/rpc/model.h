/* What is asked of a model that is loaded: tables, inputs, runs, times, outputs. */
#ifndef RPC_MODEL_H
#define RPC_MODEL_H

#include "protocol.h"
#include "sterna.h"

/* A request, and where its reply goes: `bytes` and `count` where memory of the model's is the reply, otherwise `made`. */
typedef struct rpc_asked {
  uint16_t kind;
  rpc_reader payload;
  rpc_buffer *made;
  const void *bytes;
  size_t count;
  const char *message; /* of an error; static or the model's */
} rpc_asked;

/* Answers a request to a model, all but SET; a status, 0 or an error's. */
int32_t rpc_answer(sterna_model *model, rpc_asked *asked);

/* Bytes of its largest input, at the sizes of this moment; those after loading are the most. */
uint64_t rpc_largest_input(const sterna_model *model);

#endif
