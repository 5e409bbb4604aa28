/* What a firmware test asks of the board: its files and its console are those of the machine that emulates it. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

void board_print(const char *text);
/* The whole file into `bytes` of memory, or back; 0 if that fails. */
int board_read(const char *path, size_t length, void *to, size_t bytes);
int board_write(const char *path, size_t length, const void *from, size_t bytes);
void board_paint_stack(void);
unsigned board_stack_used(void);
void board_exit(int status);

#endif
