/* What nodes.c and bindings.c share: the tables of a model's devices. */
#ifndef STERNA_DEVICES_NODES_RECORDS_H
#define STERNA_DEVICES_NODES_RECORDS_H

#include "../src/internal.h"

/* A kernel of a device: which of its module it is, and the most tasks of a node; by exchanges in subgroups they may be others. */
typedef struct device_kernel {
  uint32_t place, number, most_tasks;
  uint32_t *exchanging_tasks;
  bool checks;
} device_kernel;

/* A program's memory in place of the model's own; NULL: there is none. */
typedef struct foreign {
  void *memory;
  uint64_t first, bytes;
  bool is_adopted; /* to be let go */
} foreign;

typedef struct device {
  const sterna_device_api *api;
  void *handle; /* NULL until it is open */
  const char *module;
  file_entry file;
  size_t needs_at; /* of the list in the text */
  uint32_t n_kernels;
  sterna_device_kernel *kernels;
  uint32_t *chosen; /* by kernel, as in sterna_device_module */
  uint64_t arena_bytes, scratch_bytes, params_at, params_bytes;
  void *arena, *scratch, *params, *sizes, *status; /* memory of the device */
  void **inputs, **outputs;                        /* likewise, by number; NULL where no node touches them */
  foreign *foreign_inputs, *foreign_outputs;       /* what programs have bound in their place */
  int64_t *known;                                  /* the sizes that it has */
} device;

/* What a node of a device does. */
typedef struct work {
  sterna_device_launch launch;
  const value **spanned; /* by span of the launch; NULL for the weights */
  const value *copied; /* not NULL: this is copied instead, */
  bool copies_out;     /* from the device */
  bool checks;
} work;

typedef struct devices {
  uint32_t n;
  device *list;
  device_kernel *kernels; /* by kernel of graph.json */
  work *works;            /* by node */
  uint32_t results_at;    /* from this node on there are only copies out, which no other node reads */
  bool is_ready;          /* memory has been taken */
} devices;

static inline devices *all(const sterna_model *model) { return model->devices; }
/* What a program has bound in place of an input or output; NULL: nothing, as for any other value. */
static inline foreign *foreign_of(const device *d, const value *v) {
  foreign *bound = v->storage == CLASS_INPUT    ? &d->foreign_inputs[v->signature]
                   : v->storage == CLASS_OUTPUT ? &d->foreign_outputs[v->signature]
                                                : NULL;
  return bound != NULL && bound->memory != NULL ? bound : NULL;
}

/* Whether memory of a program has room for a tensor at its present sizes. */
static inline sterna_status check_room(sterna_model *model, const value *v, uint64_t bytes) {
  if (bytes >= v->tensor.bytes) return STERNA_OK;
  return fail(&model->error, STERNA_BAD_ARGUMENT, "\"%s\" has %llu bytes; the memory has %llu", v->tensor.name,
              (unsigned long long)v->tensor.bytes, (unsigned long long)bytes);
}

static inline device *at_place(const sterna_model *model, uint32_t place) { return &all(model)->list[place - 1]; }

#endif
