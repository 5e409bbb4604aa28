/* Nodes that run on devices beside the CPU, copies between their memories, and the tables that graph.json has of them.
 * This file is in every library of devices, and the C runtime reaches it through their tables: programs without a device
 * have nothing of it. include/sterna_device.h has the interface of devices, docs/bundle.md the format. */
#include <string.h>

#include "../src/internal.h"
#include "../src/json.h"
#include "nodes.h"
#include "nodes_records.h"

/* ---- Reading ---- */

static const sterna_device_api *find_api(const sterna_model *model, const char *text, size_t kind) {
  for (uint32_t i = 0; i < model->n_apis; i++)
    if (model->apis[i]->size >= sizeof(sterna_device_api) && json_string_is(text, kind, model->apis[i]->kind)) return model->apis[i];
  return NULL;
}

static sterna_status read_device(const graph *graph, size_t at, sterna_model *model, device *d) {
  const char *text = graph->text;
  size_t member[6];
  if (!json_members(text, at, "kind\0module\0needs\0arena_bytes\0scratch_bytes\0params", member, 6) ||
      !json_uint64(text, member[3], &d->arena_bytes) || !json_uint64(text, member[4], &d->scratch_bytes) ||
      !json_is_list(text, member[2]) || !json_is_list(text, member[5]) || json_count(text, member[5]) != 2 ||
      !json_uint64(text, json_first(text, member[5]), &d->params_at) ||
      !json_uint64(text, json_next(text, json_first(text, member[5])), &d->params_bytes))
    BAD("a device has no arena_bytes, scratch_bytes, needs or params");
  if (!range_fits(d->params_at, d->params_bytes, model->params_bytes))
    BAD("params of a device do not lie in the %llu bytes of params.bin", (unsigned long long)model->params_bytes);
  d->needs_at = member[2];
  d->api = find_api(model, text, member[0]);
  if (d->api == NULL) {
    const char *kind = json_take_string(&model->heap, text, member[0]);
    return fail(&model->error, STERNA_WRONG_MACHINE, "graph.json: needs the device \"%s\", which is not here", kind != NULL ? kind : "");
  }
  return graph_file(graph, member[1], &d->module, &d->file, model);
}

/* How a kernel of a device is launched, from its members name, tasks, threads, most_threads, shared_bytes and asked_bytes. */
static bool read_launch(const char *text, const size_t *member, sterna_model *model, sterna_device_kernel *launch, uint32_t *tasks) {
  launch->name = json_take_string(&model->heap, text, member[0]);
  if (launch->name == NULL || !json_uint32(text, member[1], tasks) || *tasks == 0 ||
      (member[4] != JSON_NONE && !json_uint64(text, member[4], &launch->shared_bytes)) ||
      (member[5] != JSON_NONE && (!json_uint32(text, member[5], &launch->asked_bytes) || launch->asked_bytes > launch->shared_bytes)))
    return false;
  if (member[2] == JSON_NONE) return json_uint32(text, member[3], &launch->most_threads) && launch->most_threads > 0;
  if (!json_is_list(text, member[2]) || json_count(text, member[2]) != 3) return false;
  size_t at = json_first(text, member[2]);
  for (int axis = 0; axis < 3; axis++, at = json_next(text, at))
    if (!json_uint32(text, at, &launch->threads[axis]) || launch->threads[axis] == 0 || launch->threads[axis] > MAX_THREADS)
      return false;
  return true;
}

