/* What a program asks of an emulated board: its files and streams are those of the machine that emulates it. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

void board_print(const char *text);
/* The whole file into `bytes` of memory, or back; 0 if that fails. */
int board_read(const char *path, size_t length, void *to, size_t bytes);
int board_write(const char *path, size_t length, const void *from, size_t bytes);
/* The same from standard input and to standard output; 0 once the other side has ended. */
int board_receive(void *to, size_t bytes);
int board_send(const void *from, size_t bytes);
/* Paints what is below the caller's stack, which begins at `below`; the bytes of it that were written since. */
void board_paint_stack(const uint32_t *below);
uint32_t board_stack_used(void);
/* A clock, which goes on with each instruction where QEMU has -icount; it wraps after some thousand million of them. */
void board_start_clock(void);
uint32_t board_clock(void);
void board_exit(int status);
int main(void);

/* Of one processor each: a call of the emulator; the clock's value; where the stack is now. */
intptr_t board_call(uintptr_t operation, const void *argument);
uint32_t *board_stack_pointer(void);

#endif
