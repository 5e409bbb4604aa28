/* The interface between the C runtime and what drives a device: a library of its own, such as sterna_opencl, fills the
 * table in. The runtime keeps the order of copies and launches, and owns no memory of a device but through it.
 *
 *   const sterna_device_api *devices[] = {sterna_opencl()};
 *   sterna_options options = {sizeof options};
 *   options.devices = devices;
 *   options.n_devices = 1;
 *   sterna_load("bundle", &options, &model, &error);
 *
 * Calls on one device come from one thread at a time. A function that fails fills `error` in with the device's own words
 * and returns its status; out of memory is STERNA_RESOURCES. */
#ifndef STERNA_DEVICE_H
#define STERNA_DEVICE_H

#include "sterna.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a kernel is launched; docs/bundle.md, "Devices". Its parameters are: the spans of a launch, sizes, scratch, status,
 * tasks. */
typedef struct sterna_device_kernel {
  const char *name;
  uint32_t threads[3];   /* of the group that runs a task; all 0: a thread runs one task after another */
  uint32_t most_threads; /* without groups: how many are launched at most */
  uint32_t n_spans;      /* most of any launch */
  uint32_t reserved;
  uint64_t shared_bytes; /* that the threads of a group share */
} sterna_device_kernel;

/* What a device is opened with. Everything lives as long as the call. */
typedef struct sterna_device_module {
  size_t size;         /* sizeof(sterna_device_module) */
  const char *name;    /* of the file */
  const void *text;    /* the file's bytes */
  size_t bytes;
  uint64_t hash;       /* of these */
  const char *needs;   /* what the device must have, separated by spaces */
  const char *cache;   /* a folder for what the driver makes of the text, or NULL */
  uint32_t n_kernels;
  uint32_t reserved;
  const sterna_device_kernel *kernels;
} sterna_device_module;

/* Memory of the device, from a byte on. */
typedef struct sterna_device_span {
  void *memory;
  uint64_t first;
} sterna_device_span;

typedef struct sterna_device_launch {
  size_t size;     /* sizeof(sterna_device_launch) */
  uint32_t kernel; /* its number in the module */
  uint32_t tasks;  /* at least 1 */
  uint32_t n_spans;
  uint32_t timed;  /* not 0: sterna_device_api.wait is asked for its time */
  const sterna_device_span *spans; /* inputs, outputs, weights */
  void *sizes, *scratch, *status;  /* memory of the device */
} sterna_device_launch;

struct sterna_device_api {
  size_t size;      /* sizeof(sterna_device_api): the record grows at the end */
  const char *kind; /* as in graph.json: "opencl" ... */
  /* Finds the device, checks what the module needs, and compiles it. */
  sterna_status (*open)(const sterna_device_module *module, void **device, sterna_error *error);
  /* Frees the device with all of its memory. */
  void (*close)(void *device);
  /* Zeroed memory, at least 1 byte. */
  sterna_status (*allocate)(void *device, uint64_t bytes, void **memory, sterna_error *error);
  /* Copies to and from the device, after everything that was launched. The bytes that come from here may be changed
   * afterwards; those that are copied out are here once `wait` has returned. */
  sterna_status (*copy_in)(void *device, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error);
  sterna_status (*copy_out)(void *device, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error);
  /* Queues a kernel behind everything that was launched. */
  sterna_status (*launch)(void *device, const sterna_device_launch *launch, sterna_error *error);
  /* Waits until everything is done. `nanoseconds`, if not NULL: what the latest timed launch took on the device. */
  sterna_status (*wait)(void *device, uint64_t *nanoseconds, sterna_error *error);
  /* What runs the nodes of any device for the C runtime of the same version: every library of devices has it. */
  const void *support;
};

#ifdef __cplusplus
}
#endif
#endif
