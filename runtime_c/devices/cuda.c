/* Drives NVIDIA GPUs for the C runtime. Copies and launches are collected until somebody waits for a result. What was
 * collected is then handed to the driver: one by one the first time, and from the second time on, if exactly the same comes
 * again, as a graph, so that a run of a model without open sizes costs one launch. Copies go by way of pinned memory, whose
 * places repeat as the copies do. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "sterna_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "nodes.h"
#include "system.h"

#define shared sterna_cuda_shared

/* Copies of more bytes go straight from and to the caller's memory. */
#define MOST_STAGED ((uint64_t)8 << 20)
#define STAGED_AT_FIRST ((uint64_t)64 << 10)
#define GRAPHS 8u

enum { RESULT_WORDS = 3 };

/* Steps that were handed over once, and, if they were again, their graph. */
typedef struct recorded {
  cuda_words steps;
  cuda_object graph;
} recorded;

typedef struct device {
  cuda_queue queue;
  cuda_object module, start, end;
  bool timed; /* `start` and `end` are of the latest timed launch */
  bool has_events;
  bool has_graphs; /* until the driver refuses one: they are only a shorter way */
  uint32_t n_kernels, oldest;
  char *names;
  cuda_blocks blocks;
  uint64_t staged, room; /* of pinned memory */
  cuda_words steps;      /* not handed over yet */
  cuda_words results;    /* of copies out that are not waited for yet: address here, place in pinned memory, bytes */
  recorded graphs[GRAPHS];
} device;

static sterna_status check_device(sterna_error *error) {
  if (!shared.lost) return STERNA_OK;
  return system_fail(error, STERNA_KERNEL_FAILED, "CUDA (%.60s): the device was lost: close the models that have it, and load again",
                     shared.name);
}

/* Calls of the driver are between these: programs may have a context of their own. */
static sterna_status enter(sterna_error *error) {
  sterna_status status = check_device(error);
  if (status != STERNA_OK) return status;
  cuda_result code = shared.cu.CtxPushCurrent(shared.context);
  return code == CUDA_SUCCESS ? STERNA_OK : sterna_cuda_said(error, code, "cuCtxPushCurrent", "");
}

static sterna_status leave(cuda_result code, const char *what, const char *about, sterna_error *error) {
  cuda_object before;
  sterna_status status = code == CUDA_SUCCESS ? STERNA_OK : sterna_cuda_said(error, code, what, about);
  (void)shared.cu.CtxPopCurrent(&before);
  return status;
}

/* ---- Steps ---- */

static bool equal(const cuda_words *a, const cuda_words *b) {
  return a->used == b->used && memcmp(a->data, b->data, a->used * sizeof *a->data) == 0;
}

static void forget(recorded *r) {
  if (r->graph != NULL) (void)shared.cu.GraphExecDestroy(r->graph);
  r->graph = NULL;
  r->steps.used = 0;
}

/* Hands over what was collected. */
static cuda_result flush(device *d, const char **what, const char **about) {
  cuda_result code = CUDA_SUCCESS;
  if (d->steps.used == 0) return code;
  recorded *known = NULL;
  /* A copy alone is no shorter as a graph, and would take the place of one. */
  bool is_kept = d->has_graphs && d->steps.used > 1 + CUDA_COPY_WORDS;
  for (size_t i = 0; is_kept && i < GRAPHS && known == NULL; i++)
    if (equal(&d->graphs[i].steps, &d->steps)) known = &d->graphs[i];
  if (known != NULL && known->graph == NULL) {
    known->graph = sterna_cuda_graph(&d->queue, &d->steps, NULL, NULL);
    d->has_graphs = known->graph != NULL;
  }
  if (known != NULL && known->graph != NULL) {
    *what = "cuGraphLaunch";
    code = shared.cu.GraphLaunch(known->graph, d->queue.stream);
  } else {
    code = sterna_cuda_issue(&d->queue, &d->steps, what, about);
  }
  if (known == NULL && is_kept) {
    recorded *oldest = &d->graphs[d->oldest];
    d->oldest = (d->oldest + 1) % GRAPHS;
    forget(oldest);
    cuda_words kept = oldest->steps; /* its memory serves the next steps */
    oldest->steps = d->steps;
    d->steps = kept;
  }
  d->steps.used = 0;
  return code;
}

