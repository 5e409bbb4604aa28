/* Drives OpenCL devices for the C runtime: the kernels of a model, and its memory, whose copies and launches it queues in
 * order. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "sterna_opencl.h"

#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "opencl.h"
#include "system.h"

#define shared sterna_opencl_shared

typedef struct memory {
  struct memory *next;
  cl_object buffer;
} memory;

typedef struct kernel {
  cl_object object;
  const char *name;
  size_t local[3];  /* all 0: the driver chooses */
  uint32_t most_threads, n_set;
  uint64_t *set;    /* the arguments of the latest launch, n_set of them: the driver still has those that do not change */
} kernel;

typedef struct device {
  cl_object queue, timing, program, event;
  uint32_t n_kernels;
  kernel *kernels;
  uint64_t *arguments; /* of all kernels */
  char *names;
  memory *memories;
} device;

/* ---- Opening ---- */

/* How many work-items the subgroups of a kernel have in groups of its size; 0: not known. */
static size_t subgroup_of(cl_object object, const sterna_device_kernel *k) {
  size_t together = 0;
  const size_t local[3] = {k->threads[0], k->threads[1], k->threads[2]};
  cl_int code = shared.GetKernelSubGroupInfo(object, shared.device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, sizeof local, local,
                                             sizeof together, &together, NULL);
  return code == CL_SUCCESS ? together : 0;
}

/* A kernel that exchanges values in subgroups; NULL where the driver has not compiled it, or where its subgroups are not whole
 * multiples of those that the kernel was written for. */
static cl_object make_exchanging(const device *d, const sterna_device_kernel *k) {
  cl_int code = CL_SUCCESS;
  size_t most = 0, group = (size_t)k->threads[0] * k->threads[1] * k->threads[2];
  cl_object object = shared.cl.CreateKernel(d->program, k->name, &code);
  if (object == NULL) return NULL;
  if (shared.cl.GetKernelWorkGroupInfo(object, shared.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL) == CL_SUCCESS &&
      group <= most && k->shared_bytes <= sterna_opencl_number(CL_DEVICE_LOCAL_MEM_SIZE)) {
    size_t together = subgroup_of(object, k);
    if (together > 0 && together % k->subgroup == 0) return object;
  }
  (void)shared.cl.ReleaseKernel(object);
  return NULL;
}

static sterna_status make_kernels(const sterna_device_module *module, device *d, sterna_error *error) {
  size_t bytes = 1, arguments = 1;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *k = &module->kernels[i];
    size_t longest = strlen(k->name);
    for (uint32_t e = 0; e < k->n_exchanging; e++)
      if (strlen(k->exchanging[e].name) > longest) longest = strlen(k->exchanging[e].name);
    bytes += longest + 1;
    arguments += 2 * (size_t)k->n_spans + 4;
  }
  d->kernels = calloc((size_t)module->n_kernels + 1, sizeof *d->kernels);
  d->names = malloc(bytes);
  d->arguments = calloc(arguments, sizeof *d->arguments);
  if (d->kernels == NULL || d->names == NULL || d->arguments == NULL)
    return system_fail(error, STERNA_RESOURCES, "out of memory for %u kernels", (unsigned)module->n_kernels);
  bool exchanges = sterna_opencl_exchanges();
  uint32_t needed = sterna_opencl_subgroup(module->needs);
  char *name = d->names;
  uint64_t *set = d->arguments;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *given = &module->kernels[i];
    kernel *k = &d->kernels[i];
    cl_int code = CL_SUCCESS;
    for (uint32_t e = 0; e < given->n_exchanging && exchanges && k->object == NULL; e++)
      if ((k->object = make_exchanging(d, &given->exchanging[e])) != NULL) {
        module->chosen[i] = e + 1;
        given = &given->exchanging[e];
      }
    k->name = strcpy(name, given->name);
    name += strlen(name) + 1;
    if (k->object == NULL) k->object = shared.cl.CreateKernel(d->program, k->name, &code);
    if (k->object == NULL) return sterna_opencl_said(error, code, "clCreateKernel", k->name);
    d->n_kernels = i + 1;
    k->most_threads = given->most_threads;
    k->set = set;
    set += 2 * (size_t)module->kernels[i].n_spans + 4;
    for (int axis = 0; axis < 3; axis++) k->local[axis] = given->threads[axis];
    size_t most = 0, group = k->local[0] * k->local[1] * k->local[2];
    code = shared.cl.GetKernelWorkGroupInfo(k->object, shared.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (code == CL_SUCCESS && group > most)
      return system_fail(error, STERNA_WRONG_MACHINE, "OpenCL: kernel %.80s needs %u work-items of a group; here %.60s has %u: compile with --target opencl-mali, or for a description with less", k->name,
                                (unsigned)group, shared.name, (unsigned)most);
    if (needed == 0 || group < needed) continue;
    size_t together = subgroup_of(k->object, given);
    if (together < needed)
      return system_fail(error, STERNA_WRONG_MACHINE, "OpenCL: kernel %.60s needs subgroups of %u work-items; %.60s makes them of %u: compile with "
                                "--target opencl", k->name, (unsigned)needed, shared.name, (unsigned)together);
  }
  return STERNA_OK;
}

