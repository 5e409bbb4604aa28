/* Drives Metal devices for the C runtime: compiles a bundle's kernels and queues their launches in order. Metal is an
 * Objective-C framework; its objects are spoken to through the Objective-C runtime, which is opened when the first such
 * bundle is loaded, so that neither an SDK nor an Apple machine is needed to build this. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "sterna_metal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "system.h"

/* Of Foundation and Metal, as numbers. A function has so many places for buffers on all devices (Metal Feature Set Tables); of
 * these a launch fills some besides its spans: sizes, scratch, status and tasks. */
enum { UTF8 = 4, COMMANDS_FAILED = 5, SMALL_GROUP = 64, MOST_BUFFERS = 31, OTHER_BUFFERS = 4 };

typedef void *object; /* an id, a Class or a SEL */
typedef signed char truth; /* BOOL: a char on x86-64, a bool on arm64, which are passed alike */
typedef struct triple {
  unsigned long x, y, z;
} triple; /* MTLSize */

/* The functions of the Objective-C runtime, and Metal's only one in C. A message is sent by objc_msgSend as if it were a
 * function of the method's own type. */
static struct {
  system_lock lock;
  bool opened;
  object (*get_class)(const char *name);
  object (*selector)(const char *name);
  void *(*push_pool)(void);
  void (*pop_pool)(void *pool);
  system_function send;
  object (*default_device)(void);
} objc;

#define SEND(result, parameters) ((result(*) parameters)objc.send)

typedef struct memory {
  struct memory *next;
  object buffer;
  uint8_t *contents; /* the device shares it with the CPU */
} memory;

typedef struct kernel {
  object pipeline;
  uint32_t threads[3], most_threads;
} kernel;

typedef struct device {
  object metal, queue, library;
  object commands, encoder; /* of launches that have not been committed; NULL: none */
  double seconds;           /* of the latest timed launch */
  uint32_t n_kernels;
  kernel *kernels;
  memory *memories;
  char name[64];
} device;

/* ---- Messages ---- */

static object tell(object to, const char *what) { return SEND(object, (object, object))(to, objc.selector(what)); }
static object tell_object(object to, const char *what, object with) {
  return SEND(object, (object, object, object))(to, objc.selector(what), with);
}
static unsigned long ask_number(object to, const char *what) { return SEND(unsigned long, (object, object))(to, objc.selector(what)); }
static double ask_time(object to, const char *what) { return SEND(double, (object, object))(to, objc.selector(what)); }

static void release(object each) {
  if (each != NULL) (void)tell(each, "release");
}

/* A string of Foundation's, for whoever releases it. */
static object string_of(const char *text, size_t bytes) {
  object empty = tell(objc.get_class("NSString"), "alloc");
  return SEND(object, (object, object, const void *, unsigned long, unsigned long))(
      empty, objc.selector("initWithBytes:length:encoding:"), text, bytes, UTF8);
}

/* The text of a string of Foundation's, as long as that lives. */
static const char *text_of(object string) {
  const char *text = string != NULL ? SEND(const char *, (object, object))(string, objc.selector("UTF8String")) : NULL;
  return text != NULL ? text : "no reason given";
}

/* ---- Errors ---- */

/* What an NSError says. */
static const char *reason_of(object problem) { return problem != NULL ? text_of(tell(problem, "localizedDescription")) : "no reason given"; }

/* ---- Opening ---- */

