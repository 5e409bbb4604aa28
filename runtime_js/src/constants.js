// A module of its own, which imports nothing: bundlers then write the numbers where they are used.

/**
 * Of graph.json, see docs/bundle.md. Only the newer formats have control flow. 16 MiB: lists of nothing take 35 times
 * their bytes in memory, and a second of time for each 3 MiB.
 */
export const FORMAT = 3, MOST_BYTES = 16 << 20, MOST_NESTED = 32, MOST_SYMBOLS = 256, MOST_DIMS = 16, MOST_TERMS = 256;

/** Of the kernel ABI: its version, and the words of a call record and of an entry of the library's table. */
export const ABI = 1, RECORD = 10, KERNEL = 5;

/** Bytes. */
export const PAGE = 65536, STACK = 65536;

/** Words of the block through which threads talk; the numbers of tasks of every node stand behind it. */
export const GENERATION = 0, NEXT = 1, ACTIVE = 2, NODE = 3, STATUS = 4, SLEEPING = 5, TASKS = 8;

/** In NEXT, which counts the portions taken from the beginning in its lower half, those from the end in the upper: nothing is left. */
export const CLOSED = 1 << 30;

/** In STATUS: a trap has ended a kernel in a worker. */
export const TRAPPED = 1;
