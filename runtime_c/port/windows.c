#include "port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_CHARACTERS 4096

static void explain(char *message, size_t message_bytes) {
  (void)snprintf(message, message_bytes, "Windows error %lu", (unsigned long)GetLastError());
}

/* Paths are UTF-8 in the interface whatever the code page is. */
static bool widen(const char *path, wchar_t *wide) {
  return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_CHARACTERS) > 0;
}

bool port_map(const char *path, port_file *file, char *message, size_t message_bytes) {
  memset(file, 0, sizeof *file);
  wchar_t wide[PATH_CHARACTERS];
  HANDLE handle = INVALID_HANDLE_VALUE;
  if (widen(path, wide))
    handle = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                         FILE_ATTRIBUTE_NORMAL, NULL);
  LARGE_INTEGER size;
  if (handle == INVALID_HANDLE_VALUE || !GetFileSizeEx(handle, &size)) {
    explain(message, message_bytes);
    if (handle != INVALID_HANDLE_VALUE) (void)CloseHandle(handle);
    return false;
  }
  bool good = size.QuadPart == 0;
  if (!good && (uint64_t)size.QuadPart <= PTRDIFF_MAX) {
    HANDLE mapping = CreateFileMappingW(handle, NULL, PAGE_READONLY, 0, 0, NULL);
    void *data = mapping != NULL ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
    if (mapping != NULL) (void)CloseHandle(mapping); /* the view keeps what it needs */
    good = data != NULL;
    file->data = data;
    file->bytes = good ? (size_t)size.QuadPart : 0;
  }
  if (!good) explain(message, message_bytes);
  (void)CloseHandle(handle);
  return good;
}

void port_unmap(port_file *file) {
  if (file->data != NULL) (void)UnmapViewOfFile(file->data);
  file->data = NULL;
  file->bytes = 0;
}

void *port_pages(size_t bytes) {
  return calloc(1, bytes);
}

void port_release_pages(void *memory, size_t bytes) {
  (void)bytes;
  free(memory);
}

/* The hash is not needed: Windows does not let the file of a loaded library be replaced. */
void *port_open_library(const char *directory, const char *name, uint64_t hash, char *message, size_t message_bytes) {
  (void)hash;
  char path[PATH_CHARACTERS];
  wchar_t wide[PATH_CHARACTERS], full[PATH_CHARACTERS];
  int used = snprintf(path, sizeof path, "%s/%s", directory[0] != 0 ? directory : ".", name);
  HMODULE library = NULL;
  /* A full path, so that no other directory is searched. */
  if (used > 0 && (size_t)used < sizeof path && widen(path, wide) &&
      GetFullPathNameW(wide, PATH_CHARACTERS, full, NULL) > 0)
    library = LoadLibraryExW(full, NULL, 0);
  if (library == NULL) explain(message, message_bytes);
  return (void *)library;
}

void port_close_library(void *library) { (void)FreeLibrary((HMODULE)library); }

port_function port_symbol(void *library, const char *name) {
  FARPROC symbol = GetProcAddress((HMODULE)library, name);
  port_function function;
  memcpy(&function, &symbol, sizeof function);
  return function;
}

uint64_t port_now(void) {
  LARGE_INTEGER count, per_second;
  (void)QueryPerformanceCounter(&count);
  (void)QueryPerformanceFrequency(&per_second);
  uint64_t seconds = (uint64_t)(count.QuadPart / per_second.QuadPart);
  uint64_t rest = (uint64_t)(count.QuadPart % per_second.QuadPart);
  return seconds * 1000000000u + rest * 1000000000u / (uint64_t)per_second.QuadPart;
}

bool port_start_thread(port_thread *thread, port_thread_main run, void *argument) {
  *thread = CreateThread(NULL, 0, run, argument, 0, NULL);
  return *thread != NULL;
}

void port_join_thread(port_thread thread) {
  (void)WaitForSingleObject(thread, INFINITE);
  (void)CloseHandle(thread);
}

void port_yield(void) { (void)SwitchToThread(); }

int port_processor(void) { return -1; }
void port_leave(int processor) { (void)processor; }

bool port_mutex_open(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  InitializeSRWLock(mutex);
  InitializeConditionVariable(condition);
  InitializeConditionVariable(condition2);
  return true;
}

void port_mutex_close(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  (void)mutex;
  (void)condition;
  (void)condition2;
}

void port_lock(port_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
void port_unlock(port_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }
void port_wait(port_condition *condition, port_mutex *mutex) {
  (void)SleepConditionVariableSRW(condition, mutex, INFINITE, 0);
}
void port_wake_all(port_condition *condition) { WakeAllConditionVariable(condition); }
