"""Tests at run time in kernels of groups of threads: who stores a truth value tests it."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.driver import Options, compile_graph
from sterna.ir.graph import Graph
from sterna.loops import program as P
from sterna.ops import Builder
from sterna.targets.description import load_target
from support.compiling import input_value


@pytest.mark.parametrize("target", ["opencl", "metal", "cuda"])
@pytest.mark.parametrize("length", [1, 5, 80, 3000])
def test_no_other_thread_reads_what_is_required(target: str, length: int) -> None:
    b = Builder()
    x = input_value(b, np.ones(length, np.bool_))
    y = b.add("require", x, name="y")
    options = Options(load_target(target), device_for=(("*", target),))
    made = compile_graph(Graph("g", (x,), (y,), tuple(b.nodes), ("y",)), "small", options)
    assert any(kernel.function.has_threads for kernel in made.kernels)
    for kernel in made.kernels:
        blocks = [s.stmts for s in P.walk(kernel.function.body) if isinstance(s, P.Seq)]
        tests = [(before, s) for block in blocks for before, s in zip((None, *block), block, strict=False)
                 if isinstance(s, P.Require)]  # fmt: skip
        assert len(tests) == 1
        assert not kernel.function.has_threads or isinstance(tests[0][0], P.Store)
