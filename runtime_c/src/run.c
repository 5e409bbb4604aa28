/* Runs a model: its nodes in order, and choices and loops over ranges of them, whose conditions and numbers of iterations
 * lie in the memory of values. */
#include <string.h>

#include "internal.h"

static sterna_status run_node(sterna_model *model, uint32_t index) {
  const node *n = &model->nodes[index];
  if (n->place != 0) return model->support->run(model, index);
  uint64_t start = model->on_node != NULL ? port_now() : 0;
  int32_t status = 0;
  if (model->pool != NULL && n->tasks > 1)
    status = pool_run(model->pool, n);
  else if (n->tasks > 0)
    status = n->function(&n->call, 0, n->tasks);
  if (status < 0)
    return kernel_failed(model, n, status);
  if (n->computes != 0) {
    sterna_status computed = dims_compute(model, n->computes - 1, *(const int64_t *)*n->size);
    if (computed != STERNA_OK) return computed;
  }
  if (model->on_node != NULL) model->on_node(model->user, index, n->name, port_now() - start);
  return STERNA_OK;
}

static const void *element(const sterna_model *model, const value *v) {
  return value_address(model, v) + (uint64_t)v->origin * v->element_bytes;
}

static bool holds(const sterna_model *model, const value *condition) {
  return condition == NULL || *(const uint8_t *)element(model, condition) != 0;
}

static sterna_status run_range(sterna_model *model, uint32_t first, uint32_t last, uint32_t next);

static sterna_status run_choice(sterna_model *model, const control *c) {
  uint32_t next = (uint32_t)(c - model->controls) + 1;
  if (holds(model, c->condition)) return run_range(model, c->first, c->middle, next);
  while (next < c->next && model->controls[next].first < c->middle) next = model->controls[next].next;
  return run_range(model, c->middle, c->last, next);
}

static sterna_status run_loop(sterna_model *model, const control *c) {
  uint64_t count = c->count;
  if (c->trips != NULL) {
    int64_t trips;
    memcpy(&trips, element(model, c->trips), sizeof trips);
    count = trips > 0 ? (uint64_t)trips : 0;
  }
  for (uint64_t i = 0; i < count && holds(model, c->condition); i++) {
    if (i == c->limit)
      return fail(&model->error, STERNA_KERNEL_FAILED, "the loop over nodes %u to %u makes more than its %llu iterations",
                  (unsigned)c->first, (unsigned)c->last - 1, (unsigned long long)c->limit);
    if (c->number != NULL) memcpy(value_address(model, c->number) + (uint64_t)c->number->origin * sizeof i, &i, sizeof i);
    sterna_status status = run_range(model, c->first, c->last, (uint32_t)(c - model->controls) + 1);
    if (status != STERNA_OK) return status;
  }
  return STERNA_OK;
}

/* Nodes first to last - 1; `next` is the first control that lies in them, if one does. */
static sterna_status run_range(sterna_model *model, uint32_t first, uint32_t last, uint32_t next) {
  sterna_status status = STERNA_OK;
  while (first < last && status == STERNA_OK) {
    if (next < model->n_controls && model->controls[next].first == first) {
      const control *c = &model->controls[next];
      status = c->is_loop ? run_loop(model, c) : run_choice(model, c);
      first = c->last;
      next = c->next;
    } else {
      status = run_node(model, first++);
    }
  }
  return status;
}

sterna_status sterna_run(sterna_model *model) {
  if (may_change(model) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  dims_forget(model);
  model->running = true;
  sterna_status status = run_range(model, 0, model->n_nodes, 0);
  if (model->support != NULL) status = model->support->wait(model, status);
  model->running = false;
  model->has_run = status == STERNA_OK;
  if (status != STERNA_OK) dims_forget(model); /* one size may be of this run and another of none */
  return status;
}

sterna_status sterna_reset_state(sterna_model *model) {
  if (may_change(model) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  for (uint32_t i = 0; i < model->n_states; i++) {
    const state *s = &model->states[i];
    const value *v = &model->values[s->value];
    if (s->place != 0) {
      sterna_status status = model->support->reset(model, s);
      if (status != STERNA_OK) return status;
    } else if (s->initial != NULL)
      memcpy(model->arena + v->offset, s->initial, (size_t)v->bytes);
    else
      memset(model->arena + v->offset, 0, (size_t)v->bytes);
  }
  return STERNA_OK;
}
