#ifndef STERNA_BIONIC_STDIO_H
#define STERNA_BIONIC_STDIO_H
#include <stdarg.h>
#include <stddef.h>
int snprintf(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *text, size_t bytes, const char *format, va_list arguments) __attribute__((format(printf, 3, 0)));
#endif
