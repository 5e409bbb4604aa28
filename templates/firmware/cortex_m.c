/* Vector table, start and clock of a Cortex-M with or without FPU. BOARD_TIMER: where a CMSDK timer lies; BOARD_SSE: the
 * board has the counter of an SSE-300. */
#include "board.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define SCB_CCR WORD(0xE000ED14u)
#define SCB_CPACR WORD(0xE000ED88u)

extern uint32_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];

intptr_t board_call(uintptr_t operation, const void *argument) {
  register uintptr_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return (intptr_t)r0;
}

void board_exit(int status) {
  const uint32_t argument[2] = {0x20026, (uint32_t)status};
  (void)board_call(0x20, argument);
  for (;;) {
  }
}

/* Naked: no variable of its own moves the stack. */
__attribute__((naked)) uint32_t *board_stack_pointer(void) { __asm__ volatile("mov r0, sp\nbx lr"); }

/* The clock is a timer of the board: SysTick has 24 bits, and its interrupts would stand on the stack that is measured. */
#ifdef BOARD_SSE
void board_start_clock(void) { WORD(0x58100000u) = 1; }

uint32_t board_clock(void) { return WORD(0x58000000u); }
#else
void board_start_clock(void) {
  WORD(BOARD_TIMER + 8u) = 0xFFFFFFFFu;
  WORD(BOARD_TIMER + 4u) = 0xFFFFFFFFu;
  WORD(BOARD_TIMER) = 1;
}

uint32_t board_clock(void) { return 0xFFFFFFFFu - WORD(BOARD_TIMER + 4u); }
#endif

static void fault(void) {
  board_print("fault\n");
  board_exit(99);
}

void reset(void);
void reset(void) {
  SCB_CPACR |= 0xFu << 20; /* the FPU is off until it is asked for */
  __asm__ volatile("dsb\nisb");
#if defined(__ARM_ARCH) && __ARM_ARCH < 7
  SCB_CCR |= 1u << 3; /* a larger core stands in for a Cortex-M0: as there, no address may be unaligned */
#elif defined(__ARM_FEATURE_MVE)
  SCB_CCR |= 1u << 19; /* loops without branches */
#endif
  for (uint32_t *s = data_load, *d = data_start; d < data_end;) *d++ = *s++;
  for (uint32_t *d = bss_start; d < bss_end;) *d++ = 0;
  board_exit(main());
}

typedef void (*vector)(void);
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    (vector)(uintptr_t)stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault,
};
