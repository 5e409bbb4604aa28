/* What one execution of fuzz_runtime gets, and how it is made of a base.
 *
 * An input, and likewise a base that inputs are made of, is one line and a graph.json, whose hash need not be right:
 *
 *   sterna-fuzz PARAMS_BYTES CALLS KERNELS
 *
 * CALLS are bytes in hexadecimal digits, or "-"; KERNELS are as many "tasks:scratch:flags" as there are kernels,
 * separated by commas, or "-". */
#ifndef STERNA_FUZZ_INPUT_H
#define STERNA_FUZZ_INPUT_H

#include <stdbool.h>

#include "fuzz_mutate.h"
#include "sterna_kernel.h"

#define MOST_KERNELS 256u
#define MOST_CALLS 192u
#define MOST_PARAMS ((size_t)1 << 20)

typedef struct input {
  size_t params_bytes;
  uint32_t n_kernels, n_calls;
  sterna_kernel kernels[MOST_KERNELS];
  uint8_t calls[MOST_CALLS];
  text graph; /* with its first line */
} input;

/* Reads a file; its kernels are `kernel`. False where it is no input. */
bool read_input(const char *path, sterna_kernel_fn kernel, input *in);
/* Writes the input to standard output, as read_input reads it. */
void print_input(const input *in);
/* The input of an execution: a base whose graph is changed, and random calls. */
void derive_input(const input *bases, uint32_t n_bases, uint64_t seed, uint64_t number, bool calls, input *in);

#endif
