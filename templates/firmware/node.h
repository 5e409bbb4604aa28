/* Included before a model's source to count its nodes (STERNA_BEFORE_NODE). */
#ifndef __ASSEMBLER__ /* an assembler's file of weights is built with the same words */
void board_node(unsigned number);
#define STERNA_BEFORE_NODE(number) board_node(number)
#endif
