/* Drives OpenCL devices for the C runtime: finds one, compiles a bundle's kernels, keeps what the driver made of them,
 * and queues their launches in order. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "sterna_opencl.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "opencl_api.h"
#include "system.h"

#define TEXT_BYTES 256
#define MOST_OF_EACH 32u /* platforms, and devices of a platform, that are looked at */
/* What drivers need besides: build options where a platform's name begins so. PoCL makes vectors of work-items and then
 * runs stores whose conditions do not hold (seen with 3.1, in kernels of groups); not if told not to optimize. */
static const struct {
  const char *platform, *of_groups;
} quirks[] = {{"Portable Computing Language", " -cl-opt-disable"}};

/* The context that all models of a process share; `users` open devices keep it. libOpenCL stays open: drivers leave
 * threads and handlers behind. */
static struct {
  system_lock lock;
  bool opened;
  opencl_api cl;
  unsigned users;
  cl_object platform, device, context;
  char platform_name[TEXT_BYTES], name[TEXT_BYTES], version[TEXT_BYTES];
} shared;

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

/* ---- Errors ---- */

static sterna_status fail(sterna_error *error, sterna_status status, const char *format, ...) {
  if (error == NULL) return status;
  va_list arguments;
  va_start(arguments, format);
  error->status = status;
  (void)vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  for (char *c = error->message; *c != 0; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  return status;
}

/* The names of the codes that drivers give in practice. */
static const char *code_name(cl_int code) {
  static const struct {
    cl_int code;
    const char *name;
  } names[] = {{-1, "CL_DEVICE_NOT_FOUND"},          {-2, "CL_DEVICE_NOT_AVAILABLE"},     {-3, "CL_COMPILER_NOT_AVAILABLE"},
               {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "CL_OUT_OF_RESOURCES"},     {-6, "CL_OUT_OF_HOST_MEMORY"},
               {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"}, {-11, "CL_BUILD_PROGRAM_FAILURE"}, {-14, "CL_EXEC_STATUS_ERROR"},
               {-33, "CL_INVALID_DEVICE"},           {-34, "CL_INVALID_CONTEXT"},         {-36, "CL_INVALID_COMMAND_QUEUE"},
               {-38, "CL_INVALID_MEM_OBJECT"},       {-42, "CL_INVALID_BINARY"},          {-43, "CL_INVALID_BUILD_OPTIONS"},
               {-46, "CL_INVALID_KERNEL_NAME"},      {-48, "CL_INVALID_KERNEL"},          {-51, "CL_INVALID_ARG_SIZE"},
               {-52, "CL_INVALID_KERNEL_ARGS"},      {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-55, "CL_INVALID_WORK_ITEM_SIZE"},
               {-61, "CL_INVALID_BUFFER_SIZE"},      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == code) return names[i].name;
  return "error";
}

/* What a call of the driver said; `what` names the call and what it was about. */
static sterna_status said(sterna_error *error, cl_int code, const char *what, const char *about) {
  bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  /* What drivers say where a device was reset or taken away, among other things. */
  bool lost = code == CL_DEVICE_NOT_AVAILABLE || code == CL_OUT_OF_RESOURCES || code == CL_INVALID_COMMAND_QUEUE || code == CL_LOST_BY_NVIDIA;
  return fail(error, memory ? STERNA_RESOURCES : STERNA_KERNEL_FAILED, "OpenCL (%.60s): %s%s%.64s: %s (%d)%s", shared.name, what,
              about[0] != 0 ? " of " : "", about, code_name(code), (int)code,
              lost ? ": if the device was lost, unload all of its models and load them again" : "");
}

/* ---- Finding a device ---- */

static sterna_status open_library(sterna_error *error) {
  static const char *const names[] = {
#if defined(_WIN32)
      "OpenCL.dll",
#elif defined(__APPLE__)
      "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#else
      "libOpenCL.so.1", "libOpenCL.so", "/vendor/lib64/libOpenCL.so", "/vendor/lib/libOpenCL.so",
#endif
  };
  if (shared.opened) return STERNA_OK;
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) library = system_open(names[i]);
  if (library == NULL)
    return fail(error, STERNA_WRONG_MACHINE,
                "OpenCL: %s cannot be opened: install the driver of the GPU with its OpenCL, or compile with --target host", names[0]);
#define OPENCL_LOOK_UP(result, name, parameters)                                               \
  shared.cl.name = (result(CL_CALL *) parameters)system_symbol(library, "cl" #name);           \
  if (shared.cl.name == NULL)                                                                  \
    return fail(error, STERNA_WRONG_MACHINE, "OpenCL: the library has no cl" #name ": version 1.2 is needed");
  OPENCL_FUNCTIONS(OPENCL_LOOK_UP)
#undef OPENCL_LOOK_UP
  shared.opened = true;
  return STERNA_OK;
}

static void device_text(cl_object device, cl_uint what, char text[TEXT_BYTES]) {
  if (shared.cl.GetDeviceInfo(device, what, TEXT_BYTES, text, NULL) != CL_SUCCESS) text[0] = 0;
  text[TEXT_BYTES - 1] = 0;
}

static uint64_t device_number(cl_object device, cl_uint what) {
  uint64_t number = 0; /* some are of 32 bits: little-endian, as every machine that this runs on */
  return shared.cl.GetDeviceInfo(device, what, sizeof number, &number, NULL) == CL_SUCCESS ? number : 0;
}

/* The device that is named, or the best one; sets names. */
static sterna_status find_device(sterna_error *error) {
  static const cl_bits types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU};
  const char *wanted = getenv("STERNA_OPENCL_DEVICE");
  cl_object platforms[MOST_OF_EACH], devices[MOST_OF_EACH];
  cl_uint n_platforms = 0, n;
  if (wanted != NULL && wanted[0] == 0) wanted = NULL;
  if (shared.cl.GetPlatformIDs(MOST_OF_EACH, platforms, &n_platforms) != CL_SUCCESS) n_platforms = 0;
  if (n_platforms > MOST_OF_EACH) n_platforms = MOST_OF_EACH;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    for (cl_uint p = 0; p < n_platforms; p++) {
      if (shared.cl.GetPlatformInfo(platforms[p], CL_PLATFORM_NAME, TEXT_BYTES, shared.platform_name, NULL) != CL_SUCCESS)
        shared.platform_name[0] = 0;
      shared.platform_name[TEXT_BYTES - 1] = 0;
      if (shared.cl.GetDeviceIDs(platforms[p], types[t], MOST_OF_EACH, devices, &n) != CL_SUCCESS) continue;
      for (cl_uint d = 0; d < n && d < MOST_OF_EACH; d++) {
        device_text(devices[d], CL_DEVICE_NAME, shared.name);
        if (wanted != NULL && strstr(shared.name, wanted) == NULL && strstr(shared.platform_name, wanted) == NULL) continue;
        device_text(devices[d], CL_DRIVER_VERSION, shared.version);
        shared.platform = platforms[p];
        shared.device = devices[d];
        return STERNA_OK;
      }
    }
  }
  shared.name[0] = 0;
  if (wanted != NULL)
    return fail(error, STERNA_WRONG_MACHINE, "OpenCL: none of the devices is called \"%.80s\", as STERNA_OPENCL_DEVICE says", wanted);
  return fail(error, STERNA_WRONG_MACHINE,
              "OpenCL: there are %u platforms, and no device: install the driver of the GPU, or compile with --target host",
              (unsigned)n_platforms);
}

/* Another user of the shared context, which the first one makes. */
static sterna_status acquire(sterna_error *error) {
  sterna_status status = STERNA_OK;
  system_acquire(&shared.lock);
  if (shared.users == 0) {
    status = open_library(error);
    if (status == STERNA_OK) status = find_device(error);
    if (status == STERNA_OK) {
      cl_int code = CL_SUCCESS;
      const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)shared.platform, 0};
      shared.context = shared.cl.CreateContext(properties, 1, &shared.device, NULL, NULL, &code);
      if (shared.context == NULL || code != CL_SUCCESS) status = said(error, code, "clCreateContext", "");
    }
  }
  if (status == STERNA_OK) shared.users++;
  system_release(&shared.lock);
  return status;
}