/* The kernels that do the same by exchanges in subgroups. */
static bool read_exchanging(const char *text, size_t list, sterna_model *model, sterna_device_kernel *launch, device_kernel *kernel) {
  if (list == JSON_NONE) return true;
  if (!json_is_list(text, list)) return false;
  uint32_t n = json_count(text, list);
  sterna_device_kernel *own = heap_take(&model->heap, n, sizeof *own);
  kernel->exchanging_tasks = heap_take(&model->heap, n, sizeof *kernel->exchanging_tasks);
  if (own == NULL || kernel->exchanging_tasks == NULL) return false;
  size_t at = json_first(text, list);
  for (uint32_t i = 0; i < n; i++, at = json_next(text, at)) {
    size_t member[7];
    if (!json_members(text, at, "name\0tasks\0threads\0most_threads\0shared_bytes\0asked_bytes\0subgroup", member, 7) ||
        !read_launch(text, member, model, &own[i], &kernel->exchanging_tasks[i]) || !json_uint32(text, member[6], &own[i].subgroup) ||
        own[i].subgroup < 2)
      return false;
  }
  launch->exchanging = own;
  launch->n_exchanging = n;
  return true;
}

static sterna_status read_kernels(const graph *graph, sterna_model *model) {
  const char *text = graph->text;
  uint32_t n = json_count(text, graph->at[GRAPH_KERNELS]);
  devices *every = all(model);
  every->kernels = heap_take(&model->heap, n, sizeof *every->kernels);
  every->works = heap_take(&model->heap, json_count(text, graph->at[GRAPH_NODES]), sizeof *every->works);
  if (every->kernels == NULL || every->works == NULL) return STERNA_RESOURCES;
  for (uint32_t k = 0; k < every->n; k++) {
    device *d = &every->list[k];
    d->kernels = heap_take(&model->heap, n, sizeof *d->kernels);
    d->chosen = heap_take(&model->heap, n, sizeof *d->chosen);
    if (d->kernels == NULL || d->chosen == NULL) return STERNA_RESOURCES;
  }
  model->n_own_kernels = n;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_KERNELS], "kernel"); at != JSON_NONE; at = rows_next(model, text, at)) {
    uint32_t i = model->row;
    device_kernel *kernel = &every->kernels[i];
    size_t member[9];
    if (!json_members(text, at, "device\0name\0tasks\0threads\0most_threads\0shared_bytes\0asked_bytes\0checks\0exchanging", member, 9))
      BAD("not an object with a name");
    if (member[0] == JSON_NONE && model->n_own_kernels == n) continue;
    if (model->n_own_kernels == n) model->n_own_kernels = i;
    if (!json_uint32(text, member[0], &kernel->place) || kernel->place == 0 || kernel->place > every->n)
      BAD("of no device, but comes behind one that is");
    device *d = at_place(model, kernel->place);
    kernel->number = d->n_kernels++;
    sterna_device_kernel *launch = &d->kernels[kernel->number];
    if (!read_launch(text, &member[1], model, launch, &kernel->most_tasks) ||
        (member[7] != JSON_NONE && !json_bool(text, member[7], &kernel->checks)) ||
        !read_exchanging(text, member[8], model, launch, kernel))
      BAD("does not say how it is launched");
  }
  /* How many buffers the launches of a kernel have is said by the nodes. */
  for (size_t at = rows_first(model, text, graph->at[GRAPH_NODES], "node"); at != JSON_NONE; at = rows_next(model, text, at)) {
    size_t member[3];
    uint32_t index;
    if (!json_members(text, at, "kernel\0in\0out", member, 3)) BAD("not an object");
    if (!json_uint32(text, member[0], &index) || index < model->n_own_kernels || index >= n) continue;
    sterna_device_kernel *launch = &at_place(model, every->kernels[index].place)->kernels[every->kernels[index].number];
    uint32_t spans = json_count(text, member[1]) + json_count(text, member[2]) + 1;
    if (spans > launch->n_spans) launch->n_spans = spans;
  }
  return STERNA_OK;
}

/* A file that the caller has in memory. */
static sterna_status find_file(sterna_model *model, const char *name, port_file *file) {
  for (uint32_t i = 0; i < model->n_files; i++)
    if (strcmp(model->files[i].name, name) == 0) {
      file->data = model->files[i].data;
      file->bytes = model->files[i].bytes;
      return STERNA_OK;
    }
  return fail(&model->error, STERNA_UNREADABLE, "%s: is not among options.files", name);
}

