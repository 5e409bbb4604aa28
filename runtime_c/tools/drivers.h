/* The libraries that drive a bundle's devices, opened by their names, for programs that run any bundle. The system looks for
 * them where it looks for all libraries of the program. A static program can open none. */
#ifndef STERNA_DRIVERS_H
#define STERNA_DRIVERS_H

#include <stdio.h>
#include <string.h>

#include "sterna_device.h"

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

/* Kinds of devices; the library of a kind has the function sterna_<kind>. */
static const char *const driver_kinds[] = {"opencl", "cuda", "metal"};
enum { DRIVER_KINDS = sizeof driver_kinds / sizeof *driver_kinds };

#if defined(_WIN32)
#define DRIVER_FILE "sterna_%s.dll"
#elif defined(__APPLE__)
#define DRIVER_FILE "@rpath/libsterna_%s.dylib"
#else
#define DRIVER_FILE "libsterna_%s.so"
#endif

typedef struct drivers {
  const sterna_device_api *tables[DRIVER_KINDS];
  uint32_t n;
  int wanted; /* whether the bundle has devices at all */
} drivers;

typedef const sterna_device_api *(*driver_function)(void);

/* The table of a kind, or NULL. Its library stays open: drivers leave threads behind. */
static const sterna_device_api *driver_open(const char *kind) {
  char name[64];
  driver_function function = NULL;
#ifdef _WIN32
  (void)snprintf(name, sizeof name, DRIVER_FILE, kind);
  HMODULE library = LoadLibraryA(name);
  (void)snprintf(name, sizeof name, "sterna_%s", kind);
  FARPROC symbol = library != NULL ? GetProcAddress(library, name) : NULL;
#else
  (void)snprintf(name, sizeof name, DRIVER_FILE, kind);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  (void)snprintf(name, sizeof name, "sterna_%s", kind);
  void *symbol = library != NULL ? dlsym(library, name) : NULL;
#endif
  if (symbol == NULL) return NULL;
  memcpy(&function, &symbol, sizeof function);
  return function();
}

/* Gives `options` what drives the devices of the bundle; `graph` is its graph.json, opened, or NULL. `found` lives as long as
 * the options. */
static void drivers_find(FILE *graph, drivers *found, sterna_options *options) {
  unsigned format = 0;
  memset(found, 0, sizeof *found);
  if (graph == NULL) return;
  if (fscanf(graph, "{\"sterna\":%u", &format) != 1) format = 0;
  (void)fclose(graph);
  found->wanted = format >= STERNA_FORMAT_WITH_DEVICES;
  for (size_t i = 0; found->wanted && i < DRIVER_KINDS; i++) {
    const sterna_device_api *table = driver_open(driver_kinds[i]);
    if (table != NULL) found->tables[found->n++] = table;
  }
  options->devices = found->tables;
  options->n_devices = found->n;
}

/* What to do where a bundle was refused because no library drives its device; NULL where that was not it: what a library
 * says has advice of its own. */
static const char *drivers_advice(const drivers *found, const sterna_error *said) {
  if (!found->wanted || said->status != STERNA_WRONG_MACHINE || strstr(said->message, "needs the device") == NULL) return NULL;
  return "put the library of the device, such as libsterna_opencl, beside this program's other libraries (a static program "
         "opens none), or compile the model for the CPU";
}

#endif
