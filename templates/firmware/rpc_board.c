/* The program of an emulated board that answers on its first serial line. BOARD_UART: where a CMSDK UART lies. QEMU gives
 * every instruction BOARD_TICKS / BOARD_INSTRUCTIONS ticks of the board's clock. */
#include "board.h"
#include "rpc.h"

#define WORD(offset) (*(volatile uint32_t *)(uintptr_t)(BOARD_UART + (offset)))
enum { FULL = 1, READY = 2, WAITS = 1 << 16 };

int rpc_board_get(int waits) {
  for (uint32_t turns = 0; waits || turns < WAITS; turns++)
    if ((WORD(4) & READY) != 0) return (int)(WORD(0) & 0xFFu);
  return -1;
}

void rpc_board_put(uint8_t byte) {
  while ((WORD(4) & FULL) != 0) continue;
  WORD(0) = byte;
}

uint64_t rpc_board_clock(void) {
  static uint64_t sum;
  static uint32_t before;
  const uint32_t now = board_clock();
  sum += now - before;
  before = now;
  return sum * BOARD_INSTRUCTIONS / BOARD_TICKS;
}

int rpc_board_counts(void) { return 1; }

int main(void) {
  board_start_clock();
  WORD(16) = 16; /* the divisor of the baud rate, of which QEMU makes nothing */
  WORD(8) = 3;   /* sends and receives */
  rpc_model.reset();
  rpc_serve();
}
