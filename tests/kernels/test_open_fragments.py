"""Products and convolutions on fragments of matrices whose rows are of open sizes: tiles overhang the last row, and
rows are counted through over all open sizes. In the interpreter, in random orders, against NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import Int, as_int, of, symbol
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.layout import Layout, dense_layout
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.fragment_products import with_fragments
from support.open_kernels import computed

AMPERE = replace(load_target("cuda-sm80"), device=None)
BATCH, LENGTH = symbol("batch", 0, 4), symbol("length", 0, 40)
HEIGHT, WIDTH = symbol("height", 0, 12), symbol("width", 0, 12)
#: Axes of rows, by what is open of them.
ROWS = {
    "length": (LENGTH,),
    "batch and length": (BATCH, LENGTH),
    "one sequence": (as_int(1), LENGTH),
    "batch of known lengths": (BATCH, as_int(13)),
    "a known size between": (BATCH, as_int(3), LENGTH),
}


def program_of(kernel: Kernel, layout: Layout | None = None) -> P.Function:
    """The program by the rules, with fragments; its output lies so."""
    given = {} if layout is None else {"out": layout}
    strides, origins = {n: at.strides for n, at in given.items()}, {n: at.origin for n, at in given.items()}
    program = finish(lower(propose(kernel, Context(AMPERE, strides=strides, origins=origins)), given))
    assert with_fragments(program.body)
    return program


@cache
def dense(rows: str, columns: int, depth: int, kind: str = "float16") -> P.Function:
    """max(x w + b, 0) of rows of open sizes, in the type of the factors; "tf32": of float32, rounded to that."""
    lead, dtype = ROWS[rows], "float32" if kind == "tf32" else kind
    x, w, b = (
        placeholder("x", (*lead, depth), dtype),
        placeholder("w", (depth, columns), dtype),
        placeholder("b", (columns,)),
    )
    k = reduce_axis("k", depth)

    def factor(value: E.Expr) -> E.Expr:
        return E.unary(kind, value) if kind == "tf32" else E.cast(value, "float32")

    acc = compute(
        "acc", (*lead, columns), lambda *at: total(factor(x[(*at[:-1], k.var)]) * factor(w[k.var, at[-1]]), k)
    )
    out = compute("out", acc.shape, lambda *at: E.cast(E.maximum(acc[at] + b[at[-1]], 0.0), dtype))
    return program_of(Kernel("dense", (x, w, b), (), (out,)))


def small(*shape: int, dtype: str = "float16") -> np.ndarray:
    """Numbers whose products add up to the same in every order."""
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


def holds(program: P.Function, lead: tuple[int, ...], columns: int, depth: int, dtype: str = "float16") -> None:
    x, w, b = small(*lead, depth, dtype=dtype), small(depth, columns, dtype=dtype), small(columns, dtype="float32")
    sizes = {"batch": lead[0], "length": lead[-1]}
    expected = np.maximum(x.astype(np.float32) @ w.astype(np.float32) + b, 0)
    np.testing.assert_array_equal(computed(program, sizes, (*lead, columns), x=x, w=w, b=b), expected)


@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_open_sizes(rows: str) -> None:
    program = dense(rows, 48, 40)
    for batch, length in ((0, 7), (3, 0), (1, 1), (3, 13), (4, 40)):
        given = {"batch": batch, "length": length}
        lead = tuple(int(n) if n.is_const else next(given[a.name] for a in n.symbols()) for n in ROWS[rows])
        holds(program, lead, 48, 40)


def test_tf32() -> None:
    holds(dense("batch and length", 24, 32, "tf32"), (2, 19), 24, 32, "float32")


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 4), st.integers(0, 40), st.integers(8, 70), st.integers(8, 50))
@example(1, 1, 33, 17)
def test_any_size(batch: int, length: int, columns: int, depth: int) -> None:
    holds(dense("batch and length", columns, depth), (batch, length), columns, depth)


def padded(size: tuple[Int, ...], border: int) -> Layout:
    """Images, channels last, within larger ones."""
    batch, height, width, channels = size
    row = (width + 2 * border) * channels
    image = row * (height + 2 * border)
    return Layout((image, row, channels, as_int(1)), (row + channels) * border, batch * image)


def convolution(size: tuple[Int, Int, Int], channels: int, outputs: int, stride: int) -> Kernel:
    """Of 3 x 3 taps."""
    batch, height, width = size
    x = placeholder("x", (batch, (height - 1) * stride + 3, (width - 1) * stride + 3, channels), "float16")
    w = placeholder("w", (3, 3, channels, outputs), "float16")
    kh, kw, c = reduce_axis("kh", 3), reduce_axis("kw", 3), reduce_axis("c", channels)

    def element(n: Int, i: Int, j: Int, o: Int) -> E.Expr:
        left = x[n, i * stride + kh.var, j * stride + kw.var, c.var]
        return total(E.cast(left, "float32") * E.cast(w[kh.var, kw.var, c.var, o], "float32"), kh, kw, c)

    acc = compute("acc", (batch, height, width, outputs), element)
    return Kernel("convolution", (x, w), (), (compute("out", acc.shape, lambda *at: E.cast(acc[at], "float16")),))


def windows(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    height, width = ((n - 3) // stride + 1 for n in x.shape[1:3])
    found = np.zeros((len(x), height, width, w.shape[-1]), np.float32)
    for i, j in np.ndindex(3, 3):
        part = x[:, i : i + (height - 1) * stride + 1 : stride, j : j + (width - 1) * stride + 1 : stride]
        found += part.astype(np.float32) @ w[i, j].astype(np.float32)
    return found


@pytest.mark.parametrize(
    ("size", "channels", "stride"),
    [((BATCH, as_int(5), as_int(7)), 16, 1), ((BATCH, HEIGHT, WIDTH), 16, 2), ((BATCH, HEIGHT, WIDTH), 3, 2)],
    ids=["batch", "batch, height and width", "few channels"],
)
def test_images_of_open_sizes(size: tuple[Int, Int, Int], channels: int, stride: int) -> None:
    program = program_of(convolution(size, channels, 24, stride))
    for batch, *image in ((0, 3, 3), (1, 1, 1), (3, 5, 7), (2, 1, 12)):
        height, width = (5, 7) if size[1].is_const else image
        x, w = small(batch, (height - 1) * stride + 3, (width - 1) * stride + 3, channels), small(3, 3, channels, 24)
        sizes = {"batch": batch, "height": height, "width": width}
        found = computed(program, sizes, (batch, height, width, 24), x=x, w=w)
        np.testing.assert_array_equal(found, windows(x, w, stride))


@pytest.mark.parametrize("outputs", [32, 48, 200])
@pytest.mark.parametrize("size", [(BATCH, HEIGHT, WIDTH), (as_int(1), (HEIGHT + 1) // 2, (WIDTH + 1) // 2)])
def test_images_within_larger_ones(size: tuple[Int, Int, Int], outputs: int) -> None:
    """It is proved that no two threads meet, whatever the sizes are; not where rows lie too near to one another."""
    kernel = convolution(size, 16, outputs, 1)
    shape = (*size, as_int(outputs))
    assert verify_threads(program_of(kernel, padded(shape, 1)))
    dense_images, nearer = dense_layout(shape), padded((*size[:2], size[2] - 3, shape[-1]), 1)
    assert verify_threads(program_of(kernel, dense_images))
    with pytest.raises(SternaError, match=r"E0305|it cannot be told which elements of out threads touch"):
        program_of(kernel, nearer)


def test_tasks_that_meet_are_refused() -> None:
    """Tiles of which each begins one pixel earlier, so that the first one is the last of those before."""
    size = (BATCH, HEIGHT, WIDTH)
    program = program_of(convolution(size, 16, 32, 1), padded((*size, as_int(32)), 1))
    task = next(s.symbol for s in P.walk(program.body) if isinstance(s, P.For) and s.kind == "parallel")

    def moved(stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.Store) and stmt.buffer.name == "out":
            return replace(stmt, index=stmt.index - of(task) * 32)
        return P.map_children(stmt, moved)

    with pytest.raises(SternaError, match=r"same element of out|which elements of out threads touch"):
        verify_threads(replace(program, body=moved(program.body)))


def test_threads_that_meet_are_refused() -> None:
    """Neighbours along a row, one element nearer to each other than what each stores."""
    size = (BATCH, HEIGHT, WIDTH)
    program = program_of(convolution(size, 16, 32, 1), padded((*size, as_int(32)), 1))
    thread = next(
        s.symbol
        for s in P.walk(program.body)
        if isinstance(s, P.For) and s.kind == "thread.x" and str(s.symbol).startswith("out")
    )

    def moved(stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.Store) and stmt.buffer.name == "out":
            return replace(stmt, index=stmt.index - of(thread) % 8)
        return P.map_children(stmt, moved)

    assert verify_threads(program) is program
    with pytest.raises(SternaError, match="two threads of a task touch the same element of out"):
        verify_threads(replace(program, body=moved(program.body)))


def test_copies_are_wide() -> None:
    """As wide as where all sizes are known: rows are whole runs, wherever the first one begins."""
    program = dense("batch and length", 64, 64)
    found = accesses(replace(program, dims=((next(iter(BATCH.symbols())), 0), (next(iter(LENGTH.symbols())), 1))))
    assert found.fragments > 0
    assert found.conflicts == 0
    assert found.wide_bytes == found.bytes
    assert found.coalesced >= 0.95 * found.accesses
