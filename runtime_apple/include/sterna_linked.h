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
} sterna_linked;

/* Loads the first graph that this processor runs. `linked` is a sterna_linked; the rest as for sterna_load_table. */
STERNA_API sterna_status sterna_load_linked(const void *linked, const sterna_options *options, sterna_model **out,
                                            sterna_error *error);

#ifdef __cplusplus
}
#endif
#endif
