/* The values and nodes of graph.json, checked and made into the model's tables. Nothing in the file is believed: every
 * index, offset and size is compared with what it points into before a pointer is made of it. docs/bundle.md describes
 * the format. */
#include <float.h>
#include <string.h>

#include "internal.h"
#include "json.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Values ---- */

static bool find_dtype(const char *text, size_t at, value *v) {
  /* One string, since a table of names is several times as large. */
#define NAME(name, code, bytes) #name "\0"
#define NUMBERS(name, code, bytes) {code, bytes},
  static const char names[] = STERNA_DTYPES(NAME);
  static const uint8_t numbers[][2] = {STERNA_DTYPES(NUMBERS)};
#undef NAME
#undef NUMBERS
  const char *name = names;
  for (size_t i = 0; i < COUNT(numbers); i++, name += strlen(name) + 1) {
    if (!json_string_is(text, at, name)) continue;
    v->tensor.dtype = name;
    v->tensor.dtype_code = numbers[i][0];
    v->element_bytes = numbers[i][1];
    return true;
  }
  return false;
}

static bool read_shape(sterna_model *model, const char *text, size_t dims_at, size_t strides_at, value *v) {
  uint32_t rank = json_count(text, dims_at);
  v->dims = heap_take(&model->heap, rank, sizeof *v->dims);
  v->strides = heap_take(&model->heap, rank, sizeof *v->strides);
  if (!json_is_list(text, dims_at) || !json_is_list(text, strides_at) || rank > STERNA_MAX_RANK ||
      json_count(text, strides_at) != rank || v->dims == NULL || v->strides == NULL)
    return false;
  v->tensor.rank = rank;
  v->tensor.dims = v->dims;
  size_t dim_at = json_first(text, dims_at), stride_at = json_first(text, strides_at);
  for (uint32_t i = 0; i < rank; i++) {
    if (!dims_read(model, text, dim_at, &v->dims[i], &v->stage) ||
        !dims_read(model, text, stride_at, &v->strides[i], &v->stage))
      return false;
    dim_at = json_next(text, dim_at);
    stride_at = json_next(text, stride_at);
  }
  return true;
}

/* Scales and zero points: one of each, or as many as there are indices along an axis. */
static bool read_quantization(sterna_model *model, const char *text, size_t at, sterna_tensor *tensor) {
  size_t member[3];
  if (at == JSON_NONE) return true;
  if (!json_members(text, at, "scale\0zero_point\0axis", member, 3)) return false;
  uint32_t n = json_count(text, member[0]), i = 0;
  float *scales = heap_take(&model->heap, n, sizeof *scales);
  int32_t *zero_points = heap_take(&model->heap, n, sizeof *zero_points);
  if (n == 0 || json_count(text, member[1]) != n || scales == NULL || zero_points == NULL) return false;
  if (n > 1 && (!json_uint32(text, member[2], &tensor->axis) || tensor->axis >= tensor->rank ||
                tensor->dims[tensor->axis] != n))
    return false;
  size_t scale_at = json_first(text, member[0]), zero_at = json_first(text, member[1]);
  for (; i < n; i++, scale_at = json_next(text, scale_at), zero_at = json_next(text, zero_at)) {
    double scale, zero;
    if (!json_number(text, scale_at, &scale) || !(scale > 0 && scale <= FLT_MAX) ||
        !json_number(text, zero_at, &zero) || !(zero >= INT32_MIN && zero <= INT32_MAX))
      return false;
    scales[i] = (float)scale;
    zero_points[i] = (int32_t)zero;
  }
  tensor->n_scales = n;
  tensor->scales = scales;
  tensor->zero_points = zero_points;
  return true;
}

