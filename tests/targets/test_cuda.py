"""The CUDA dialect: what loop programs compute in CUDA C++, run over fibers of the CPU with threads in random orders,
against the interpreter and trained models' references.

STERNA_CUDA=all runs every part of the operators. No GPU and no toolkit is needed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_model
from sterna.driver import Options, compile_graph
from sterna.ir.integer import Int, as_int
from sterna.loops import program as P
from support.compiling import check
from support.cuda_host import Program, cuda_target, run_model
from support.every_operator import agree, every_operator
from support.thread_programs import SHARED, function, load, over_threads
from support.trained import sample

PARTS = 8
SAMPLED = range(PARTS) if os.environ.get("STERNA_CUDA") == "all" else (2,)
LOCAL = replace(SHARED, address_space=3)


@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    agree(run_model(compile_graph(graph, "small", Options(cuda_target())), inputs, tmp_path, seed=part + 1), expected)


@pytest.mark.parametrize("name", ["digits", "mlperf_tiny_kws_int8"])
def test_a_network(name: str, tmp_path: Path) -> None:
    model = sample(name)
    compiled = compile_model(model.file, cuda_target(), shapes=model.shapes())
    for seed, case in enumerate(model.cases[:2]):
        found = run_model(compiled, case.inputs, tmp_path, seed)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)


def reversal(*between: P.Stmt) -> P.Function:
    """Every task turns its elements round, by way of shared memory."""
    count = 32
    buffer = P.dense_buffer("s", "int32", (as_int(count),), LOCAL)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        fill = over_threads(count, lambda t: P.Store(buffer, t, load(x, first + t)), "f")
        use = over_threads(count, lambda t: P.Store(y, first + t, load(buffer, count - 1 - t)), "u")
        return P.seq(P.Alloc(buffer), fill, *between, use)

    return function(count, body)


def reversed_by(program: P.Function, folder: Path, seed: int) -> np.ndarray:
    memory = {"x": np.arange(64, dtype=np.int32), "y": np.zeros(64, np.int32)}
    Program.of(program, folder).run_function(program, memory, seed)
    return memory["y"]


def test_the_order_of_threads_shows_a_missing_barrier(tmp_path: Path) -> None:
    right = np.concatenate([np.arange(31, -1, -1), np.arange(63, 31, -1)])
    for seed in range(4):
        assert (reversed_by(reversal(P.Barrier("block")), tmp_path, seed) == right).all()
    assert (reversed_by(reversal(), tmp_path, 1) != right).any()


def test_threads_that_never_come_are_noticed(tmp_path: Path) -> None:
    program = reversal(over_threads(16, lambda t: P.If(t, as_int(8), P.Barrier("block")), "some"))
    with pytest.raises(AssertionError, match="never reach"):
        reversed_by(program, tmp_path, 0)
