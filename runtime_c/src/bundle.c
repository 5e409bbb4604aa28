/* Opening and closing a model. The order matters: graph.json is hashed and checked before another file is named, every
 * file is hashed before it is used, and the library is opened last. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "json.h"

static sterna_status new_model(const sterna_options *given, sterna_model **out, sterna_error *error) {
  sterna_options options;
  memset(&options, 0, sizeof options);
  if (given != NULL) {
    if (given->size < sizeof given->size)
      return fail(error, STERNA_BAD_ARGUMENT, "options.size is %u; set it to sizeof(sterna_options)", (unsigned)given->size);
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
  }
  if (options.threads > MAX_THREADS)
    return fail(error, STERNA_BAD_ARGUMENT, "options.threads is %u; at most %u", (unsigned)options.threads, MAX_THREADS);
#ifdef STERNA_PORT_NONE
  if (options.threads > 1)
    return fail(error, STERNA_UNSUPPORTED, "options.threads is %u; this build has no threads", (unsigned)options.threads);
#endif
  heap memory;
  heap_open(&memory, options.allocator);
  if (memory.allocator.allocate == NULL || memory.allocator.release == NULL)
    return fail(error, STERNA_BAD_ARGUMENT, "options.allocator lacks a function");
  sterna_model *model = heap_take(&memory, 1, sizeof *model);
  if (model == NULL) return fail(error, STERNA_RESOURCES, "out of memory for the model");
  model->heap = memory; /* from here on the model owns the memory that it lies in */
  model->workers = options.threads > 1 ? options.threads : 1;
  model->on_node = options.on_node;
  model->user = options.user;
  model->apis = options.devices;
  model->n_apis = options.devices != NULL ? options.n_devices : 0;
  model->device_cache = options.device_cache;
  model->files = options.files;
  model->n_files = options.files != NULL ? options.n_files : 0;
  *out = model;
  return STERNA_OK;
}

/* The last steps of both ways to load. */
static sterna_status finish(const graph *graph, const sterna_library *library, sterna_model *model) {
  if ((uintptr_t)model->params % ALIGNMENT != 0)
    return fail(&model->error, STERNA_BAD_ARGUMENT, "the parameters are not aligned to %u bytes", ALIGNMENT);
  sterna_status status = graph_check_file("params.bin", &graph->params, model->params, model->params_bytes, &model->error);
  if (status == STERNA_OK) status = graph_build(graph, library, model);
  if (status == STERNA_OK) status = sterna_reset_state(model);
  if (status == STERNA_OK && model->workers > 1)
    status = pool_open(&model->heap, model->workers, model->scratch, (size_t)model->scratch_bytes, &model->pool, &model->error);
  return status;
}

/* Hands the model over, or gives everything back. Without memory nothing else can be said of a bundle, whatever the code that
 * missed it took that for. */
static sterna_status conclude(sterna_status status, sterna_model *model, sterna_model **out, sterna_error *error) {
  uint64_t refused = model->heap.refused;
  if (status == STERNA_OK) {
    *out = model;
    return STERNA_OK;
  }
  if (refused > 0 && !(status == STERNA_RESOURCES && model->error.message[0] != 0))
    status = fail(&model->error, STERNA_RESOURCES, "out of memory: %llu bytes more are needed", (unsigned long long)refused);
  if (error != NULL) *error = model->error;
  sterna_unload(model);
  return status;
}

/* Opens the devices of a graph, by the support that came with any of them. `directory`: as device_support.open takes it. */
static sterna_status open_devices(const char *directory, const graph *graph, sterna_model *model) {
  const device_support *support = model->n_apis > 0 ? model->apis[0]->support : NULL;
  if (support != NULL && support->model_bytes == sizeof *model) {
    model->support = support;
    return support->open(directory, graph, model);
  }
  return graph_lacks(graph, graph->at[GRAPH_DEVICES], "kind", "device", "", model);
}

sterna_status sterna_load_table(const void *data, size_t graph_bytes, const void *params, size_t params_bytes,
                                const sterna_library *library, const sterna_options *options, sterna_model **out,
                                sterna_error *error) {
  if (error != NULL) memset(error, 0, sizeof *error);
  if (out == NULL) return fail(error, STERNA_BAD_ARGUMENT, "out is NULL");
  *out = NULL;
  if (data == NULL || (params == NULL && params_bytes > 0))
    return fail(error, STERNA_BAD_ARGUMENT, "graph or params is NULL");
  sterna_model *model = NULL;
  graph graph;
  sterna_status status = new_model(options, &model, error);
  if (status != STERNA_OK) return status;
  model->params = params_bytes > 0 ? params : NULL;
  model->params_bytes = params_bytes;
  status = graph_open(&graph, data, graph_bytes, model);
  if (status == STERNA_OK && graph.at[GRAPH_DEVICES] != JSON_NONE) status = open_devices(NULL, &graph, model);
  if (status == STERNA_OK && library == NULL && (graph.library_name != NULL || model->support == NULL))
    status = fail(&model->error, STERNA_BAD_ARGUMENT, "library is NULL");
  if (status == STERNA_OK) status = finish(&graph, library, model);
  return conclude(status, model, out, error);
}