static sterna_status read_value(const char *text, size_t at, sterna_model *model, value *v) {
  size_t member[6], storage[5];
  if (!json_members(text, at, "name\0dtype\0dims\0storage\0fleeting\0quantization", member, 6) ||
      (v->tensor.name = json_take_string(&model->heap, text, member[0])) == NULL)
    BAD("not an object with a name");
  model->row_name = v->tensor.name;
  if (!find_dtype(text, member[1], v)) BAD("has no known dtype");
  if (member[4] != JSON_NONE && !json_bool(text, member[4], &v->fleeting))
    BAD("fleeting is neither true nor false");
  if (!json_members(text, member[3], "class\0offset\0bytes\0origin\0strides", storage, 5) ||
      !json_uint64(text, storage[1], &v->offset) || !json_uint64(text, storage[2], &v->bytes) ||
      !dims_read(model, text, storage[3], &v->origin, &v->stage))
    BAD("storage is incomplete");
  size_t class = 0;
  while (class < N_CLASSES && !json_string_is(text, storage[0], storage_names[class])) class++;
  if (class == N_CLASSES) BAD("unknown storage class");
  v->storage = (storage_class)class;
  v->signature = UINT32_MAX;
  uint64_t limit = v->storage == CLASS_PARAM ? model->params_bytes : model->arena_bytes;
  bool in_block = v->storage != CLASS_INPUT && v->storage != CLASS_OUTPUT;
  if (!in_block && v->offset != 0) BAD("offset is not 0 in class %s", storage_names[class]);
  if (in_block && (!range_fits(v->offset, v->bytes, limit) || v->offset % v->element_bytes != 0))
    BAD("bytes %llu to %llu+%llu do not lie in the %llu bytes of %s", (unsigned long long)v->offset,
        (unsigned long long)v->offset, (unsigned long long)v->bytes,
        (unsigned long long)limit, storage_names[class]);
  if (!read_shape(model, text, member[2], storage[4], v))
    BAD("dims or strides are not a list of at most %d sizes each", STERNA_MAX_RANK);
  if (!read_quantization(model, text, member[5], &v->tensor))
    BAD("quantization is not as many scales as zero points");
  return check_value(model, model->row);
}

/* ---- The signature ---- */

static sterna_status read_signature(const char *text, size_t list, storage_class class, sterna_model *model,
                                    binding **out, uint32_t *count) {
  uint32_t n = json_count(text, list);
  binding *bindings = heap_take(&model->heap, n, sizeof *bindings);
  if (bindings == NULL) return STERNA_RESOURCES;
  const char *rows = class == CLASS_INPUT ? "input" : "output";
  for (size_t at = rows_first(model, text, list, rows); at != JSON_NONE; at = rows_next(model, text, at)) {
    uint32_t index, i = model->row;
    if (!json_uint32(text, at, &index) || index >= model->n_values) BAD("not one of the values");
    value *v = &model->values[index];
    if (v->storage != class || v->signature != UINT32_MAX)
      BAD("value \"%s\" occurs twice or is stored elsewhere", v->tensor.name);
    v->signature = i;
    bindings[i].value = index;
    bindings[i].own = heap_take_aligned(&model->heap, v->bytes);
    if (bindings[i].own == NULL)
      return fail(&model->error, STERNA_RESOURCES, "out of memory: \"%s\" needs %llu bytes", v->tensor.name,
                  (unsigned long long)v->bytes);
    bindings[i].bound = bindings[i].own;
    model->signature_bytes += v->bytes;
  }
  *out = bindings;
  *count = n;
  return STERNA_OK;
}

/* What the elements of outputs stand for; of the first LABELLED_OUTPUTS, since each is looked for in all of them. */
static bool read_labels(const graph *graph, sterna_model *model) {
  const char *text = graph->text;
  size_t labels, list;
  if (graph->at[GRAPH_METADATA] == JSON_NONE) return true;
  if (!json_members(text, graph->at[GRAPH_METADATA], "labels", &labels, 1)) return false;
  for (uint32_t i = 0; labels != JSON_NONE && i < model->n_outputs && i < LABELLED_OUTPUTS; i++) {
    sterna_tensor *tensor = &model->values[model->outputs[i].value].tensor;
    if (!json_members(text, labels, tensor->name, &list, 1)) return false;
    const char **taken = heap_take(&model->heap, json_count(text, list), sizeof *taken);
    if (taken == NULL) return false;
    tensor->labels = taken;
    for (size_t at = json_first(text, list); at != JSON_NONE; at = json_next(text, at))
      if ((taken[tensor->n_labels++] = json_take_string(&model->heap, text, at)) == NULL) return false;
  }
  return true;
}