static void release(void) {
  system_acquire(&shared.lock);
  if (--shared.users == 0) (void)shared.cl.ReleaseContext(shared.context);
  system_release(&shared.lock);
}

/* ---- Compiling kernels ---- */

/* Whether the device has what the module asks for. */
static sterna_status check_needs(const sterna_device_module *module, sterna_error *error) {
  uint64_t shared_bytes = 0, group = 0, spans = 0;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *k = &module->kernels[i];
    uint64_t threads = (uint64_t)k->threads[0] * k->threads[1] * k->threads[2];
    if (k->shared_bytes > shared_bytes) shared_bytes = k->shared_bytes;
    if (threads > group) group = threads;
    if (k->n_spans > spans) spans = k->n_spans;
  }
  const char *need = module->needs;
  while (*need != 0) {
    size_t length = strcspn(need, " ");
    if (length == 7 && memcmp(need, "float64", 7) == 0) {
      if (device_number(shared.device, CL_DEVICE_DOUBLE_FP_CONFIG) == 0)
        return fail(error, STERNA_WRONG_MACHINE,
                    "OpenCL: %.60s does not compute in float64, which a kernel needs: compile with --target opencl-mali", shared.name);
    } else {
      return fail(error, STERNA_WRONG_MACHINE, "OpenCL: the bundle needs \"%.*s\", which this runtime does not know", (int)length, need);
    }
    need += length;
    need += strspn(need, " ");
  }
  const struct {
    cl_uint what;
    uint64_t needed;
    const char *name;
  } limits[] = {{CL_DEVICE_LOCAL_MEM_SIZE, shared_bytes, "bytes of local memory"},
                {CL_DEVICE_MAX_WORK_GROUP_SIZE, group, "work-items of a group"},
                {CL_DEVICE_MAX_PARAMETER_SIZE, spans * 16 + 28, "bytes of parameters"}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    uint64_t has = device_number(shared.device, limits[i].what);
    if (has < limits[i].needed)
      return fail(error, STERNA_WRONG_MACHINE,
                  "OpenCL: kernels need %llu %s; %.60s has %llu: compile for a target with less, such as opencl-mali",
                  (unsigned long long)limits[i].needed, limits[i].name, shared.name, (unsigned long long)has);
  }
  return STERNA_OK;
}

