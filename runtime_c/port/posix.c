#define _POSIX_C_SOURCE 200809L
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#elif defined(__linux__)
#define _GNU_SOURCE /* madvise and what it takes, processors */
#endif

#include "port.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef STERNA_NO_FILES /* for apps whose models are linked in, and whose runtime then touches no file */
#include "no_files.h"
#else
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool port_map(const char *path, port_file *file, char *message, size_t message_bytes) {
  memset(file, 0, sizeof *file);
  /* O_NONBLOCK: opening a pipe that someone left in the directory must not wait for its writer. */
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  const char *reason = NULL;
  if (descriptor < 0 || fstat(descriptor, &info) != 0) {
    reason = strerror(errno);
  } else if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > PTRDIFF_MAX) {
    reason = "not a regular file, or too large";
  } else if (info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data != MAP_FAILED) {
      file->data = data;
      file->bytes = (size_t)info.st_size;
    } else {
      reason = strerror(errno);
    }
  }
  if (reason != NULL) (void)snprintf(message, message_bytes, "%s", reason);
  if (descriptor >= 0) (void)close(descriptor);
  return reason == NULL;
}

void port_unmap(port_file *file) {
  if (file->data != NULL) (void)munmap((void *)(uintptr_t)file->data, file->bytes);
  file->data = NULL;
  file->bytes = 0;
}

/* glibc takes a path that it has seen before for the library that it has open already, even if the file has been
 * replaced since (a model compiled again while the old one is loaded). So the path spells the hash, as a run of "./" and "/":
 * other contents, other path. */
void *port_open_library(const char *directory, const char *name, uint64_t hash, char *message, size_t message_bytes) {
  char path[4096];
  int used = snprintf(path, sizeof path, "%s/", directory[0] != 0 ? directory : ".");
  if (used < 0 || (size_t)used + 128 + strlen(name) + 1 > sizeof path) {
    (void)snprintf(message, message_bytes, "the path is too long");
    return NULL;
  }
  char *end = path + used;
  for (int bit = 0; bit < 64; bit++) {
    if ((hash >> bit & 1u) != 0) *end++ = '.';
    *end++ = '/';
  }
  memcpy(end, name, strlen(name) + 1);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *reason = dlerror();
    if (reason == NULL) reason = "unknown reason";
    /* The reason begins with that odd path; the caller names the file better. */
    size_t bytes = strlen(path);
    if (strlen(reason) >= bytes && memcmp(reason, path, bytes) == 0) reason += bytes;
    (void)snprintf(message, message_bytes, "%s", reason[0] == ':' && reason[1] == ' ' ? reason + 2 : reason);
  }
  return library;
}

void port_close_library(void *library) { (void)dlclose(library); }

port_function port_symbol(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  port_function function; /* POSIX promises the conversion, ISO C has no cast for it */
  memcpy(&function, &symbol, sizeof function);
  return function;
}

#endif

#ifdef MADV_HUGEPAGE
#define LARGE_PAGE ((size_t)2 << 20)

static size_t whole(size_t bytes) { return (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1); }

/* The first touch of a page is a fault of about a microsecond: with small pages a third of the first run of a vision
 * model. A large page takes as long as some 150 small ones, so a last one of which less than a quarter is wanted is left
 * to those. Linux gives a block of so many bytes a place on the border of a large page. */
void *port_pages(size_t bytes) {
  if (bytes < LARGE_PAGE / 2) return calloc(1, bytes);
  void *pages = mmap(NULL, whole(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  (void)madvise(pages, whole(bytes - LARGE_PAGE / 4), MADV_HUGEPAGE); /* where it is refused, pages stay small */
  return pages;
}

void port_release_pages(void *memory, size_t bytes) {
  if (bytes < LARGE_PAGE / 2)
    free(memory);
  else
    (void)munmap(memory, whole(bytes));
}
#else
void *port_pages(size_t bytes) {
  return calloc(1, bytes);
}
void port_release_pages(void *memory, size_t bytes) {
  (void)bytes;
  free(memory);
}
#endif

uint64_t port_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool port_start_thread(port_thread *thread, port_thread_main run, void *argument) {
  return pthread_create(thread, NULL, run, argument) == 0;
}

void port_join_thread(port_thread thread) { (void)pthread_join(thread, NULL); }

void port_yield(void) { (void)sched_yield(); }

#ifdef __linux__
int port_processor(void) { return sched_getcpu(); }

void port_leave(int processor) {
  cpu_set_t set;
  if (sched_getcpu() != processor || sched_getaffinity(0, sizeof set, &set) != 0) return;
  CPU_CLR((size_t)processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) return; /* there is no other */
  CPU_SET((size_t)processor, &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}
#else
int port_processor(void) { return -1; }
void port_leave(int processor) { (void)processor; }
#endif

bool port_mutex_open(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  if (pthread_mutex_init(mutex, NULL) != 0) return false;
  if (pthread_cond_init(condition, NULL) == 0) {
    if (pthread_cond_init(condition2, NULL) == 0) return true;
    (void)pthread_cond_destroy(condition);
  }
  (void)pthread_mutex_destroy(mutex);
  return false;
}

void port_mutex_close(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  (void)pthread_cond_destroy(condition2);
  (void)pthread_cond_destroy(condition);
  (void)pthread_mutex_destroy(mutex);
}

void port_lock(port_mutex *mutex) { (void)pthread_mutex_lock(mutex); }
void port_unlock(port_mutex *mutex) { (void)pthread_mutex_unlock(mutex); }
void port_wait(port_condition *condition, port_mutex *mutex) { (void)pthread_cond_wait(condition, mutex); }
void port_wake_all(port_condition *condition) { (void)pthread_cond_broadcast(condition); }
