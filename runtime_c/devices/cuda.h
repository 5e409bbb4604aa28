/* What the two files of sterna_cuda share: the driver and its errors (cuda_driver.c), models on it (cuda.c). */
#ifndef STERNA_DEVICES_CUDA_H
#define STERNA_DEVICES_CUDA_H

#include <stdbool.h>

#include "cuda_api.h"
#include "sterna_device.h"

#define TEXT_BYTES 256

/* The driver, once it is open, and the primary context that all models of a process share. */
typedef struct cuda_driver {
  bool opened, has_graphs, lost;
  unsigned users;
  cuda_api cu;
  cuda_device device;
  cuda_object context;
  int version, capability; /* 12040: CUDA 12.4; 86: 8.6 */
  char name[TEXT_BYTES];
} cuda_driver;

/* Read under its lock, or by a user of the context. */
extern cuda_driver sterna_cuda_shared;

/* Another user of the context, which the first one makes. */
sterna_status sterna_cuda_acquire(sterna_error *error);
void sterna_cuda_release(void);

/* What a call of the driver said, in its own words; `what` names the call, `about` what it was about. */
sterna_status sterna_cuda_said(sterna_error *error, cuda_result code, const char *what, const char *about);
/* Whether the device and its driver have what a module needs. */
sterna_status sterna_cuda_check(const sterna_device_module *module, sterna_error *error);
/* Compiles a module's text. */
sterna_status sterna_cuda_load(const sterna_device_module *module, cuda_object *out, sterna_error *error);

#endif
