/* What the two files of sterna_opencl share: the driver and its errors (opencl_driver.c), models on it (opencl.c). */
#ifndef STERNA_DEVICES_OPENCL_H
#define STERNA_DEVICES_OPENCL_H

#include <stdbool.h>

#include "opencl_api.h"
#include "sterna_device.h"

#define TEXT_BYTES 256

/* The driver, once it is open, and the context that all models of a process share; `users` open devices keep it.
 * libOpenCL stays open: drivers leave threads and handlers behind. */
typedef struct opencl_driver {
  bool opened;
  opencl_api cl;
  unsigned users;
  cl_object platform, device, context;
  /* Of OpenCL 2.1: NULL where the library has none. */
  opencl_subgroup_info GetKernelSubGroupInfo;
  char platform_name[TEXT_BYTES], name[TEXT_BYTES], version[TEXT_BYTES];
} opencl_driver;

/* Read under its lock, or by a user of the context. */
extern opencl_driver sterna_opencl_shared;

/* Another user of the context, which the first one makes. */
sterna_status sterna_opencl_acquire(sterna_error *error);
void sterna_opencl_release(void);

/* What a call of the driver said; `what` names the call, `about` what it was about. */
sterna_status sterna_opencl_said(sterna_error *error, cl_int code, const char *what, const char *about);
/* What the device says of itself, as a number; 0 if nothing. */
uint64_t sterna_opencl_number(cl_uint what);
/* Whether the device has what a module asks for. */
sterna_status sterna_opencl_check(const sterna_device_module *module, sterna_error *error);
/* Whether the device may have kernels that exchange values in subgroups. */
bool sterna_opencl_exchanges(void);
/* How many threads of a group exchange values in registers, as a module's needs say; 0: none do. */
uint32_t sterna_opencl_subgroup(const char *needs);
/* Compiles a module's text, or takes what was kept of it. */
sterna_status sterna_opencl_compile(const sterna_device_module *module, cl_object *out, sterna_error *error);

#endif