static void build_options(const sterna_device_module *module, char options[TEXT_BYTES]) {
  bool groups = false;
  for (uint32_t i = 0; i < module->n_kernels; i++) groups = groups || module->kernels[i].threads[0] > 0;
  uint64_t floats = device_number(shared.device, CL_DEVICE_SINGLE_FP_CONFIG);
  bool rounds = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  (void)snprintf(options, TEXT_BYTES, "-cl-std=CL1.2%s", rounds ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
    if (groups && strncmp(shared.platform_name, quirks[i].platform, strlen(quirks[i].platform)) == 0)
      (void)strncat(options, quirks[i].of_groups, TEXT_BYTES - strlen(options) - 1);
}

/* The kept file of a program: named by all that it was made from. */
static bool cache_path(const sterna_device_module *module, const char *options, char *path, size_t bytes) {
  char all[4 * TEXT_BYTES + 64];
  if (module->cache == NULL || module->cache[0] == 0) return false;
  int used = snprintf(all, sizeof all, "%s\n%s\n%s\n%s\n%016llx", shared.platform_name, shared.name, shared.version, options,
                      (unsigned long long)module->hash);
  uint64_t hash = sterna_hash64(all, (size_t)used);
  used = snprintf(path, bytes, "%s/opencl-%016llx.bin", module->cache, (unsigned long long)hash);
  return used > 0 && (size_t)used < bytes - 16;
}

/* Of a file of the cache, the first eight bytes are the hash of the rest: one that was cut off is no program. */
static cl_object from_cache(const char *path, const char *options) {
  size_t bytes = 0;
  unsigned char *data = system_read(path, &bytes);
  cl_object program = NULL;
  uint64_t hash;
  if (data != NULL && bytes > sizeof hash) {
    memcpy(&hash, data, sizeof hash);
    const unsigned char *binary = data + sizeof hash;
    size_t length = bytes - sizeof hash;
    cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
    if (hash == sterna_hash64(binary, length)) {
      program = shared.cl.CreateProgramWithBinary(shared.context, 1, &shared.device, &length, &binary, &of_binary, &code);
      if (program != NULL &&
          (code != CL_SUCCESS || of_binary != CL_SUCCESS || shared.cl.BuildProgram(program, 1, &shared.device, options, NULL, NULL) != CL_SUCCESS)) {
        (void)shared.cl.ReleaseProgram(program);
        program = NULL;
      }
    }
  }
  free(data);
  return program;
}

/* What cannot be kept is compiled again the next time. */
static void into_cache(const char *path, cl_object program) {
  size_t bytes = 0;
  if (shared.cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0) return;
  unsigned char *data = malloc(bytes + sizeof(uint64_t));
  if (data == NULL) return;
  unsigned char *binary = data + sizeof(uint64_t);
  if (shared.cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS) {
    uint64_t hash = sterna_hash64(binary, bytes);
    memcpy(data, &hash, sizeof hash);
    system_write(path, data, bytes + sizeof hash);
  }
  free(data);
}

static sterna_status compile(const sterna_device_module *module, cl_object *out, sterna_error *error) {
  char options[TEXT_BYTES], path[4096];
  build_options(module, options);
  bool kept = cache_path(module, options, path, sizeof path);
  if (kept && (*out = from_cache(path, options)) != NULL) return STERNA_OK;
  const char *text = module->text;
  cl_int code = CL_SUCCESS;
  cl_object program = shared.cl.CreateProgramWithSource(shared.context, 1, &text, &module->bytes, &code);
  if (program == NULL) return said(error, code, "clCreateProgramWithSource", module->name);
  code = shared.cl.BuildProgram(program, 1, &shared.device, options, NULL, NULL);
  if (code != CL_SUCCESS) {
    char log[16 * TEXT_BYTES];
    if (shared.cl.GetProgramBuildInfo(program, shared.device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) != CL_SUCCESS) log[0] = 0;
    log[sizeof log - 1] = 0;
    const char *first = strstr(log, "error: "); /* of long logs, what matters, without the path of a temporary file */
    if (first != NULL && first[7] == '/' && strchr(first + 7, ' ') != NULL) first = strchr(first + 7, ' ') + 1;
    (void)shared.cl.ReleaseProgram(program);
    return fail(error, STERNA_BAD_LIBRARY, "OpenCL (%.60s): %.40s cannot be compiled: %.120s", shared.name, module->name,
                first != NULL ? first : log[0] != 0 ? log : code_name(code));
  }
  if (kept) into_cache(path, program);
  *out = program;
  return STERNA_OK;
}

static sterna_status make_kernels(const sterna_device_module *module, device *d, sterna_error *error) {
  size_t bytes = 1, arguments = 1;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    bytes += strlen(module->kernels[i].name) + 1;
    arguments += 2 * (size_t)module->kernels[i].n_spans + 4;
  }
  d->kernels = calloc((size_t)module->n_kernels + 1, sizeof *d->kernels);
  d->names = malloc(bytes);
  d->arguments = calloc(arguments, sizeof *d->arguments);
  if (d->kernels == NULL || d->names == NULL || d->arguments == NULL) return fail(error, STERNA_RESOURCES, "out of memory for %u kernels", (unsigned)module->n_kernels);
  char *name = d->names;
  uint64_t *set = d->arguments;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *given = &module->kernels[i];
    kernel *k = &d->kernels[i];
    cl_int code = CL_SUCCESS;
    k->name = strcpy(name, given->name);
    name += strlen(name) + 1;
    k->object = shared.cl.CreateKernel(d->program, k->name, &code);
    if (k->object == NULL) return said(error, code, "clCreateKernel", k->name);
    d->n_kernels = i + 1;
    k->most_threads = given->most_threads;
    k->set = set;
    set += 2 * (size_t)given->n_spans + 4;
    for (int axis = 0; axis < 3; axis++) k->local[axis] = given->threads[axis];
    size_t most = 0, group = k->local[0] * k->local[1] * k->local[2];
    code = shared.cl.GetKernelWorkGroupInfo(k->object, shared.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (code == CL_SUCCESS && group > most)
      return fail(error, STERNA_WRONG_MACHINE, "OpenCL: kernel %.80s needs %u work-items of a group; here %.60s has %u", k->name,
                  (unsigned)group, shared.name, (unsigned)most);
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
  release();
}

static sterna_status open_device(const sterna_device_module *module, void **out, sterna_error *error) {
  sterna_status status = acquire(error);
  if (status != STERNA_OK) return status;
  device *d = calloc(1, sizeof *d);
  if (d == NULL) {
    release();
    return fail(error, STERNA_RESOURCES, "out of memory for a device");
  }
  cl_int code = CL_SUCCESS;
  d->queue = shared.cl.CreateCommandQueue(shared.context, shared.device, 0, &code);
  if (d->queue == NULL) status = said(error, code, "clCreateCommandQueue", "");
  if (status == STERNA_OK) status = check_needs(module, error);
  if (status == STERNA_OK) status = compile(module, &d->program, error);
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
  uint64_t most = device_number(shared.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  if (bytes > most)
    return fail(error, STERNA_RESOURCES, "OpenCL: a buffer of %llu bytes is needed; %.60s has at most %llu", (unsigned long long)bytes,
                shared.name, (unsigned long long)most);
  memory *m = calloc(1, sizeof *m);
  if (m == NULL) return fail(error, STERNA_RESOURCES, "out of memory for a buffer");
  cl_int code = CL_SUCCESS;
  m->buffer = shared.cl.CreateBuffer(shared.context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
  if (m->buffer == NULL) {
    free(m);
    return said(error, code, "clCreateBuffer", "");
  }
  m->next = d->memories;
  d->memories = m;
  const unsigned char zero = 0;
  code = shared.cl.EnqueueFillBuffer(d->queue, m->buffer, &zero, 1, 0, (size_t)bytes, 0, NULL, NULL);
  if (code == CL_SUCCESS) code = shared.cl.Finish(d->queue); /* what the driver puts off, it may refuse later */
  *out = m;
  return code == CL_SUCCESS ? STERNA_OK : said(error, code, "clEnqueueFillBuffer", "");
}

static cl_object buffer_of(const void *handle) { return ((const memory *)handle)->buffer; }

static sterna_status copy_in(void *handle, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  cl_int code = shared.cl.EnqueueWriteBuffer(d->queue, buffer_of(to->memory), 1, (size_t)to->first, (size_t)bytes, from, 0, NULL, NULL);
  return code == CL_SUCCESS ? STERNA_OK : said(error, code, "clEnqueueWriteBuffer", "");
}

static sterna_status copy_out(void *handle, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  device *d = handle;
  cl_int code = shared.cl.EnqueueReadBuffer(d->queue, buffer_of(from->memory), 1, (size_t)from->first, (size_t)bytes, to, 0, NULL, NULL);
  return code == CL_SUCCESS ? STERNA_OK : said(error, code, "clEnqueueReadBuffer", "");
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
  if (code != CL_SUCCESS) return said(error, code, "the arguments", k->name);
  if (d->event != NULL) (void)shared.cl.ReleaseEvent(d->event);
  d->event = NULL;
  code = shared.cl.EnqueueNDRangeKernel(queue, k->object, groups ? 3 : 1, NULL, global, groups ? k->local : NULL, 0, NULL,
                                        launch->timed != 0 ? &d->event : NULL);
  if (code == CL_SUCCESS && launch->timed != 0) code = shared.cl.Finish(queue);
  return code == CL_SUCCESS ? STERNA_OK : said(error, code, "clEnqueueNDRangeKernel", k->name);
}

static sterna_status wait_for_all(void *handle, uint64_t *nanoseconds, sterna_error *error) {
  device *d = handle;
  uint64_t start = 0, end = 0;
  cl_int code = shared.cl.Finish(d->queue);
  if (code != CL_SUCCESS) return said(error, code, "clFinish", "");
  if (nanoseconds == NULL) return STERNA_OK;
  if (d->event != NULL && (shared.cl.GetEventProfilingInfo(d->event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) != CL_SUCCESS ||
                           shared.cl.GetEventProfilingInfo(d->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS))
    end = start = 0;
  *nanoseconds = end > start ? end - start : 0;
  return STERNA_OK;
}

const sterna_device_api *sterna_opencl(void) {
  static const sterna_device_api api = {sizeof(sterna_device_api), "opencl", open_device, close_device, allocate,
                                        copy_in, copy_out, launch_kernel, wait_for_all, &sterna_device_nodes};
  return &api;
}

sterna_status sterna_opencl_describe(char *text, size_t bytes, sterna_error *error) {
  sterna_status status = acquire(error);
  if (status != STERNA_OK) return status;
  (void)snprintf(text, bytes, "%s (%s, driver %s)", shared.name, shared.platform_name, shared.version);
  release();
  return STERNA_OK;
}
