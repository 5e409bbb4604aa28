/* What the fuzzer of the JavaScript runtime runs, compiled twice for wasm32 by fuzz/javascript.py:
 *
 * - as it is, the kernels of its bundle, over memory that the JavaScript runtime makes;
 * - with -DREADER and the sources of runtime_c, the C runtime over the same kernels, so that both read the same graphs.
 *
 * What a hostile graph asks of a kernel is not the kernel's fault: they touch nothing that a graph names. */
#include "sterna_kernel.h"

static int32_t nothing(const sterna_call *call, uint32_t first, uint32_t last) {
  return call->size == sizeof *call && first <= last ? 0 : -1;
}

static int32_t failing(const sterna_call *call, uint32_t first, uint32_t last) {
  (void)call, (void)first, (void)last;
  return -11;
}

static int32_t trapping(const sterna_call *call, uint32_t first, uint32_t last) {
#ifdef READER
  return failing(call, first, last); /* what a trap becomes */
#else
  (void)first, (void)last;
  if (call->n_workers == 1 || call->worker > 0) __builtin_trap();
  return 0;
#endif
}

static const sterna_kernel kernels[] = {
    {nothing, 1, 0, 0, 0}, {nothing, 4, 64, 0, 0}, {nothing, 8, 0, 0, 0}, {failing, 1, 0, 0, 0}, {trapping, 2, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, sizeof kernels / sizeof *kernels, 0, kernels, ""};

__attribute__((visibility("default"))) const sterna_library *sterna_fuzz_library(void);
const sterna_library *sterna_fuzz_library(void) { return &library; }

#ifdef READER
#include <stdlib.h>
#include <string.h>

#include "sterna.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static sterna_model *model;

void *EXPORT(take)(size_t bytes) { return malloc(bytes); }
void EXPORT(give)(void *memory) { free(memory); }

/* Loads a bundle in place of the one before: a status. */
int32_t EXPORT(load)(const void *graph, size_t graph_bytes, const void *params, size_t params_bytes) {
  sterna_options options;
  sterna_error error;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  sterna_unload(model);
  return sterna_load_table(graph, graph_bytes, params, params_bytes, &library, &options, &model, &error);
}

/* Every byte of every input is `byte`; runs. */
int32_t EXPORT(run)(int byte) {
  sterna_tensor tensor;
  for (uint32_t i = 0; sterna_input_info(model, i, &tensor) == STERNA_OK; i++)
    memset(sterna_input_buffer(model, i), byte, tensor.bytes);
  return sterna_run(model);
}

/* Gives every dimension that is the caller's the size `at` bounds: 0 the lower, 1 the upper, 2 one between them. */
int32_t EXPORT(resize)(int at) {
  int64_t sizes[256];
  uint32_t n = 0;
  sterna_dim dim;
  for (uint32_t i = 0; sterna_dim_info(model, i, &dim) == STERNA_OK; i++)
    if (!dim.computed) sizes[n++] = at == 0 ? dim.lo : at == 1 ? dim.hi : dim.lo + (dim.hi - dim.lo) / 2;
  return sterna_set_dims(model, sizes, n);
}

static uint32_t hash;
static void add(int64_t number) {
  hash = (hash ^ (uint32_t)number) * 16777619u;
  hash = (hash ^ (uint32_t)((uint64_t)number >> 32)) * 16777619u;
}

static void add_tensor(const sterna_tensor *tensor) {
  add(tensor->rank);
  for (uint32_t i = 0; i < tensor->rank; i++) add(tensor->dims[i]);
}

/* Of all sizes that the caller sees. */
uint32_t EXPORT(digest)(void) {
  sterna_tensor tensor;
  sterna_dim dim;
  hash = 2166136261u;
  for (uint32_t i = 0; sterna_dim_info(model, i, &dim) == STERNA_OK; i++) add(dim.size);
  for (uint32_t i = 0; sterna_input_info(model, i, &tensor) == STERNA_OK; i++) add_tensor(&tensor);
  for (uint32_t i = 0; sterna_output_info(model, i, &tensor) == STERNA_OK; i++) add_tensor(&tensor);
  return hash;
}
#endif
