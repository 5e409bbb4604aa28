"""Wide accesses in tensors of open sizes, where the last dimensions are known: strides are multiples of these, and so
neighbours lie at multiples of their bytes. In the interpreter, in random orders, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.ir.integer import symbol
from sterna.loops import program as P
from sterna.loops.wide import Widths
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.open_kernels import computed, program_of
from support.thread_programs import WIDE

BATCH, LENGTH, SIXTEEN = symbol("batch", 0, 4), symbol("length", 0, 20), Widths(16)


def made(kernel: Kernel) -> P.Function:
    return program_of(kernel, Threads(access_bytes=WIDE.access_bytes))


def widest(program: P.Function, name: str) -> int:
    """Bytes of the widest access to a buffer of the device's memory."""
    found = [0]
    for s in P.walk(program.body):
        for access in (*P.own_loads(s), *([s] if isinstance(s, P.Store) else [])):
            buffer = access.tensor if isinstance(access, E.Load) else access.buffer
            assert isinstance(buffer, P.Buffer)
            if buffer.name == name:
                found.append(SIXTEEN.at_once(access) * dtypes.size(buffer.dtype))
    return max(found)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 4), st.integers(0, 20), st.integers(1, 40), st.sampled_from(["float32", "float16", "int8"]))
@example(4, 20, 16, "float32")
@example(1, 1, 12, "float16")
def test_elements(batch: int, length: int, columns: int, dtype: str) -> None:
    """Rows of known sizes, of which nobody knows how many there are."""
    # Of few elements threads have fewer each.
    x, b = placeholder("x", (symbol("batch", 0, 512), LENGTH, columns), dtype), placeholder("b", (columns,), dtype)
    y = compute("y", x.shape, lambda n, i, j: x[n, i, j] * b[j])
    program, random = made(Kernel("scaled", (x, b), (), (y,))), np.random.default_rng(columns)
    u, v = (random.integers(-5, 6, shape).astype("float32") for shape in ((batch, length, columns), (columns,)))
    if dtype != "int8":
        found = computed(program, {"batch": batch, "length": length}, u.shape, x=u.astype(dtype), b=v.astype(dtype))
        np.testing.assert_array_equal(found, u * v)
    size = dtypes.size(dtype)
    most = max(n for n in (1, 2, 4, 8) if columns % n == 0 and n * size <= 16)
    assert widest(program, "x") == widest(program, "y") == most * size


@pytest.mark.parametrize(("batch", "length"), [(0, 3), (1, 1), (3, 7), (4, 20)])
def test_heads_apart(batch: int, length: int) -> None:
    """A transpose of open dimensions around heads of a known size, as attention has it."""
    x = placeholder("x", (BATCH, LENGTH, 3, 16))
    y = compute("y", (BATCH, 3, LENGTH, 16), lambda n, h, i, d: x[n, i, h, d])
    program = made(Kernel("heads", (x,), (), (y,)))
    u = np.random.default_rng(1).standard_normal((batch, length, 3, 16)).astype(np.float32)
    found = computed(program, {"batch": batch, "length": length}, (batch, 3, length, 16), x=u)
    np.testing.assert_array_equal(found, u.transpose(0, 2, 1, 3))
    assert widest(program, "x") == widest(program, "y") == 16


def test_an_open_size_that_is_innermost_is_read_one_by_one() -> None:
    """The second row may begin at any element."""
    x = placeholder("x", (BATCH, LENGTH))
    program = made(Kernel("twice", (x,), (), (compute("y", x.shape, lambda n, i: x[n, i] + x[n, i]),)))
    assert widest(program, "x") == widest(program, "y") == 4


@pytest.mark.parametrize(("depth", "columns"), [(16, 64), (18, 64), (16, 63)])
def test_operands_of_products(depth: int, columns: int) -> None:
    """Of open rows, on their way to shared memory, and their results; tiles reach beyond the last row."""
    x, w, k = placeholder("x", (BATCH, LENGTH, depth)), placeholder("w", (depth, columns)), reduce_axis("k", depth)
    y = compute("y", (BATCH, LENGTH, columns), lambda n, i, j: total(x[n, i, k.var] * w[k.var, j], k))
    program, random = made(Kernel("dense", (x, w), (), (y,))), np.random.default_rng(depth)
    assert widest(program, "x") == (16 if depth % 4 == 0 else 8)
    assert widest(program, "w") == (16 if columns % 4 == 0 else 4)
    assert widest(program, "y") == (16 if columns % 4 == 0 else 4)
    for batch, length in ((0, 5), (1, 1), (3, 19)):
        a, b = (random.standard_normal(n).astype(np.float32) for n in ((batch, length, depth), (depth, columns)))
        sizes = {"batch": batch, "length": length}
        np.testing.assert_allclose(computed(program, sizes, (batch, length, columns), x=a, w=b), a @ b, 1e-4, 1e-4)
