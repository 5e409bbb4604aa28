#ifndef STERNA_BIONIC_STDIO_H
#define STERNA_BIONIC_STDIO_H
#include <stdarg.h>
#include <stddef.h>
int snprintf(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *text, size_t bytes, const char *format, va_list arguments) __attribute__((format(printf, 3, 0)));
typedef struct sterna_bionic_file FILE; /* opaque */
enum { SEEK_SET = 0, SEEK_END = 2 };
int sscanf(const char *text, const char *format, ...) __attribute__((format(scanf, 2, 3)));
FILE *fopen(const char *path, const char *mode);
size_t fread(void *to, size_t bytes, size_t count, FILE *file);
size_t fwrite(const void *from, size_t bytes, size_t count, FILE *file);
int fseek(FILE *file, long offset, int from);
long ftell(FILE *file);
int fclose(FILE *file);
int remove(const char *path);
int rename(const char *from, const char *to);
#endif