static sterna_status open_frameworks(sterna_error *error) {
  sterna_status status = STERNA_OK;
  system_acquire(&objc.lock);
  if (!objc.opened) {
    void *runtime = system_open("/usr/lib/libobjc.A.dylib");
    /* Without it programs that draw nothing find no device on macOS, as Metal's documentation says. */
    if (runtime != NULL) (void)system_open("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics");
    void *metal = runtime != NULL ? system_open("/System/Library/Frameworks/Metal.framework/Metal") : NULL;
    if (metal != NULL) {
      objc.get_class = (object(*)(const char *))system_symbol(runtime, "objc_getClass");
      objc.selector = (object(*)(const char *))system_symbol(runtime, "sel_registerName");
      objc.push_pool = (void *(*)(void))system_symbol(runtime, "objc_autoreleasePoolPush");
      objc.pop_pool = (void (*)(void *))system_symbol(runtime, "objc_autoreleasePoolPop");
      objc.send = system_symbol(runtime, "objc_msgSend");
      objc.default_device = (object(*)(void))system_symbol(metal, "MTLCreateSystemDefaultDevice");
    }
    objc.opened = objc.get_class != NULL && objc.selector != NULL && objc.push_pool != NULL && objc.pop_pool != NULL &&
                  objc.send != NULL && objc.default_device != NULL;
    if (!objc.opened)
      status = system_fail(error, STERNA_WRONG_MACHINE, "Metal is not here: it is a part of macOS and iOS: compile with --target opencl or host");
  }
  system_release(&objc.lock);
  return status;
}

static sterna_status check_limits(const sterna_device_module *module, const device *d, sterna_error *error) {
  unsigned long shared = ask_number(d->metal, "maxThreadgroupMemoryLength");
  if (module->needs[0] != 0)
    return system_fail(error, STERNA_WRONG_MACHINE, "Metal: the bundle needs \"%s\", which this runtime does not know: update the runtime", module->needs);
  for (uint32_t i = 0; i < module->n_kernels; i++)
    if (module->kernels[i].n_spans > MOST_BUFFERS - OTHER_BUFFERS)
      return system_fail(error, STERNA_WRONG_MACHINE,
                         "Metal: kernel %.80s has %u inputs and outputs, and functions take %d: compile again with --target metal",
                         module->kernels[i].name, (unsigned)module->kernels[i].n_spans - 1, MOST_BUFFERS - OTHER_BUFFERS - 1);
  for (uint32_t i = 0; i < module->n_kernels; i++)
    if (module->kernels[i].shared_bytes > shared)
      return system_fail(error, STERNA_WRONG_MACHINE, "Metal: kernel %.80s needs %llu bytes of threadgroup memory; %s has %lu: compile with --target host", module->kernels[i].name,
                  (unsigned long long)module->kernels[i].shared_bytes, d->name, shared);
  return STERNA_OK;
}

static sterna_status compile(const sterna_device_module *module, device *d, sterna_error *error) {
  object problem = NULL, text = string_of(module->text, module->bytes);
  object options = tell(tell(objc.get_class("MTLCompileOptions"), "alloc"), "init");
  SEND(void, (object, object, truth))(options, objc.selector("setFastMathEnabled:"), 0);
  d->library = SEND(object, (object, object, object, object, object *))(
      d->metal, objc.selector("newLibraryWithSource:options:error:"), text, options, &problem);
  release(options);
  release(text);
  if (d->library == NULL)
    return system_fail(error, STERNA_BAD_LIBRARY, "Metal (%s): %.40s cannot be compiled: %.140s", d->name, module->name, reason_of(problem));
  d->kernels = calloc((size_t)module->n_kernels + 1, sizeof *d->kernels);
  if (d->kernels == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for %u kernels", (unsigned)module->n_kernels);
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *given = &module->kernels[i];
    object name = string_of(given->name, strlen(given->name));
    object function = tell_object(d->library, "newFunctionWithName:", name);
    kernel *k = &d->kernels[i];
    problem = NULL;
    if (function != NULL)
      k->pipeline = SEND(object, (object, object, object, object *))(
          d->metal, objc.selector("newComputePipelineStateWithFunction:error:"), function, &problem);
    release(function);
    release(name);
    if (k->pipeline == NULL)
      return system_fail(error, STERNA_BAD_LIBRARY, "Metal (%s): kernel %.80s: %.120s", d->name, given->name, reason_of(problem));
    d->n_kernels = i + 1;
    k->most_threads = given->most_threads;
    memcpy(k->threads, given->threads, sizeof k->threads);
    unsigned long most = ask_number(k->pipeline, "maxTotalThreadsPerThreadgroup");
    if ((unsigned long)k->threads[0] * k->threads[1] * k->threads[2] > most)
      return system_fail(error, STERNA_WRONG_MACHINE, "Metal: kernel %.80s needs more threads of a group than %lu, which %s has: compile with --target host", given->name, most,
                  d->name);
  }
  return STERNA_OK;
}

