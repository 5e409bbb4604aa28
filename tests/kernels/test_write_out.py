"""Loops of firmware that are written out by several iterations, and those that stay rolled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.codegen import c, llvm
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph
from sterna.loops import program as P
from sterna.loops.effort import innermost
from sterna.loops.finish import finish
from sterna.loops.generalize import generalize
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.unroll import by_several
from sterna.loops.verify import verify
from sterna.ops import Builder
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.target import Target
from support.compiling import input_value
from support.general_kernels import dense_layers, expected, given_memory, product
from support.small_kernels import row_sums

fixed = settings(
    max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def with_loop(function: P.Function, old: P.Stmt, new: P.Stmt) -> P.Function:
    def replaced(stmt: P.Stmt) -> P.Stmt:
        return new if stmt is old else P.map_children(stmt, replaced)

    return replace(function, body=replaced(function.body))


def every_loop_by(function: P.Function, count: int, sizes: dict[Any, int] | None = None) -> P.Function:
    """The program with `count` iterations in one wherever an innermost loop has so many, or a multiple."""
    for each in innermost(function, 0, sizes):
        if (each.loop.extent - each.loop.start) % count == 0:
            function = with_loop(function, each.loop, by_several(each.loop, count))
    return function


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 12), st.sampled_from([2, 3, 4, 5, 6]))
@fixed
def test_a_loop_by_several_iterations_is_the_loop(rows: int, columns: int, blocks: int, count: int) -> None:
    function = product(rows, columns, blocks * count)
    written = verify(every_loop_by(function, count))
    assert print_function(written) != print_function(function)
    memory = given_memory(function, written)
    run_function(written, memory)
    (output,) = written.outputs
    np.testing.assert_array_equal(memory[output.name], expected(function, written)[0])


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4, unique=True), st.sampled_from([2, 4]))
@fixed
def test_sizes_may_be_arguments(blocks: list[int], count: int) -> None:
    """Of a loop whose number of iterations a call brings, where that is a multiple for every call."""
    functions = [replace(product(2, 2, n * count), name=f"k{k}") for k, n in enumerate(blocks)]
    general = generalize(functions)
    written = every_loop_by(general.function, count)
    for function, arguments in zip(functions, general.arguments, strict=True):
        memory = given_memory(function, written)
        run_function(written, memory, {s: arguments[n] for s, n in written.dims})
        np.testing.assert_array_equal(memory[written.outputs[0].name], expected(function, written)[0])


def test_copies_of_names_do_not_clash() -> None:
    """A body that was written out before has names with numbers, which a second time takes no other for."""
    function = product(2, 2, 24)
    twice = every_loop_by(every_loop_by(function, 2), 3)
    assert print_function(twice).count("let ") > print_function(function).count("let ")
    for stmt in P.walk(twice.body):
        names = [s.variable.name for s in P.members(stmt) if isinstance(s, P.Let)]
        assert len(names) == len(set(names))
    memory = given_memory(function, twice)
    run_function(twice, memory)
    np.testing.assert_array_equal(memory[twice.outputs[0].name], expected(function, twice)[0])


def test_other_numbers_of_iterations_are_refused() -> None:
    (each,) = innermost(product(2, 2, 9))
    with pytest.raises(SternaError):
        by_several(each.loop, 2)


def rolled(function: P.Function) -> P.Function:
    def stays(stmt: P.Stmt) -> P.Stmt:
        done = P.map_children(stmt, stays)
        return done.changed(rolled=True) if isinstance(done, P.For) else done

    return replace(function, body=stays(function.body))


@pytest.mark.parametrize("target", ["cortex-m4", "c99", "cortex-m55"])
def test_what_stays_rolled_is_told_to_compilers(target: str) -> None:
    machine = load_target(target)
    plain = finish(lower(Schedule(row_sums(5, 64))))
    kept, loops = rolled(plain), print_function(plain).count("for ")
    assert print_function(kept).count("(stays rolled)") == loops
    assert c.generate([kept], machine, "m").count("STERNA_ROLLED for (") == loops
    assert "STERNA_ROLLED for" not in c.generate([plain], machine, "m")
    if llvm.makes(machine):
        text = llvm.module_text([kept], machine, "m", None, shared=True)
        assert text.count(", !llvm.loop ") == loops
        assert text.count('"llvm.loop.unroll.disable"') == 1
        assert size(kept, machine) < size(plain, machine)


def size(function: P.Function, target: Target) -> int:
    return len(llvm.emit_object(llvm.module_text([function], target, "m", None, shared=True), target))


def bodies(graph: Graph, target: Target) -> list[int]:
    """Of each kernel, instructions of the longest innermost body; all of its loops stay rolled."""
    kernels = [kernel.code for kernel in compile_graph(graph, "dense", Options(target)).kernels]
    loops = [s for code in kernels for s in P.walk(code.body) if isinstance(s, P.For) and s.kind == "serial"]
    assert all(loop.rolled for loop in loops)
    return [max((each.written for each in innermost(code)), default=0) for code in kernels]


def products() -> Graph:
    """A row of 256 bytes times a matrix."""
    random = np.random.default_rng(2)
    b = Builder("dense")
    x = input_value(b, np.zeros((1, 256), np.int8))
    y = b.add("matmul_integer", x, b.constant(random.integers(-90, 90, (256, 40)).astype(np.int8)))
    return Graph("dense", (x,), (y,), tuple(b.nodes))


def test_loops_that_take_much_of_a_run_are_written_out() -> None:
    """By how much, depends on what code is to be."""
    target = load_target("cortex-m4")
    assert max(bodies(products(), target)) > max(bodies(products(), replace(target, code="smallest")))


def test_floats_are_in_tiles_of_their_own_size() -> None:
    target, graph = load_target("cortex-m4"), dense_layers(256, 240, 3, 5)
    assert bodies(graph, target) == bodies(graph, replace(target, code="smallest"))