/* ---- States ---- */

static sterna_status read_states(const graph *graph, sterna_model *model) {
  const char *text = graph->text;
  if (graph->at[GRAPH_STATES] == JSON_NONE) return STERNA_OK;
  if (!json_is_list(text, graph->at[GRAPH_STATES])) BAD("states is not a list");
  model->states = heap_take(&model->heap, json_count(text, graph->at[GRAPH_STATES]), sizeof *model->states);
  if (model->states == NULL) return STERNA_RESOURCES;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_STATES], "state"); at != JSON_NONE; at = rows_next(model, text, at)) {
    state *s = &model->states[model->n_states++];
    size_t member[2];
    if (!json_members(text, at, "value\0initial_at", member, 2) || !json_uint32(text, member[0], &s->value) ||
        s->value >= model->n_values || model->values[s->value].storage != CLASS_STATE)
      BAD("not a value of class state");
    if (member[1] == JSON_NONE) continue;
    uint64_t from;
    if (!json_uint64(text, member[1], &from) ||
        !range_fits(from, model->values[s->value].bytes, model->params_bytes))
      BAD("initial_at does not lie in the %llu bytes of param", (unsigned long long)model->params_bytes);
    s->initial = model->params + from;
  }
  return STERNA_OK;
}

/* ---- Nodes ---- */

static binding *binding_of(const sterna_model *model, const value *v) {
  if (v->storage == CLASS_INPUT) return &model->inputs[v->signature];
  return v->storage == CLASS_OUTPUT ? &model->outputs[v->signature] : NULL;
}

/* Reads one side of a node's call record. Where a pointer is an input's or output's, it holds for now the one before it
 * that is, so that collect_slots finds all of them. */
static sterna_status read_slots(const char *text, size_t list, bool is_output, sterna_model *model, node *n, void **slot) {
  for (size_t at = json_first(text, list); at != JSON_NONE; at = json_next(text, at), slot++) {
    uint32_t which;
    if (!json_uint32(text, at, &which) || which >= model->n_values)
      BAD("an %s is not one of the %u values", is_output ? "output" : "input", (unsigned)model->n_values);
    const value *v = &model->values[which];
    if (is_output && (v->storage == CLASS_INPUT || v->storage == CLASS_PARAM))
      BAD("writes to \"%s\", which is only for reading", v->tensor.name);
    if (is_output && v->computes != 0) {
      if (n->computes != 0 || v->computes != model->n_open + model->n_computed + 1)
        BAD("symbols are computed one by one, in their order");
      model->n_computed++;
      n->computes = v->computes;
      n->size = slot;
    }
    binding *bound = binding_of(model, v);
    if (bound != NULL) {
      *slot = bound->newest;
      bound->newest = slot;
      bound->n_slots++;
    } else {
      *slot = value_address(model, v);
    }
  }
  return STERNA_OK;
}

