#ifndef STERNA_BIONIC_SCHED_H
#define STERNA_BIONIC_SCHED_H
#include <sys/types.h>
#if defined(__LP64__)
#define CPU_SETSIZE 1024u
#else
#define CPU_SETSIZE 32u
#endif
typedef struct cpu_set_t {
  unsigned long bits[CPU_SETSIZE / (8 * sizeof(long))];
} cpu_set_t;
#define STERNA_CPU_BIT(cpu) (1ul << (cpu) % (8 * sizeof(long)))
#define CPU_SET(cpu, set) \
  ((cpu) < CPU_SETSIZE ? (void)((set)->bits[(cpu) / (8 * sizeof(long))] |= STERNA_CPU_BIT(cpu)) : (void)0)
#define CPU_CLR(cpu, set) \
  ((cpu) < CPU_SETSIZE ? (void)((set)->bits[(cpu) / (8 * sizeof(long))] &= ~STERNA_CPU_BIT(cpu)) : (void)0)
int sched_yield(void);
int sched_getcpu(void);
int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int sched_setaffinity(pid_t process, size_t bytes, const cpu_set_t *set);
#endif
