"""16-bit floats computed in float32: what is made of each operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.ir.graph import Graph
from sterna.loops.inline import inlined
from sterna.loops.small_floats import widen_small_floats
from sterna.ops import Builder
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import input_value, run

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}


def same(found: np.ndarray[Any, Any], op: str) -> None:
    """Bit for bit, signs of zeros included; any NaN for one."""
    with np.errstate(invalid="ignore"):
        wanted = WHOLE[op](HALVES)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].view(np.uint16), wanted[~nan].view(np.uint16))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("op", WHOLE)
def test_halves_become_integers_without_an_operation_that_compilers_would_narrow_again(op: str, wide: bool) -> None:
    """Rounded as a half float, a vector is computed element by element where the processor has no such arithmetic."""
    x = placeholder("x", HALVES.shape, "float16")

    def body(i: Any) -> E.Expr:
        value = E.cast(E.unary(op, E.cast(x[i], "float32")), "float16") if wide else E.unary(op, x[i])
        written = widen_small_floats(value)
        assert not any(isinstance(node, E.Unary) and node.op in WHOLE for node in E.walk(written))
        return written

    same(run_kernel(Kernel("k", (x,), (), (compute("y", HALVES.shape, body),)), {"x": HALVES})["y"], op)


def test_what_is_no_half_float_is_rounded_by_its_own_operation() -> None:
    """Only of numbers below 2**22 does the sum with a large number leave the integer."""
    x = placeholder("x", (4,), "float32")
    value = E.cast(E.unary("floor", x[0]), "float16")
    assert widen_small_floats(value) == value


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("op", ["floor", "ceil", "round"])
def test_every_half_float_is_rounded(op: str, generator: str, tmp_path: Path) -> None:
    b = Builder()
    x = input_value(b, HALVES)
    graph = Graph("halves", (x,), (b.add(op, x),), tuple(b.nodes))
    (found,) = run(graph, {"x": HALVES}, tmp_path, generator).values()
    same(found, "rint" if op == "round" else op)


def test_constants_are_wide_before_vectors_are_made() -> None:
    """So that a power of a half float by a number that is known is a few products."""
    x = placeholder("x", (8,), "float16")
    three = compute("three", (1,), lambda i: E.const(3.0, "float16"))
    y = compute("y", (8,), lambda i: E.binary("pow", E.cast(x[i], "float32"), E.cast(three[0], "float32")))
    schedule = Schedule(Kernel("k", (x,), (), (y,)))
    schedule.inline("three")
    body = inlined(schedule.stages)["y"]
    assert isinstance(body, E.Binary)
    assert body.b == E.const(3.0, "float32")