/* Hands over what was collected, waits until it is done, and brings results from pinned memory to where they are wanted. */
static cuda_result finish(device *d, const char **what, const char **about) {
  *what = *about = "";
  cuda_result code = flush(d, what, about);
  cuda_result waited = shared.cu.StreamSynchronize(d->queue.stream);
  size_t results = code == CUDA_SUCCESS && waited == CUDA_SUCCESS ? d->results.used : 0;
  for (size_t i = 0; i < results; i += RESULT_WORDS) {
    const uint64_t *result = d->results.data + i;
    memcpy((void *)(uintptr_t)result[0], d->queue.staging + result[1], (size_t)result[2]);
  }
  d->staged = 0;
  d->results.used = 0;
  if (code != CUDA_SUCCESS || waited == CUDA_SUCCESS) return code;
  *what = "cuStreamSynchronize";
  *about = "";
  return waited;
}

/* ---- Memory ---- */

static sterna_status allocate(void *handle, uint64_t bytes, void **out, sterna_error *error) {
  device *d = handle;
  cuda_block *block = NULL;
  sterna_status status = enter(error);
  if (status != STERNA_OK) return status;
  status = sterna_cuda_take(&d->blocks, bytes, &block, error);
  *out = block;
  cuda_result code = status == STERNA_OK ? shared.cu.MemsetD8Async(block->address, 0, (size_t)bytes, d->queue.stream) : CUDA_SUCCESS;
  sterna_status left = leave(code, "cuMemsetD8Async", "", error);
  return status != STERNA_OK ? status : left;
}

static sterna_status adopt(void *handle, const sterna_device_memory *given, void **out, sterna_error *error) {
  device *d = handle;
  cuda_block *block = NULL;
  sterna_status status = enter(error);
  if (status != STERNA_OK) return status;
  status = sterna_cuda_adopt(&d->blocks, given->handle, given->first, given->bytes, &block, error);
  *out = block;
  (void)leave(CUDA_SUCCESS, "", "", NULL);
  return status;
}

static void release(void *handle, void *memory) {
  device *d = handle;
  bool entered = shared.cu.CtxPushCurrent(shared.context) == CUDA_SUCCESS;
  sterna_cuda_let_go(&d->blocks, memory);
  if (entered) (void)leave(CUDA_SUCCESS, "", "", NULL);
}

static uint64_t handle_of(const void *memory) { return ((const cuda_block *)memory)->address; }

static void place(void *handle, sterna_device_place *place) {
  const device *d = handle;
  place->number = shared.device;
  place->queue = (uint64_t)(uintptr_t)d->queue.stream;
  place->context = (uint64_t)(uintptr_t)shared.context;
}

static cuda_memory address_of(const void *handle, uint64_t first) { return ((const cuda_block *)handle)->address + first; }

/* Pinned memory for a copy, from the byte `at` on; what is there is handed over first if there is no room left. */
static cuda_result stage(device *d, uint64_t bytes, uint64_t *at, const char **what, const char **about) {
  cuda_result code = CUDA_SUCCESS;
  uint64_t needed = d->staged + bytes, room = d->room > 0 ? d->room : STAGED_AT_FIRST;
  if (needed > d->room) {
    code = finish(d, what, about);
    if (code != CUDA_SUCCESS) return code;
    for (size_t i = 0; i < GRAPHS; i++) forget(&d->graphs[i]); /* they have the old places */
    while (room < needed) room *= 2;
    void *pinned = NULL;
    *what = "cuMemAllocHost";
    code = shared.cu.MemAllocHost(&pinned, (size_t)room);
    if (code != CUDA_SUCCESS) return code;
    if (d->queue.staging != NULL) (void)shared.cu.MemFreeHost(d->queue.staging);
    d->queue.staging = pinned;
    d->room = room;
  }
  *at = d->staged;
  d->staged += (bytes + 63) / 64 * 64;
  if (d->staged > d->room) d->staged = d->room;
  return code;
}