static sterna_status open_one(const char *directory, const graph *graph, sterna_model *model, device *d) {
  char needs[FEATURES_BYTES];
  port_file file;
  if (!graph_names(graph->text, d->needs_at, needs)) BAD("needs of a device is not a list of names");
  memset(&file, 0, sizeof file);
  sterna_status status = directory != NULL ? map_file(directory, d->module, &file, &model->error) : find_file(model, d->module, &file);
  if (status != STERNA_OK) return status;
  status = graph_check_file(d->module, &d->file, file.data, file.bytes, &model->error);
  if (status == STERNA_OK) {
    sterna_device_module module;
    memset(&module, 0, sizeof module);
    module.size = sizeof module;
    module.name = d->module;
    module.text = file.data;
    module.bytes = file.bytes;
    module.hash = d->file.hash;
    module.needs = needs;
    module.cache = model->device_cache;
    module.n_kernels = d->n_kernels;
    module.kernels = d->kernels;
    module.chosen = d->chosen;
    void *handle = NULL;
    status = d->api->open(&module, &handle, &model->error);
    if (status == STERNA_OK) d->handle = handle;
  }
  if (directory != NULL) port_unmap(&file);
  return status;
}

static sterna_status open_all(const char *directory, const graph *graph, sterna_model *model) {
  const char *text = graph->text;
  if (!json_is_list(text, graph->at[GRAPH_DEVICES]) || json_count(text, graph->at[GRAPH_DEVICES]) == 0) BAD("devices is not a list of some");
  devices *every = heap_take(&model->heap, 1, sizeof *every);
  if (every == NULL) return STERNA_RESOURCES;
  model->devices = every;
  every->list = heap_take(&model->heap, json_count(text, graph->at[GRAPH_DEVICES]), sizeof *every->list);
  if (every->list == NULL) return STERNA_RESOURCES;
  for (size_t at = json_first(text, graph->at[GRAPH_DEVICES]); at != JSON_NONE; at = json_next(text, at)) {
    device *d = &every->list[every->n];
    sterna_status status = read_device(graph, at, model, d);
    if (status != STERNA_OK) return status;
    every->n++;
    /* Buffers that only a device touches have a place here too, which costs nothing as long as nothing is written there. */
    if (d->arena_bytes > model->arena_bytes) model->arena_bytes = d->arena_bytes;
  }
  sterna_status status = read_kernels(graph, model);
  for (uint32_t i = 0; i < every->n && status == STERNA_OK; i++) status = open_one(directory, graph, model, &every->list[i]);
  return status;
}

/* ---- Memory of devices ---- */

static sterna_status take(sterna_model *model, const device *d, uint64_t bytes, void **memory) {
  return d->api->allocate(d->handle, bytes > 0 ? bytes : 1, memory, &model->error);
}

static sterna_status prepare(sterna_model *model, device *d) {
  uint64_t sizes = (uint64_t)model->n_dims * sizeof *d->known;
  d->inputs = heap_take(&model->heap, (uint64_t)model->n_inputs + model->n_outputs, sizeof *d->inputs);
  d->known = heap_take(&model->heap, model->n_dims, sizeof *d->known);
  if (d->inputs == NULL || d->known == NULL) return STERNA_RESOURCES;
  d->outputs = d->inputs + model->n_inputs;
  d->foreign_inputs = heap_take(&model->heap, (uint64_t)model->n_inputs + model->n_outputs, sizeof *d->foreign_inputs);
  if (d->foreign_inputs == NULL) return STERNA_RESOURCES;
  d->foreign_outputs = d->foreign_inputs + model->n_inputs;
  memset(d->known, 0xff, (size_t)sizes); /* none that is right */
  sterna_status status = take(model, d, d->arena_bytes, &d->arena);
  if (status == STERNA_OK) status = take(model, d, d->scratch_bytes, &d->scratch);
  if (status == STERNA_OK) status = take(model, d, d->params_bytes, &d->params);
  if (status == STERNA_OK) status = take(model, d, sizes, &d->sizes);
  if (status == STERNA_OK) status = take(model, d, sizeof(int32_t), &d->status);
  if (status != STERNA_OK || d->params_bytes == 0) return status;
  const sterna_device_span whole = {d->params, 0};
  return d->api->copy_in(d->handle, &whole, model->params + d->params_at, d->params_bytes, &model->error);
}

