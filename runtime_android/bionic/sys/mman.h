#ifndef STERNA_BIONIC_MMAN_H
#define STERNA_BIONIC_MMAN_H
#include <sys/types.h>
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x20
#define MAP_FAILED ((void *)-1)
#define MADV_HUGEPAGE 14
void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset);
int munmap(void *address, size_t bytes);
int madvise(void *address, size_t bytes, int advice);
#endif
