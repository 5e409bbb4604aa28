"""Elements that lie across what is stored come in tiles through shared memory: in the interpreter, in random orders,
against NumPy, and counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder
from support import opencl_host
from support.small_kernels import transposed

DTYPES = ["float32", "float16", "int8", "int64"]


def made(kernel: Kernel) -> P.Function:
    return finish(lower(propose(kernel, Context(opencl_host.opencl_target(groups=True)))))


def is_shared(program: P.Function) -> bool:
    return any(isinstance(s, P.Barrier) for s in P.walk(program.body))


def check(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> P.Function:
    program, random = made(transposed(shape, order, dtype)), np.random.default_rng(1)
    x, b = (random.integers(-9, 10, n).astype(dtype) for n in (shape, shape[order[-1]]))
    memory = {"x": x.reshape(-1).copy(), "b": b.copy(), "y": np.zeros(x.size, dtypes.to_numpy(dtype))}
    run_threads(program, memory, order=np.random.default_rng(2))
    wanted = x.transpose(order) + b
    np.testing.assert_array_equal(memory["y"].reshape(wanted.shape), wanted)
    return program


@settings(max_examples=14, deadline=None, derandomize=True, database=None)
@given(st.data(), st.sampled_from(DTYPES))
def test_every_order(data: st.DataObject, dtype: str) -> None:
    shape = data.draw(st.sampled_from([(5, 70), (33, 40), (3, 7, 40), (2, 37, 3), (2, 3, 5, 40), (1, 9, 1, 31)]))
    order = data.draw(st.permutations(range(len(shape))))
    check(shape, tuple(order), dtype)


@pytest.mark.parametrize("shape", [(64, 96), (3, 2048), (2048, 3), (31, 65), (500, 7)])
def test_both_sides_lie_side_by_side(shape: tuple[int, int]) -> None:
    program = check(shape, (1, 0), "float32")
    assert is_shared(program)
    found = accesses(program)
    assert found.coalesced >= 0.9 * found.accesses
    assert found.conflicts <= 0.15 * found.shared_accesses


@pytest.mark.parametrize(("shape", "order"), [((8, 64, 32), (1, 0, 2)), ((4, 6), (1, 0)), ((40, 50), (0, 1))])
def test_what_needs_none(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Rows that stay rows, and what is small."""
    assert not is_shared(check(shape, order, "float32"))


def test_what_is_read_twice_or_elsewhere_is_not_staged() -> None:
    x = placeholder("x", (64, 64))
    twice = compute("y", (64, 64), lambda i, j: x[j, i] + x[i, j])
    turned = compute("y", (64, 64), lambda i, j: x[j, 63 - i])
    selected = compute("y", (64, 64), lambda i, j: E.maximum(x[j, 3], 0.0))
    for y in (twice, turned, selected):
        assert not is_shared(made(Kernel("other", (x,), (), (y,))))
