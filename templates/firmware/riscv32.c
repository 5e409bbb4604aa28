/* Start and clock of a 32-bit RISC-V, in machine mode. */
#include "board.h"

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[];

/* The three instructions by which QEMU knows a call of its own must be as long as here, and within one page. */
__asm__(
    ".text\n.balign 16\n.global board_trap\nboard_trap:\n"
    ".option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\nret\n.option pop\n");
intptr_t board_trap(uintptr_t operation, const void *argument);

intptr_t board_call(uintptr_t operation, const void *argument) { return board_trap(operation, argument); }

void board_exit(int status) {
  const uint32_t argument[2] = {0x20026, (uint32_t)status};
  (void)board_trap(0x20, argument);
  for (;;) {
  }
}

/* Naked: no variable of its own moves the stack. */
__attribute__((naked)) uint32_t *board_stack_pointer(void) { __asm__ volatile("mv a0, sp\nret"); }

void board_start_clock(void) {}

uint32_t board_clock(void) {
  uint32_t now;
  __asm__ volatile("csrr %0, 0xB00" : "=r"(now)); /* mcycle */
  return now;
}

void board_fault(void);
void board_fault(void) {
  board_print("fault\n");
  board_exit(99);
}

void board_started(void);
void board_started(void) {
  for (uint32_t *s = data_load, *d = data_start; d < data_end;) *d++ = *s++;
  for (uint32_t *d = bss_start; d < bss_end;) *d++ = 0;
  board_exit(main());
}

__asm__(
    ".section .vectors, \"ax\"\n.global reset\nreset:\n"
    "la sp, stack_top\nla t0, trap\ncsrw mtvec, t0\n"
    "li t0, 0x2000\ncsrs mstatus, t0\n" /* the FPU is off until it is asked for */
    "j board_started\n.balign 4\ntrap:\nla sp, stack_top\nj board_fault\n");