/* ---- The table ---- */

static void close_device(void *handle) {
  device *d = handle;
  if (d->queue != NULL) (void)shared.cl.Finish(d->queue);
  while (d->memories != NULL) {
    memory *m = d->memories;
    d->memories = m->next;
    (void)shared.cl.ReleaseMemObject(m->buffer);
    free(m);
  }
  for (uint32_t i = 0; i < d->n_kernels; i++) (void)shared.cl.ReleaseKernel(d->kernels[i].object);
  if (d->event != NULL) (void)shared.cl.ReleaseEvent(d->event);
  if (d->program != NULL) (void)shared.cl.ReleaseProgram(d->program);
  if (d->timing != NULL) (void)shared.cl.ReleaseCommandQueue(d->timing);
  if (d->queue != NULL) (void)shared.cl.ReleaseCommandQueue(d->queue);
  free(d->kernels);
  free(d->arguments);
  free(d->names);
  free(d);
  sterna_opencl_release();
}

static sterna_status open_device(const sterna_device_module *module, void **out, sterna_error *error) {
  sterna_status status = sterna_opencl_acquire(error);
  if (status != STERNA_OK) return status;
  device *d = calloc(1, sizeof *d);
  if (d == NULL) {
    sterna_opencl_release();
    return system_fail(error, STERNA_RESOURCES, "out of memory for a device");
  }
  cl_int code = CL_SUCCESS;
  d->queue = shared.cl.CreateCommandQueue(shared.context, shared.device, 0, &code);
  if (d->queue == NULL) status = sterna_opencl_said(error, code, "clCreateCommandQueue", "");
  if (status == STERNA_OK) status = sterna_opencl_check(module, error);
  if (status == STERNA_OK) status = sterna_opencl_compile(module, &d->program, error);
  if (status == STERNA_OK) status = make_kernels(module, d, error);
  if (status != STERNA_OK) {
    close_device(d);
    return status;
  }
  *out = d;
  return STERNA_OK;
}

