#ifndef STERNA_BIONIC_STDLIB_H
#define STERNA_BIONIC_STDLIB_H
#include <stddef.h>
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void free(void *memory);
char *getenv(const char *name);
#endif
