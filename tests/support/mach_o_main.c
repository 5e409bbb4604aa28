/* Runs a linked model on raw input files: program OUT in0.bin ..., and has what Apple's C library does otherwise. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sterna_linked.h"
#include "sterna_metal.h"

const void *LINKED(void);

void apple_bzero(void *memory, size_t bytes) { memset(memory, 0, bytes); }
void apple___bzero(void *memory, size_t bytes) { memset(memory, 0, bytes); }

/* The features of the processor: those in the variable FEATURES, by the names of macOS. */
int apple_sysctlbyname(const char *name, void *value, size_t *bytes, void *new_value, size_t new_bytes) {
  const char *features = getenv("FEATURES");
  (void)bytes, (void)new_value, (void)new_bytes;
  *(int *)value = features != NULL && strstr(features, name) != NULL;
  return 0;
}

#ifdef __aarch64__
/* Apple's variadic arguments all lie on the stack, in words of 8 bytes; a va_list points to the next one. */
__asm__(".text\n.globl apple_snprintf\napple_snprintf:\n  mov x3, sp\n  b apple_vsnprintf\n");

int apple_vsnprintf(char *to, size_t bytes, const char *format, const uint64_t *next) {
  size_t used = 0;
  for (const char *at = format; *at != 0;) {
    char piece[32], made[512];
    size_t length = *at == '%' ? strcspn(at + 1, "diouxXcspfeg%") + 2 : strcspn(at, "%");
    if (length >= sizeof piece && *at == '%') abort();
    if (*at != '%') {
      for (size_t i = 0; i < length; i++, used++)
        if (used + 1 < bytes) to[used] = at[i];
    } else {
      memcpy(piece, at, length);
      piece[length] = 0;
      int stars[2] = {0, 0}, n_stars = 0, wide = strchr(piece, 'l') != NULL || strchr(piece, 'z') != NULL || strchr(piece, 'j') != NULL;
      for (const char *p = piece; *p != 0; p++)
        if (*p == '*') stars[n_stars++] = (int)*next++;
      char kind = piece[length - 1];
#define MAKE(value) (n_stars == 0 ? snprintf(made, sizeof made, piece, value) : n_stars == 1 ? snprintf(made, sizeof made, piece, stars[0], value) : snprintf(made, sizeof made, piece, stars[0], stars[1], value))
      double number;
      if (kind == '%') strcpy(made, "%");
      else if (kind == 's') MAKE((const char *)(uintptr_t)*next++);
      else if (strchr("feg", kind) != NULL) memcpy(&number, next++, 8), MAKE(number);
      else if (wide || kind == 'p') MAKE(*next++);
      else MAKE((unsigned)*next++);
      for (const char *p = made; *p != 0; p++, used++)
        if (used + 1 < bytes) to[used] = *p;
    }
    at += length;
  }
  if (bytes > 0) to[used < bytes ? used : bytes - 1] = 0;
  return (int)used;
}
#endif

/* ---- A device that has memory here and computes nothing, by the kind of Metal's ---- */

typedef struct block {
  struct block *next;
  unsigned char data[];
} block;

static unsigned launched;

static sterna_status open_fake(const sterna_device_module *module, void **device, sterna_error *error) {
  (void)error;
  if (strcmp(module->name, "kernels.metal") != 0 || sterna_hash64(module->text, module->bytes) != module->hash) abort();
  *device = calloc(1, sizeof(block *));
  return STERNA_OK;
}
static void close_fake(void *device) {
  for (block *b = *(block **)device, *next; b != NULL; b = next) {
    next = b->next;
    free(b);
  }
  free(device);
}
static sterna_status allocate_fake(void *device, uint64_t bytes, void **memory, sterna_error *error) {
  (void)error;
  block *b = calloc(1, sizeof *b + (size_t)bytes);
  b->next = *(block **)device;
  *(block **)device = b;
  *memory = b;
  return STERNA_OK;
}
static sterna_status copy_in_fake(void *device, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  (void)device, (void)error;
  memcpy(((block *)to->memory)->data + to->first, from, (size_t)bytes);
  return STERNA_OK;
}
static sterna_status copy_out_fake(void *device, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  (void)device, (void)error;
  memcpy(to, ((block *)from->memory)->data + from->first, (size_t)bytes);
  return STERNA_OK;
}
static sterna_status launch_fake(void *device, const sterna_device_launch *launch, sterna_error *error) {
  (void)device, (void)launch, (void)error;
  launched++;
  return STERNA_OK;
}
static sterna_status wait_fake(void *device, uint64_t *nanoseconds, sterna_error *error) {
  (void)device, (void)error;
  if (nanoseconds != NULL) *nanoseconds = 0;
  return STERNA_OK;
}

/* What the variable DEVICE asks for: Metal, which is not here, or the fake. */
static const sterna_device_api *driver(const char *wanted) {
  static sterna_device_api fake = {sizeof fake, "metal", open_fake, close_fake, allocate_fake, copy_in_fake, copy_out_fake,
                                   launch_fake, wait_fake, NULL, NULL, NULL, NULL, NULL, NULL};
  fake.support = sterna_metal()->support;
  return strcmp(wanted, "metal") == 0 ? sterna_metal() : &fake;
}

int main(int argc, char **argv) {
  sterna_error error;
  sterna_model *model;
  if (sterna_load_linked(NULL, NULL, &model, &error) != STERNA_BAD_ARGUMENT || model != NULL) return 3;
  if (sterna_load("nowhere", NULL, &model, &error) != STERNA_UNREADABLE) return 4;
  printf("%s\n", error.message);
  sterna_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 2;
  const char *wanted = getenv("DEVICE");
  const sterna_device_api *devices[1] = {wanted != NULL ? driver(wanted) : NULL};
  options.devices = devices;
  options.n_devices = wanted != NULL;
  if (sterna_load_linked(LINKED(), &options, &model, &error) != STERNA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  if (wanted != NULL) printf("%s\n", error.status != STERNA_OK ? error.message : "on the device");
  sterna_tensor tensor;
  for (uint32_t n = 0; n < sterna_input_count(model); n++) {
    FILE *file = (int)n + 2 < argc ? fopen(argv[n + 2], "rb") : NULL;
    if (sterna_input_info(model, n, &tensor) != STERNA_OK || file == NULL) return 5;
    if (fread(sterna_input_buffer(model, n), 1, tensor.bytes, file) != tensor.bytes) return 6;
    fclose(file);
  }
  if (sterna_run(model) != STERNA_OK) return 7;
  for (uint32_t n = 0; n < sterna_output_count(model); n++) {
    char path[256];
    snprintf(path, sizeof path, "%s%u.bin", argv[1], (unsigned)n);
    FILE *file = fopen(path, "wb");
    if (sterna_output_info(model, n, &tensor) != STERNA_OK || file == NULL) return 8;
    if (fwrite(sterna_output_buffer(model, n), 1, tensor.bytes, file) != tensor.bytes || fclose(file) != 0) return 9;
  }
  if (wanted != NULL) printf("%u launches\n", launched);
  sterna_unload(model);
  return 0;
}