static sterna_status read_node(const char *text, size_t at, const sterna_library *library, sterna_model *model, node *n) {
  size_t member[7];
  uint64_t params_at = 0, params_bytes = 0;
  if (!json_members(text, at, "name\0kernel\0in\0out\0params_at\0params_bytes\0tasks", member, 7) ||
      (n->name = json_take_string(&model->heap, text, member[0])) == NULL)
    BAD("not an object with a name");
  model->row_name = n->name;
  if (model->support != NULL) {
    sterna_status read = model->support->read(text, at, model, n);
    if (read != STERNA_OK || n->place != 0) return read;
  }
  if (!json_uint32(text, member[1], &n->kernel) || n->kernel >= model->n_own_kernels)
    BAD("kernel is not one of the %u", (unsigned)model->n_own_kernels);
  if (!json_is_list(text, member[2]) || !json_is_list(text, member[3]))
    BAD("has no lists of values in and out");
  if ((member[4] != JSON_NONE && !json_uint64(text, member[4], &params_at)) ||
      (member[5] != JSON_NONE && !json_uint64(text, member[5], &params_bytes)) || params_at % ALIGNMENT != 0 ||
      !range_fits(params_at, params_bytes, model->params_bytes))
    BAD("its parameters do not lie aligned in the %llu bytes of params.bin", (unsigned long long)model->params_bytes);
  const sterna_kernel *kernel = &library->kernels[n->kernel];
  if (!dims_read(model, text, member[6], &n->wanted_tasks, &n->stage))
    BAD("tasks is not a number");
  n->max_tasks = kernel->n_tasks;
  sterna_status status = check_tasks(model, model->row);
  if (status != STERNA_OK) return status;
  uint32_t n_in = json_count(text, member[2]), n_out = json_count(text, member[3]);
  void **slots = heap_take(&model->heap, (uint64_t)n_in + n_out, sizeof *slots);
  if (slots == NULL) return STERNA_RESOURCES;
  status = read_slots(text, member[2], false, model, n, slots);
  if (status == STERNA_OK) status = read_slots(text, member[3], true, model, n, slots + n_in);
  n->function = kernel->function;
  n->needs_barrier = (kernel->flags & STERNA_KERNEL_NEEDS_BARRIER) != 0;
  n->call.size = (uint32_t)sizeof n->call;
  n->call.n_workers = 1;
  n->call.in = (const void *const *)slots;
  n->call.out = slots + n_in;
  n->call.params = params_bytes > 0 ? model->params + params_at : NULL;
  n->call.scratch = kernel->scratch_bytes > 0 ? model->scratch : NULL;
  n->call.dims = model->sizes;
  n->call.barrier = n->needs_barrier ? pool_no_barrier : NULL;
  return status;
}

/* Makes lists of the pointers that read_slots has chained, and binds the runtime's own memory. */
static bool collect_slots(heap *heap, binding *bindings, uint32_t n) {
  for (binding *b = bindings; b < bindings + n; b++) {
    b->slots = heap_take(heap, b->n_slots, sizeof *b->slots);
    if (b->slots == NULL) return false;
    for (uint32_t i = b->n_slots; i-- > 0;) {
      void **slot = b->slots[i] = b->newest;
      b->newest = *slot;
      *slot = b->own;
    }
  }
  return true;
}

static sterna_status check_library(const graph *graph, const sterna_library *library, sterna_model *model) {
  const char *name = graph->library_name != NULL ? graph->library_name : "the kernels";
  static const sterna_library none = {sizeof none, STERNA_ABI, 0, 0, NULL, NULL};
  if (library == NULL && model->support != NULL) library = &none; /* which it need not have */
  if (library == NULL || library->size < sizeof *library)
    return fail(&model->error, STERNA_BAD_LIBRARY, "%s: its table is of %u bytes; %u are needed", name,
                library != NULL ? (unsigned)library->size : 0u, (unsigned)sizeof *library);
  if (library->abi != STERNA_ABI)
    return fail(&model->error, STERNA_WRONG_VERSION, "%s: kernel ABI is %u; this runtime speaks %u", name, (unsigned)library->abi,
                (unsigned)STERNA_ABI);
  uint32_t n = json_count(graph->text, graph->at[GRAPH_KERNELS]);
  if (model->support == NULL) model->n_own_kernels = n;
  if (library->n_kernels != model->n_own_kernels || (library->n_kernels > 0 && library->kernels == NULL))
    return fail(&model->error, STERNA_BAD_LIBRARY, "%s: has %u kernels; graph.json has %u", name, (unsigned)library->n_kernels,
                (unsigned)model->n_own_kernels);
  /* The library says by itself what it needs: most often what graph.json has said, and that has been checked. */
  if (library->features != NULL && strcmp(library->features, graph->features) != 0) {
    sterna_status status = cpu_check(library->features, name, &model->error);
    if (status != STERNA_OK) return status;
  }
  model->n_kernels = n;
  model->kernel_names = heap_take(&model->heap, n, sizeof *model->kernel_names);
  if (model->kernel_names == NULL) return STERNA_RESOURCES;
  for (size_t at = rows_first(model, graph->text, graph->at[GRAPH_KERNELS], "kernel"); at != JSON_NONE; at = rows_next(model, graph->text, at)) {
    size_t member;
    uint32_t i = model->row;
    const sterna_kernel *kernel = library->kernels + (i < model->n_own_kernels ? i : 0);
    if (!json_members(graph->text, at, "name", &member, 1) ||
        (model->kernel_names[i] = json_take_string(&model->heap, graph->text, member)) == NULL)
      BAD("not an object with a name");
    if (i < model->n_own_kernels && (kernel->function == NULL || kernel->scratch_bytes > model->scratch_bytes))
      return fail(&model->error, STERNA_BAD_LIBRARY, "%s: kernel %u needs %u bytes of scratch; graph.json has %llu", name,
                  (unsigned)i, (unsigned)kernel->scratch_bytes, (unsigned long long)model->scratch_bytes);
  }
  return STERNA_OK;
}

