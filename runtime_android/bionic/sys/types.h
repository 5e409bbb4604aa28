#ifndef STERNA_BIONIC_TYPES_H
#define STERNA_BIONIC_TYPES_H
#include <stddef.h>
#include <stdint.h>
typedef long ssize_t;
typedef long off_t; /* 32 bits on 32-bit machines */
typedef long time_t;
typedef int pid_t;
typedef unsigned mode_t;
struct timespec {
  time_t tv_sec;
  long tv_nsec;
};
#endif
