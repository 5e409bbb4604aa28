/* CUDA for bundles of the targets cuda...: a library beside the C runtime. It opens the library of NVIDIA's driver when
 * the first such bundle is loaded, so that programs need neither the CUDA toolkit nor its libraries.
 *
 * The device is the first that CUDA lists; the variable STERNA_CUDA_DEVICE names another by its number or by a part of its
 * name. All models of a process share the device's primary context, as they do with other libraries that use CUDA. */
#ifndef STERNA_CUDA_H
#define STERNA_CUDA_H

#include "sterna_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table for sterna_options.devices. It is constant. */
STERNA_API const sterna_device_api *sterna_cuda(void);

/* Writes the device that bundles would run on, its compute capability and the CUDA version of its driver to `text`, with a
 * zero at the end. STERNA_WRONG_MACHINE where there is none: `error` says why. */
STERNA_API sterna_status sterna_cuda_describe(char *text, size_t bytes, sterna_error *error);

#ifdef __cplusplus
}
#endif
#endif
