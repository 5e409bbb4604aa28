"""Chains of small kernels as one launch: which ones are, that they compute the same in every order of threads, by
OpenCL and by the text of CUDA, and that every barrier in them is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.api import options_of
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph, Value
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.ops import Builder
from sterna.passes.context import context_of
from sterna.passes.device_cost import chain_of_call
from sterna.passes.kernels import Call
from sterna.passes.plan_kernels import propose_schedule
from sterna.te.tensor import Kernel
from sterna_runtime import load
from support import device_bundles, opencl_host
from support.bound_axes import barriers, compare, threads
from support.chains import CHAINS, Layers, calls, context, gated, perceptron
from support.compiling import check, input_value

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def kernel_of(call: Call) -> Kernel:
    assert isinstance(call.kernel, Kernel)
    return call.kernel


@pytest.mark.family("opencl")
@pytest.mark.parametrize("name", CHAINS)
def test_one_launch(name: str, device: opencl_host.Device, tmp_path: Path) -> None:
    """A task for each slice, whose threads compute what the tensor expressions say."""
    made, tasks = CHAINS[name]
    where = context()
    (call,) = calls(made(), where)
    s = propose_schedule(call, where.target)
    assert s is not None
    assert (s.tasks, chain_of_call(call, where.target) is not None) == (tasks, True)
    program = finish(lower(s))
    assert 8 < threads(program) <= 256
    compare(s, device, tmp_path if name == "gates and a residual" else None)


def test_constants_lie_side_by_side_for_threads() -> None:
    """Also those that a slice reads whole, beside a row of its own of something larger."""
    where = context("cuda-sm80")
    for made in (CHAINS["distances"][0], dense_layers):
        (call,) = calls(made(), where)
        s = propose_schedule(call, where.target)
        assert s is not None
        found = accesses(finish(lower(s)))
        assert found.coalesced >= 0.97 * found.accesses


def dense_layers() -> Graph:
    n = Layers(144, 96)
    return n.graph(n.dense(n.dense(n.x, 16), 96))


@pytest.mark.family("opencl")
def test_on_a_device(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """The whole model, where reshapes between its layers were views."""
    where = context()
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")):
        for name, (made, _) in CHAINS.items():
            graph, folder = made(), tmp_path / name.replace(" ", "-")
            x = np.random.default_rng(3).standard_normal([int(n) for n in graph.inputs[0].shape]).astype(np.float32)
            compiled = compile_graph(graph, "small", where.options)
            assert [k.place for k in compiled.kernels] == ["opencl"], name
            with load(write_bundle(compiled, folder)) as bundle:
                check(bundle.run({"x": x}), interpret(graph, {"x": x}), 1e-5)


# ---------------------------------------------------------------- random ones
SIZES = st.sampled_from([1, 2, 3, 5, 8, 13, 16, 17, 31, 40])


KINDS = ("dense", "relu", "function", "softmax", "centred", "again", "reshape", "gate")


def step(draw: Any, kind: str, n: Layers, known: list[Value]) -> Value:
    """One more layer."""
    y = known[-1]
    if kind in ("dense", "relu"):
        return n.dense(y, draw(SIZES), kind if kind == "relu" else "")
    if kind == "function":
        return n.add(draw(st.sampled_from(["tanh", "sigmoid", "abs"])), y)
    if kind == "softmax":
        return n.softmax(y)
    if kind == "centred":
        op = draw(st.sampled_from(["reduce_mean", "reduce_max"]))
        return n.add("sub", y, n.add(op, y, axes=[draw(st.integers(0, 1))]))
    if kind == "reshape":
        rows, columns = (int(each) for each in y.shape)
        return n.builder.reshape(y, [columns, rows])
    if kind == "again":
        alike = [v for v in known if v.shape == y.shape]
        return n.add("add", y, draw(st.sampled_from(alike)))
    return n.add("mul", y, n.add("sigmoid", n.dense(y, int(y.shape[-1]))))


@st.composite
def drawn(draw: Any, dtype: str) -> Graph:
    n = Layers(draw(st.sampled_from([1, 2, 7])), draw(SIZES), dtype=dtype, seed=draw(st.integers(0, 9)))
    known = [n.x]
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    for kind in ("relu", *kinds, "dense"):
        known.append(step(draw, kind, n, known))
    return n.graph(known[-1])


@pytest.mark.family("opencl")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_random_chains(dtype: str, device: opencl_host.Device) -> None:
    """Whatever is one launch is proved free of races and computes the same."""
    found = 0

    @settings(
        max_examples=20 * MORE, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip
    @given(drawn(dtype))
    def run(graph: Graph) -> None:
        nonlocal found
        where = context("cuda" if dtype == "float16" else "opencl")
        for call in calls(graph, where):
            if chain_of_call(call, where.target) is None:
                continue
            found += 1
            kernel = kernel_of(call)
            random = np.random.default_rng(5)
            drawn = {t.name: random.standard_normal([int(m) for m in t.shape]) for t in kernel.inputs}
            feeds = {t.name: drawn[t.name].astype(t.dtype) for t in kernel.inputs}
            feeds |= {p.name: c for p, c in zip(kernel.params, call.constants, strict=True)}
            s = propose_schedule(call, where.target)
            assert s is not None
            compare(s, device, orders=2, feeds=feeds, tolerance=1e-4 if dtype == "float32" else 1e-2)

    run()
    assert found >= 10 * MORE


@pytest.mark.family("opencl")
def test_rows_below_one_another_are_in_different_banks(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Threads side by side read a product's second factor across its rows of 32 words, which shared memory has turned
    against one another."""
    b, random = Builder(), np.random.default_rng(0)
    given = {name: random.standard_normal((48, 16, 32)).astype(np.float32) for name in "qk"}
    q, k = (input_value(b, array, name) for name, array in given.items())
    norm = b.add("sqrt", b.add("reduce_sum", b.add("mul", k, k), axes=(2,), keep_dims=True))
    turned = b.add("transpose", b.add("div", k, norm), order=(0, 2, 1))
    graph = Graph("scores", (q, k), (b.add("matmul", q, turned),), tuple(b.nodes))
    compiled = compile_graph(graph, "scores", options_of("opencl", device_for={"*": "opencl"}))
    (kernel,) = compiled.kernels
    found = accesses(kernel.function)
    assert found.conflicts < 0.1 * found.shared_accesses
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")), load(write_bundle(compiled, tmp_path / "b")) as bundle:
        check(bundle.run(given), interpret(graph, given), 1e-5)


