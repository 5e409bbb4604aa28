/* A model behind a serial line: the end of docs/rpc.md for firmware. It needs no libc and no memory but its own.
 *
 * A program gives it the line and a clock, and calls rpc_serve once both work; rpc_model.c, which is generated for a
 * bundle, gives it the model. It answers HELLO, TURN, STATUS, HAS, TABLE, SET, RUN, TIME, PROFILE, RESET, GET, LIMIT, BYE.
 */
#ifndef STERNA_FIRMWARE_RPC_H
#define STERNA_FIRMWARE_RPC_H

#include <stdint.h>

typedef struct rpc_memory {
  void *at;
  uint32_t bytes;
} rpc_memory;

typedef struct rpc_table {
  const uint8_t *at;
  uint32_t bytes;
} rpc_table;

typedef struct rpc_firmware {
  const rpc_memory *inputs, *outputs;
  uint32_t n_inputs, n_outputs, n_nodes;
  rpc_table tables[6]; /* as TABLE numbers them */
  const char *status;  /* JSON */
  int32_t (*run)(void);
  void (*reset)(void);
  uint64_t *nodes;  /* what each took in the latest run */
  uint8_t *spoilt; /* by input: whether what was written there last came damaged */
} rpc_firmware;

/* Of rpc_model.c. */
extern const rpc_firmware rpc_model;

/* The program's own. The next byte of the line; with `waits` however long that takes, without it -1 once nothing has come
 * for about a second. */
int rpc_board_get(int waits);
void rpc_board_put(uint8_t byte);
/* A count that goes on while a model runs: of nanoseconds, or of instructions where rpc_board_counts gives 1. */
uint64_t rpc_board_clock(void);
int rpc_board_counts(void);

/* Answers for ever. */
void rpc_serve(void);

#endif
