"""Products whose rows are of an open size, in tiles through shared memory: the last tile overhangs. In the interpreter,
in random orders, against NumPy; tasks that would write the same elements are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import Int, Symbol, as_int, of, symbol
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.group_tiles import FEW_ROWS
from sterna.schedule.strategies.groups import propose
from sterna.targets.target import Threads
from sterna.te.layout import Layout
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.open_kernels import computed, program_of
from support.thread_programs import WIDE

BATCH = symbol("batch", 1, 64)


def dense(each: int, columns: int, depth: int, batch: Int = BATCH) -> Kernel:
    """x w + b of each * batch rows."""
    rows = batch * each
    x, w, b = placeholder("x", (rows, depth)), placeholder("w", (depth, columns)), placeholder("b", (columns,))
    k = reduce_axis("k", depth)
    sums = compute("sums", (rows, columns), lambda i, j: total(x[i, k.var] * w[k.var, j], k))
    return Kernel("dense", (x, w, b), (), (compute("y", (rows, columns), lambda i, j: sums[i, j] + b[j]),))


def batched(length: int, columns: int, depth: int) -> Kernel:
    """x w of a batch, each with its own w."""
    x, w = placeholder("x", (BATCH, length, depth)), placeholder("w", (BATCH, depth, columns))
    k = reduce_axis("k", depth)
    y = compute("y", (BATCH, length, columns), lambda n, i, j: total(x[n, i, k.var] * w[n, k.var, j], k))
    return Kernel("batched", (x, w), (), (y,))


def made(kernel: Kernel) -> P.Function:
    return program_of(kernel, Threads(access_bytes=WIDE.access_bytes))


@pytest.mark.parametrize("most", [7, 63, 64, 65, 200])
def test_rows_of_which_there_may_be_none(most: int) -> None:
    """There is a schedule for any bound, and right for none, one and all rows."""
    rows, depth, columns = symbol("rows", 0, most), 8, 64
    x, w = placeholder("x", (rows, depth)), placeholder("w", (depth, columns))
    k = reduce_axis("k", depth)
    y = compute("y", (rows, columns), lambda i, j: total(x[i, k.var] * w[k.var, j], k))
    program, random = made(Kernel("dense", (x, w), (), (y,))), np.random.default_rng(2)
    verify_threads(program)
    assert in_tiles(program) == (most >= FEW_ROWS)
    (dim,) = (a for a in rows.symbols() if isinstance(a, Symbol))
    b = random.standard_normal((depth, columns)).astype(np.float32)
    for count in (0, 1, most):
        a = random.standard_normal((count, depth)).astype(np.float32)
        memory = {
            "x": np.zeros(most * depth, np.float32),
            "w": b.reshape(-1),
            "y": np.zeros(most * columns, np.float32),
        }
        memory["x"][: a.size] = a.reshape(-1)
        run_threads(program, memory, {dim: count}, order=np.random.default_rng(3))
        np.testing.assert_allclose(memory["y"][: count * columns].reshape(count, columns), a @ b, 1e-4, 1e-4)
        assert not memory["y"][count * columns :].any()


def in_tiles(program: P.Function) -> bool:
    return any(isinstance(s, P.Barrier) for s in P.walk(program.body))


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(st.sampled_from([8, 33, 64, 70]), st.sampled_from([9, 64, 70]), st.booleans())
@example(33, 70, True)
def test_tiles_of_which_there_are_none_or_one(most: int, columns: int, open_columns: bool) -> None:
    """Of a batch that may be empty, too, and of columns of which there may be none."""
    batch, rows, depth = symbol("batch", 0, 3), symbol("rows", 0, most), 8
    width = symbol("columns", 0, columns) if open_columns else as_int(columns)
    x, w = placeholder("x", (batch, rows, depth)), placeholder("w", (batch, depth, width))
    k = reduce_axis("k", depth)
    y = compute("y", (batch, rows, width), lambda n, i, j: total(x[n, i, k.var] * w[n, k.var, j], k))
    program, random = made(Kernel("dense", (x, w), (), (y,))), np.random.default_rng(most)
    assert in_tiles(program)
    for images, height, wide in ((3, most, columns), (2, 1, columns), (1, 0, columns), (0, 5, columns), (2, most, 0)):
        across = wide if open_columns else columns
        a, b = (random.standard_normal((images, *n)).astype(np.float32) for n in ((height, depth), (depth, across)))
        sizes = {"batch": images, "rows": height, "columns": across}
        np.testing.assert_allclose(computed(program, sizes, (images, height, across), x=a, w=b), a @ b, 1e-4, 1e-4)


@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(2, 140), st.integers(1, 17))
def test_products_of_open_rows(batch: int, each: int, columns: int, depth: int) -> None:
    program, random = made(dense(each, columns, depth)), np.random.default_rng(1)
    assert in_tiles(program)
    x, w, b = (
        random.standard_normal(n).astype(np.float32) for n in ((batch * each, depth), (depth, columns), (columns,))
    )
    found = computed(program, {"batch": batch}, (batch * each, columns), x=x, w=w, b=b)
    np.testing.assert_allclose(found, x @ w + b, 1e-4, 1e-4)


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(65, 140))
def test_fewer_rows_than_a_tile_has(most: int, each: int, columns: int) -> None:
    """One row of tasks, whose number does not depend on sizes: its tiles overhang the tensor itself."""
    program, random = made(dense(each, columns, 8, symbol("batch", 1, most))), np.random.default_rng(1)
    x, w, b = (random.standard_normal(n).astype(np.float32) for n in ((most * each, 8), (8, columns), (columns,)))
    found = computed(program, {"batch": most}, (most * each, columns), x=x, w=w, b=b)
    np.testing.assert_allclose(found, x @ w + b, 1e-4, 1e-4)


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 3), st.integers(8, 20), st.integers(2, 70), st.integers(1, 17))
def test_open_batches(batch: int, length: int, columns: int, depth: int) -> None:
    program, random = made(batched(length, columns, depth)), np.random.default_rng(1)
    x, w = (random.standard_normal(n).astype(np.float32) for n in ((batch, length, depth), (batch, depth, columns)))
    found = computed(program, {"batch": batch}, (batch, length, columns), x=x, w=w)
    np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)


@pytest.mark.parametrize("columns", [96, 128, 192])
def test_tasks_that_meet_are_refused(columns: int) -> None:
    """Columns of tiles that lie 63 apart, where each has 64."""
    program = made(dense(17, columns, 8))
    block = next(s.symbol for s in P.walk(program.body) if isinstance(s, P.LetIndex) and "y_j_o" in str(s.symbol))

    def moved(stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.Store) and stmt.buffer.name == "y":
            return replace(stmt, index=stmt.index - of(block))
        return P.map_children(stmt, moved)

    assert verify_threads(program) is program
    with pytest.raises(SternaError, match="two tasks touch the same element of y"):
        verify_threads(replace(program, body=moved(program.body)))


@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 2), st.sampled_from([1, 7, 65]), st.integers(1, 9))
def test_sequences_of_an_open_batch(batch: int, length: int, depth: int) -> None:
    """x w of rows of which two sizes are open, and the products of every row of a sequence with every other one."""
    most, heads, columns = symbol("length", 1, 70), 2, 70
    x, w, k = placeholder("x", (BATCH, most, depth)), placeholder("w", (depth, columns)), reduce_axis("k", depth)
    y = compute("y", (BATCH, most, columns), lambda n, i, j: total(x[n, i, k.var] * w[k.var, j], k))
    rows = Kernel("rows", (x, w), (), (y,))
    q, t = placeholder("x", (BATCH, heads, most, depth)), placeholder("w", (BATCH, heads, depth, most))
    y = compute("y", (BATCH, heads, most, most), lambda n, h, i, j: total(q[n, h, i, k.var] * t[n, h, k.var, j], k))
    scores, random = Kernel("scores", (q, t), (), (y,)), np.random.default_rng(4)
    sizes = {"batch": batch, "length": length}
    for kernel, left, right in (
        (rows, (batch, length, depth), (depth, columns)),
        (scores, (batch, heads, length, depth), (batch, heads, depth, length)),
    ):
        program = made(kernel)
        assert in_tiles(program)
        a, b = (random.standard_normal(n).astype(np.float32) for n in (left, right))
        expected = a @ b
        found = computed(program, sizes, expected.shape, x=a, w=b)
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


def test_rows_of_a_sequence_that_meet_are_refused() -> None:
    """Rows of scores that are one element longer than the distance of two."""
    most, depth = symbol("length", 1, 70), 8
    q, t, k = placeholder("x", (BATCH, most, depth)), placeholder("w", (BATCH, depth, most)), reduce_axis("k", depth)
    y = compute("y", (BATCH, most, most), lambda n, i, j: total(q[n, i, k.var] * t[n, k.var, j], k))
    program = made(Kernel("scores", (q, t), (), (y,)))

    def longer(stmt: P.Stmt) -> P.Stmt:
        columns = isinstance(stmt, P.If) and any("y_j" in str(s) or "y_i2" in str(s) for s in stmt.index.symbols())
        if columns and isinstance(stmt, P.If) and str(stmt.limit) == "length":
            return P.If(stmt.index, stmt.limit + 1, stmt.then, stmt.otherwise)
        return P.map_children(stmt, longer)

    with pytest.raises(SternaError, match="it cannot be told which elements of y threads touch"):
        verify_threads(replace(program, body=longer(program.body)))


@pytest.mark.parametrize(("row", "image", "apart"), [(33, 373, True), (32, 373, False), (33, 362, False)])
def test_elements_of_images_in_larger_ones(row: int, image: int, apart: bool) -> None:
    """An open batch of images of 11 rows of 33 elements, channels first, in storage whose rows lie so far apart."""
    x = placeholder("x", (BATCH, 3, 11, 11))
    y = compute("y", (BATCH, 11, 11, 3), lambda n, i, j, c: x[n, c, i, j])
    strides = tuple(as_int(n) for n in (image, row, 3, 1))
    layout = Layout(strides, as_int(7), BATCH * 373 + 7)
    context = Context(opencl_host.opencl_target(groups=True), strides={"y": strides})
    schedule = propose(Kernel("moved", (x,), (), (y,)), context)
    if apart:
        finish(lower(schedule, {"y": layout}))
        return
    with pytest.raises(SternaError, match="it cannot be told which elements of y threads touch"):
        finish(lower(schedule, {"y": layout}))


@pytest.mark.parametrize(("columns", "height", "width"), [(24, 5, 11), (72, 3, 18), (116, 1, 1)])
def test_images_of_open_sizes(columns: int, height: int, width: int) -> None:
    """Products of all pixels of an image: a tile has several of its rows, which lie an open step apart."""
    h, w, depth, random = symbol("h", 1, 40), symbol("w", 1, 30), 8, np.random.default_rng(5)
    x, c, k = placeholder("x", (h, w, depth)), placeholder("w", (depth, columns)), reduce_axis("k", depth)
    y = compute("y", (h, w, columns), lambda i, j, o: total(x[i, j, k.var] * c[k.var, o], k))
    program = made(Kernel("pixels", (x, c), (), (y,)))
    a, b = (random.standard_normal(n).astype(np.float32) for n in ((height, width, depth), (depth, columns)))
    found = computed(program, {"h": height, "w": width}, (height, width, columns), x=a, w=b)
    np.testing.assert_allclose(found, a @ b, 1e-4, 1e-4)


def test_rows_of_images_in_larger_ones() -> None:
    """An image of open sizes, channels first, in storage with a border of one pixel around it."""
    h, w = symbol("h", 1, 40), symbol("w", 1, 30)
    x = placeholder("x", (3, h, w))
    kernel = Kernel("moved", (x,), (), (compute("y", (h, w, 3), lambda i, j, c: x[c, i, j]),))
    for row, apart in ((w + 2, True), (w - 1, False)):
        layout = Layout((row * 3, as_int(3), as_int(1)), (w + 3) * 3, (h + 2) * (w + 2) * 3)
        context = Context(opencl_host.opencl_target(groups=True), strides={"y": layout.strides})
        program = lower(propose(kernel, context), {"y": layout})
        if apart:
            finish(program)
            continue
        with pytest.raises(SternaError, match="it cannot be told which elements of y threads touch"):
            finish(program)
