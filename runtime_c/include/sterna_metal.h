/* Metal for bundles of the target metal: a library beside the C runtime, for macOS and iOS. It opens the Objective-C runtime
 * and Metal when the first such bundle is loaded; the device is the system's default. */
#ifndef STERNA_METAL_H
#define STERNA_METAL_H

#include "sterna_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table for sterna_options.devices. It is constant. */
STERNA_API const sterna_device_api *sterna_metal(void);

/* Writes the name of the device that bundles would run on to `text`, with a zero at the end. STERNA_WRONG_MACHINE where there
 * is none: `error` says why. */
STERNA_API sterna_status sterna_metal_describe(char *text, size_t bytes, sterna_error *error);

#ifdef __cplusplus
}
#endif
#endif
