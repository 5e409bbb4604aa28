// A module of its own, which imports nothing: bundlers then write the numbers where they are used.

/** Bytes. */
export const PAGE = 65536, STACK = 65536;

/** Words of the block through which threads talk; the numbers of tasks of every node stand behind it. */
export const GENERATION = 0, NEXT = 1, ACTIVE = 2, NODE = 3, STATUS = 4, SLEEPING = 5, TASKS = 8;

/** In NEXT, which counts the portions taken from the beginning in its lower half, those from the end in the upper: nothing is left. */
export const CLOSED = 1 << 30;

/** In STATUS: a trap has ended a kernel in a worker. */
export const TRAPPED = 1;
