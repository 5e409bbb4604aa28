/* What a loaded model says of its tensors and nodes, and the memory of its inputs and outputs. */
#include <string.h>

#include "internal.h"

const sterna_error *sterna_last_error(const sterna_model *model) { return &model->error; }
const char *sterna_model_name(const sterna_model *model) { return model->name; }
uint32_t sterna_input_count(const sterna_model *model) { return model->n_inputs; }
uint32_t sterna_output_count(const sterna_model *model) { return model->n_outputs; }
uint32_t sterna_value_count(const sterna_model *model) { return model->n_values; }
uint32_t sterna_node_count(const sterna_model *model) { return model->n_nodes; }

void sterna_set_on_node(sterna_model *model, sterna_on_node on_node, void *user) {
  model->on_node = on_node;
  model->user = user;
}

/* ---- Information ---- */

sterna_status sterna_value_info(const sterna_model *model, uint32_t index, sterna_tensor *tensor) {
  if (index >= model->n_values) return out_of_range(model, "value", index, model->n_values);
  *tensor = model->values[index].tensor;
  return STERNA_OK;
}

sterna_status sterna_input_info(const sterna_model *model, uint32_t index, sterna_tensor *tensor) {
  if (index >= model->n_inputs) return out_of_range(model, "input", index, model->n_inputs);
  return sterna_value_info(model, model->inputs[index].value, tensor);
}

sterna_status sterna_output_info(const sterna_model *model, uint32_t index, sterna_tensor *tensor) {
  if (index >= model->n_outputs) return out_of_range(model, "output", index, model->n_outputs);
  return sterna_value_info(model, model->outputs[index].value, tensor);
}

sterna_status sterna_node_info(const sterna_model *model, uint32_t index, sterna_node *info) {
  if (index >= model->n_nodes) return out_of_range(model, "node", index, model->n_nodes);
  const node *n = &model->nodes[index];
  info->name = n->name;
  info->kernel = n->kernel < model->n_kernels ? model->kernel_names[n->kernel] : "copy";
  info->tasks = n->tasks;
  return STERNA_OK;
}

sterna_status sterna_memory_info(const sterna_model *model, sterna_memory *info) {
  info->arena = (size_t)model->arena_bytes;
  info->scratch = (size_t)model->scratch_bytes;
  info->signature = (size_t)model->signature_bytes;
  info->params = (size_t)model->params_bytes;
  return STERNA_OK;
}

static int32_t find(const sterna_model *model, const binding *list, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(model->values[list[i].value].tensor.name, name) == 0) return (int32_t)i;
  return STERNA_NOT_FOUND;
}

int32_t sterna_find_input(const sterna_model *model, const char *name) {
  return find(model, model->inputs, model->n_inputs, name);
}

int32_t sterna_find_output(const sterna_model *model, const char *name) {
  return find(model, model->outputs, model->n_outputs, name);
}

int32_t sterna_find_value(const sterna_model *model, const char *name) {
  for (uint32_t i = 0; i < model->n_values; i++)
    if (strcmp(model->values[i].tensor.name, name) == 0) return (int32_t)i;
  return STERNA_NOT_FOUND;
}

/* ---- Inputs and outputs ---- */

void *sterna_input_buffer(sterna_model *model, uint32_t index) {
  return index < model->n_inputs ? model->inputs[index].own : NULL;
}

void *sterna_output_buffer(sterna_model *model, uint32_t index) {
  return index < model->n_outputs ? model->outputs[index].own : NULL;
}

static sterna_status rebind(sterna_model *model, binding *b, void *memory) {
  const value *v = &model->values[b->value];
  if (may_change(model) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  if ((uintptr_t)memory % v->element_bytes != 0)
    return fail(&model->error, STERNA_BAD_ARGUMENT, "\"%s\": the memory is not aligned to its %u-byte elements",
                v->tensor.name, (unsigned)v->element_bytes);
  b->bound = memory != NULL ? memory : b->own;
  for (uint32_t i = 0; i < b->n_slots; i++) *b->slots[i] = b->bound;
  return STERNA_OK;
}

sterna_status sterna_bind_input(sterna_model *model, uint32_t index, const void *memory) {
  if (index >= model->n_inputs) return out_of_range(model, "input", index, model->n_inputs);
  return rebind(model, &model->inputs[index], (void *)(uintptr_t)memory); /* no node writes to an input */
}

sterna_status sterna_bind_output(sterna_model *model, uint32_t index, void *memory) {
  if (index >= model->n_outputs) return out_of_range(model, "output", index, model->n_outputs);
  return rebind(model, &model->outputs[index], memory);
}

/* ---- Intermediate tensors ---- */

sterna_status sterna_value_copy(sterna_model *model, uint32_t index, void *memory, size_t bytes) {
  if (index >= model->n_values) return out_of_range(model, "value", index, model->n_values);
  const value *v = &model->values[index];
  const char *name = v->tensor.name;
  if (bytes != v->tensor.bytes)
    return fail(&model->error, STERNA_BAD_ARGUMENT, "\"%s\" has %llu bytes; the memory has %llu", name,
                (unsigned long long)v->tensor.bytes, (unsigned long long)bytes);
  if (v->fleeting)
    return fail(&model->error, STERNA_NOT_AVAILABLE,
                "\"%s\" does not outlive its last use: its memory is used again; compile with debug=True to keep it",
                name);
  if (!model->has_run && (v->storage == CLASS_ARENA || v->storage == CLASS_OUTPUT))
    return fail(&model->error, STERNA_NOT_AVAILABLE, "\"%s\" has no value before the first run at these sizes", name);
  if (bytes == 0) return STERNA_OK;
  if (memory == NULL) return fail(&model->error, STERNA_BAD_ARGUMENT, "\"%s\": the memory is NULL", name);

  if (v->place != 0) {
    sterna_status status = model->support->fetch(model, v);
    if (status != STERNA_OK) return status;
  }

  /* Row by row: the last dimension is contiguous in nearly all layouts. */
  uint32_t rank = v->tensor.rank;
  size_t element = v->element_bytes;
  int64_t counter[STERNA_MAX_RANK] = {0};
  uint64_t last_dim = rank > 0 ? (uint64_t)v->tensor.dims[rank - 1] : 1;
  uint64_t last_stride = rank > 0 ? (uint64_t)v->strides[rank - 1] : 1;
  const uint8_t *from = value_address(model, v) + (uint64_t)v->origin * element;
  uint8_t *to = memory;
  for (;;) {
    uint64_t at = 0;
    for (uint32_t i = 0; i + 1 < rank; i++) at += (uint64_t)counter[i] * (uint64_t)v->strides[i];
    const uint8_t *row = from + at * element;
    if (last_stride == 1) {
      memcpy(to, row, (size_t)last_dim * element);
      to += last_dim * element;
    } else {
      for (uint64_t i = 0; i < last_dim; i++, to += element) memcpy(to, row + i * last_stride * element, element);
    }
    uint32_t axis = rank > 0 ? rank - 1 : 0;
    for (; axis > 0; axis--) {
      if (++counter[axis - 1] < v->tensor.dims[axis - 1]) break;
      counter[axis - 1] = 0;
    }
    if (axis == 0) return STERNA_OK;
  }
}
