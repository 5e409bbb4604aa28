/* Inputs and outputs in a program's memory of the device: launches read and write it where it is, and the copies between
 * it and the CPU's memory have nothing to do. include/sterna_device.h has the interface. */
#include "nodes.h"
#include "nodes_records.h"

static device *first_of(const sterna_model *model) { return &all(model)->list[0]; }

/* Records begin with their size, as the program was compiled. */
static sterna_status check_record(sterna_model *model, size_t size, size_t wanted, const char *name) {
  if (size >= wanted) return STERNA_OK;
  return fail(&model->error, STERNA_BAD_ARGUMENT, "the size of %s is %llu, not %llu: set it to sizeof(%s)", name, (unsigned long long)size,
              (unsigned long long)wanted, name);
}

static sterna_status check_memory(sterna_model *model, const sterna_device_memory *memory) {
  return check_record(model, memory->size, sizeof *memory, "sterna_device_memory");
}

static sterna_status get_place(sterna_model *model, sterna_device_place *place) {
  const device *d = first_of(model);
  sterna_status status = check_record(model, place->size, sizeof *place, "sterna_device_place");
  if (status != STERNA_OK) return status;
  d->api->place(d->handle, place);
  return STERNA_OK;
}

/* Whether the number or the condition of a choice or loop is in a value's memory: the CPU reads these. */
static bool steers(const sterna_model *model, storage_class storage, uint32_t index) {
  for (uint32_t i = 0; i < model->n_controls; i++) {
    const control *c = &model->controls[i];
    const value *read[] = {c->trips, c->condition, c->number};
    for (size_t k = 0; k < 3; k++)
      if (read[k] != NULL && read[k]->storage == storage && read[k]->signature == index) return true;
  }
  return false;
}

/* Whether the tensor is the first device's alone. */
static bool is_of_device(const sterna_model *model, storage_class storage, const binding *b, uint32_t index) {
  if (b->n_slots > 0 || steers(model, storage, index)) return false;
  for (uint32_t i = 0; i < all(model)->n; i++) {
    const device *d = &all(model)->list[i];
    const void *memory = d->inputs == NULL ? NULL : storage == CLASS_INPUT ? d->inputs[index] : d->outputs[index];
    if ((memory != NULL) != (i == 0)) return false;
  }
  return true;
}

static sterna_status check(sterna_model *model, const value *v, const sterna_device_memory *given) {
  sterna_status status = check_memory(model, given);
  if (status == STERNA_OK) status = check_room(model, v, given->bytes);
  if (status != STERNA_OK) return status;
  if (given->first % STERNA_DEVICE_ALIGNMENT != 0)
    return fail(&model->error, STERNA_BAD_ARGUMENT, "\"%s\": the memory is not aligned to %u bytes", v->tensor.name,
                (unsigned)STERNA_DEVICE_ALIGNMENT);
  return STERNA_OK;
}

/* Launches have an input or output there from now on. */
static void replace(sterna_model *model, const device *d, storage_class storage, uint32_t index, const sterna_device_span *now) {
  for (uint32_t i = 0; i < model->n_nodes; i++) {
    const work *w = &all(model)->works[i];
    if (model->nodes[i].place == 0 || at_place(model, model->nodes[i].place) != d) continue;
    for (uint32_t k = 0; k < w->launch.n_spans; k++) {
      const value *v = w->spanned[k];
      if (v == NULL || v->storage != storage || v->signature != index) continue;
      *(sterna_device_span *)(uintptr_t)&w->launch.spans[k] = *now; /* the model's own */
    }
  }
}

