#ifndef STERNA_BIONIC_STRING_H
#define STERNA_BIONIC_STRING_H
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t bytes);
char *strchr(const char *text, int c);
char *strcpy(char *to, const char *from);
size_t strlen(const char *text);
size_t strspn(const char *text, const char *accept);
char *strpbrk(const char *text, const char *accept);
size_t strcspn(const char *text, const char *reject);
char *strncat(char *to, const char *from, size_t bytes);
char *strstr(const char *text, const char *part);
char *strerror(int number);
#endif
