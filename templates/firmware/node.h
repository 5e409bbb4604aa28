/* Included before a model's source to count its nodes (STERNA_BEFORE_NODE). */
void board_node(unsigned number);
#define STERNA_BEFORE_NODE(number) board_node(number)