static sterna_status allocate(void *handle, uint64_t bytes, void **out, sterna_error *error) {
  device *d = handle;
  uint64_t most = sterna_opencl_number(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  if (bytes > most)
    return system_fail(error, STERNA_RESOURCES, "OpenCL: a buffer of %llu bytes is needed; %.60s has at most %llu: take a smaller batch or model, or compile "
                              "with --target host",
                              (unsigned long long)bytes, shared.name, (unsigned long long)most);
  memory *m = calloc(1, sizeof *m);
  if (m == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a buffer");
  cl_int code = CL_SUCCESS;
  m->buffer = shared.cl.CreateBuffer(shared.context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
  if (m->buffer == NULL) {
    free(m);
    return sterna_opencl_said(error, code, "clCreateBuffer", "");
  }
  m->next = d->memories;
  d->memories = m;
  const unsigned char zero = 0;
  code = shared.cl.EnqueueFillBuffer(d->queue, m->buffer, &zero, 1, 0, (size_t)bytes, 0, NULL, NULL);
  if (code == CL_SUCCESS) code = shared.cl.Finish(d->queue); /* what the driver puts off, it may refuse later */
  *out = m;
  return code == CL_SUCCESS ? STERNA_OK : sterna_opencl_said(error, code, "clEnqueueFillBuffer", "");
}

static sterna_status adopt(void *handle, const sterna_device_memory *given, void **out, sterna_error *error) {
  device *d = handle;
  cl_object buffer = (cl_object)(uintptr_t)given->handle, context = NULL;
  size_t bytes = 0;
  cl_int code = shared.cl.GetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL);
  if (code == CL_SUCCESS) code = shared.cl.GetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
  if (code != CL_SUCCESS) return sterna_opencl_said(error, code, "clGetMemObjectInfo", "");
  if (context != shared.context)
    return system_fail(error, STERNA_BAD_ARGUMENT, "OpenCL (%.60s): the memory is of another context than the models': allocate it in "
                              "theirs", shared.name);
  if (given->first > bytes || given->bytes > bytes - given->first)
    return system_fail(error, STERNA_BAD_ARGUMENT, "OpenCL (%.60s): the memory has %llu bytes; %llu from byte %llu on are needed", shared.name,
                              (unsigned long long)bytes, (unsigned long long)given->bytes, (unsigned long long)given->first);
  memory *m = calloc(1, sizeof *m);
  if (m == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a buffer");
  code = shared.cl.RetainMemObject(buffer);
  if (code != CL_SUCCESS) {
    free(m);
    return sterna_opencl_said(error, code, "clRetainMemObject", "");
  }
  m->buffer = buffer;
  m->next = d->memories;
  d->memories = m;
  *out = m;
  return STERNA_OK;
}

/* The driver frees a buffer when what is queued is done, in whatever queue. */
static void release(void *handle, void *given) {
  device *d = handle;
  for (memory **at = &d->memories; *at != NULL; at = &(*at)->next) {
    memory *m = *at;
    if (m != given) continue;
    *at = m->next;
    /* Another buffer may get the same address: launches set their arguments anew. */
    for (uint32_t i = 0; i < d->n_kernels; i++) d->kernels[i].n_set = 0;
    (void)shared.cl.ReleaseMemObject(m->buffer);
    free(m);
    return;
  }
}

static uint64_t handle_of(const void *handle) { return (uint64_t)(uintptr_t)((const memory *)handle)->buffer; }

static void place(void *handle, sterna_device_place *place) {
  const device *d = handle;
  place->number = 0;
  place->queue = (uint64_t)(uintptr_t)d->queue;
  place->context = (uint64_t)(uintptr_t)shared.context;
}

static cl_object buffer_of(const void *handle) { return ((const memory *)handle)->buffer; }

static sterna_status copy_in(void *handle, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  cl_int code = shared.cl.EnqueueWriteBuffer(d->queue, buffer_of(to->memory), 1, (size_t)to->first, (size_t)bytes, from, 0, NULL, NULL);
  return code == CL_SUCCESS ? STERNA_OK : sterna_opencl_said(error, code, "clEnqueueWriteBuffer", "");
}

static sterna_status copy_out(void *handle, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  cl_int code = shared.cl.EnqueueReadBuffer(d->queue, buffer_of(from->memory), 0, (size_t)from->first, (size_t)bytes, to, 0, NULL, NULL);
  return code == CL_SUCCESS ? STERNA_OK : sterna_opencl_said(error, code, "clEnqueueReadBuffer", "");
}

/* Sets an argument that is not what it was in the launch before; `word` tells one from another. */
static cl_int set_argument(kernel *k, cl_uint at, uint64_t word, size_t bytes, const void *value) {
  if (at < k->n_set && k->set[at] == word) return CL_SUCCESS;
  cl_int code = shared.cl.SetKernelArg(k->object, at, bytes, value);
  /* They are set in order, so that those behind one that fails are unknown again. */
  if (code == CL_SUCCESS) k->set[at] = word;
  k->n_set = code != CL_SUCCESS ? at : k->n_set > at ? k->n_set : at + 1;
  return code;
}

static cl_int set_buffer(kernel *k, cl_uint at, const void *memory) {
  cl_object buffer = buffer_of(memory);
  return set_argument(k, at, (uint64_t)(uintptr_t)buffer, sizeof buffer, &buffer);
}

/* Sets the arguments, in the order of the parameters. */
static cl_int set_arguments(kernel *k, const sterna_device_launch *launch) {
  cl_uint at = 0;
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; i < launch->n_spans && code == CL_SUCCESS; i++) {
    const sterna_device_span *span = &launch->spans[i];
    code = set_buffer(k, at++, span->memory);
    if (code == CL_SUCCESS) code = set_argument(k, at++, span->first, sizeof span->first, &span->first);
  }
  const void *rest[] = {launch->sizes, launch->scratch, launch->status};
  for (size_t i = 0; i < 3 && code == CL_SUCCESS; i++) code = set_buffer(k, at++, rest[i]);
  return code == CL_SUCCESS ? set_argument(k, at, launch->tasks, sizeof launch->tasks, &launch->tasks) : code;
}

/* The queue for a launch: that which measures, behind all that the other one has. */
static cl_int queue_for(device *d, bool timed, cl_object *queue) {
  cl_int code = CL_SUCCESS;
  *queue = d->queue;
  if (!timed) return code;
  if (d->timing == NULL) d->timing = shared.cl.CreateCommandQueue(shared.context, shared.device, CL_QUEUE_PROFILING_ENABLE, &code);
  if (d->timing == NULL) return code;
  *queue = d->timing;
  return shared.cl.Finish(d->queue);
}

static sterna_status launch_kernel(void *handle, const sterna_device_launch *launch, sterna_error *error) {
  device *d = handle;
  kernel *k = &d->kernels[launch->kernel];
  cl_object queue;
  bool groups = k->local[0] > 0;
  size_t threads = launch->tasks < k->most_threads ? launch->tasks : k->most_threads;
  const size_t global[3] = {groups ? launch->tasks * k->local[0] : threads, groups ? k->local[1] : 1, groups ? k->local[2] : 1};
  cl_int code = queue_for(d, launch->timed != 0, &queue);
  if (code == CL_SUCCESS) code = set_arguments(k, launch);
  if (code != CL_SUCCESS) return sterna_opencl_said(error, code, "the arguments", k->name);
  if (d->event != NULL) (void)shared.cl.ReleaseEvent(d->event);
  d->event = NULL;
  code = shared.cl.EnqueueNDRangeKernel(queue, k->object, groups ? 3 : 1, NULL, global, groups ? k->local : NULL, 0, NULL,
                                        launch->timed != 0 ? &d->event : NULL);
  if (code == CL_SUCCESS && launch->timed != 0) code = shared.cl.Finish(queue);
  return code == CL_SUCCESS ? STERNA_OK : sterna_opencl_said(error, code, "clEnqueueNDRangeKernel", k->name);
}

static sterna_status wait_for_all(void *handle, uint64_t *nanoseconds, sterna_error *error) {
  device *d = handle;
  uint64_t start = 0, end = 0;
  cl_int code = shared.cl.Finish(d->queue);
  if (code != CL_SUCCESS) return sterna_opencl_said(error, code, "clFinish", "");
  if (nanoseconds == NULL) return STERNA_OK;
  if (d->event != NULL && (shared.cl.GetEventProfilingInfo(d->event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) != CL_SUCCESS ||
                           shared.cl.GetEventProfilingInfo(d->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS))
    end = start = 0;
  *nanoseconds = end > start ? end - start : 0;
  return STERNA_OK;
}

const sterna_device_api *sterna_opencl(void) {
  static const sterna_device_api api = {sizeof(sterna_device_api), "opencl", open_device, close_device, allocate,
                                        copy_in, copy_out, launch_kernel, wait_for_all, &sterna_device_nodes,
                                        place, adopt, release, handle_of, &sterna_device_bindings_of_nodes};
  return &api;
}
