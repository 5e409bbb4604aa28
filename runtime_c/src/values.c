/* Values and nodes at their present sizes: where a value lies, and whether it fits there. */
#include "internal.h"

sterna_status may_change(sterna_model *model) {
  if (model == NULL) return STERNA_BAD_ARGUMENT;
  return model->running ? fail(&model->error, STERNA_BAD_ARGUMENT, "on_node called what changes a model within its run") : STERNA_OK;
}

sterna_status out_of_range(const sterna_model *model, const char *what, uint32_t index, uint32_t count) {
  sterna_error *error = &((sterna_model *)(uintptr_t)model)->error;
  return fail(error, STERNA_BAD_ARGUMENT, "%s %u: the model has %u", what, (unsigned)index, (unsigned)count);
}

uint8_t *value_address(const sterna_model *model, const value *v) {
  switch (v->storage) {
    case CLASS_INPUT:
      return model->inputs[v->signature].bound;
    case CLASS_OUTPUT:
      return model->outputs[v->signature].bound;
    case CLASS_ARENA:
    case CLASS_STATE:
      return model->arena + v->offset;
    default: /* only ever read: no node writes to a parameter */
      return model->params != NULL ? (uint8_t *)((uintptr_t)model->params + (uintptr_t)v->offset) : NULL;
  }
}

/* Sizes and strides: a dense size that fits, and no element outside the buffer. */
static bool shape_fits(value *v) {
  uint64_t elements = 1, last = (uint64_t)v->origin; /* the element furthest from the buffer's start */
  bool dense = v->origin == 0;
  uint32_t rank = v->tensor.rank;
  for (uint32_t i = 0; i < rank; i++) {
    uint64_t dim = (uint64_t)v->dims[i], reach;
    if (!multiply_fits(elements, dim, &elements)) return false;
    if (dim > 0 && (!multiply_fits(dim - 1, (uint64_t)v->strides[i], &reach) || !add_fits(last, reach, &last))) return false;
  }
  uint64_t step = 1;
  for (uint32_t i = rank; i-- > 0; step *= (uint64_t)v->dims[i])
    if (v->dims[i] > 1 && (uint64_t)v->strides[i] != step) dense = false;
  uint64_t bytes, end;
  if (!multiply_fits(elements, v->element_bytes, &bytes) || bytes > PTRDIFF_MAX) return false;
  v->tensor.bytes = (size_t)bytes;
  if (elements == 0) return true; /* wherever it lies */
  if (!add_fits(last, 1, &end) || !multiply_fits(end, v->element_bytes, &end) || end > v->bytes) return false;
  if (v->storage == CLASS_INPUT || v->storage == CLASS_OUTPUT)
    return dense && (v->stage != 0 || v->bytes == bytes);
  return true;
}

const char storage_names[N_CLASSES][8] = {"input", "output", "arena", "param", "state"};

sterna_status check_value(sterna_model *model, uint32_t index) {
  value *v = &model->values[index];
  if (shape_fits(v)) return STERNA_OK;
  model->rows = "value"; /* also at other sizes, when no list is read */
  model->row = index;
  model->row_name = v->tensor.name;
  BAD("dims and strides do not fit its %llu bytes of %s", (unsigned long long)v->bytes, storage_names[v->storage]);
}

sterna_status check_tasks(sterna_model *model, uint32_t index) {
  node *n = &model->nodes[index];
  bool good = n->stage != 0 ? n->wanted_tasks <= n->max_tasks : n->wanted_tasks == n->max_tasks && n->max_tasks > 0;
  if (!good)
    return fail(&model->error, STERNA_BAD_LIBRARY, "node %u (\"%s\") has %llu tasks; its kernel in the library has %u",
                (unsigned)index, n->name, (unsigned long long)n->wanted_tasks, (unsigned)n->max_tasks);
  n->tasks = (uint32_t)n->wanted_tasks;
  return STERNA_OK;
}