/* Where a value's buffer is on a device; that of an input or output is taken when the first node asks for it. */
static sterna_status span_of(sterna_model *model, const device *d, const value *v, sterna_device_span *span) {
  span->first = 0;
  if (v->storage == CLASS_ARENA || v->storage == CLASS_STATE) {
    if (!range_fits(v->offset, v->bytes, d->arena_bytes)) BAD("value \"%s\" does not lie in the arena of its device", v->tensor.name);
    span->memory = d->arena;
    span->first = v->offset;
    return STERNA_OK;
  }
  if (v->storage == CLASS_PARAM || v->signature == UINT32_MAX) BAD("value \"%s\" has no memory on a device", v->tensor.name);
  void **memory = v->storage == CLASS_INPUT ? &d->inputs[v->signature] : &d->outputs[v->signature];
  sterna_status status = *memory == NULL ? take(model, d, v->bytes, memory) : STERNA_OK;
  span->memory = *memory;
  const foreign *bound = foreign_of(d, v);
  if (bound == NULL) return status;
  span->memory = bound->memory;
  span->first = bound->first;
  return status;
}

/* The caller's memory of an input or output has room for its present sizes, and no more. */
static uint64_t bytes_of(const value *v) {
  return v->storage == CLASS_INPUT || v->storage == CLASS_OUTPUT ? v->tensor.bytes : v->bytes;
}

/* ---- Nodes ---- */

static sterna_status read_copy(const char *text, const size_t *member, sterna_model *model, node *n, work *w) {
  uint32_t which, from, to;
  if (!json_uint32(text, member[0], &which) || which >= model->n_values || !json_uint32(text, member[1], &from) ||
      !json_uint32(text, member[2], &to) || (from == 0) == (to == 0) || from > all(model)->n || to > all(model)->n)
    BAD("copies no value between the CPU and a device");
  const value *v = &model->values[which];
  if (to == 0 && v->storage == CLASS_INPUT) BAD("writes to \"%s\", which is only for reading", v->tensor.name);
  sterna_device_span span;
  n->place = from + to;
  n->kernel = model->n_kernels; /* none */
  w->copied = v;
  w->copies_out = to == 0;
  return span_of(model, at_place(model, n->place), v, &span);
}

static sterna_status read_spans(const char *text, size_t in, size_t out, sterna_model *model, node *n, sterna_device_span *spans,
                                const value **spanned) {
  for (int side = 0; side < 2; side++) {
    for (size_t at = json_first(text, side == 0 ? in : out); at != JSON_NONE; at = json_next(text, at), spans++) {
      uint32_t which;
      if (!json_uint32(text, at, &which) || which >= model->n_values)
        BAD("what it reads or writes is not one of the %u values", (unsigned)model->n_values);
      const value *v = &model->values[which];
      if (side == 1 && (v->storage == CLASS_INPUT || v->computes != 0))
        BAD("writes to \"%s\", which no device may", v->tensor.name);
      sterna_status status = span_of(model, at_place(model, n->place), v, spans);
      if (status != STERNA_OK) return status;
      *spanned++ = v;
    }
  }
  return STERNA_OK;
}

