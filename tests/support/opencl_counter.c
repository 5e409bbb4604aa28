/* libOpenCL with a counter before each function that runtime_c/devices calls, and a code that it returns in place of calling it.
 * For x86-64: every function jumps to the real one with whatever it was given, unless another file has one of its name. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_api.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define COUNTED(result, name, parameters)                                                 \
  HIDDEN void *real_##name;                                                               \
  HIDDEN uint64_t calls_##name;                                                           \
  HIDDEN int32_t code_##name;                                                             \
  __asm__(".weak cl" #name "\n.type cl" #name ", @function\ncl" #name ":\n"              \
          "  incq calls_" #name "(%rip)\n  movl code_" #name "(%rip), %eax\n"             \
          "  testl %eax, %eax\n  jne 1f\n  jmp *real_" #name "(%rip)\n1: ret\n");
OPENCL_FUNCTIONS(COUNTED)

static const struct {
  const char *name;
  void **real;
  uint64_t *calls;
  int32_t *code;
} table[] = {
#define ROW(result, name, parameters) {"cl" #name, &real_##name, &calls_##name, &code_##name},
    OPENCL_FUNCTIONS(ROW)};

static void *library;

/* A function of the real library. */
HIDDEN void *library_symbol(const char *name) { return dlsym(library, name); }

__attribute__((constructor)) static void find(void) {
  library = dlopen(getenv("COUNTED_OPENCL"), RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library != NULL && i < sizeof table / sizeof *table; i++) *table[i].real = dlsym(library, table[i].name);
}

/* How often a function was called since this was last asked. */
uint64_t counted(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) {
      uint64_t calls = *table[i].calls;
      *table[i].calls = 0;
      return calls;
    }
  return UINT64_MAX;
}

/* From now on a function returns this; 0: what it returns. */
void returns(const char *name, int32_t code) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) *table[i].code = code;
}