/* Ends what was begun and waits for it. */
static sterna_status settle(device *d, sterna_error *error) {
  sterna_status status = STERNA_OK;
  if (d->commands == NULL) return status;
  (void)tell(d->encoder, "endEncoding");
  (void)tell(d->commands, "commit");
  (void)tell(d->commands, "waitUntilCompleted");
  if (ask_number(d->commands, "status") == COMMANDS_FAILED)
    status = system_fail(error, STERNA_KERNEL_FAILED, "Metal (%s): %.120s: if the device was lost, load the model again", d->name,
                  reason_of(tell(d->commands, "error")));
  d->seconds = ask_time(d->commands, "GPUEndTime") - ask_time(d->commands, "GPUStartTime");
  release(d->encoder);
  release(d->commands);
  d->encoder = d->commands = NULL;
  return status;
}

static void close_device(void *handle) {
  device *d = handle;
  void *pool = objc.push_pool();
  (void)settle(d, NULL);
  while (d->memories != NULL) {
    memory *m = d->memories;
    d->memories = m->next;
    release(m->buffer);
    free(m);
  }
  for (uint32_t i = 0; i < d->n_kernels; i++) release(d->kernels[i].pipeline);
  release(d->library);
  release(d->queue);
  release(d->metal);
  objc.pop_pool(pool);
  free(d->kernels);
  free(d);
}

