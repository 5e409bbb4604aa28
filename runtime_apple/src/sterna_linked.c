#include "sterna_linked.h"

#include <stddef.h>
#include <string.h>

/* Whether this processor has every feature of a list. */
static int has_all(const char *features) {
  char name[64];
  while (*features != 0) {
    size_t length = strcspn(features, " ");
    if (length >= sizeof name) return 0;
    memcpy(name, features, length);
    name[length] = 0;
    if (length > 0 && sterna_cpu_has(name) != 1) return 0;
    features += length;
    if (*features == ' ') features++;
  }
  return 1;
}

static const sterna_linked_device *device_of(const sterna_linked *model, const sterna_options *options) {
  int known = model->size >= offsetof(sterna_linked, device) + sizeof model->device;
  int driven = options != NULL && options->size >= offsetof(sterna_options, files) + sizeof options->files &&
               options->n_devices > 0;
  return known && driven ? model->device : NULL;
}

static sterna_status load_device(const sterna_linked_device *device, const sterna_options *options, sterna_model **out,
                                 sterna_error *error) {
  sterna_options own = *options;
  own.files = &device->kernels;
  own.n_files = 1;
  own.size = sizeof own;
  return sterna_load_table(device->graph, device->graph_bytes, device->params, device->params_bytes,
                           device->library != NULL ? device->library() : NULL, &own, out, error);
}

sterna_status sterna_load_linked(const void *linked, const sterna_options *options, sterna_model **out,
                                 sterna_error *error) {
  const sterna_linked *model = linked;
  if (out == NULL || model == NULL || model->size < offsetof(sterna_linked, strings) || model->n_graphs == 0) {
    if (out != NULL) *out = NULL;
    if (error != NULL) {
      memset(error, 0, sizeof *error);
      error->status = STERNA_BAD_ARGUMENT;
      strcpy(error->message, "sterna_load_linked: no linked model, or nowhere to put it");
    }
    return STERNA_BAD_ARGUMENT;
  }
  const sterna_linked_device *device = device_of(model, options);
  sterna_error why;
  memset(&why, 0, sizeof why);
  if (device != NULL) {
    sterna_status status = load_device(device, options, out, &why);
    if (status != STERNA_WRONG_MACHINE && status != STERNA_RESOURCES && status != STERNA_BAD_LIBRARY) {
      if (error != NULL) *error = why;
      return status;
    }
  }
  const sterna_linked_graph *graph = model->graphs, *last = graph + model->n_graphs - 1;
  while (graph < last && !has_all(graph->features)) graph++;
  sterna_status status = sterna_load_table(graph->graph, graph->graph_bytes, model->params, model->params_bytes,
                                           graph->library(), options, out, error);
  if (status == STERNA_OK && device != NULL && error != NULL) *error = why;
  return status;
}