static sterna_status read_call(const char *text, const size_t *member, sterna_model *model, node *n, work *w) {
  uint64_t at = 0, bytes = 0;
  if (!json_uint32(text, member[0], &n->kernel) || n->kernel < model->n_own_kernels || n->kernel >= model->n_kernels ||
      all(model)->kernels[n->kernel].place != n->place)
    BAD("its kernel is none of its device");
  const device_kernel *kernel = &all(model)->kernels[n->kernel];
  const device *d = at_place(model, n->place);
  if (!json_is_list(text, member[1]) || !json_is_list(text, member[2])) BAD("has no lists of values in and out");
  if ((member[3] != JSON_NONE && !json_uint64(text, member[3], &at)) ||
      (member[4] != JSON_NONE && !json_uint64(text, member[4], &bytes)) ||
      (bytes > 0 && (at < d->params_at || !range_fits(at - d->params_at, bytes, d->params_bytes))))
    BAD("its parameters are not on its device");
  uint32_t chosen = d->chosen[kernel->number];
  size_t tasks = member[5];
  n->max_tasks = kernel->most_tasks;
  if (chosen > 0) {
    if (!json_is_list(text, member[12]) || json_count(text, member[12]) != d->kernels[kernel->number].n_exchanging)
      BAD("exchanging_tasks is not a list as long as that of its kernel");
    tasks = json_first(text, member[12]);
    for (uint32_t i = 1; i < chosen; i++) tasks = json_next(text, tasks);
    n->max_tasks = kernel->exchanging_tasks[chosen - 1];
  }
  if (!dims_read(model, text, tasks, &n->wanted_tasks, &n->stage)) BAD("tasks is not a number");
  sterna_status status = check_tasks(model, (uint32_t)(n - model->nodes));
  uint32_t n_spans = json_count(text, member[1]) + json_count(text, member[2]) + 1;
  sterna_device_span *spans = heap_take(&model->heap, n_spans, sizeof *spans);
  w->spanned = heap_take(&model->heap, n_spans, sizeof *w->spanned);
  if (status != STERNA_OK || spans == NULL || w->spanned == NULL) return status != STERNA_OK ? status : STERNA_RESOURCES;
  status = read_spans(text, member[1], member[2], model, n, spans, w->spanned);
  spans[n_spans - 1].memory = d->params;
  spans[n_spans - 1].first = bytes > 0 ? at - d->params_at : 0;
  w->checks = kernel->checks;
  w->launch.size = sizeof w->launch;
  w->launch.kernel = kernel->number;
  w->launch.n_spans = n_spans;
  w->launch.spans = spans;
  w->launch.sizes = d->sizes;
  w->launch.scratch = d->scratch;
  w->launch.status = d->status;
  return status;
}

static sterna_status read_node(const char *text, size_t at, sterna_model *model, node *n) {
  size_t member[13];
  devices *every = all(model);
  work *w = &every->works[n - model->nodes];
  for (uint32_t i = 0; i < every->n && !every->is_ready; i++) {
    sterna_status status = prepare(model, &every->list[i]);
    if (status != STERNA_OK) return status;
  }
  every->is_ready = true;
  if (!json_members(text, at, "kernel\0in\0out\0params_at\0params_bytes\0tasks\0value\0from\0to\0op\0device\0name\0exchanging_tasks", member, 13) ||
      (n->name = json_take_string(&model->heap, text, member[11])) == NULL)
    BAD("not an object with a name");
  model->row_name = n->name;
  if (member[9] != JSON_NONE) {
    if (!json_string_is(text, member[9], "copy")) BAD("there is no such op");
    return read_copy(text, &member[6], model, n, w);
  }
  if (member[10] == JSON_NONE) return STERNA_OK;
  if (!json_uint32(text, member[10], &n->place) || n->place == 0 || n->place > every->n)
    BAD("device is none of the %u", (unsigned)every->n);
  return read_call(text, member, model, n, w);
}