/* Notes a copy that is staged. */
static bool note_copy(device *d, uint64_t kind, cuda_memory there, uint64_t at, uint64_t bytes) {
  uint64_t *step = sterna_cuda_take_words(&d->steps, 1 + CUDA_COPY_WORDS);
  if (step == NULL) return false;
  step[0] = kind;
  step[1] = there;
  step[2] = at;
  step[3] = bytes;
  return true;
}

/* Notes where the caller wants what is copied out. */
static bool note_result(device *d, void *here, uint64_t at, uint64_t bytes) {
  uint64_t *result = sterna_cuda_take_words(&d->results, RESULT_WORDS);
  if (result == NULL) return false;
  result[0] = (uint64_t)(uintptr_t)here;
  result[1] = at;
  result[2] = bytes;
  return true;
}

/* Whether a copy is only noted: it needs no call of the driver. */
static bool is_noted(const device *d, uint64_t bytes) { return bytes <= MOST_STAGED && d->staged + bytes <= d->room; }

static sterna_status copy_in(void *handle, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  const char *what = "", *about = "";
  uint64_t at = 0;
  bool speaks = !is_noted(d, bytes);
  sterna_status status = speaks ? enter(error) : check_device(error);
  if (status != STERNA_OK) return status;
  cuda_memory there = address_of(to->memory, to->first);
  cuda_result code;
  if (bytes > MOST_STAGED) {
    code = finish(d, &what, &about);
    if (code == CUDA_SUCCESS) {
      what = "cuMemcpyHtoDAsync";
      code = shared.cu.MemcpyHtoDAsync(there, from, (size_t)bytes, d->queue.stream);
    }
    if (code == CUDA_SUCCESS) code = finish(d, &what, &about);
  } else {
    code = stage(d, bytes, &at, &what, &about);
    if (code == CUDA_SUCCESS) {
      memcpy(d->queue.staging + at, from, (size_t)bytes);
      if (!note_copy(d, CUDA_COPY_IN, there, at, bytes)) status = system_fail(error, STERNA_RESOURCES, "out of memory for a copy");
    }
  }
  sterna_status left = speaks ? leave(code, what, about, error) : STERNA_OK;
  return status != STERNA_OK ? status : left;
}

static sterna_status copy_out(void *handle, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  const char *what = "", *about = "";
  uint64_t at = 0;
  bool speaks = !is_noted(d, bytes);
  sterna_status status = speaks ? enter(error) : check_device(error);
  if (status != STERNA_OK) return status;
  cuda_memory there = address_of(from->memory, from->first);
  bool staged = bytes <= MOST_STAGED;
  cuda_result code = staged ? stage(d, bytes, &at, &what, &about) : flush(d, &what, &about);
  if (code == CUDA_SUCCESS && staged && !(note_copy(d, CUDA_COPY_OUT, there, at, bytes) && note_result(d, to, at, bytes)))
    status = system_fail(error, STERNA_RESOURCES, "out of memory for a copy");
  if (code == CUDA_SUCCESS && !staged) {
    what = "cuMemcpyDtoHAsync";
    code = shared.cu.MemcpyDtoHAsync(to, there, (size_t)bytes, d->queue.stream);
  }
  sterna_status left = speaks ? leave(code, what, about, error) : STERNA_OK;
  return status != STERNA_OK ? status : left;
}

/* ---- Launches ---- */

/* One that is measured, behind all that was collected. As a graph, the events are next to it on the device; else what it takes to
 * hand over a launch to an idle device counts, too. */