sterna_status graph_build(const graph *graph, const sterna_library *library, sterna_model *model) {
  const char *text = graph->text;
  sterna_status status = check_library(graph, library, model);
  if (status == STERNA_OK) status = dims_open(text, graph->at[GRAPH_SYMBOLS], model);
  if (status != STERNA_OK) return status;

  /* The scratches lie behind the arena, so that they share its large pages. */
  uint64_t scratch_at = 0, scratch_bytes, bytes;
  bool fits = add_fits(model->arena_bytes, ALIGNMENT - 1, &scratch_at) &&
              multiply_fits(model->scratch_bytes, model->workers, &scratch_bytes);
  scratch_at -= scratch_at % ALIGNMENT;
  if (!fits || !add_fits(scratch_at, scratch_bytes, &bytes) ||
      (model->arena = heap_take_aligned(&model->heap, bytes)) == NULL)
    return fail(&model->error, STERNA_RESOURCES, "out of memory: the arena needs %llu bytes, each of %u workers %llu",
                (unsigned long long)model->arena_bytes, (unsigned)model->workers,
                (unsigned long long)model->scratch_bytes);
  model->scratch = model->arena + scratch_at;

  model->n_values = json_count(text, graph->at[GRAPH_VALUES]);
  model->n_nodes = json_count(text, graph->at[GRAPH_NODES]);
  model->values = heap_take(&model->heap, model->n_values, sizeof *model->values);
  model->nodes = heap_take(&model->heap, model->n_nodes, sizeof *model->nodes);
  if (model->values == NULL || model->nodes == NULL) return STERNA_RESOURCES;

  value *v = model->values;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_VALUES], "value"); at != JSON_NONE; at = rows_next(model, text, at), v++) {
    status = read_value(text, at, model, v);
    if (status != STERNA_OK) return status;
  }
  status = dims_link(text, graph->at[GRAPH_SYMBOLS], model);
  if (status == STERNA_OK)
    status = read_signature(text, graph->at[GRAPH_INPUTS], CLASS_INPUT, model, &model->inputs, &model->n_inputs);
  if (status == STERNA_OK)
    status = read_signature(text, graph->at[GRAPH_OUTPUTS], CLASS_OUTPUT, model, &model->outputs, &model->n_outputs);
  if (status != STERNA_OK) return status;
  if (!read_labels(graph, model)) BAD("metadata.labels is not lists of strings by output");
  for (v = model->values; v < model->values + model->n_values; v++)
    if ((v->storage == CLASS_INPUT || v->storage == CLASS_OUTPUT) && v->signature == UINT32_MAX)
      BAD("\"%s\" is stored as an input or output, but is not one", v->tensor.name);

  node *n = model->nodes;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_NODES], "node"); at != JSON_NONE; at = rows_next(model, text, at), n++) {
    status = read_node(text, at, library, model, n);
    if (status != STERNA_OK) return status;
  }
  if (model->n_open + model->n_computed != model->n_dims) BAD("symbol \"%s\" is not computed by any node", model->dims[model->n_open + model->n_computed].name);
  if (!collect_slots(&model->heap, model->inputs, model->n_inputs) ||
      !collect_slots(&model->heap, model->outputs, model->n_outputs))
    return STERNA_RESOURCES;
  status = read_states(graph, model);
  if (status == STERNA_OK) status = control_open(text, graph->at[GRAPH_CONTROL], model);
  return status == STERNA_OK && model->support != NULL ? model->support->finish(graph, model) : status;
}