# ---------------------------------------------------------------- which ones
def test_too_large_for_shared_memory() -> None:
    """Whatever a launch takes, what lies between two layers has to fit."""
    n = Layers(1, 16)
    graph = n.graph(n.dense(n.dense(n.x, 3000, "relu"), 4))
    assert len(calls(graph, context(shared=16 << 10))) == 1
    assert len(calls(graph, context(shared=8 << 10))) == 2


@pytest.mark.parametrize(("width", "launches"), [(8, 1), (1024, 3)])
def test_large_layers_are_spread_over_the_device(width: int, launches: int) -> None:
    """One group would read these weights alone."""
    n = Layers(1, width)
    graph = n.graph(n.dense(n.dense(n.dense(n.x, width, "relu"), width, "relu"), width))
    assert len(calls(graph, context("cuda", None))) == launches


def test_dear_launches_are_saved() -> None:
    """The same layers are a chain where a launch takes longer."""
    n = Layers(1, 128)
    graph = n.graph(n.dense(n.dense(n.x, 128, "relu"), 128))
    assert [len(calls(graph, context("cuda", each))) for each in (100, 100000)] == [2, 1]


def test_what_others_read_stays_apart() -> None:
    n = Layers(1, 16)
    first = n.dense(n.x, 12, "relu")
    assert len(calls(n.graph(n.dense(first, 8), first), context())) == 2
    m = Layers(1, 16)
    first = m.dense(m.x, 12, "relu")
    assert len(calls(m.graph(m.dense(first, 8), m.dense(first, 5)), context())) == 3


def test_processors_have_no_chains() -> None:
    assert len(calls(perceptron(), context_of(options_of("x86-64-v3")))) == 3


def without(stmt: P.Stmt, numbers: Iterator[int], left_out: int) -> P.Stmt:
    """A program without the barrier of a number."""
    if isinstance(stmt, P.Seq):
        kept = [inner for inner in stmt.stmts if not isinstance(inner, P.Barrier) or next(numbers) != left_out]
        return P.seq(*(without(inner, numbers, left_out) for inner in kept))
    return P.map_children(stmt, lambda inner: without(inner, numbers, left_out))


def test_barriers_are_needed() -> None:
    """A chain without one of its barriers is refused."""
    where = context()
    (call,) = calls(gated(), where)
    s = propose_schedule(call, where.target)
    assert s is not None
    program = finish(lower(s))
    count = barriers(program.body)
    assert count > 4
    for left_out in range(count):
        with pytest.raises(SternaError, match="E0306"):
            verify_threads(replace(program, body=without(program.body, iter(range(count)), left_out)))


def test_all_work_is_counted() -> None:
    """What the estimate counts of a chain is at least its weights and multiply-adds, those of long sums included."""
    n = Layers(2, 700)
    (call,) = calls(n.graph(n.dense(n.dense(n.x, 90, "relu"), 300)), context())
    found = chain_of_call(call, context().target)
    assert found is not None
    assert found.tasks * sum(nest.work for nest in found.nests) >= 2 * (700 * 90 + 90 * 300)
    assert sum(nest.read for nest in found.nests) >= sum(array.nbytes for array in call.constants)
