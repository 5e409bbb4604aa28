"""How much memory constants may take while a model is compiled.

A model of a hundred bytes can ask for constants of terabytes: a range, a shape filled with a number, weights packed for
a kernel. Whoever makes an array whose size the model decides asks here first, so that such a model is refused before
memory is asked for. The limit is the caller's (`--max-constant-bytes`), and holds for everything within
`memory_for`: it is a context variable, as it concerns every place that makes an array.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import numpy as np

from sterna.errors import error
from sterna_runtime.advice import Advice, Option

#: Bytes that constants may take together, unless the caller says otherwise.
MOST_CONSTANT_BYTES = 1 << 30
#: One array that a front end makes may have such a part of it: more are made out of it on the way.
_PART = 8

_limit: ContextVar[int] = ContextVar("constants", default=MOST_CONSTANT_BYTES)


@contextmanager
def memory_for(constants: int | None = None) -> Iterator[None]:
    """Within it, constants may take so many bytes; None: as many as before. Having no memory at all is an error.

    Raises:
        SternaError: E0117, memory that is asked for is not there; E0203, that is no size.
    """
    if constants is not None and (isinstance(constants, bool) or not isinstance(constants, int) or constants < 1):
        raise error("E0203", f"constants cannot take {constants!r} bytes", fix="a number of at least 1")
    token = _limit.set(_limit.get() if constants is None else constants)
    try:
        yield
    except MemoryError as problem:
        where = (str(problem),) if str(problem) else ()
        fix = "compile on a machine with more memory, or give smaller sizes"
        raise error("E0117", "there is not enough memory to compile the model", *where, fix=fix) from None
    finally:
        _limit.reset(token)


def constants_fit(size: int) -> bool:
    """Whether constants of so many bytes are within the limit."""
    return size <= _limit.get()


def check_constants(size: int, what: str) -> None:
    """Refuses constants of more bytes than the limit.

    Raises:
        SternaError: E0116.
    """
    if not constants_fit(size):
        title = f"{what} would take {size:,} bytes while the model is compiled; all constants may take {_limit.get():,}"
        fix = Advice("if the model really needs it: ", Option("max_constant_bytes", size))
        raise error("E0116", title, fix=fix)


def check_table(*sizes: int) -> None:
    """Refuses an array of these sizes, of 8 bytes each, as a step on the way to a constant.

    Raises:
        SternaError: E0116.
    """
    check_constants(math.prod(sizes) * 8 * _PART, f"a table of {' x '.join(map(str, sizes))}")


def counting(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """0, 1, ..., count - 1.

    Raises:
        SternaError: E0116.
    """
    check_table(count)
    return np.arange(count)


def forget(array: np.ndarray[Any, Any]) -> None:
    """Gives back the memory that the contents of a mapped file take; they are read again if they are wanted again."""
    base: object = array
    writable = False
    while isinstance(base, (np.ndarray, memoryview)):
        if isinstance(base, np.ndarray):
            writable = writable or base.flags.writeable  # then they may differ from the file's
            base = base.base
        else:
            base = base.obj
    if sys.platform != "win32" and isinstance(base, mmap.mmap) and not writable and array.size:
        first, size = _memory_range(array)
        start = first - np.frombuffer(base, np.uint8).__array_interface__["data"][0]
        page = start // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError, ValueError):
            base.madvise(mmap.MADV_DONTNEED, page, min(start + size, len(base)) - page)


def _memory_range(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The address of the first byte that an array reaches, and how many bytes there are to the last one."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    below = sum(step for step in steps if step < 0)
    address = array.__array_interface__["data"][0] + below
    return address, sum(map(abs, steps)) + array.itemsize


def memory_of(array: np.ndarray[Any, Any]) -> int:
    """The bytes that an array really takes: what repeats itself (a dimension of stride 0) counts once."""
    counted = (size for size, stride in zip(array.shape, array.strides, strict=True) if stride)
    return math.prod(counted) * array.itemsize if array.size else 0


def walked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of which every element is looked at: one that repeats itself may not be larger than the limit.

    Raises:
        SternaError: E0116.
    """
    if memory_of(array) < array.nbytes:
        check_constants(array.nbytes, "a constant that repeats itself")
    return array
