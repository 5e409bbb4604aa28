/* What the files of sterna_cuda share: the driver and its errors (cuda_driver.c), memory (cuda_memory.c), what is handed to the
 * driver (cuda_steps.c), and models (cuda.c). */
#ifndef STERNA_DEVICES_CUDA_H
#define STERNA_DEVICES_CUDA_H

#include <stdbool.h>

#include "cuda_api.h"
#include "sterna_device.h"

#define TEXT_BYTES 256

/* The driver, once it is open, and the primary context that all models of a process share. */
typedef struct cuda_driver {
  bool opened, has_graphs, lost;
  unsigned users;
  cuda_api cu;
  cuda_device device;
  cuda_object context;
  int version, capability; /* 12040: CUDA 12.4; 86: 8.6 */
  char name[TEXT_BYTES];
} cuda_driver;

/* Read under its lock, or by a user of the context. */
extern cuda_driver sterna_cuda_shared;

/* Another user of the context, which the first one makes. */
sterna_status sterna_cuda_acquire(sterna_error *error);
void sterna_cuda_release(void);

/* What a call of the driver said, in its own words; `what` names the call, `about` what it was about. */
sterna_status sterna_cuda_said(sterna_error *error, cuda_result code, const char *what, const char *about);
/* Whether the device and its driver have what a module needs. */
sterna_status sterna_cuda_check(const sterna_device_module *module, sterna_error *error);
/* Compiles a module's text. */
sterna_status sterna_cuda_load(const sterna_device_module *module, cuda_object *out, sterna_error *error);

/* ---- cuda_memory.c: memory of one device; callers have made the context current ---- */

typedef struct cuda_block {
  struct cuda_block *next;
  cuda_memory address;
  uint64_t bytes;
  bool is_own;  /* else others have allocated it, and free it */
  bool is_idle; /* of what was let go: all work that may read it is done */
} cuda_block;

/* What is in use, and what was let go and serves again. */
typedef struct cuda_blocks {
  cuda_block *used, *spare;
  unsigned n_spare;
} cuda_blocks;

sterna_status sterna_cuda_take(cuda_blocks *blocks, uint64_t bytes, cuda_block **out, sterna_error *error);
/* Memory of others, if it is on this device and aligned. */
sterna_status sterna_cuda_adopt(cuda_blocks *blocks, cuda_memory address, uint64_t first, uint64_t bytes, cuda_block **out, sterna_error *error);
void sterna_cuda_let_go(cuda_blocks *blocks, cuda_block *block);
void sterna_cuda_free(cuda_blocks *blocks);

/* ---- cuda_steps.c ---- */

typedef struct cuda_kernel {
  cuda_object function;
  const char *name;
  uint32_t threads[3]; /* all 0: a thread runs one task after another */
  uint32_t most_threads;
  uint32_t asked_bytes; /* of shared memory, that a launch brings */
} cuda_kernel;

/* Words of 64 bits that say what is to be done: for each step its kind, then what follows here. */
enum { CUDA_COPY_IN, CUDA_COPY_OUT, CUDA_LAUNCH };
enum { CUDA_COPY_WORDS = 3 };   /* address of the device, place in pinned memory, bytes */
enum { CUDA_LAUNCH_WORDS = 3 }; /* kernel, tasks, number of pointers; then these */

typedef struct cuda_words {
  uint64_t *data;
  size_t used, room;
} cuda_words;

/* Room for more words, or NULL. */
uint64_t *sterna_cuda_take_words(cuda_words *w, size_t n);

/* Where steps are done. */
typedef struct cuda_queue {
  cuda_object stream;
  cuda_kernel *kernels;
  uint8_t *staging;  /* pinned */
  void **parameters; /* of a launch: room for them */
} cuda_queue;

/* Puts steps into the stream; `what` and `about` say what failed. */
cuda_result sterna_cuda_issue(const cuda_queue *q, const cuda_words *steps, const char **what, const char **about);
/* The steps as an executable graph, between these events unless they are NULL; NULL if the driver makes none. */
cuda_object sterna_cuda_graph(const cuda_queue *q, const cuda_words *steps, cuda_object start, cuda_object end);

#endif
