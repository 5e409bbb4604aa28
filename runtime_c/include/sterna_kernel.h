/* The binary interface between a runtime and the kernels of a bundle.
 *
 * A kernel owns no thread and no memory: it is a function of a call record and a range of tasks. Tasks of one call may
 * run in any order and on any worker; the runtime returns from a node when all of its tasks are done.
 * Records grow at the end: `size` says how much of one the other side knows. */
#ifndef STERNA_KERNEL_H
#define STERNA_KERNEL_H

#include <stdint.h>

#define STERNA_ABI 1u

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sterna_call {
  uint32_t size;               /* bytes of this record that the caller filled in */
  uint32_t n_workers;          /* workers sharing this call, at least 1 */
  const void *const *in;       /* one buffer per input value, element-aligned */
  void *const *out;            /* one buffer per output value, element-aligned */
  const uint8_t *params;       /* this node's constants, 64-byte aligned; NULL if it has none */
  uint8_t *scratch;            /* this worker's scratch, 64-byte aligned; NULL if none was asked for */
  const int64_t *dims;         /* actual sizes of the model's dimension symbols; NULL if it has none */
  uint32_t worker;             /* 0 .. n_workers - 1 */
  void (*barrier)(void *pool); /* waits for all workers of this call; NULL unless the kernel needs it */
  void *pool;                  /* argument of barrier */
} sterna_call;

/* Runs tasks first_task <= t < last_task. Returns 0, or a negative sterna_status. */
typedef int32_t (*sterna_kernel_fn)(const sterna_call *call, uint32_t first_task, uint32_t last_task);

/* Every worker calls the kernel exactly once, all at the same time, with its own (perhaps empty) range of tasks, and each
 * call passes the same barriers: it must not return an error between them. With one worker the barrier does nothing. All
 * workers have the same scratch. */
#define STERNA_KERNEL_NEEDS_BARRIER 1u

typedef struct sterna_kernel {
  sterna_kernel_fn function;
  uint32_t n_tasks;       /* tasks of one call, at least 1 */
  uint32_t scratch_bytes; /* per worker, or of all if the kernel needs barriers */
  uint32_t flags;         /* STERNA_KERNEL_* */
  uint32_t reserved;
} sterna_kernel;

/* What the one exported function `const sterna_library *sterna_<model>_library(void)` returns. */
typedef struct sterna_library {
  uint32_t size;          /* bytes of this record */
  uint32_t abi;           /* STERNA_ABI the kernels were built for */
  uint32_t n_kernels;
  uint32_t reserved;
  const sterna_kernel *kernels;
  const char *features;   /* CPU features the code needs, separated by spaces */
} sterna_library;

#ifdef __cplusplus
}
#endif
#endif
