/* Copies and launches of a CUDA device, as words: how they are handed to the driver, one by one or as a graph. */
#include <stdlib.h>

#include "cuda.h"

#define shared sterna_cuda_shared

/* Threads of a block where each runs tasks of its own. */
#define BLOCK 128u

uint64_t *sterna_cuda_take_words(cuda_words *w, size_t n) {
  if (w->used + n > w->room) {
    size_t room = 2 * w->room + n + 256;
    uint64_t *data = realloc(w->data, room * sizeof *data);
    if (data == NULL) return NULL;
    w->data = data;
    w->room = room;
  }
  w->used += n;
  return w->data + w->used - n;
}

/* A launch of at least as many threads as run tasks; where a thread runs several, exactly as many as may. The number of tasks
 * is its last parameter, and lives where the caller says. */
static cuda_launch launch_of(const cuda_queue *q, const uint64_t *step, uint32_t *tasks) {
  const cuda_kernel *k = &q->kernels[step[0]];
  size_t n = (size_t)step[2];
  *tasks = (uint32_t)step[1];
  for (size_t i = 0; i < n; i++) q->parameters[i] = (void *)(uintptr_t)&step[CUDA_LAUNCH_WORDS + i];
  q->parameters[n] = tasks;
  cuda_launch launch = {k->function, {*tasks, 1, 1}, {k->threads[0], k->threads[1], k->threads[2]}, k->asked_bytes, q->parameters, NULL};
  if (k->threads[0] > 0) return launch;
  uint32_t threads = *tasks < k->most_threads ? *tasks : k->most_threads;
  launch.block[0] = threads < BLOCK ? threads : BLOCK;
  launch.block[1] = launch.block[2] = 1;
  launch.grid[0] = *tasks <= k->most_threads ? (threads + launch.block[0] - 1) / launch.block[0] : threads / launch.block[0];
  return launch;
}

cuda_result sterna_cuda_issue(const cuda_queue *q, const cuda_words *steps, const char **what, const char **about) {
  cuda_result code = CUDA_SUCCESS;
  for (const uint64_t *at = steps->data, *end = at + steps->used; at < end && code == CUDA_SUCCESS;) {
    uint64_t kind = *at++;
    *about = "";
    if (kind == CUDA_LAUNCH) {
      uint32_t tasks;
      const cuda_launch l = launch_of(q, at, &tasks);
      *what = "cuLaunchKernel of ";
      *about = q->kernels[at[0]].name;
      code = shared.cu.LaunchKernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], l.shared_bytes,
                                    q->stream, l.parameters, l.extra);
      at += CUDA_LAUNCH_WORDS + at[2];
      continue;
    }
    uint8_t *here = q->staging + at[1];
    *what = kind == CUDA_COPY_IN ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
    code = kind == CUDA_COPY_IN ? shared.cu.MemcpyHtoDAsync(at[0], here, (size_t)at[2], q->stream)
                                : shared.cu.MemcpyDtoHAsync(here, at[0], (size_t)at[2], q->stream);
    at += CUDA_COPY_WORDS;
  }
  return code;
}

/* A copy of one row. */
static cuda_copy copy_of(const cuda_queue *q, uint64_t kind, const uint64_t *step) {
  size_t bytes = (size_t)step[2];
  cuda_copy copy = {.width_bytes = bytes, .height = 1, .depth = 1};
  cuda_copy_side *host = kind == CUDA_COPY_IN ? &copy.from : &copy.to, *device = kind == CUDA_COPY_IN ? &copy.to : &copy.from;
  host->memory = CUDA_MEMORY_HOST;
  host->host = q->staging + step[1];
  device->memory = CUDA_MEMORY_DEVICE;
  device->device = step[0];
  host->pitch = device->pitch = bytes;
  host->height = device->height = 1;
  return copy;
}

/* Nodes in a row, each behind the one before it. A stream that records could do this too; but while one does, others that
 * wait for the device, threads of the program among them, fail and spoil what is recorded. */
static cuda_result add_nodes(const cuda_queue *q, const cuda_words *steps, cuda_object graph, cuda_object *end_of_all) {
  cuda_object last = *end_of_all;
  cuda_result code = CUDA_SUCCESS;
  for (const uint64_t *at = steps->data, *end = at + steps->used; at < end && code == CUDA_SUCCESS;) {
    uint64_t kind = *at++;
    const cuda_object before = last;
    size_t n_before = before != NULL ? 1 : 0;
    if (kind == CUDA_LAUNCH) {
      uint32_t tasks;
      const cuda_launch launch = launch_of(q, at, &tasks);
      code = shared.cu.GraphAddKernelNode(&last, graph, &before, n_before, &launch);
      at += CUDA_LAUNCH_WORDS + at[2];
    } else {
      const cuda_copy copy = copy_of(q, kind, at);
      code = shared.cu.GraphAddMemcpyNode(&last, graph, &before, n_before, &copy, shared.context);
      at += CUDA_COPY_WORDS;
    }
  }
  *end_of_all = last;
  return code;
}

cuda_object sterna_cuda_graph(const cuda_queue *q, const cuda_words *steps, cuda_object start, cuda_object end) {
  cuda_object graph = NULL, made = NULL, first = NULL, last;
  if (shared.cu.GraphCreate(&graph, 0) != CUDA_SUCCESS) return NULL;
  cuda_result code = start != NULL ? shared.cu.GraphAddEventRecordNode(&first, graph, NULL, 0, start) : CUDA_SUCCESS;
  last = first;
  if (code == CUDA_SUCCESS) code = add_nodes(q, steps, graph, &last);
  if (code == CUDA_SUCCESS && end != NULL) code = shared.cu.GraphAddEventRecordNode(&first, graph, &last, 1, end);
  if (code != CUDA_SUCCESS || shared.cu.GraphInstantiateWithFlags(&made, graph, 0) != CUDA_SUCCESS) made = NULL;
  (void)shared.cu.GraphDestroy(graph);
  return made;
}
