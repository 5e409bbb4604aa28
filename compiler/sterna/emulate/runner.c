/* Runs a bundle with a marker (getppid) before the first run and after each, for counter.c: runner BUNDLE RUNS OUT_PREFIX IN0
 * [IN1 ...]. One thread. Inputs and outputs are raw files, in the model's order. With COUNT_NODES in the environment there is a
 * marker before and after the line that names each node. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sterna.h"

static int file(const char *path, const char *mode, void *memory, size_t bytes) {
  FILE *f = fopen(path, mode);
  size_t got = f == NULL ? 0 : *mode == 'r' ? fread(memory, 1, bytes, f) : fwrite(memory, 1, bytes, f);
  if (f != NULL && fclose(f) != 0) got = 0;
  if (got != bytes) fprintf(stderr, "%s: %zu of %zu bytes\n", path, got, bytes);
  return got == bytes;
}

static void on_node(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  sterna_node info;
  (void)nanoseconds;
  (void)getppid();
  if (sterna_node_info(user, node, &info) == STERNA_OK) printf("%u %s %s\n", (unsigned)node, name, info.kernel);
  (void)getppid();
}

int main(int argc, char **argv) {
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  sterna_tensor tensor;
  if (argc < 4) return 2;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 1;
  if (sterna_load(argv[1], &options, &model, &error) != STERNA_OK) return fprintf(stderr, "%s\n", error.message), 1;
  if (sterna_input_count(model) != (uint32_t)(argc - 4)) return fprintf(stderr, "inputs\n"), 1;
  for (uint32_t i = 0; i < sterna_input_count(model); i++)
    if (sterna_input_info(model, i, &tensor) != STERNA_OK ||
        !file(argv[4 + i], "rb", sterna_input_buffer(model, i), tensor.bytes))
      return 1;
  if (getenv("COUNT_NODES") != NULL) sterna_set_on_node(model, on_node, model);
  (void)getppid();
  for (int k = 0; k < atoi(argv[2]); k++) {
    if (sterna_run(model) != STERNA_OK) return fprintf(stderr, "%s\n", sterna_last_error(model)->message), 1;
    (void)getppid();
  }
  for (uint32_t i = 0; i < sterna_output_count(model); i++) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s%u.bin", argv[3], (unsigned)i);
    if (sterna_output_info(model, i, &tensor) != STERNA_OK ||
        !file(path, "wb", sterna_output_buffer(model, i), tensor.bytes))
      return 1;
  }
  sterna_unload(model);
  return 0;
}
