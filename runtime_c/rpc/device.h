/* What the machine is and how it is at this moment, as far as the system tells. */
#ifndef RPC_DEVICE_H
#define RPC_DEVICE_H

#include "protocol.h"

typedef struct rpc_moment {
  uint32_t kilohertz;   /* of the processor that the caller is on; 0: not known */
  int32_t millidegrees; /* of the hottest place; INT32_MIN: not known */
  int32_t processor;    /* -1: not known */
} rpc_moment;

rpc_moment rpc_moment_now(void);

/* Writes `"name": value` pairs of JSON, with commas between them. */
void rpc_put_json(rpc_buffer *b, const char *text);                             /* as it is */
void rpc_put_pair(rpc_buffer *b, const char *name, const char *value);          /* a string, escaped */
void rpc_put_count(rpc_buffer *b, const char *name, uint64_t value);

/* The pairs that tell of the machine: machine, system, processor, cores, memory, features, clock, temperature. */
void rpc_put_device(rpc_buffer *b);

#endif