/* The places of a list's rows. */
static sterna_status read_place(const char *text, size_t at, sterna_model *model, uint32_t *place) {
  size_t member;
  if (!json_members(text, at, "device", &member, 1)) BAD("a member occurs twice");
  if (member != JSON_NONE && (!json_uint32(text, member, place) || *place > all(model)->n))
    BAD("device is none of the %u", (unsigned)all(model)->n);
  return STERNA_OK;
}

/* The first of the copies out at the end of the nodes, after all choices and loops. */
static uint32_t find_results(const sterna_model *model) {
  uint32_t first = model->n_nodes, after = 0;
  for (uint32_t i = 0; i < model->n_controls; i++)
    if (model->controls[i].last > after) after = model->controls[i].last;
  while (first > after && all(model)->works[first - 1].copied != NULL && all(model)->works[first - 1].copies_out) first--;
  return first;
}

static sterna_status finish(const graph *graph, sterna_model *model) {
  const char *text = graph->text;
  all(model)->results_at = find_results(model);
  sterna_status status = STERNA_OK;
  sterna_device_span span;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_VALUES], "value"); at != JSON_NONE && status == STERNA_OK; at = rows_next(model, text, at)) {
    value *v = &model->values[model->row];
    model->row_name = v->tensor.name;
    status = read_place(text, at, model, &v->place);
    if (status == STERNA_OK && v->place != 0) status = span_of(model, at_place(model, v->place), v, &span);
    if (status == STERNA_OK && v->place != 0 && v->storage != CLASS_ARENA && v->storage != CLASS_STATE)
      BAD("cannot be on a device");
  }
  if (model->n_states == 0) return status;
  for (size_t at = rows_first(model, text, graph->at[GRAPH_STATES], "state"); at != JSON_NONE && status == STERNA_OK; at = rows_next(model, text, at)) {
    state *s = &model->states[model->row];
    status = read_place(text, at, model, &s->place);
    if (status == STERNA_OK && s->place != 0)
      status = span_of(model, at_place(model, s->place), &model->values[s->value], &span);
  }
  return status;
}

/* ---- Running ---- */

/* Copies out and waits until it is here. */
static sterna_status bring(sterna_model *model, const device *d, void *here, const sterna_device_span *span, uint64_t bytes) {
  sterna_status status = d->api->copy_out(d->handle, here, span, bytes, &model->error);
  return status == STERNA_OK ? d->api->wait(d->handle, NULL, &model->error) : status;
}

static sterna_status copy(sterna_model *model, const device *d, const work *w, bool waits) {
  const value *v = w->copied;
  sterna_device_span span;
  uint64_t bytes = bytes_of(v);
  if (foreign_of(d, v) != NULL) return STERNA_OK; /* it is there, and stays there */
  sterna_status status = span_of(model, d, v, &span);
  if (status != STERNA_OK || bytes == 0) return status;
  uint8_t *here = value_address(model, v);
  if (!w->copies_out) return d->api->copy_in(d->handle, &span, here, bytes, &model->error);
  return waits ? bring(model, d, here, &span, bytes) : d->api->copy_out(d->handle, here, &span, bytes, &model->error);
}

/* Reads what a kernel has set, and sets it back for the next run. */
static sterna_status check_status(sterna_model *model, const device *d, const node *n) {
  const sterna_device_span span = {d->status, 0};
  int32_t found = 0;
  const int32_t none = 0;
  sterna_status status = bring(model, d, &found, &span, sizeof found);
  if (status != STERNA_OK || found == 0) return status;
  (void)d->api->copy_in(d->handle, &span, &none, sizeof none, NULL);
  return kernel_failed(model, n, found);
}

