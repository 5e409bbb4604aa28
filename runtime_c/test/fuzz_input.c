/* Inputs: read, printed, derived. */
#include "fuzz_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sterna.h"

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool read_input(const char *path, sterna_kernel_fn kernel, input *in) {
  static char whole[TEXT_ROOM + 65536];
  FILE *file = fopen(path, "rb");
  size_t bytes = file != NULL ? fread(whole, 1, sizeof whole - 1, file) : 0;
  if (file != NULL) (void)fclose(file);
  whole[bytes] = 0;
  char *line_end = memchr(whole, '\n', bytes), *at;
  static const char magic[] = "sterna-fuzz ";
  if (line_end == NULL || strncmp(whole, magic, sizeof magic - 1) != 0) return false;
  *line_end = 0;
  in->params_bytes = strtoul(whole + sizeof magic - 1, &at, 10);
  in->n_calls = in->n_kernels = 0;
  for (at++; digit(at[0]) >= 0 && digit(at[1]) >= 0 && in->n_calls < MOST_CALLS; at += 2)
    in->calls[in->n_calls++] = (uint8_t)(digit(at[0]) << 4 | digit(at[1]));
  if (*at == '-') at++;
  while (*at != 0 && *at != '-' && in->n_kernels < MOST_KERNELS) {
    sterna_kernel *k = &in->kernels[in->n_kernels++];
    at++;
    k->function = kernel;
    k->n_tasks = (uint32_t)strtoul(at, &at, 10);
    k->scratch_bytes = *at == ':' ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
    k->flags = *at == ':' ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
    if (*at == ' ') break;
  }
  in->graph.bytes = (size_t)(whole + bytes - (line_end + 1));
  if (in->params_bytes > MOST_PARAMS || in->graph.bytes > TEXT_ROOM) return false;
  memcpy(in->graph.data, line_end + 1, in->graph.bytes);
  return true;
}

void print_input(const input *in) {
  printf("sterna-fuzz %zu ", in->params_bytes);
  for (uint32_t i = 0; i < in->n_calls; i++) printf("%02x", in->calls[i]);
  if (in->n_calls == 0) printf("-");
  for (uint32_t i = 0; i < in->n_kernels; i++)
    printf("%c%u:%u:%u", i == 0 ? ' ' : ',', (unsigned)in->kernels[i].n_tasks, (unsigned)in->kernels[i].scratch_bytes,
           (unsigned)in->kernels[i].flags);
  if (in->n_kernels == 0) printf(" -");
  printf("\n");
  (void)fwrite(in->graph.data, 1, in->graph.bytes, stdout);
}

/* Gives a body its first line; mostly one whose hash is right. */
static void seal(text *it, text *body, unsigned version, random_state *random) {
  const char *rest = body->data;
  size_t bytes = body->bytes;
  if (bytes > 0 && rest[0] == '{') rest++, bytes--;
  uint64_t hash = sterna_hash64(rest, bytes);
  uint32_t odd = random_below(random, 256);
  if (odd == 0) hash ^= 1;
  if (odd == 1) version = random_below(random, 12);
  int used = snprintf(it->data, 128, "{\"sterna\":%u,\"hash\":\"%08lx%08lx\",\n", version, (unsigned long)(hash >> 32),
                      (unsigned long)(hash & 0xffffffffu));
  it->bytes = (size_t)used;
  if (bytes > TEXT_ROOM - it->bytes) bytes = TEXT_ROOM - it->bytes;
  memcpy(it->data + it->bytes, rest, bytes);
  it->bytes += bytes;
  if (odd == 2) it->bytes = random_below(random, it->bytes);
}

void derive_input(const input *bases, uint32_t n_bases, uint64_t seed, uint64_t number, bool calls, input *in) {
  static text body, spare;
  random_state random = {seed * 0x9e3779b97f4a7c15u ^ number * 0xd1342543de82ef95u};
  const input *base = &bases[random_below(&random, n_bases)];
  in->params_bytes = base->params_bytes;
  in->n_kernels = base->n_kernels;
  memcpy(in->kernels, base->kernels, sizeof in->kernels);
  in->n_calls = calls ? 24 + random_below(&random, MOST_CALLS - 24) : 8 + random_below(&random, 16);
  for (uint32_t i = 0; i < in->n_calls; i++) in->calls[i] = (uint8_t)random_next(&random);
  const char *line_end = memchr(base->graph.data, '\n', base->graph.bytes);
  size_t head = line_end != NULL ? (size_t)(line_end + 1 - base->graph.data) : 0;
  unsigned version = 1;
  (void)sscanf(base->graph.data, "{\"sterna\":%u", &version);
  body.data[0] = '{';
  body.bytes = 1 + base->graph.bytes - head;
  memcpy(body.data + 1, base->graph.data + head, base->graph.bytes - head);
  uint32_t changes = calls ? random_below(&random, 4) : 1 + random_below(&random, 4);
  for (uint32_t i = 0; i < changes; i++) mutate(&body, &spare, &random, calls ? MUTATE_SIZES : MUTATE_ANY);
  seal(&in->graph, &body, version, &random);
}
