/* Files, streams, the stack and the memory functions that compilers call, on any emulated board. */
#include "board.h"

extern uint32_t stack_limit[], stack_top[];

static intptr_t opened(const char *path, size_t length, uintptr_t mode) {
  const uintptr_t open[3] = {(uintptr_t)path, mode, length};
  return board_call(0x01, open);
}

void board_print(const char *text) { (void)board_call(0x04, text); }

/* All of it, in as many pieces as the stream gives; 0 at its end. */
static int moved(uintptr_t operation, intptr_t file, uintptr_t at, size_t bytes) {
  while (bytes > 0) {
    const uintptr_t some[3] = {(uintptr_t)file, at, bytes};
    const intptr_t left = board_call(operation, some);
    if (left < 0 || (size_t)left >= bytes) return 0;
    at += bytes - (size_t)left;
    bytes = (size_t)left;
  }
  return 1;
}

int board_read(const char *path, size_t length, void *to, size_t bytes) {
  const intptr_t file = opened(path, length, 1);
  return file >= 0 && moved(0x06, file, (uintptr_t)to, bytes);
}

int board_write(const char *path, size_t length, const void *from, size_t bytes) {
  const intptr_t file = opened(path, length, 5);
  const uintptr_t close[1] = {(uintptr_t)file};
  return file >= 0 && moved(0x05, file, (uintptr_t)from, bytes) && board_call(0x02, close) == 0;
}

int board_receive(void *to, size_t bytes) {
  static intptr_t file = -1;
  if (file < 0) file = opened(":tt", 3, 0);
  return file >= 0 && moved(0x06, file, (uintptr_t)to, bytes);
}

int board_send(const void *from, size_t bytes) {
  static intptr_t file = -1;
  if (file < 0) file = opened(":tt", 3, 4);
  return file >= 0 && moved(0x05, file, (uintptr_t)from, bytes);
}

static const uint32_t *painted_below;

/* What lies between, where this function has its own variables, counts as used. */
void board_paint_stack(const uint32_t *below) {
  painted_below = below;
  const uint32_t *own = board_stack_pointer();
  for (uint32_t *p = stack_limit; p < own; p++) *p = 0xA5A5A5A5u;
}

uint32_t board_stack_used(void) {
  const uint32_t *p = stack_limit;
  while (p < painted_below && *p == 0xA5A5A5A5u) p++;
  return (uint32_t)((uintptr_t)painted_below - (uintptr_t)p);
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  volatile unsigned char *d = to;
  const unsigned char *s = from;
  for (size_t i = 0; i < bytes; i++) d[i] = s[i];
  return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
  volatile unsigned char *d = to;
  const volatile unsigned char *s = from;
  if ((uintptr_t)to <= (uintptr_t)from) {
    for (size_t i = 0; i < bytes; i++) d[i] = s[i];
  } else {
    for (size_t i = bytes; i > 0; i--) d[i - 1] = s[i - 1];
  }
  return to;
}

void *memset(void *to, int value, size_t bytes) {
  volatile unsigned char *d = to;
  for (size_t i = 0; i < bytes; i++) d[i] = (unsigned char)value;
  return to;
}