static cuda_result time_launch(device *d, const char **what, const char **about) {
  cuda_words one = d->steps;
  cuda_result code = CUDA_SUCCESS;
  *what = "cuEventCreate";
  if (!d->has_events) {
    code = shared.cu.EventCreate(&d->start, 0);
    if (code == CUDA_SUCCESS) code = shared.cu.EventCreate(&d->end, 0);
    d->has_events = code == CUDA_SUCCESS;
  }
  cuda_object graph = code == CUDA_SUCCESS && d->has_graphs ? sterna_cuda_graph(&d->queue, &one, d->start, d->end) : NULL;
  d->has_graphs = graph != NULL;
  if (graph != NULL) {
    *what = "cuGraphLaunch";
    code = shared.cu.GraphLaunch(graph, d->queue.stream);
    (void)shared.cu.GraphExecDestroy(graph); /* once it is done */
  } else if (code == CUDA_SUCCESS) {
    *what = "cuEventRecord";
    code = shared.cu.EventRecord(d->start, d->queue.stream);
    if (code == CUDA_SUCCESS) code = sterna_cuda_issue(&d->queue, &one, what, about);
    if (code == CUDA_SUCCESS) code = shared.cu.EventRecord(d->end, d->queue.stream);
  }
  d->timed = code == CUDA_SUCCESS;
  d->steps.used = 0;
  return code;
}

static sterna_status launch_kernel(void *handle, const sterna_device_launch *launch, sterna_error *error) {
  device *d = handle;
  const char *what = "", *about = "";
  cuda_result code = CUDA_SUCCESS;
  bool speaks = launch->timed != 0; /* else it is only noted */
  sterna_status status = speaks ? enter(error) : check_device(error);
  if (status != STERNA_OK) return status;
  if (speaks) code = flush(d, &what, &about);
  uint64_t *step = code == CUDA_SUCCESS ? sterna_cuda_take_words(&d->steps, (size_t)launch->n_spans + 4 + CUDA_LAUNCH_WORDS) : NULL;
  if (step != NULL) {
    *step++ = CUDA_LAUNCH;
    *step++ = launch->kernel;
    *step++ = launch->tasks;
    *step++ = (uint64_t)launch->n_spans + 3;
    for (uint32_t i = 0; i < launch->n_spans; i++) *step++ = address_of(launch->spans[i].memory, launch->spans[i].first);
    *step++ = address_of(launch->sizes, 0);
    *step++ = address_of(launch->scratch, 0);
    *step = address_of(launch->status, 0);
    if (speaks) code = time_launch(d, &what, &about);
  } else if (code == CUDA_SUCCESS) {
    status = system_fail(error, STERNA_RESOURCES, "out of memory for a launch");
  }
  sterna_status left = speaks ? leave(code, what, about, error) : STERNA_OK;
  return status != STERNA_OK ? status : left;
}

static sterna_status wait_for_all(void *handle, uint64_t *nanoseconds, sterna_error *error) {
  device *d = handle;
  const char *what = "", *about = "";
  float milliseconds = 0;
  sterna_status status = enter(error);
  if (status != STERNA_OK) return status;
  cuda_result code = finish(d, &what, &about);
  if (code == CUDA_SUCCESS && nanoseconds != NULL && d->timed) {
    what = "cuEventElapsedTime";
    code = shared.cu.EventElapsedTime(&milliseconds, d->start, d->end);
  }
  if (nanoseconds != NULL) *nanoseconds = (uint64_t)((double)milliseconds * 1e6);
  return leave(code, what, about, error);
}

/* ---- Opening ---- */

