/* What C99 lacks: files in memory, shared libraries, threads, atomics and a clock. posix.c and windows.c implement it; none.c
 * refuses all of it, for systems without an operating system. */
#ifndef STERNA_PORT_H
#define STERNA_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In a static library every external name is in the user's name space. */
#define port_map sterna_port_map
#define port_unmap sterna_port_unmap
#define port_pages sterna_port_pages
#define port_release_pages sterna_port_release_pages
#define port_open_library sterna_port_open_library
#define port_close_library sterna_port_close_library
#define port_symbol sterna_port_symbol
#define port_now sterna_port_now
#define port_start_thread sterna_port_start_thread
#define port_join_thread sterna_port_join_thread
#define port_yield sterna_port_yield
#define port_processor sterna_port_processor
#define port_leave sterna_port_leave
#define port_mutex_open sterna_port_mutex_open
#define port_mutex_close sterna_port_mutex_close
#define port_lock sterna_port_lock
#define port_unlock sterna_port_unlock
#define port_wait sterna_port_wait
#define port_wake_all sterna_port_wake_all

#if defined(STERNA_PORT_NONE)
typedef int port_thread;
typedef int port_mutex;
typedef int port_condition;
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef HANDLE port_thread;
typedef SRWLOCK port_mutex;
typedef CONDITION_VARIABLE port_condition;
#else
#include <pthread.h>
typedef pthread_t port_thread;
typedef pthread_mutex_t port_mutex;
typedef pthread_cond_t port_condition;
#endif

/* A file mapped for reading. An empty file has data NULL. */
typedef struct port_file {
  const uint8_t *data;
  size_t bytes;
} port_file;

/* False, with a reason in `message`, if it cannot be opened or is no regular file. The mapping starts on a page. */
bool port_map(const char *path, port_file *file, char *message, size_t message_bytes);
void port_unmap(port_file *file);

/* Memory that the system has zeroed, so that pages which are never touched cost nothing, in large pages as far as there
 * are such and their use wastes little; or NULL. The release is given the same number of bytes. */
void *port_pages(size_t bytes);
void port_release_pages(void *memory, size_t bytes);

/* Opens `directory`/`name`, whose contents have the hash `hash`. NULL, with a reason in `message`, if it cannot. */
void *port_open_library(const char *directory, const char *name, uint64_t hash, char *message, size_t message_bytes);
void port_close_library(void *library);
typedef void (*port_function)(void);
port_function port_symbol(void *library, const char *name);

/* A monotonic clock in nanoseconds; 0 where there is none. */
uint64_t port_now(void);

/* A thread's function is written PORT_THREAD_MAIN(name) { ... argument ...; return 0; } */
#ifdef _WIN32
#define PORT_THREAD_MAIN(name) DWORD WINAPI name(void *argument)
typedef LPTHREAD_START_ROUTINE port_thread_main;
#else
#define PORT_THREAD_MAIN(name) void *name(void *argument)
typedef void *(*port_thread_main)(void *);
#endif
bool port_start_thread(port_thread *thread, port_thread_main run, void *argument);
void port_join_thread(port_thread thread);
void port_yield(void);
/* The processor that the calling thread is on; negative where that cannot be known. */
int port_processor(void);
/* Moves the calling thread to another processor than this one, if it is there, and may be elsewhere. It may come back. */
void port_leave(int processor);

bool port_mutex_open(port_mutex *mutex, port_condition *condition, port_condition *condition2);
void port_mutex_close(port_mutex *mutex, port_condition *condition, port_condition *condition2);
void port_lock(port_mutex *mutex);
void port_unlock(port_mutex *mutex);
void port_wait(port_condition *condition, port_mutex *mutex);
void port_wake_all(port_condition *condition);

/* Sequentially consistent atomics: the pool's reasoning needs the single order in two places, and elsewhere the
 * difference is not measurable. */
#if defined(_MSC_VER) && !defined(__clang__)
static inline uint32_t atomic_load32(volatile uint32_t *p) { return (uint32_t)InterlockedOr((volatile LONG *)p, 0); }
static inline void atomic_store32(volatile uint32_t *p, uint32_t v) { InterlockedExchange((volatile LONG *)p, (LONG)v); }
static inline uint32_t atomic_add32(volatile uint32_t *p, uint32_t v) {
  return (uint32_t)InterlockedExchangeAdd((volatile LONG *)p, (LONG)v) + v;
}
static inline uint64_t atomic_load64(volatile uint64_t *p) { return (uint64_t)InterlockedOr64((volatile LONG64 *)p, 0); }
static inline void atomic_store64(volatile uint64_t *p, uint64_t v) {
  InterlockedExchange64((volatile LONG64 *)p, (LONG64)v);
}
static inline bool atomic_swap64(volatile uint64_t *p, uint64_t expected, uint64_t v) {
  return (uint64_t)InterlockedCompareExchange64((volatile LONG64 *)p, (LONG64)v, (LONG64)expected) == expected;
}
static inline void *atomic_load_pointer(void *volatile *p) { return InterlockedCompareExchangePointer(p, NULL, NULL); }
static inline void atomic_store_pointer(void *volatile *p, void *v) { InterlockedExchangePointer(p, v); }
#else
static inline uint32_t atomic_load32(volatile uint32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static inline void atomic_store32(volatile uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
static inline uint32_t atomic_add32(volatile uint32_t *p, uint32_t v) {
  return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}
static inline uint64_t atomic_load64(volatile uint64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static inline void atomic_store64(volatile uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
static inline bool atomic_swap64(volatile uint64_t *p, uint64_t expected, uint64_t v) {
  return __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline void *atomic_load_pointer(void *volatile *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static inline void atomic_store_pointer(void *volatile *p, void *v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
#endif

/* Tells the processor that this is a spin loop. */
static inline void port_pause(void) {
#if defined(_MSC_VER) && !defined(__clang__)
  YieldProcessor();
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

#endif
