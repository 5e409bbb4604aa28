#ifndef STERNA_BIONIC_UNISTD_H
#define STERNA_BIONIC_UNISTD_H
#include <sys/types.h>
int close(int descriptor);
int getpid(void);
long syscall(long number, ...);
#endif
