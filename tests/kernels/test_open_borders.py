"""Borders of padded images of an open batch that groups of threads fill: each box of a border is some of the tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import as_int, symbol
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.layout import Layout
from sterna.te.tensor import Kernel, compute
from support import opencl_host

MOST = 5
BATCH = symbol("batch", 1, MOST)


def filled(rows: int, columns: int, channels: int, row: int, image: int, threads: int) -> P.Function:
    """The program that fills the first and last row and the first and last column of images, `row` and `image`
    elements apart."""
    zero, within = E.const(0.0, "float32"), rows - 2
    last = (columns - 1) * channels
    boxes = (((BATCH, columns, channels), 0), ((BATCH, columns, channels), (rows - 1) * row))
    boxes += (((BATCH, within, channels), row), ((BATCH, within, channels), row + last))
    outs = tuple(compute(f"s{n}", shape, lambda *_: zero) for n, (shape, _) in enumerate(boxes))
    steps = [(image, channels, 1)] * 2 + [(image, row, 1)] * 2
    layouts = {
        out.name: Layout(tuple(map(as_int, strides)), as_int(origin), BATCH * image + rows * (row + channels))
        for out, strides, (_, origin) in zip(outs, steps, boxes, strict=True)
    }
    target = replace(opencl_host.opencl_target(groups=True), threads=Threads(preferred=threads))
    strides = {name: layout.strides for name, layout in layouts.items()}
    schedule = propose(Kernel("fill_border", (), (), outs), Context(target, strides=strides))
    assert schedule is not None
    return finish(lower(schedule, layouts))


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(st.integers(3, 9), st.integers(2, 5), st.sampled_from([1, 3, 24, 64, 144]), st.sampled_from([32, 128]))
def test_borders_of_an_open_batch(rows: int, columns: int, channels: int, threads: int) -> None:
    row = columns * channels
    program = filled(rows, columns, channels, row, rows * row, threads)
    assert program.has_threads
    batch = 1 + (rows + columns) % MOST
    memory = np.full(program.outputs[0].elements, np.nan, np.float32)
    sizes = {next(iter(BATCH.symbols())): batch}
    run_threads(program, {b.name: memory for b in program.outputs}, sizes, np.random.default_rng(batch))
    expected = np.full((MOST, rows, columns, channels), np.nan, np.float32)
    expected[:batch, [0, -1]] = expected[:batch, :, [0, -1]] = 0
    np.testing.assert_array_equal(memory[: expected.size], expected.reshape(-1))
    assert np.isnan(memory[expected.size :]).all()


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(4, 30),
    st.sampled_from([(2, 1), (5, 1), (3, 3), (2, 64), (3, 144)]),
    st.sampled_from([64, 128]),
    st.floats(0, 1),
    st.booleans(),
)
def test_borders_that_meet_are_refused(
    rows: int, sides: tuple[int, int], threads: int, share: float, of_rows: bool
) -> None:
    """Rows, or images, that begin before the one before them ends."""
    columns, channels = sides
    row, image = columns * channels, rows * columns * channels
    if of_rows:
        row = max(1, int(share * channels))
    else:
        image = max(1, int(share * (rows - 2) * row))
    n, y, x, c = np.ogrid[:MOST, : rows - 2, :columns, :channels]
    boxes = (n * image + y * 0 + x * channels + c)[:, 0], (n * image + y * row + x * 0 + c)[:, :, 0]
    if all(np.unique(box).size == box.size for box in boxes):
        return
    with pytest.raises(SternaError, match="touch"):
        filled(rows, columns, channels, row, image, threads)


def test_a_box_that_two_tasks_reach_is_refused() -> None:
    """Each box is of one task, as the batch is small; the condition of the third lets another one in."""
    program = filled(10, 10, 1, 10, 100, 64)
    assert verify_threads(program) is program

    def wider(s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.If) and isinstance(s.otherwise, P.For) and s.limit.is_const:
            return P.If(s.index, s.limit + 1, s.then, s.otherwise)
        return P.map_children(s, wider)

    spoiled = replace(program, body=wider(program.body), n_tasks=program.n_tasks + 1)
    with pytest.raises(SternaError, match="two tasks touch the same element"):
        verify_threads(spoiled)


@pytest.mark.parametrize("channels", [16, 64])
def test_threads_of_boxes_that_differ(channels: int) -> None:
    """Images of an open batch, height and width: threads have several channels each, and there are more of them along
    a row than along a column."""
    height, width = symbol("height", 1, 10), symbol("width", 1, 25600 // channels)
    row = (width + 2) * channels
    image = row * (height + 2)
    boxes = (
        ((BATCH, width + 2, channels), (image, as_int(channels), as_int(1)), as_int(0)),
        ((BATCH, width + 2, channels), (image, as_int(channels), as_int(1)), image - row),
        ((BATCH, height, channels), (image, row, as_int(1)), row),
        ((BATCH, height, channels), (image, row, as_int(1)), row * 2 - channels),
    )
    outs = tuple(compute(f"s{n}", shape, lambda *_: E.const(0.0, "float16")) for n, (shape, *_) in enumerate(boxes))
    layouts = {
        out.name: Layout(strides, origin, BATCH * image) for out, (_, strides, origin) in zip(outs, boxes, strict=True)
    }
    target = replace(load_target("cuda-sm80"), device=None)
    context = Context(target, strides={n: layout.strides for n, layout in layouts.items()})
    schedule = propose(Kernel("fill_border", (), (), outs), context)
    assert schedule is not None
    program = finish(lower(schedule, layouts))
    assert len(set(threads_of_boxes(program))) > 1
    memory = np.full(program.outputs[0].elements, np.nan, np.float16)
    for batch, h, w in ((1, 1, 1), (3, 4, 2), (2, 7, 9)):
        memory[:] = np.nan
        sizes = dict(zip((next(iter(n.symbols())) for n in (BATCH, height, width)), (batch, h, w), strict=True))
        run_threads(program, {b.name: memory for b in program.outputs}, sizes, np.random.default_rng(h))
        expected = np.zeros((batch, h + 2, w + 2, channels), np.float16)
        expected[:, 1:-1, 1:-1] = np.nan
        np.testing.assert_array_equal(memory[: expected.size], expected.reshape(-1))
        assert np.isnan(memory[expected.size :]).all()


def threads_of_boxes(program: P.Function) -> list[int]:
    """How many threads fill each box."""
    loops = (s for s in P.walk(program.body) if isinstance(s, P.For) and s.kind == "thread.x")
    return [int(s.extent) for s in loops if s.extent.is_const]