static sterna_status bind(sterna_model *model, storage_class storage, const binding *list, uint32_t n, uint32_t index,
                          const sterna_device_memory *given) {
  if (index >= n) return out_of_range(model, storage == CLASS_INPUT ? "input" : "output", index, n);
  if (may_change(model) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  device *d = first_of(model);
  const value *v = &model->values[list[index].value];
  bool is_free = is_of_device(model, storage, &list[index], index);
  if (!is_free && given == NULL) return STERNA_OK; /* it is in the CPU's memory */
  if (!is_free)
    return fail(&model->error, STERNA_NOT_AVAILABLE, "\"%s\" is in the CPU's memory: nodes that run there read or write it", v->tensor.name);
  foreign *bound = storage == CLASS_INPUT ? &d->foreign_inputs[index] : &d->foreign_outputs[index];
  void *own = storage == CLASS_INPUT ? d->inputs[index] : d->outputs[index];
  foreign next = {NULL, 0, 0, false};
  if (given != NULL) {
    sterna_status status = check(model, v, given);
    next.memory = given->own;
    next.first = given->first;
    next.bytes = given->bytes;
    next.is_adopted = given->own == NULL;
    if (status == STERNA_OK && next.is_adopted) status = d->api->adopt(d->handle, given, &next.memory, &model->error);
    if (status != STERNA_OK) return status;
  }
  const sterna_device_span now = {next.memory != NULL ? next.memory : own, next.first};
  replace(model, d, storage, index, &now);
  if (bound->is_adopted) d->api->release(d->handle, bound->memory);
  *bound = next;
  /* Where a copy of its value is taken from. */
  for (uint32_t i = 0; i < model->n_values; i++)
    if (model->values[i].storage == storage && model->values[i].signature == index) model->values[i].place = given != NULL;
  return STERNA_OK;
}

static sterna_status bind_input(sterna_model *model, uint32_t index, const sterna_device_memory *memory) {
  return bind(model, CLASS_INPUT, model->inputs, model->n_inputs, index, memory);
}

static sterna_status bind_output(sterna_model *model, uint32_t index, const sterna_device_memory *memory) {
  return bind(model, CLASS_OUTPUT, model->outputs, model->n_outputs, index, memory);
}

static void empty(sterna_device_memory *memory) {
  memory->handle = memory->first = memory->bytes = 0;
  memory->own = NULL;
}

static sterna_status allocate(sterna_model *model, uint64_t bytes, sterna_device_memory *memory) {
  const device *d = first_of(model);
  sterna_status status = check_memory(model, memory);
  if (status != STERNA_OK) return status;
  empty(memory);
  memory->bytes = bytes > 0 ? bytes : 1;
  status = d->api->allocate(d->handle, memory->bytes, &memory->own, &model->error);
  if (status == STERNA_OK) memory->handle = d->api->handle_of(memory->own);
  return status;
}

static void release(sterna_model *model, sterna_device_memory *memory) {
  const device *d = first_of(model);
  if (memory->own != NULL) d->api->release(d->handle, memory->own);
  empty(memory);
}

static sterna_status copy_out(sterna_model *model, void *to, const sterna_device_memory *memory, uint64_t bytes) {
  const device *d = first_of(model);
  void *adopted = memory->own;
  if (may_change(model) != STERNA_OK || check_memory(model, memory) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  if (bytes > memory->bytes)
    return fail(&model->error, STERNA_BAD_ARGUMENT, "the memory has %llu bytes; %llu are to be copied", (unsigned long long)memory->bytes,
                (unsigned long long)bytes);
  sterna_status status = adopted == NULL ? d->api->adopt(d->handle, memory, &adopted, &model->error) : STERNA_OK;
  if (status != STERNA_OK) return status;
  const sterna_device_span span = {adopted, memory->first};
  status = d->api->copy_out(d->handle, to, &span, bytes, &model->error);
  if (status == STERNA_OK) status = d->api->wait(d->handle, NULL, &model->error);
  if (memory->own == NULL) d->api->release(d->handle, adopted);
  return status;
}

const sterna_device_bindings sterna_device_bindings_of_nodes = {get_place, bind_input, bind_output, allocate, release, copy_out};
