#ifndef STERNA_BIONIC_PTHREAD_H
#define STERNA_BIONIC_PTHREAD_H
#include <sys/types.h>
typedef long pthread_t;
typedef struct pthread_mutex_t {
  int64_t opaque[8]; /* bionic's has 40 bytes, or 4 */
} pthread_mutex_t;
typedef struct pthread_cond_t {
  int64_t opaque[8]; /* 48 bytes, or 4 */
} pthread_cond_t;
int pthread_create(pthread_t *thread, const void *attributes, void *(*run)(void *), void *argument);
int pthread_join(pthread_t thread, void **result);
int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes);
int pthread_mutex_destroy(pthread_mutex_t *mutex);
int pthread_mutex_lock(pthread_mutex_t *mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex);
int pthread_cond_init(pthread_cond_t *condition, const void *attributes);
int pthread_cond_destroy(pthread_cond_t *condition);
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int pthread_cond_signal(pthread_cond_t *condition);
int pthread_cond_broadcast(pthread_cond_t *condition);
#endif
