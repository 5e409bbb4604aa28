/* Vector table and start of a Cortex-M4 with an FPU, semihosting, and the memory functions that compilers call. */
#include "board.h"

extern uint32_t stack_limit[], stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];
int main(void);

static int semihost(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void board_print(const char *text) { (void)semihost(0x04, text); }

int board_read(const char *path, size_t length, void *to, size_t bytes) {
  const uintptr_t open[3] = {(uintptr_t)path, 1, length};
  const int file = semihost(0x01, open);
  const uintptr_t read[3] = {(uintptr_t)file, (uintptr_t)to, bytes};
  return file >= 0 && semihost(0x06, read) == 0;
}

int board_write(const char *path, size_t length, const void *from, size_t bytes) {
  const uintptr_t open[3] = {(uintptr_t)path, 5, length};
  const int file = semihost(0x01, open);
  const uintptr_t write[3] = {(uintptr_t)file, (uintptr_t)from, bytes};
  const uintptr_t close[1] = {(uintptr_t)file};
  return file >= 0 && semihost(0x05, write) == 0 && semihost(0x02, close) == 0;
}

void board_exit(int status) {
  const uint32_t argument[2] = {0x20026, (uint32_t)status};
  (void)semihost(0x20, argument);
  for (;;) {
  }
}

void board_paint_stack(void) {
  uint32_t *here;
  __asm__ volatile("mov %0, sp" : "=r"(here));
  for (uint32_t *p = stack_limit; p < here - 16; p++) *p = 0xA5A5A5A5u;
}

unsigned board_stack_used(void) {
  const uint32_t *p = stack_limit;
  while (p < stack_top && *p == 0xA5A5A5A5u) p++;
  return (unsigned)((uintptr_t)stack_top - (uintptr_t)p);
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  volatile unsigned char *d = to;
  const unsigned char *s = from;
  for (size_t i = 0; i < bytes; i++) d[i] = s[i];
  return to;
}

void *memset(void *to, int value, size_t bytes) {
  volatile unsigned char *d = to;
  for (size_t i = 0; i < bytes; i++) d[i] = (unsigned char)value;
  return to;
}

static void fault(void) {
  board_print("fault\n");
  board_exit(99);
}

void reset(void) {
  *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: the FPU is off until it is asked for */
  __asm__ volatile("dsb\nisb");
  for (uint32_t *s = data_load, *d = data_start; d < data_end;) *d++ = *s++;
  for (uint32_t *d = bss_start; d < bss_end;) *d++ = 0;
  board_exit(main());
}

typedef void (*vector)(void);
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    (vector)(uintptr_t)stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault,
};
