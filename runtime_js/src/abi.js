// Written by ci/abi.py from sterna_runtime/abi. It imports nothing: bundlers then write the numbers in place.

/** Of graph.json, see docs/bundle.md: versions, bytes, and how much of what there may be. */
export const OLDEST_FORMAT = 1, FORMAT = 5, MOST_BYTES = 16777216, MOST_NESTED = 32;
export const MOST_SYMBOLS = 256, MOST_DIMS = 16, MOST_TERMS = 256;

/** Of every buffer: bytes. */
export const ALIGNMENT = 64;

/** Of the kernel ABI: its version, and sizes of its records with pointers of 32 bits. */
export const ABI = 1, CALL_WORDS = 10, KERNEL_WORDS = 5, LIBRARY_BYTES = 24;
