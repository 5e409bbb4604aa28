#ifndef STERNA_BIONIC_FCNTL_H
#define STERNA_BIONIC_FCNTL_H
#include <sys/types.h>
#define O_RDONLY 0
#define O_NONBLOCK 04000
#define O_CLOEXEC 02000000
int open(const char *path, int flags, ...);
#endif
