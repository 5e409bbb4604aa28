/* Sizes that stay open until a model runs. graph.json names the dimensions with their bounds; a number of a value or node may
 * be an expression over them. Each expression becomes a few terms in postfix order, and a new set of sizes writes its
 * result to where the number is used; then everything that depends on one is checked again.
 *
 * The caller sets the first symbols; the others are computed by the model while it runs, in the order of the list. So a
 * number is known at a stage: 0 at once, 1 when the caller's sizes are set, 2 + k when symbol k is computed, k being the
 * last symbol in its expression. */
#include <string.h>

#include "internal.h"
#include "json.h"

/* Prefixed, since the headers of Windows take the bare words. */
typedef enum operation {
  OP_NUMBER,
  OP_SIZE,
  OP_ADD,
  OP_MULTIPLY,
  OP_DIVIDE,
  OP_REMAINDER,
  OP_MINIMUM,
  OP_MAXIMUM
} operation;

typedef struct term {
  int64_t number; /* OP_NUMBER; index of the dimension of OP_SIZE; right side of OP_DIVIDE and OP_REMAINDER, positive */
  operation operation;
} term;

struct formula {
  formula *next;
  const term *terms;
  uint32_t n_terms;
  const uint32_t *stage; /* of the value or node that has the number: all numbers of one change together */
  int64_t *target;
  int64_t before; /* what stood there before the latest change */
};

/* ---- Arithmetic: false if the result does not fit ---- */

static bool add(int64_t a, int64_t b, int64_t *sum) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
  *sum = a + b;
  return true;
}

static bool multiply(int64_t a, int64_t b, int64_t *product) {
  uint64_t magnitude, left = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, right = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  if (!multiply_fits(left, right, &magnitude) || magnitude > INT64_MAX) return false;
  *product = (a < 0) != (b < 0) ? -(int64_t)magnitude : (int64_t)magnitude;
  return true;
}

/* Writes the result, which may not be negative, to where it is used. */
static bool evaluate(const formula *f, const int64_t *sizes) {
  int64_t stack[MAX_NESTED + 1];
  uint32_t n = 0;
  for (const term *t = f->terms; t < f->terms + f->n_terms; t++) {
    int64_t right = t->number;
    if (t->operation == OP_NUMBER || t->operation == OP_SIZE) {
      stack[n++] = t->operation == OP_SIZE ? sizes[right] : right;
      continue;
    }
    if (t->operation != OP_DIVIDE && t->operation != OP_REMAINDER) right = stack[--n];
    int64_t *left = &stack[n - 1];
    switch (t->operation) {
      case OP_ADD:
        if (!add(*left, right, left)) return false;
        break;
      case OP_MULTIPLY:
        if (!multiply(*left, right, left)) return false;
        break;
      case OP_DIVIDE: /* towards minus infinity */
        *left = *left / right - (*left % right < 0);
        break;
      case OP_REMAINDER:
        *left %= right;
        if (*left < 0) *left += right;
        break;
      case OP_MINIMUM:
        if (right < *left) *left = right;
        break;
      default:
        if (right > *left) *left = right;
    }
  }
  *f->target = stack[0];
  return stack[0] >= 0;
}

/* ---- Reading ---- */

static bool read_integer(const char *text, size_t at, int64_t *number) {
  uint64_t magnitude;
  bool negative = at != JSON_NONE && text[at] == '-';
  if (!json_uint64(text, negative ? at + 1 : at, &magnitude) || magnitude > INT64_MAX) return false;
  *number = negative ? -(int64_t)magnitude : (int64_t)magnitude;
  return true;
}

typedef struct term_list {
  uint32_t n;
  term terms[MAX_TERMS];
} term_list;

static bool put(term_list *list, operation operation, int64_t number) {
  if (list->n == MAX_TERMS) return false;
  list->terms[list->n].number = number;
  list->terms[list->n++].operation = operation;
  return true;
}

/* The text, walked with a stack of our own. */
static bool read_expression(const char *text, size_t at, uint32_t n_dims, term_list *list) {
  static const char names[][4] = {"", "d", "+", "*", "/", "%", "min", "max"};
  struct {
    size_t list;
    operation operation;
    bool has_one; /* operand */
  } open[MAX_NESTED];
  uint32_t depth = 0;
  for (;;) {
    /* An expression is due. */
    int64_t number;
    if (!json_is_list(text, at)) {
      if (!read_integer(text, at, &number) || !put(list, OP_NUMBER, number)) return false;
    } else {
      size_t first = json_first(text, at), operand;
      unsigned o = OP_SIZE;
      while (o <= OP_MAXIMUM && !json_string_is(text, first, names[o])) o++;
      if (o > OP_MAXIMUM || (operand = json_next(text, first)) == JSON_NONE) return false;
      if (o != OP_SIZE) {
        if (depth == MAX_NESTED) return false;
        open[depth].list = at;
        open[depth].operation = (operation)o;
        open[depth++].has_one = false;
        at = operand;
        continue;
      }
      if (!read_integer(text, operand, &number) || number < 0 || number >= n_dims || !put(list, OP_SIZE, number) ||
          json_next(text, operand) != JSON_NONE)
        return false;
    }
    /* One is done: close the lists that end with it, until another is due. */
    for (;;) {
      if (depth == 0) return true;
      operation o = open[depth - 1].operation;
      if (o != OP_DIVIDE && o != OP_REMAINDER) {
        if (open[depth - 1].has_one && !put(list, o, 0)) return false;
        open[depth - 1].has_one = true;
        at = json_next(text, at);
        if (at != JSON_NONE) break;
      } else {
        at = json_next(text, at);
        if (!read_integer(text, at, &number) || number <= 0 || !put(list, o, number) || json_next(text, at) != JSON_NONE)
          return false;
      }
      at = open[--depth].list;
    }
  }
}

