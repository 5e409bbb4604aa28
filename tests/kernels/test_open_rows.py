"""Rows of an open length that the threads of a task share: softmax with a mask, normalization, extremes. In the
interpreter, in random orders, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import Int, symbol
from sterna.loops import program as P
from sterna.loops.races import verify_threads
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis, total
from support.bound_axes import threads
from support.open_kernels import computed, program_of

HEADS = 3


def masked_softmax(batch: Int, length: Int) -> Kernel:
    """softmax(x + mask) of rows, (batch, heads, length, length): neither number of rows is known, nor that of terms."""
    x, mask = placeholder("x", (batch, HEADS, length, length)), placeholder("mask", (batch, length, length))
    k, terms = reduce_axis("k", length), reduce_axis("terms", length)
    rows = (batch, HEADS, length)
    z = compute("z", (*rows, length), lambda n, h, i, j: x[n, h, i, j] + mask[n, i, j])
    peak = compute("peak", rows, lambda *at: reduce("max", z[(*at, k.var)], k))
    power = compute("power", (*rows, length), lambda *at: E.unary("exp", z[at] - peak[at[:-1]]))
    sums = compute("sums", rows, lambda *at: total(power[(*at, terms.var)], terms))
    y = compute("y", (*rows, length), lambda *at: power[at] / sums[at[:-1]])
    return Kernel("softmax", (x, mask), (), (y,))


def columns_normalized(batch: Int, length: Int) -> Kernel:
    """(x - mean) of columns of an open height, which lie side by side."""
    x, k = placeholder("x", (batch, length, 40)), reduce_axis("k", length)
    count = E.cast(E.index_value(length, "int32"), "float32")
    mean = compute("mean", (batch, 40), lambda n, c: total(x[n, k.var, c], k))
    y = compute("y", (batch, length, 40), lambda n, i, c: x[n, i, c] - mean[n, c] / count)
    return Kernel("normalized", (x,), (), (y,))


def made(kernel: Kernel, subgroup: int) -> P.Function:
    return program_of(kernel, Threads(256, 128, subgroup=subgroup))


@pytest.mark.parametrize("subgroup", [1, 32])
@pytest.mark.parametrize("most", [7, 64])
@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_softmax(most: int, subgroup: int, data: st.DataObject) -> None:
    """The bound is less than, equal to and more than the threads of a row."""
    batch, length = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 2, 7, most // 2]))
    program = made(masked_softmax(symbol("batch", 1, 2), symbol("length", 1, most)), subgroup)
    assert threads(program) > 1
    random = np.random.default_rng(length)
    x = random.standard_normal((batch, HEADS, length, length)).astype(np.float32)
    mask = random.standard_normal((batch, length, length)).astype(np.float32)
    found = computed(program, {"batch": batch, "length": length}, x.shape, x=x, mask=mask)
    power = np.exp((z := x + mask[:, None]) - z.max(-1, keepdims=True))
    np.testing.assert_allclose(found, power / power.sum(-1, keepdims=True), 1e-5, 1e-6)


@pytest.mark.parametrize("subgroup", [1, 32])
@pytest.mark.parametrize("length", [1, 33])
def test_columns(length: int, subgroup: int) -> None:
    program = made(columns_normalized(symbol("batch", 1, 2), symbol("length", 1, 70)), subgroup)
    assert threads(program) > 1
    x = np.random.default_rng(length).standard_normal((2, length, 40)).astype(np.float32)
    found = computed(program, {"batch": 2, "length": length}, x.shape, x=x)
    np.testing.assert_allclose(found, x - x.mean(1, keepdims=True), 1e-4, 1e-4)


def test_tasks_that_meet_are_refused() -> None:
    """Rows whose tasks write one element beyond their own."""
    program = made(masked_softmax(symbol("batch", 1, 2), symbol("length", 1, 64)), 32)

    def longer(stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.If) and str(stmt.limit) == "length" and "y_i3" in str(stmt.index):
            return P.If(stmt.index, stmt.limit + 1, stmt.then, stmt.otherwise)
        return P.map_children(stmt, longer)

    with pytest.raises(SternaError, match="two tasks touch the same element of y"):
        verify_threads(replace(program, body=longer(program.body)))