static void close_device(void *handle) {
  device *d = handle;
  /* Of a device that is lost the driver refuses everything; what it can still free it does. */
  bool entered = shared.cu.CtxPushCurrent(shared.context) == CUDA_SUCCESS;
  cuda_object before;
  if (d->queue.stream != NULL) (void)shared.cu.StreamSynchronize(d->queue.stream);
  for (size_t i = 0; i < GRAPHS; i++) {
    forget(&d->graphs[i]);
    free(d->graphs[i].steps.data);
  }
  sterna_cuda_free(&d->blocks);
  if (d->queue.staging != NULL) (void)shared.cu.MemFreeHost(d->queue.staging);
  if (d->start != NULL) (void)shared.cu.EventDestroy(d->start);
  if (d->end != NULL) (void)shared.cu.EventDestroy(d->end);
  if (d->module != NULL) (void)shared.cu.ModuleUnload(d->module);
  if (d->queue.stream != NULL) (void)shared.cu.StreamDestroy(d->queue.stream);
  if (entered) (void)shared.cu.CtxPopCurrent(&before);
  free(d->steps.data);
  free(d->results.data);
  free(d->queue.parameters);
  free(d->queue.kernels);
  free(d->names);
  free(d);
  sterna_cuda_release();
}

static sterna_status make_kernels(const sterna_device_module *module, device *d, sterna_error *error) {
  size_t bytes = 1;
  uint32_t most = 0;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    bytes += strlen(module->kernels[i].name) + 1;
    if (module->kernels[i].n_spans > most) most = module->kernels[i].n_spans;
  }
  d->queue.kernels = calloc((size_t)module->n_kernels + 1, sizeof *d->queue.kernels);
  d->names = malloc(bytes);
  d->queue.parameters = calloc((size_t)most + 4, sizeof *d->queue.parameters);
  if (d->queue.kernels == NULL || d->names == NULL || d->queue.parameters == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for kernels");
  char *name = d->names;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *from = &module->kernels[i];
    cuda_kernel *k = &d->queue.kernels[i];
    size_t length = strlen(from->name) + 1;
    memcpy(name, from->name, length);
    k->name = name;
    name += length;
    memcpy(k->threads, from->threads, sizeof k->threads);
    k->most_threads = from->most_threads;
    cuda_result code = shared.cu.ModuleGetFunction(&k->function, d->module, k->name);
    if (code != CUDA_SUCCESS) return sterna_cuda_said(error, code, "cuModuleGetFunction of ", k->name);
    k->asked_bytes = from->asked_bytes;
    if (k->asked_bytes == 0) continue;
    code = shared.cu.FuncSetAttribute(k->function, CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)k->asked_bytes);
    if (code != CUDA_SUCCESS) return sterna_cuda_said(error, code, "cuFuncSetAttribute of ", k->name);
  }
  return STERNA_OK;
}

static sterna_status open_device(const sterna_device_module *module, void **out, sterna_error *error) {
  sterna_status status = sterna_cuda_acquire(error);
  if (status != STERNA_OK) return status;
  device *d = calloc(1, sizeof *d);
  if (d == NULL) {
    sterna_cuda_release();
    return system_fail(error, STERNA_RESOURCES, "out of memory for a device");
  }
  status = sterna_cuda_check(module, error);
  if (status == STERNA_OK) status = enter(error);
  if (status == STERNA_OK) {
    cuda_result code = shared.cu.StreamCreate(&d->queue.stream, CUDA_STREAM_NON_BLOCKING);
    if (code != CUDA_SUCCESS) status = sterna_cuda_said(error, code, "cuStreamCreate", "");
    d->has_graphs = shared.has_graphs;
    if (status == STERNA_OK) status = sterna_cuda_load(module, &d->module, error);
    if (status == STERNA_OK) status = make_kernels(module, d, error);
    (void)leave(CUDA_SUCCESS, "", "", NULL);
  }
  if (status != STERNA_OK) {
    close_device(d);
    return status;
  }
  *out = d;
  return STERNA_OK;
}

const sterna_device_api *sterna_cuda(void) {
  static const sterna_device_api api = {sizeof(sterna_device_api), "cuda", open_device, close_device, allocate,
                                        copy_in, copy_out, launch_kernel, wait_for_all, &sterna_device_nodes,
                                        place, adopt, release, handle_of, &sterna_device_bindings_of_nodes};
  return &api;
}