static sterna_status open_device(const sterna_device_module *module, void **out, sterna_error *error) {
  sterna_status status = open_frameworks(error);
  if (status != STERNA_OK) return status;
  device *d = calloc(1, sizeof *d);
  if (d == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a device");
  void *pool = objc.push_pool();
  d->metal = objc.default_device();
  if (d->metal == NULL) {
    status = system_fail(error, STERNA_WRONG_MACHINE, "Metal: this machine has no device for it: compile with --target host");
  } else {
    (void)snprintf(d->name, sizeof d->name, "%s", text_of(tell(d->metal, "name")));
    d->queue = tell(d->metal, "newCommandQueue");
    if (d->queue == NULL) status = system_fail(error, STERNA_RESOURCES, "Metal (%s): there is no room for a command queue", d->name);
  }
  if (status == STERNA_OK) status = check_limits(module, d, error);
  if (status == STERNA_OK) status = compile(module, d, error);
  objc.pop_pool(pool);
  if (status != STERNA_OK) close_device(d);
  else *out = d;
  return status;
}

/* ---- The table ---- */

static sterna_status allocate(void *handle, uint64_t bytes, void **out, sterna_error *error) {
  device *d = handle;
  memory *m = calloc(1, sizeof *m);
  if (m == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a buffer");
  void *pool = objc.push_pool();
  m->buffer = SEND(object, (object, object, unsigned long, unsigned long))(
      d->metal, objc.selector("newBufferWithLength:options:"), (unsigned long)bytes, 0);
  objc.pop_pool(pool);
  if (m->buffer == NULL) {
    free(m);
    return system_fail(error, STERNA_RESOURCES, "Metal (%s): there is no room for a buffer of %llu bytes: take a smaller batch or model, or compile with --target host", d->name, (unsigned long long)bytes);
  }
  m->contents = SEND(uint8_t *, (object, object))(m->buffer, objc.selector("contents"));
  memset(m->contents, 0, (size_t)bytes);
  m->next = d->memories;
  d->memories = m;
  *out = m;
  return STERNA_OK;
}

static sterna_status settled(void *handle, sterna_error *error) {
  void *pool = objc.push_pool();
  sterna_status status = settle(handle, error);
  objc.pop_pool(pool);
  return status;
}

static sterna_status copy_in(void *handle, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  sterna_status status = settled(handle, error); /* a kernel may still read what is there */
  if (status == STERNA_OK) memcpy(((const memory *)to->memory)->contents + to->first, from, (size_t)bytes);
  return status;
}

static sterna_status copy_out(void *handle, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  sterna_status status = settled(handle, error);
  if (status == STERNA_OK) memcpy(to, ((const memory *)from->memory)->contents + from->first, (size_t)bytes);
  return status;
}

static void set_buffer(object encoder, const void *handle, uint64_t first, unsigned long at) {
  SEND(void, (object, object, object, unsigned long, unsigned long))(
      encoder, objc.selector("setBuffer:offset:atIndex:"), ((const memory *)handle)->buffer, (unsigned long)first, at);
}

static sterna_status launch_kernel(void *handle, const sterna_device_launch *launch, sterna_error *error) {
  device *d = handle;
  const kernel *k = &d->kernels[launch->kernel];
  sterna_status status = launch->timed != 0 ? settled(d, error) : STERNA_OK;
  if (status != STERNA_OK) return status;
  void *pool = objc.push_pool();
  if (d->commands == NULL) {
    /* Kernels of one encoder run one after another, each when what it reads is there. */
    d->commands = tell(tell(d->queue, "commandBuffer"), "retain");
    d->encoder = tell(tell(d->commands, "computeCommandEncoder"), "retain");
  }
  (void)tell_object(d->encoder, "setComputePipelineState:", k->pipeline);
  unsigned long at = 0;
  for (; at < launch->n_spans; at++) set_buffer(d->encoder, launch->spans[at].memory, launch->spans[at].first, at);
  set_buffer(d->encoder, launch->sizes, 0, at++);
  set_buffer(d->encoder, launch->scratch, 0, at++);
  set_buffer(d->encoder, launch->status, 0, at++);
  SEND(void, (object, object, const void *, unsigned long, unsigned long))(
      d->encoder, objc.selector("setBytes:length:atIndex:"), &launch->tasks, sizeof launch->tasks, at);
  bool groups = k->threads[0] > 0;
  unsigned long threads = launch->tasks < k->most_threads ? launch->tasks : k->most_threads;
  unsigned long wide = threads < SMALL_GROUP ? threads : SMALL_GROUP;
  /* Without groups, whole ones are launched, and no more threads in all than there is scratch for. */
  const triple count = {groups ? launch->tasks : threads / wide, 1, 1};
  const triple size = {groups ? k->threads[0] : wide, groups ? k->threads[1] : 1, groups ? k->threads[2] : 1};
  SEND(void, (object, object, triple, triple))(d->encoder, objc.selector("dispatchThreadgroups:threadsPerThreadgroup:"), count, size);
  if (launch->timed != 0) status = settle(d, error);
  objc.pop_pool(pool);
  return status;
}

static sterna_status wait_for_all(void *handle, uint64_t *nanoseconds, sterna_error *error) {
  device *d = handle;
  sterna_status status = settled(d, error);
  if (nanoseconds != NULL) *nanoseconds = d->seconds > 0 ? (uint64_t)(d->seconds * 1e9) : 0;
  return status;
}

const sterna_device_api *sterna_metal(void) {
  static const sterna_device_api api = {sizeof(sterna_device_api), "metal", open_device, close_device, allocate,
                                        copy_in, copy_out, launch_kernel, wait_for_all, &sterna_device_nodes,
                                        NULL, NULL, NULL, NULL, NULL};
  return &api;
}

sterna_status sterna_metal_describe(char *text, size_t bytes, sterna_error *error) {
  sterna_status status = open_frameworks(error);
  if (status != STERNA_OK) return status;
  void *pool = objc.push_pool();
  object metal = objc.default_device();
  if (metal == NULL) status = system_fail(error, STERNA_WRONG_MACHINE, "Metal: this machine has no device for it: compile with --target host");
  else (void)snprintf(text, bytes, "%s (Metal)", text_of(tell(metal, "name")));
  release(metal);
  objc.pop_pool(pool);
  return status;
}
