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
  uint32_t subgroup;     /* of those below: threads that a subgroup has at least */
  uint64_t shared_bytes; /* that the threads of a group share */
  /* Kernels that do the same by exchanges in subgroups, of the most threads first. `open` may take one of them instead, and then
   * says so in sterna_device_module.chosen. */
  const struct sterna_device_kernel *exchanging;
  uint32_t n_exchanging;
  uint32_t asked_bytes;  /* of shared_bytes those that the launch brings, where the kernel has more than it can by itself */
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
  uint32_t *chosen;    /* by kernel: 0, or 1 + the number of the one of its `exchanging` that launches of it run; set by `open` */
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

/* Where a device is, as others that use it count and name it. */
typedef struct sterna_device_place {
  size_t size;      /* sizeof(sterna_device_place) */
  int32_t number;   /* CUDA: of the device; OpenCL: 0 */
  uint32_t reserved;
  uint64_t queue;   /* CUDA: the stream, OpenCL: the command queue, in whose order this model copies and launches */
  uint64_t context; /* CUDA: the primary context; OpenCL: the context that memory has to be of */
} sterna_device_place;

/* Where kernels expect a tensor to begin. */
#define STERNA_DEVICE_ALIGNMENT 16

/* Memory of the device that a program has. */
typedef struct sterna_device_memory {
  size_t size;     /* sizeof(sterna_device_memory) */
  uint64_t handle; /* CUDA: an address; OpenCL: a cl_mem */
  uint64_t first;  /* byte there at which the tensor begins, so that it is aligned to STERNA_DEVICE_ALIGNMENT */
  uint64_t bytes;  /* from there on, at least as many as the tensor has at the sizes of every run */
  void *own;       /* of sterna_device_bindings.allocate; NULL: memory that others have allocated */
} sterna_device_memory;

/* Inputs and outputs in memory of the device, without copies: functions for programs.
 *
 *   sterna_device_memory memory = {sizeof memory, (uint64_t)pointer, 0, bytes, NULL};
 *   sterna_cuda()->bindings->bind_input(model, 0, &memory);
 *
 * Runs read what is there when they come to it in the order of the model's queue, and are done with it when they return. Where
 * sterna_set_dims has made a tensor larger than the memory that is bound, they fail with STERNA_BAD_ARGUMENT. Records whose `size`
 * is not set are refused likewise. */
typedef struct sterna_device_bindings {
  /* Where the model's device is. */
  sterna_status (*place)(sterna_model *model, sterna_device_place *place);
  /* As sterna_bind_input and sterna_bind_output: from now on the tensor is there; NULL: in the CPU's memory again.
   * STERNA_NOT_AVAILABLE for a tensor that nodes on the CPU read or write, STERNA_BAD_ARGUMENT for memory of another device,
   * too small or not aligned. The memory is not copied, and never freed. */
  sterna_status (*bind_input)(sterna_model *model, uint32_t index, const sterna_device_memory *memory);
  sterna_status (*bind_output)(sterna_model *model, uint32_t index, const sterna_device_memory *memory);
  /* Zeroed memory of the model's device, until it is released or the model unloaded. Several tensors may be bound to parts of it. */
  sterna_status (*allocate)(sterna_model *model, uint64_t bytes, sterna_device_memory *memory);
  /* Others may still work on it: it is used again when they are done. Bindings to it have to be taken back before. */
  void (*release)(sterna_model *model, sterna_device_memory *memory);
  /* Copies to the CPU's memory, behind all that the model has queued, and waits for it. */
  sterna_status (*copy_out)(sterna_model *model, void *to, const sterna_device_memory *memory, uint64_t bytes);
} sterna_device_bindings;

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
  /* Where the device is. */
  void (*place)(void *device, sterna_device_place *place);
  /* Memory that others have allocated, as `allocate` gives it; STERNA_BAD_ARGUMENT if it is not this device's. */
  sterna_status (*adopt)(void *device, const sterna_device_memory *given, void **memory, sterna_error *error);
  /* Gives back what `allocate` or `adopt` gave. What is queued may still use it. */
  void (*release)(void *device, void *memory);
  /* The handle of sterna_device_memory. */
  uint64_t (*handle_of)(const void *memory);
  /* NULL: memory of the device stays the model's own. */
  const sterna_device_bindings *bindings;
};

#ifdef __cplusplus
}
#endif
#endif