#ifndef STERNA_PORT_NONE

/* Checks the library's file, opens it and finds its table. */
static sterna_status open_library(const char *directory, const graph *graph, sterna_model *model,
                                  const sterna_library **table) {
  const char *name = graph->library_name;
  port_file file;
  if (name == NULL)
    return fail(&model->error, STERNA_BAD_LIBRARY, "the bundle has no kernel library: link kernels.c and use sterna_load_table");
  sterna_status status = map_file(directory, name, &file, &model->error);
  if (status != STERNA_OK) return status;
  status = graph_check_file(name, &graph->library, file.data, file.bytes, &model->error);
  if (status == STERNA_OK && !library_is_whole(&file))
    status = fail(&model->error, STERNA_BAD_LIBRARY, "%s: is cut off: its headers name more than its %llu bytes", name,
                  (unsigned long long)file.bytes);
  port_unmap(&file);
  if (status != STERNA_OK) return status;

  char reason[160], symbol[160];
  model->library = port_open_library(directory, name, graph->library.hash, reason, sizeof reason);
  if (model->library == NULL) return fail(&model->error, STERNA_BAD_LIBRARY, "%s: cannot be loaded: %s", name, reason);
  (void)snprintf(symbol, sizeof symbol, "sterna_%s_library", model->name);
  port_function function = port_symbol(model->library, symbol);
  if (function == NULL) return fail(&model->error, STERNA_BAD_LIBRARY, "%s: has no function %s", name, symbol);
  *table = ((const sterna_library *(*)(void))function)();
  return STERNA_OK;
}

/* Opens weights, devices and library of a graph, and builds the model. */
static sterna_status load_graph(const char *directory, const graph *graph, sterna_model *model) {
  const sterna_library *library = NULL;
  sterna_status status = map_file(directory, "params.bin", &model->params_file, &model->error);
  if (status != STERNA_OK) return status;
  model->params = model->params_file.data;
  model->params_bytes = model->params_file.bytes;
  if (graph->at[GRAPH_DEVICES] != JSON_NONE) status = open_devices(directory, graph, model);
  if (status == STERNA_OK && (graph->library_name != NULL || model->support == NULL))
    status = open_library(directory, graph, model, &library);
  return status == STERNA_OK ? finish(graph, library, model) : status;
}

/* Loads the bundle by graph.json or, where one of its variants suits this machine better, by that one's. */
static sterna_status load(const char *directory, const port_file *text, sterna_model *model) {
  graph graph;
  const char *name = NULL;
  file_entry entry;
  port_file own;
  sterna_status status = graph_open(&graph, text->data, text->bytes, model);
  if (status == STERNA_OK) status = graph_choose(&graph, model, &name, &entry);
  if (status != STERNA_OK) return status;
  if (name == NULL) return load_graph(directory, &graph, model);
  status = map_file(directory, name, &own, &model->error);
  if (status != STERNA_OK) return status;
  status = graph_check_file(name, &entry, own.data, own.bytes, &model->error);
  if (status == STERNA_OK) status = graph_open(&graph, own.data, own.bytes, model);
  if (status == STERNA_OK) status = load_graph(directory, &graph, model);
  port_unmap(&own);
  return status;
}
#endif

sterna_status sterna_load(const char *directory, const sterna_options *options, sterna_model **out,
                          sterna_error *error) {
  if (error != NULL) memset(error, 0, sizeof *error);
  if (out == NULL) return fail(error, STERNA_BAD_ARGUMENT, "out is NULL");
  *out = NULL;
  if (directory == NULL) return fail(error, STERNA_BAD_ARGUMENT, "directory is NULL");
#ifdef STERNA_PORT_NONE
  (void)options;
  return fail(error, STERNA_UNSUPPORTED, "this build has no files; use sterna_load_table");
#else
  sterna_model *model = NULL;
  port_file text;
  sterna_status status = new_model(options, &model, error);
  if (status != STERNA_OK) return status;
  status = map_file(directory, "graph.json", &text, &model->error);
  if (status == STERNA_OK) {
    status = load(directory, &text, model);
    port_unmap(&text);
  }
  return conclude(status, model, out, error);
#endif
}

void sterna_unload(sterna_model *model) {
  if (model == NULL) return;
  pool_close(model->pool); /* first: its threads run the library's code */
  if (model->support != NULL) model->support->close(model);
  if (model->library != NULL) port_close_library(model->library);
  port_unmap(&model->params_file);
  heap memory = model->heap; /* the model itself lies in it */
  heap_close(&memory);
}
