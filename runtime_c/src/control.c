/* Choices and loops over ranges of nodes, as the list `control` of graph.json has them; run.c does what they say.
 * docs/bundle.md describes the format. */
#include <string.h>

#include "internal.h"
#include "json.h"

#define MAX_ITERATIONS UINT32_MAX /* a limit of a loop */

/* A value of one element whose memory decides; missing is right too. */
static bool read_scalar(const char *text, size_t at, const char *dtype, sterna_model *model, const value **out) {
  uint32_t index;
  if (at == JSON_NONE) return true;
  if (!json_uint32(text, at, &index) || index >= model->n_values) return false;
  value *v = &model->values[index];
  *out = v;
  return strcmp(v->tensor.dtype, dtype) == 0 && v->stage == 0 && v->tensor.bytes == v->element_bytes;
}

/* Node numbers that do not decrease, within the model's. */
static bool read_range(const char *text, size_t list, uint32_t limit, uint32_t *ends, uint32_t n) {
  size_t at = json_first(text, list);
  for (uint32_t i = 0; i < n; i++, at = json_next(text, at))
    if (!json_uint32(text, at, &ends[i]) || ends[i] > limit || (i > 0 && ends[i] < ends[i - 1])) return false;
  return at == JSON_NONE && ends[0] < ends[n - 1];
}

static bool read_control(const char *text, size_t at, sterna_model *model, control *c) {
  size_t member[7];
  uint32_t ends[3];
  if (!json_members(text, at, "op\0nodes\0count\0trips\0condition\0number\0limit", member, 7) ||
      !json_is_list(text, member[1]) || !read_scalar(text, member[4], "bool", model, &c->condition))
    return false;
  c->is_loop = json_string_is(text, member[0], "loop");
  if (!c->is_loop) {
    if (!json_string_is(text, member[0], "if") || c->condition == NULL ||
        !read_range(text, member[1], model->n_nodes, ends, 3))
      return false;
    c->middle = ends[1];
    c->last = ends[2];
  } else {
    if (!read_range(text, member[1], model->n_nodes, ends, 2) ||
        !read_scalar(text, member[3], "int64", model, &c->trips) ||
        !read_scalar(text, member[5], "int64", model, &c->number) ||
        (c->number != NULL && c->number->storage != CLASS_ARENA) || !json_uint64(text, member[6], &c->limit) ||
        c->limit > MAX_ITERATIONS)
      return false;
    c->count = UINT64_MAX;
    bool is_counted = member[2] != JSON_NONE;
    if (is_counted && (c->trips != NULL || !json_uint64(text, member[2], &c->count))) return false;
    if (!is_counted && c->trips == NULL && c->condition == NULL) return false; /* it could only fail */
    c->last = ends[1];
  }
  c->first = ends[0];
  return true;
}

/* Whether a control lies in one range of another. */
static bool lies_in(const control *inner, const control *outer) {
  return inner->last <= outer->last && (outer->is_loop || inner->last <= outer->middle || inner->first >= outer->middle);
}

sterna_status control_open(const char *text, size_t list, sterna_model *model) {
  if (list == JSON_NONE) return STERNA_OK;
  if (!json_is_list(text, list)) BAD("control is not a list");
  uint32_t n = json_count(text, list), open[MAX_NESTED], depth = 0;
  control *controls = heap_take(&model->heap, n, sizeof *controls);
  if (controls == NULL) return STERNA_RESOURCES;
  for (size_t at = rows_first(model, text, list, "control"); at != JSON_NONE; at = rows_next(model, text, at)) {
    uint32_t i = model->row;
    control *c = &controls[i];
    if (!read_control(text, at, model, c)) BAD("neither a choice nor a loop over nodes");
    while (depth > 0 && controls[open[depth - 1]].last <= c->first) controls[open[--depth]].next = i;
    if (depth == MAX_NESTED || (depth > 0 && !lies_in(c, &controls[open[depth - 1]])) ||
        (i > 0 && c->first < controls[i - 1].first))
      BAD("overlaps another or is nested too deep");
    open[depth++] = i;
  }
  while (depth > 0) controls[open[--depth]].next = n;
  model->controls = controls;
  model->n_controls = n;
  return STERNA_OK;
}