bool dims_read(sterna_model *model, const char *text, size_t at, int64_t *target, uint32_t *stage) {
  if (!json_is_list(text, at)) return read_integer(text, at, target) && *target >= 0;
  term_list list;
  list.n = 0;
  if (!read_expression(text, at, model->n_dims, &list)) return false;
  formula *f = heap_take(&model->heap, 1, sizeof *f);
  term *terms = heap_take(&model->heap, list.n, sizeof *terms);
  if (f == NULL || terms == NULL) return false;
  memcpy(terms, list.terms, list.n * sizeof *terms);
  f->terms = terms;
  f->n_terms = list.n;
  for (const term *t = terms; t < terms + list.n; t++) {
    uint32_t known = t->operation == OP_SIZE && t->number >= model->n_open ? 2 + (uint32_t)t->number : 1;
    if (*stage < known) *stage = known;
  }
  f->stage = stage;
  f->target = target;
  f->next = model->formulas;
  model->formulas = f;
  return evaluate(f, model->sizes);
}

sterna_status dims_open(const char *text, size_t list, sterna_model *model) {
  uint32_t n = json_count(text, list);
  if (list != JSON_NONE && !json_is_list(text, list)) BAD("symbols is not a list");
  if (n == 0) return STERNA_OK;
  if (n > MAX_SYMBOLS) BAD("has %u symbols; at most %u are read", (unsigned)n, MAX_SYMBOLS);
  sterna_dim *dims = heap_take(&model->heap, n, sizeof *dims);
  model->sizes = heap_take(&model->heap, 2 * n, sizeof *model->sizes);
  if (dims == NULL || model->sizes == NULL) return STERNA_RESOURCES;
  for (size_t at = rows_first(model, text, list, "symbol"); at != JSON_NONE; at = rows_next(model, text, at)) {
    size_t member[4];
    uint32_t i = model->row;
    if (!json_members(text, at, "name\0lo\0hi\0value", member, 4) ||
        (dims[i].name = json_take_string(&model->heap, text, member[0])) == NULL ||
        !read_integer(text, member[1], &dims[i].lo) || !read_integer(text, member[2], &dims[i].hi) || dims[i].lo < 0 ||
        dims[i].lo > dims[i].hi)
      BAD("not an object with a name and bounds");
    model->row_name = dims[i].name;
    for (uint32_t other = 0; other < i; other++)
      if (strcmp(dims[other].name, dims[i].name) == 0) BAD("another has its name");
    model->sizes[i] = dims[i].hi;
    dims[i].computed = member[3] != JSON_NONE;
    if (!dims[i].computed && model->n_open++ != i) BAD("comes after one that is computed");
  }
  model->dims = dims;
  model->n_dims = n;
  return STERNA_OK;
}

sterna_status dims_link(const char *text, size_t list, sterna_model *model) {
  uint32_t i = 0;
  for (size_t at = json_first(text, list); i < model->n_dims; at = json_next(text, at), i++) {
    size_t member;
    uint32_t index;
    if (i < model->n_open) continue;
    value *v = json_members(text, at, "value", &member, 1) && json_uint32(text, member, &index) && index < model->n_values
                   ? &model->values[index]
                   : NULL;
    if (v == NULL || v->stage != 0 || v->computes != 0 || v->origin != 0 || v->tensor.bytes != sizeof(int64_t) ||
        !(v->storage == CLASS_ARENA || v->storage == CLASS_OUTPUT) || strcmp(v->tensor.dtype, "int64") != 0)
      BAD("symbol \"%s\" is not the only int64 of a value, or of one that is the size of another", model->dims[i].name);
    v->computes = 1 + i;
  }
  return STERNA_OK;
}

/* ---- Other sizes ---- */

