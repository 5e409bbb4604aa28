#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

void system_acquire(system_lock *lock) {
  while (InterlockedExchange((volatile LONG *)&lock->held, 1) != 0) Sleep(0);
}
void system_release(system_lock *lock) { (void)InterlockedExchange((volatile LONG *)&lock->held, 0); }

void *system_open(const char *name) { return (void *)LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); }

system_function system_symbol(void *library, const char *name) { return (system_function)GetProcAddress((HMODULE)library, name); }

static unsigned long process(void) { return GetCurrentProcessId(); }
static int replace(const char *from, const char *to) { return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : -1; }
#else
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

void system_acquire(system_lock *lock) {
  while (__atomic_exchange_n(&lock->held, 1u, __ATOMIC_ACQUIRE) != 0) (void)sched_yield();
}
void system_release(system_lock *lock) { __atomic_store_n(&lock->held, 0u, __ATOMIC_RELEASE); }

void *system_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

system_function system_symbol(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  system_function function; /* POSIX promises the conversion, ISO C has no cast for it */
  memcpy(&function, &symbol, sizeof function);
  return function;
}

#ifndef STERNA_NO_FILES
static unsigned long process(void) { return (unsigned long)getpid(); }
static int replace(const char *from, const char *to) { return rename(from, to); }
#endif
#endif

#ifndef STERNA_NO_FILES /* no driver that keeps something is part of such apps */
unsigned char *system_read(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  unsigned char *data = NULL;
  long size;
  if (file == NULL) return NULL;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0 &&
      (data = malloc((size_t)size)) != NULL) {
    *bytes = (size_t)size;
    if (fread(data, 1, *bytes, file) != *bytes) {
      free(data);
      data = NULL;
    }
  }
  (void)fclose(file);
  return data;
}

void system_write(const char *path, const void *data, size_t bytes) {
  char temporary[4096 + 32];
  int used = snprintf(temporary, sizeof temporary, "%s.%lu", path, process());
  FILE *file = used > 0 && (size_t)used < sizeof temporary ? fopen(temporary, "wb") : NULL;
  if (file == NULL) return;
  int good = fwrite(data, 1, bytes, file) == bytes;
  good = fclose(file) == 0 && good;
  if (!good || replace(temporary, path) != 0) (void)remove(temporary);
}

#endif

sterna_status system_fail(sterna_error *error, sterna_status status, const char *format, ...) {
  if (error == NULL) return status;
  va_list arguments;
  va_start(arguments, format);
  error->status = status;
  (void)vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  for (char *c = error->message; *c != 0; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  return status;
}
