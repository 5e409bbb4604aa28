"""Attention by groups of threads: the same as apart, of all sizes, with masks; no score in memory that tasks share."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.driver import Options, compile_graph
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.wide import Widths
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, group_attention, groups
from sterna.targets.description import load_target
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis
from support import opencl_host
from support.attention_graphs import Attention
from support.bound_axes import SHARED, compare, threads
from support.compiling import check
from support.cuda_host import METAL
from support.small_kernels import arrays, attention, matmul

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def scheduled(kernel: Kernel, access_bytes: int = 0) -> Schedule:
    target = opencl_host.opencl_target(groups=True)
    assert target.threads is not None
    target = replace(target, threads=replace(target.threads, access_bytes=access_bytes))
    s = group_attention.propose(kernel, Context(target), SHARED)
    assert s is not None
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize(
    ("sizes", "mask"),
    [((1, 33, 37, 9, 17), ""), ((2, 8, 64, 16, 16), "masked"), ((1, 40, 40, 8, 16), "causal")],
)
def test_attention(
    sizes: tuple[int, int, int, int, int], mask: str, device: opencl_host.Device, tmp_path: Path
) -> None:
    s = scheduled(attention(*sizes, masked=mask == "masked", causal=mask == "causal"))
    compare(s, device, tmp_path if mask == "causal" else None, orders=2)
    if mask == "masked":
        compare(s, None, tmp_path, orders=1, language=METAL)


def test_threads_and_what_they_share() -> None:
    """As many as a block of the result has tiles, and never a row of scores."""
    program = finish(lower(scheduled(attention(2, 64, 512, 64, 64))))
    assert threads(program) == 128
    assert group_attention.group_of(64, opencl_host.opencl_target(groups=True)) == (8, 16)


@pytest.mark.parametrize("columns", [12, 16])
def test_small_heads_are_stored_in_whole_sectors(columns: int) -> None:
    program = finish(lower(scheduled(attention(4, 32, 64, 16, columns), 16)))
    found = accesses(program)
    assert threads(program) == 64
    assert found.conflicts == 0
    assert columns % 8 or found.coalesced == found.accesses


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_neighbours_have_neighbours(columns: int) -> None:
    """Keys of a mask, and columns of the result, are side by side where threads are."""
    found = accesses(finish(lower(scheduled(attention(2, 64, 128, 64, columns, masked=True)))))
    assert found.coalesced == found.accesses
    assert found.moved_bytes == found.least_bytes


@pytest.mark.parametrize(
    ("sizes", "wide"),
    [
        ((1, 64, 128, 64, 64), "q k v"),
        ((1, 64, 128, 32, 32), "q k v"),
        ((2, 33, 36, 20, 24), "q k v"),
        ((1, 32, 33, 32, 20), "q v"),
        ((1, 32, 32, 13, 17), "k"),
    ],
)
def test_operands_come_in_runs(sizes: tuple[int, int, int, int, int], wide: str) -> None:
    """Queries, keys and values are brought some neighbours at a time, where their rows are whole runs of them."""
    kernel = attention(*sizes)
    s, narrow = scheduled(kernel, 16), accesses(finish(lower(scheduled(kernel))))
    program = finish(lower(s))
    loads = {load.tensor.name for load in P.loads(program.body) if Widths(16).at_once(load) > 1}
    assert loads & {"q", "k", "v"} == {*wide.split()}
    found = accesses(program)
    assert found.requested_bytes <= narrow.requested_bytes
    assert found.conflicts <= narrow.conflicts
    assert found.coalesced == found.accesses or narrow.coalesced < narrow.accesses
    compare(s, None, orders=1)


@pytest.mark.family("opencl")
@pytest.mark.parametrize("columns", [64, 128])
def test_usual_heads(columns: int, device: opencl_host.Device) -> None:
    compare(scheduled(attention(1, 35, 70, columns, columns), 16), device, orders=0)


@pytest.mark.family("opencl")
@settings(
    max_examples=4 * MORE, deadline=None, derandomize=MORE == 1, database=None, suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_attention_of_any_size(device: opencl_host.Device, data: Any) -> None:
    few = st.sampled_from([2, 3, 5, 8, 13, 31, 32, 33, 41])
    sizes = data.draw(st.sampled_from([1, 3])), data.draw(few), data.draw(few), data.draw(few)
    kernel = attention(*sizes, data.draw(st.sampled_from([9, 16, 31, 33])), data.draw(st.booleans()))
    compare(scheduled(kernel, data.draw(st.sampled_from([0, 16]))), device, tolerance=2e-5, orders=1)


@pytest.mark.family("opencl")
@pytest.mark.parametrize("last", [np.inf, -np.inf])
def test_an_infinite_value_of_the_last_key(last: float, device: opencl_host.Device, tmp_path: Path) -> None:
    """The last block has fewer keys than others; what is beyond them has no part in the result."""
    s = scheduled(attention(1, 9, 37, 8, 17))
    feeds = arrays(s.kernel)
    feeds["v"][:, -1, ::2] = last
    compare(s, device, tmp_path, orders=2, feeds=feeds)


@pytest.mark.family("opencl")
def test_queries_that_are_the_values_too(device: opencl_host.Device) -> None:
    """One tensor is read by both products, each of which has a copy of its own in shared memory."""
    kernel = attention(1, 40, 40, 16, 16)
    (q, _, v), (out,) = kernel.inputs, kernel.outputs
    assert out.body is not None
    body = E.rewrite(out.body, lambda e: e.changed(tensor=q) if isinstance(e, E.Load) and e.tensor is v else None)
    compare(scheduled(replace(kernel, inputs=kernel.inputs[:2], outputs=(replace(out, body=body),))), device, orders=1)


def test_what_is_no_attention_is_declined() -> None:
    target = opencl_host.opencl_target(groups=True)
    assert group_attention.propose(matmul(32, 32, 32), Context(target), SHARED) is None
    assert group_attention.propose(attention(1, 32, 32, 8, 160), Context(target), SHARED) is None
    assert group_attention.group_of(64, replace(target, threads=Threads(64, 64))) is None


def test_softmax_off_by_one_is_no_softmax() -> None:
    """exp(s - max) / (sum + 1) between two products: another strategy has the kernel, or none."""
    kernel = attention(1, 64, 8192, 64, 64, off=1.0)
    for target in (opencl_host.opencl_target(groups=True), load_target("cuda-sm80")):
        assert group_attention.propose(kernel, Context(target), SHARED) is None
        made = groups.propose(kernel, Context(target))
        assert made is None or not any(step.primitive == "online" for step in made.steps)
    small = attention(1, 9, 37, 8, 16, off=1.0)
    s = groups.propose(small, Context(opencl_host.opencl_target(groups=True)))
    assert s is not None
    compare(s, None, orders=1)


@pytest.mark.parametrize(("mask", "guarded"), [("causal", False), ("some rows", True)])
def test_one_kernel_of_a_model(mask: str, guarded: bool, device: opencl_host.Device) -> None:
    """The pass joins what the strategy computes; scores are no tensor of the model any more."""
    made = Attention()
    graph = made.graph(made.whole((2, 2), 34, 45, 16, 20, mask, guarded=guarded))
    compiled = compile_graph(graph, "small", Options(opencl_host.opencl_target(groups=True)))
    assert len(compiled.kernels) == 1
    alone = compile_graph(graph, "small", Options(opencl_host.opencl_target()))
    (found,) = device.run(compiled, made.feeds).values()
    (wanted,) = device.run(alone, made.feeds).values()
    check({"y": found}, {"y": wanted}, 1e-5)
    if guarded:
        assert (found[..., :2, :] == 0).all()
        assert found[..., 2:, :].all()


@pytest.mark.parametrize("lowest", [False, True])
def test_a_rescaled_sum(lowest: bool) -> None:
    """By the expressions' interpreter, and as it is lowered."""
    x, w, k = placeholder("x", (3, 7)), placeholder("w", (3, 7)), reduce_axis("k", 7)
    exponent = (lambda i: x[i, k.var] * 40.0) if not lowest else (lambda i: E.const(float("-inf"), "float32"))
    body = lambda i: E.Reduce("float32", combiner="rescaled", a=exponent(i), index=w[i, k.var], axes=(k,))  # noqa: E731
    kernel = Kernel("rescaled", (x, w), (), (compute("out", (3,), body),))
    feeds = arrays(kernel)
    (found,) = run_kernel(kernel, feeds).values()
    powers = np.zeros((3, 7)) if lowest else np.exp(40.0 * (feeds["x"] - feeds["x"].max(1, keepdims=True)))
    np.testing.assert_allclose(found, (powers * feeds["w"]).sum(1), 1e-5, 1e-5)
    s = Schedule(kernel, memories=(SHARED,))
    sums = s.cache_write("out")
    row, one = s.split("out", "i", 1)
    s.parallel("out", row)
    s.bind("out", one, "thread.x")
    s.compute_at(sums, "out", one, "register")
    compare(s, None)
