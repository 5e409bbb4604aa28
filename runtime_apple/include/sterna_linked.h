/* A model that is linked into the program: its graphs, weights and kernels are constants, and nothing is opened. */
#ifndef STERNA_LINKED_H
#define STERNA_LINKED_H

#include "sterna.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A graph with its kernels, for processors that have some features: names as sterna_cpu_has takes them, separated by
 * spaces. */
typedef struct sterna_linked_graph {
  const char *features;
  const void *graph;
  size_t graph_bytes;
  const sterna_library *(*library)(void);
} sterna_linked_graph;

/* What a model has for a device beside its graphs for processors. */
typedef struct sterna_linked_device {
  const void *params; /* 64-byte aligned */
  size_t params_bytes;
  const void *graph;
  size_t graph_bytes;
  sterna_file kernels;                    /* which the device's driver compiles */
  const sterna_library *(*library)(void); /* of what stays on the CPU; NULL: nothing */
} sterna_linked_device;

/* What the one exported function `const void *sterna_<model>_linked(void)` of a model returns. The best graph is first,
 * and every processor runs the last one. */
typedef struct sterna_linked {
  size_t size;                        /* sizeof(sterna_linked): the record grows at the end */
  const void *params;                 /* 64-byte aligned */
  size_t params_bytes;
  const sterna_linked_graph *graphs;
  size_t n_graphs;
  const void *strings;                /* strings.json, of a model with tensors of strings; else NULL */
  size_t strings_bytes;
  const sterna_linked_device *device; /* NULL: none */
} sterna_linked;

/* Loads the first graph that this processor runs. `linked` is a sterna_linked; the rest as for sterna_load_table.
 *
 * If the model has kernels for a device, and the options name what drives it, it is loaded there; on the CPU where that
 * cannot be (STERNA_WRONG_MACHINE, STERNA_RESOURCES, STERNA_BAD_LIBRARY). `error` then says why, though the result is
 * STERNA_OK. */
STERNA_API sterna_status sterna_load_linked(const void *linked, const sterna_options *options, sterna_model **out,
                                            sterna_error *error);

#ifdef __cplusplus
}
#endif
#endif