/* Whether all values and nodes from stage `first` to `last` are sound; sets what follows from their numbers. */
static sterna_status check(sterna_model *model, uint32_t first, uint32_t last) {
  for (uint32_t i = 0; i < model->n_values; i++) {
    uint32_t stage = model->values[i].stage;
    sterna_status status = stage >= first && stage <= last ? check_value(model, i) : STERNA_OK;
    if (status != STERNA_OK) return status;
  }
  for (uint32_t i = 0; i < model->n_nodes; i++) {
    uint32_t stage = model->nodes[i].stage;
    sterna_status status = stage >= first && stage <= last ? check_tasks(model, i) : STERNA_OK;
    if (status != STERNA_OK) return status;
  }
  return STERNA_OK;
}

/* Whatever is known from stage `first` to `last` follows model->sizes. Where the bundle contradicts itself at these sizes, all
 * of it stays as it was: a value whose dims and bytes are of different sizes would be copied past its ends. */
static sterna_status apply(sterna_model *model, uint32_t first, uint32_t last) {
  bool fits = true;
  for (formula *f = model->formulas; f != NULL; f = f->next) {
    if (*f->stage < first || *f->stage > last) continue;
    f->before = *f->target;
    fits = evaluate(f, model->sizes) && fits;
  }
  sterna_status status = fits ? check(model, first, last)
                              : malformed(model, "a number does not fit or is negative at these sizes");
  if (status == STERNA_OK) return STERNA_OK;
  for (formula *f = model->formulas; f != NULL; f = f->next)
    if (*f->stage >= first && *f->stage <= last) *f->target = f->before;
  (void)check(model, first, last);
  return status;
}

void dims_forget(sterna_model *model) {
  if (!model->has_computed) return;
  for (uint32_t i = model->n_open; i < model->n_dims; i++) model->sizes[i] = model->dims[i].hi;
  (void)apply(model, 2, UINT32_MAX); /* good, as it was when the caller's sizes were set */
  model->has_computed = false;
}

sterna_status dims_compute(sterna_model *model, uint32_t symbol, int64_t size) {
  const sterna_dim *dim = &model->dims[symbol];
  if (size < dim->lo || size > dim->hi)
    return fail(&model->error, STERNA_KERNEL_FAILED, "dimension \"%s\" is %lld; the bundle has room for %lld to %lld",
                dim->name, (long long)size, (long long)dim->lo, (long long)dim->hi);
  model->sizes[symbol] = size;
  model->has_computed = true;
  return apply(model, 2 + symbol, 2 + symbol);
}

uint32_t sterna_dim_count(const sterna_model *model) { return model->n_dims; }

sterna_status sterna_dim_info(const sterna_model *model, uint32_t dim, sterna_dim *info) {
  if (dim >= model->n_dims) return out_of_range(model, "dimension", dim, model->n_dims);
  *info = model->dims[dim];
  info->size = model->sizes[dim];
  return STERNA_OK;
}

sterna_status sterna_set_dims(sterna_model *model, const int64_t *sizes, uint32_t count) {
  if (may_change(model) != STERNA_OK) return STERNA_BAD_ARGUMENT;
  if (count != model->n_open || (sizes == NULL && count > 0))
    return fail(&model->error, STERNA_BAD_ARGUMENT, "%u sizes were given; the model has %u dimensions to set",
                sizes != NULL ? (unsigned)count : 0u, (unsigned)model->n_open);
  for (uint32_t i = 0; i < count; i++) {
    const sterna_dim *dim = &model->dims[i];
    if (sizes[i] < dim->lo || sizes[i] > dim->hi)
      return fail(&model->error, STERNA_BAD_ARGUMENT, "dimension \"%s\" is %lld; the model takes %lld to %lld", dim->name,
                  (long long)sizes[i], (long long)dim->lo, (long long)dim->hi);
  }
  size_t bytes = count * sizeof *sizes, all = model->n_dims * sizeof *sizes;
  if (count == 0 || memcmp(model->sizes, sizes, bytes) == 0) return STERNA_OK;
  int64_t *before = model->sizes + model->n_dims;
  memcpy(before, model->sizes, all);
  memcpy(model->sizes, sizes, bytes);
  for (uint32_t i = count; i < model->n_dims; i++) model->sizes[i] = model->dims[i].hi; /* nothing is computed yet */
  sterna_status status = apply(model, 1, UINT32_MAX);
  if (status == STERNA_OK) {
    model->has_run = model->has_computed = false; /* what lies in memory has other shapes */
    return STERNA_OK;
  }
  memcpy(model->sizes, before, all);
  return status;
}

sterna_status sterna_set_dim(sterna_model *model, const char *name, int64_t size) {
  if (model == NULL || name == NULL) return STERNA_BAD_ARGUMENT;
  for (uint32_t i = 0; i < model->n_open; i++) {
    if (strcmp(model->dims[i].name, name) != 0) continue;
    int64_t sizes[MAX_SYMBOLS];
    memcpy(sizes, model->sizes, model->n_open * sizeof *sizes);
    sizes[i] = size;
    return sterna_set_dims(model, sizes, model->n_open);
  }
  return fail(&model->error, STERNA_BAD_ARGUMENT, "the model has no dimension \"%s\" to set", name);
}
