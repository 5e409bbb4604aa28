#ifndef STERNA_BIONIC_TIME_H
#define STERNA_BIONIC_TIME_H
#include <sys/types.h>
#define CLOCK_MONOTONIC 1
int clock_gettime(int clock, struct timespec *now);
#endif
