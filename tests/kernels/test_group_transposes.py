"""Elements that lie across what is stored come in tiles through shared memory: in the interpreter, in random orders,
against NumPy, and counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.choices import Otherwise
from sterna.ir import dtypes
from sterna.ir.integer import IntLike, as_int, symbol
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


@pytest.mark.parametrize(
    ("shape", "order", "dtype"),
    [
        ((2, 2, 8, 14, 16), (2, 3, 0, 4, 1), "float16"),
        ((4, 14, 2, 16, 2), (2, 4, 0, 1, 3), "float16"),
        ((2, 12, 64, 2), (0, 3, 2, 1), "float32"),
        ((4, 2, 2, 12, 24), (1, 3, 4, 2, 0), "float16"),
    ],
    ids=str,
)
def test_short_axes_are_runs_together(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> None:
    """Pixels that become channels, and the other way round."""
    program = check(shape, order, dtype)
    found = accesses(program)
    read, stored = (found.requested[b] / found.least[b] for b in (program.inputs[0], program.outputs[0]))
    assert read <= 1.1
    assert stored <= 1.1
    assert found.conflicts <= 0.5 * found.shared_accesses


@pytest.mark.parametrize("shape", [(36, 320), (128, 196), (200, 36)], ids=str)
def test_rows_that_are_no_whole_sectors(shape: tuple[int, ...]) -> None:
    program = check(shape, (1, 0), "float16")
    found = accesses(program)
    for buffer in (program.inputs[0], program.outputs[0]):
        assert found.requested[buffer] <= 1.5 * found.least[buffer]


H, W = symbol("h", 1, 512), symbol("w", 1, 384)


@pytest.mark.parametrize(
    ("shape", "order"),
    [((H, W), (1, 0)), ((3, H, W), (1, 2, 0)), ((H, 64), (1, 0)), ((64, H), (1, 0)), ((H, 5, W), (1, 2, 0))],
    ids=str,
)
def test_open_sizes(shape: tuple[IntLike, ...], order: tuple[int, ...]) -> None:
    program, random = made(transposed(shape, order)), np.random.default_rng(3)
    assert is_shared(program)
    for h, w in ((3, 33), (2, 1)):
        sizes = {next(iter(H.symbols())): h, next(iter(W.symbols())): w}
        own = tuple(int(as_int(n).substitute({s: as_int(k) for s, k in sizes.items()})) for n in shape)
        x, b = (random.standard_normal(n).astype(np.float32) for n in (own, own[order[-1]]))
        memory = {e.name: np.full(e.elements, np.nan, np.float32) for e in (*program.inputs, *program.outputs)}
        memory["x"][: x.size], memory["b"][: b.size] = x.reshape(-1), b
        run_threads(program, memory, sizes, np.random.default_rng(h))
        wanted = x.transpose(order) + b
        np.testing.assert_array_equal(memory["y"][: x.size].reshape(wanted.shape), wanted)
        assert np.isnan(memory["y"][x.size :]).all()
    found = accesses(replace(program, dims=tuple((s, n) for n, s in enumerate(sizes))))
    assert found.coalesced >= 0.9 * found.accesses


def test_open_sizes_by_elements() -> None:
    """What is tried where tiles are not proved to be apart."""
    context = Context(opencl_host.opencl_target(groups=True), chooser=Otherwise({"form": "elements"}))
    assert not is_shared(finish(lower(propose(transposed((H, W, 3), (2, 0, 1)), context))))


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
