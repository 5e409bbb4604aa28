/* Checks of a loaded model that sanitizers do not make, by arithmetic of 128 bits. */
#include "fuzz_check.h"

__extension__ typedef __int128 wide;


const uint8_t *class_memory(const sterna_model *model, const value *v, uint64_t *bytes) {
  switch (v->storage) {
    case CLASS_PARAM:
      *bytes = model->params_bytes;
      return model->params;
    case CLASS_ARENA:
    case CLASS_STATE:
      *bytes = model->arena_bytes;
      return model->arena;
    default:
      *bytes = v->bytes;
      return value_address(model, v);
  }
}

void check_consistent(const sterna_model *model) {
  for (uint32_t i = 0; i < model->n_dims; i++)
    if (model->sizes[i] < model->dims[i].lo || model->sizes[i] > model->dims[i].hi) WRONG("dimension %u is out of its bounds", i);
  for (uint32_t i = 0; i < model->n_nodes; i++)
    if (model->nodes[i].tasks > model->nodes[i].max_tasks) WRONG("node %u has too many tasks", i);
  for (uint32_t i = 0; i < model->n_values; i++) {
    const value *v = &model->values[i];
    uint64_t limit;
    const uint8_t *at = class_memory(model, v, &limit);
    wide elements = 1, last = v->origin;
    bool empty = false;
    if (v->tensor.rank > STERNA_MAX_RANK || v->tensor.dims != v->dims) WRONG("value %u has no dims", i);
    for (uint32_t axis = 0; axis < v->tensor.rank; axis++) {
      if (v->dims[axis] < 0 || v->strides[axis] < 0) WRONG("value %u has a negative size", i);
      empty |= v->dims[axis] == 0;
    }
    for (uint32_t axis = 0; axis < v->tensor.rank && !empty; axis++) {
      elements *= v->dims[axis];
      last += (wide)(v->dims[axis] - 1) * v->strides[axis];
      if (elements > PTRDIFF_MAX || last > PTRDIFF_MAX) WRONG("value %u is too large", i);
    }
    if (empty) elements = 0;
    if ((wide)v->tensor.bytes != elements * v->element_bytes)
      WRONG("value %u has %zu bytes, and %llu elements", i, v->tensor.bytes, (unsigned long long)elements);
    if (!empty && (v->origin < 0 || (last + 1) * v->element_bytes > (wide)v->bytes)) WRONG("value %u leaves its buffer", i);
    if ((wide)v->offset + v->bytes > (wide)limit && !(v->storage == CLASS_INPUT || v->storage == CLASS_OUTPUT))
      WRONG("value %u leaves its class", i);
    if (at == NULL && v->bytes > 0 && v->storage != CLASS_PARAM) WRONG("value %u has no memory", i);
  }
  for (int side = 0; side < 2; side++) {
    const binding *list = side == 0 ? model->inputs : model->outputs;
    uint32_t n = side == 0 ? model->n_inputs : model->n_outputs;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < list[i].n_slots; k++)
        if (*list[i].slots[k] != list[i].bound) WRONG("a node has another address than what is bound");
  }
}

uint64_t digest(const sterna_model *model) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < model->n_dims; i++) hash = hash * 31 + (uint64_t)model->sizes[i];
  for (uint32_t i = 0; i < model->n_nodes; i++) hash = hash * 31 + model->nodes[i].tasks;
  for (uint32_t i = 0; i < model->n_values; i++) {
    const value *v = &model->values[i];
    hash = hash * 31 + v->tensor.bytes + (uint64_t)v->origin;
    for (uint32_t axis = 0; axis < v->tensor.rank; axis++)
      hash = (hash * 31 + (uint64_t)v->dims[axis]) * 31 + (uint64_t)v->strides[axis];
  }
  return hash;
}
