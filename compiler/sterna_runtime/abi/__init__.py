"""The binary interface, said once: versions, alignment, limits, status codes and element types of bundles and runtimes.

`records` has the layouts. Python imports these; `python ci/abi.py` writes them into the C headers (`runtime_c`) and
into `runtime_js/src/abi.js`, and a test compares. docs/bundle.md says what they mean.
"""

from __future__ import annotations

ABI = 1
"""Of the kernels: the version of `sterna_kernel.h`."""

OLDEST_FORMAT = 1
"""Of graph.json, that is read; written where a bundle needs nothing newer."""
FORMAT_WITH_CONTROL = 2
"""So that a runtime that knows no control flow does not run every node once."""
FORMAT_WITH_MEMORIES = 3
"""More than one arena: a runtime has to know each by name."""
FORMAT_WITH_WIDENED = 4
"""Weights that are widened when the bundle is loaded: params.bin is not what kernels read."""
FORMAT_WITH_DEVICES = 5
"""Nodes that run on devices, and copies: a runtime has to know each by its kind."""
FORMAT = FORMAT_WITH_DEVICES
"""The newest, which is read."""

ALIGNMENT = 64
"""Bytes: of the arena and every buffer's offset in it, of scratch, of every block of weights. Kernels load and store by
their elements; a vector that crosses no cache line is what 64 buys."""

KERNEL_NEEDS_BARRIER = 1
"""A flag of a kernel."""

#: Limits that every reader has, by the names of C.
MAX_RANK = 16
MAX_SYMBOLS = 256  # open dimensions of a model
MAX_TERMS = 256  # integers, symbols and operations of an expression
MAX_NESTED = 32  # of JSON, so also of an expression; of control flow
MAX_GRAPH_BYTES = 64 << 20
MAX_NAME_BYTES = 127  # of a model's and of a file's name
#: Of the C runtime alone.
MAX_THREADS = 1024
LABELLED_OUTPUTS = 16
MESSAGE_BYTES = 252
#: Of JavaScript alone: lists of nothing take 35 times their bytes in memory, and a second of time for each 3 MiB.
MAX_GRAPH_BYTES_IN_JAVASCRIPT = 16 << 20

#: (name, value, code of the error, meaning) of what a call of the C runtime, or a kernel, may return.
STATUSES = (
    ("OK", 0, "", "success"),
    ("BAD_ARGUMENT", -1, "E0501", "an argument is NULL, out of range or misaligned"),
    ("RESOURCES", -2, "E0502", "memory or a thread could not be obtained"),
    ("UNREADABLE", -3, "E0503", "a file cannot be opened or read"),
    ("MALFORMED", -4, "E0504", "a file is malformed or contradicts itself"),
    ("DAMAGED", -5, "E0505", "a file's size or hash is not the one written at compile time"),
    ("WRONG_VERSION", -6, "E0506", "the format or ABI version is not one that this runtime reads"),
    ("WRONG_MACHINE", -7, "E0507", "compiled for another processor, pointer width or CPU feature"),
    ("BAD_LIBRARY", -8, "E0508", "the kernel library cannot be opened or does not fit the graph"),
    ("NOT_FOUND", -9, "E0509", "no tensor has that name"),
    ("NOT_AVAILABLE", -10, "E0510", "the tensor's memory does not hold its value"),
    ("KERNEL_FAILED", -11, "E0511", "a kernel reported a failure"),
    ("UNSUPPORTED", -12, "E0512", "this build of the runtime lacks what was asked for"),
)

#: (name, number, bytes of an element in memory) of the element types that graph.json names.
DTYPES = (
    ("float32", 1, 4), ("float64", 2, 8), ("float16", 3, 2), ("bfloat16", 4, 2),
    ("int8", 5, 1), ("int16", 6, 2), ("int32", 7, 4), ("int64", 8, 8),
    ("uint8", 9, 1), ("uint16", 10, 2), ("uint32", 11, 4), ("uint64", 12, 8), ("bool", 13, 1),
    ("float8_e4m3fn", 14, 1), ("float8_e4m3fnuz", 15, 1), ("float8_e5m2", 16, 1), ("float8_e5m2fnuz", 17, 1),
    ("float8_e8m0fnu", 18, 1), ("float4_e2m1fn", 19, 1),
    ("int4", 20, 1), ("uint4", 21, 1), ("int2", 22, 1), ("uint2", 23, 1),
)  # fmt: skip


def status(name: str) -> int:
    """The value of a status."""
    return next(value for known, value, _, _ in STATUSES if known == name)


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """A number of bytes, rounded up."""
    return -(-size // alignment) * alignment
