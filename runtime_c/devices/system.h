/* What the libraries of devices share: errors, and what they ask of the system: other libraries, files of a cache, a lock. */
#ifndef STERNA_DEVICES_SYSTEM_H
#define STERNA_DEVICES_SYSTEM_H

#include <stddef.h>

#include "sterna.h"

/* All zeros: free. It is held for as long as a driver takes to open. */
typedef struct system_lock {
  volatile unsigned held;
} system_lock;

void system_acquire(system_lock *lock);
void system_release(system_lock *lock);

/* A library of the system by its name, or NULL. */
void *system_open(const char *name);
typedef void (*system_function)(void);
system_function system_symbol(void *library, const char *name);

/* Writes a message, on one line, into `error` where there is one, and gives `status` back. */
sterna_status system_fail(sterna_error *error, sterna_status status, const char *format, ...);

/* The bytes of a file, for free(), or NULL. */
unsigned char *system_read(const char *path, size_t *bytes);
/* Writes a file under a name of this process alone, then renames it; nothing is there if that fails. */
void system_write(const char *path, const void *data, size_t bytes);

#endif
