/* What must be true of a loaded model at all times, whatever was called. */
#ifndef STERNA_FUZZ_CHECK_H
#define STERNA_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define WRONG(...) (fprintf(stderr, "WRONG: " __VA_ARGS__), fputc('\n', stderr), abort())

/* Where the memory of a value's class begins, and its bytes; of an input or output, its own. */
const uint8_t *class_memory(const sterna_model *model, const value *v, uint64_t *bytes);
/* Whether all that the model says of its tensors is true; ends the program where it is not. */
void check_consistent(const sterna_model *model);
/* The sizes of everything: a call that failed leaves them as they were. */
uint64_t digest(const sterna_model *model);

#endif
