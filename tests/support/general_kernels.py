"""Kernels that differ only in sizes, and memory to run them and programs for several of them in the interpreter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sterna.ir.graph import Graph
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.ops import Builder
from sterna.schedule.schedule import Schedule
from support.compiling import input_value
from support.small_kernels import matmul, row_sums, window

Array = np.ndarray[Any, Any]


def product(rows: int, columns: int, depth: int) -> P.Function:
    """A matrix product in tiles of 2 by 4, its operands and epilogue among them."""
    s = Schedule(matmul(2 * rows, 4 * columns, depth, constant=True))
    i, row = s.split("out", "i", 2)
    j, column = s.split("out", "j", 4)
    s.reorder("out", i, j, row, column)
    s.unroll("out", row)
    s.unroll("out", column)
    s.compute_at("acc", "out", j, "register")
    for axis in ("i", "j"):
        s.unroll("acc", axis)
    s.reorder("acc", "k", "i", "j")
    return finish(lower(s))


def windows(size: int, channels: int, taps: int) -> P.Function:
    """Sums over a window, of rows that are computed into scratch first."""
    s = Schedule(window(size, taps, channels))
    s.compute_at("scaled", "out", "p", "scratch")
    return finish(lower(s))


def sums(rows: int, depth: int) -> P.Function:
    return finish(lower(Schedule(row_sums(rows, depth))))


def buffers(function: P.Function) -> tuple[P.Buffer, ...]:
    return (*function.inputs, *function.params, *function.outputs)


def given_memory(function: P.Function, general: P.Function) -> dict[str, Array]:
    """What a kernel is given, by the names of the general one, with room for the largest of all: small integers, of
    which sums are exact in any order."""
    random, memory = np.random.default_rng(3), dict[str, Array]()
    for own, buffer in zip(buffers(function), buffers(general), strict=True):
        data = np.full(buffer.elements, 77.0, np.float32)
        if own not in function.outputs:
            data[: own.elements] = random.integers(-8, 8, own.elements)
        memory[buffer.name] = data
    return memory


def expected(function: P.Function, general: P.Function) -> list[Array]:
    """What the kernel itself leaves in its outputs, and what follows them."""
    memory = given_memory(function, general)
    own = dict(zip([b.name for b in buffers(function)], [memory[b.name] for b in buffers(general)], strict=True))
    run_function(function, own)
    return [own[b.name] for b in function.outputs]


def dense_layers(*sizes: int) -> Graph:
    """Layers of float32 of these widths, one after the other."""
    random = np.random.default_rng(1)
    b = Builder("dense")
    x = input_value(b, np.zeros((1, sizes[0]), np.float32))
    y = x
    for n, m in pairwise(sizes):
        weights = b.constant(random.standard_normal((n, m)).astype(np.float32))
        y = b.add("relu", b.add("matmul", y, weights))
    return Graph("dense", (x,), (y,), tuple(b.nodes))
