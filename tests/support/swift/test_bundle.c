#include "test_bundle.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "sterna_linked.h"

/* A file's bytes, 64-byte aligned; NULL if it is not there. */
static void *read_file(const char *directory, const char *name, size_t *bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  void *data = aligned_alloc(64, *bytes / 64 * 64 + 64);
  if (data != NULL && fread(data, 1, *bytes, file) != *bytes) data = NULL;
  fclose(file);
  return data;
}

const void *bundle_linked(const char *directory, const char *model) {
  char path[4096], symbol[256];
  sterna_linked *made = calloc(1, sizeof *made);
  sterna_linked_graph *graph = calloc(1, sizeof *graph);
  if (made == NULL || graph == NULL) return NULL;
  snprintf(path, sizeof path, "%s/model.so", directory);
  snprintf(symbol, sizeof symbol, "sterna_%s_library", model);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
  *(void **)&graph->library = dlsym(library, symbol);
  graph->features = "";
  graph->graph = read_file(directory, "graph.json", &graph->graph_bytes);
  made->size = sizeof *made;
  made->params = read_file(directory, "params.bin", &made->params_bytes);
  made->graphs = graph;
  made->n_graphs = 1;
  made->strings = read_file(directory, "strings.json", &made->strings_bytes);
  return made;
}

/* What the classes of packaged models call: the bundles of these names in the working directory. */
const void *sterna_digits_linked(void) { return bundle_linked("digits", "digits"); }
const void *sterna_labels_linked(void) { return bundle_linked("labels", "labels"); }