static sterna_status launch(sterna_model *model, device *d, const node *n, const work *w, bool timed) {
  size_t sizes = model->n_dims * sizeof *d->known;
  if (n->tasks == 0) return STERNA_OK;
  /* Sizes may have changed since memory was bound. */
  for (uint32_t k = 0; k < w->launch.n_spans; k++) {
    const foreign *bound = w->spanned[k] != NULL ? foreign_of(d, w->spanned[k]) : NULL;
    sterna_status status = bound != NULL ? check_room(model, w->spanned[k], bound->bytes) : STERNA_OK;
    if (status != STERNA_OK) return status;
  }
  if (sizes > 0 && memcmp(d->known, model->sizes, sizes) != 0) {
    const sterna_device_span span = {d->sizes, 0};
    sterna_status status = d->api->copy_in(d->handle, &span, model->sizes, sizes, &model->error);
    if (status != STERNA_OK) return status;
    memcpy(d->known, model->sizes, sizes);
  }
  sterna_device_launch now = w->launch;
  now.tasks = n->tasks;
  now.timed = timed;
  sterna_status status = d->api->launch(d->handle, &now, &model->error);
  return status == STERNA_OK && w->checks ? check_status(model, d, n) : status;
}

static sterna_status run(sterna_model *model, uint32_t index) {
  const node *n = &model->nodes[index];
  const work *w = &all(model)->works[index];
  device *d = at_place(model, n->place);
  uint64_t start = model->on_node != NULL ? port_now() : 0, spent = 0;
  /* The run waits once for its results, at its end. */
  bool waits = index < all(model)->results_at || model->on_node != NULL;
  sterna_status status = w->copied != NULL ? copy(model, d, w, waits) : launch(model, d, n, w, model->on_node != NULL);
  if (status != STERNA_OK || model->on_node == NULL) return status;
  if (w->copied == NULL && n->tasks > 0) status = d->api->wait(d->handle, &spent, &model->error);
  if (status == STERNA_OK) model->on_node(model->user, index, n->name, spent > 0 ? spent : port_now() - start);
  return status;
}

static sterna_status wait_for_all(sterna_model *model, sterna_status status) {
  for (uint32_t i = 0; i < all(model)->n; i++) {
    const device *d = &all(model)->list[i];
    sterna_status one = d->api->wait(d->handle, NULL, status == STERNA_OK ? &model->error : NULL);
    if (status == STERNA_OK) status = one;
  }
  return status;
}

static sterna_status fetch(sterna_model *model, const value *v) {
  if (model->running)
    return fail(&model->error, STERNA_NOT_AVAILABLE, "\"%s\" is on a device until the run is over", v->tensor.name);
  const device *d = at_place(model, v->place);
  const foreign *bound = foreign_of(d, v);
  sterna_device_span span;
  sterna_status status = bound != NULL ? check_room(model, v, bound->bytes) : STERNA_OK;
  if (status == STERNA_OK) status = span_of(model, d, v, &span);
  if (status != STERNA_OK || bytes_of(v) == 0) return status;
  return bring(model, d, value_address(model, v), &span, bytes_of(v));
}

static sterna_status reset(sterna_model *model, const state *s) {
  static const uint8_t zeros[1024];
  const value *v = &model->values[s->value];
  const device *d = at_place(model, s->place);
  sterna_device_span span;
  sterna_status status = span_of(model, d, v, &span);
  for (uint64_t done = 0; done < v->bytes && status == STERNA_OK; done += sizeof zeros) {
    uint64_t left = v->bytes - done;
    const sterna_device_span part = {span.memory, span.first + done};
    const uint8_t *from = s->initial != NULL ? s->initial + done : zeros;
    status = d->api->copy_in(d->handle, &part, from, left < sizeof zeros ? left : sizeof zeros, &model->error);
  }
  return status;
}

static void close_all(sterna_model *model) {
  for (uint32_t i = 0; all(model) != NULL && i < all(model)->n; i++)
    if (all(model)->list[i].handle != NULL) all(model)->list[i].api->close(all(model)->list[i].handle);
}

const device_support sterna_device_nodes = {sizeof(sterna_model), open_all, read_node, finish, run, wait_for_all, fetch, reset, close_all};
