/* Makes a JSON text into another one, by its structure or by its bytes. The same random numbers give the same text. */
#ifndef STERNA_FUZZ_MUTATE_H
#define STERNA_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_ROOM ((size_t)1 << 18) /* a mutation that would not fit is left out */

typedef struct text {
  size_t bytes;
  char data[TEXT_ROOM];
} text;

/* A stream of random numbers (splitmix64). */
typedef struct random_state {
  uint64_t state;
} random_state;

uint64_t random_next(random_state *random);
/* 0 <= result < limit; 0 where limit is 0. */
uint32_t random_below(random_state *random, uint64_t limit);

/* What kinds of change are made. MUTATE_SIZES puts expressions over symbols where numbers are, and little else: most such
 * graphs still load. */
typedef enum mutation { MUTATE_ANY, MUTATE_SIZES } mutation;

/* One change of `it`; `spare` is scratch. Text that is no JSON is changed as far as it can be read. */
void mutate(text *it, text *spare, random_state *random, mutation kind);

#endif
