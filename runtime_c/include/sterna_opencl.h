/* OpenCL 1.2 for bundles of the targets opencl...: a library beside the C runtime. It opens libOpenCL when the first such
 * bundle is loaded, so that programs need neither its headers nor its library.
 *
 * The device is the first GPU of any platform, else an accelerator, else a CPU; the variable STERNA_OPENCL_DEVICE names
 * another by a part of its name or its platform's. All models of a process share one context. */
#ifndef STERNA_OPENCL_H
#define STERNA_OPENCL_H

#include "sterna_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table for sterna_options.devices. It is constant. */
STERNA_API const sterna_device_api *sterna_opencl(void);

/* Writes the names of the device that bundles would run on, of its platform and its driver's version to `text`, with a
 * zero at the end. STERNA_WRONG_MACHINE where there is none: `error` says why. */
STERNA_API sterna_status sterna_opencl_describe(char *text, size_t bytes, sterna_error *error);

#ifdef __cplusplus
}
#endif
#endif
