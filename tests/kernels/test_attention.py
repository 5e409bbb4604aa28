"""Attention as one kernel: which nodes are found, and that they compute what they did apart."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value
from sterna.passes import attention
from sterna.passes.attention import find_attention
from sterna.passes.fuse import fuse
from sterna.passes.partition import Partition
from sterna.passes.views import plan_views
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from support.attention_graphs import Attention
from support.compiling import build, check, compiled

#: More examples than the suite has time for, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
SERVER = replace(load_target("x86-64-v4"), l2_bytes=1 << 20)


def joined(graph: Graph, target: Target = SERVER) -> list[list[str]]:
    """The operators of each kernel that is found."""
    views = plan_views(graph)
    partition = Partition(graph, views, fuse(graph, views))
    return [[node.op for node in nodes] for nodes in find_attention(partition, target)]


# ---------------------------------------------------------------- what is found
def test_large_scores_are_never_stored() -> None:
    a = Attention()
    y = a.builder.add("relu", a.whole((1, 12), 128, 128, 32, 32, "keys"))
    assert joined(a.graph(y)) == [["matmul", "mul", "add", "softmax", "matmul", "relu"]]


@pytest.mark.parametrize("target", [replace(SERVER, l2_bytes=1 << 22), load_target("cortex-m4")], ids=["large", "none"])
def test_scores_that_stay_in_the_cache_are_stored(target: Target) -> None:
    """And those of which no block would: there is no cache, or rows are too long for it."""
    a = Attention()
    assert joined(a.graph(a.whole((1, 12), 128, 128, 32, 32)), target) == []


def test_rows_must_fit() -> None:
    a = Attention()
    graph = a.graph(a.whole((), 64, 8192, 16, 16))
    assert joined(graph, replace(SERVER, l2_bytes=1 << 20)) == []
    assert joined(graph, replace(SERVER, l2_bytes=1 << 21)) == [["matmul", "mul", "softmax", "matmul"]]


def test_what_others_read_is_stored() -> None:
    a = Attention()
    scores = a.scores((12,), 128, 128, 32)
    shares = a.builder.add("softmax", scores, axis=-1)
    y = a.builder.add("matmul", shares, a.input(12, 128, 32))
    assert len(joined(a.graph(y))) == 1
    assert joined(a.graph(y, shares)) == []
    assert joined(a.graph(y, scores)) == []
    assert joined(a.graph(y, a.builder.add("relu", scores))) == []


def test_one_matrix_for_all_batches_is_none() -> None:
    """Products that broadcast, and products with weights, are other kernels."""
    for keys in ("input", "constant"):
        a = Attention()
        add, b = a.builder.add, a.builder
        right = a.input(32, 128) if keys == "input" else b.constant(np.ones((32, 128), np.float32))
        shares = add("softmax", add("matmul", a.input(12, 128, 32), right), axis=-1)
        assert joined(a.graph(add("matmul", shares, a.input(12, 128, 32)))) == []


def test_zeros_for_what_is_no_number() -> None:
    """A guard of rows of which nothing is seen is a part of the kernel; of other tensors and numbers it is not."""
    a = Attention()
    y = a.whole((12,), 128, 128, 32, 32, "some rows", guarded=True)
    assert joined(a.graph(y)) == [["matmul", "mul", "where", "softmax", "is_nan", "where", "matmul"]]
    for number, other in ((1.0, False), (0.0, True)):
        a = Attention()
        add, constant = a.builder.add, a.builder.constant
        shares = add("softmax", a.scores((12,), 128, 128, 32), axis=-1)
        asked = add("is_nan", a.input(12, 128, 128) if other else shares)
        kept = add("where", asked, constant(np.float32(number)), shares)
        assert joined(a.graph(add("matmul", kept, a.input(12, 128, 32)))) == []


def test_softmax_along_another_axis_is_none() -> None:
    a = Attention()
    shares = a.builder.add("softmax", a.scores((12,), 128, 128, 32), axis=1)
    assert joined(a.graph(a.builder.add("matmul", shares, a.input(12, 128, 32)))) == []


# ---------------------------------------------------------------- what is computed
def test_the_arena_shrinks(tmp_path: Path) -> None:
    a = Attention()
    graph = a.graph(a.whole((1, 12), 192, 192, 32, 32, "keys"))
    target = replace(host(), l2_bytes=1 << 20)
    whole, apart = compiled(graph, target, "llvm"), compiled(graph, replace(target, l2_bytes=0), "llvm")
    assert [len(c.calls) for c in (whole, apart)] == [1, 3]
    scratch = max(k.function.scratch_bytes for k in whole.kernels)
    assert whole.plan.arena_bytes + 4 * scratch <= apart.plan.arena_bytes
    with build(graph, tmp_path / "bundle", target, threads=2) as bundle:
        check(bundle.run(a.feeds), interpret(graph, a.feeds))


@pytest.fixture
def at_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be one kernel is, in blocks of any number of rows."""
    monkeypatch.setattr(attention, "SHARE_THAT_STAYS", 0.0)
    monkeypatch.setattr(attention, "LEAST_ROWS", 1)


@pytest.mark.usefixtures("at_any_cost")
@pytest.mark.parametrize("generator", ["llvm", "c"])
def test_equal_to_what_is_computed_apart(generator: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Over numbers of queries and keys, depths, batches, masks, caches and vectors."""
    sizes = st.sampled_from([2, 3, 8, 16, 17, 32, 33, 64, 100, 197])

    @settings(
        max_examples=(10 if generator == "llvm" else 3) * MORE, deadline=None, derandomize=MORE == 1, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        draw = data.draw
        a = Attention(draw(st.integers(0, 99)))
        batch = draw(st.sampled_from([(), (3,), (1, 4), (2, 3)]))
        masks = ["", "keys", "causal", "some rows"] + ["keys of each"] * bool(batch)
        mask, scaled, some = draw(st.sampled_from(masks)), draw(st.booleans()), draw(st.booleans())
        guarded = some or mask == "some rows"
        y = a.whole(batch, draw(sizes), draw(sizes), draw(sizes), draw(sizes), mask, scaled, guarded)
        graph = a.graph(a.builder.add("relu", y) if draw(st.booleans()) else y)
        bits = draw(st.sampled_from([0, 128, host().vector_bits])) if generator == "llvm" else host().vector_bits
        target = replace(host(), l2_bytes=draw(st.sampled_from([1 << 13, 1 << 14, 1 << 16, 1 << 20])), vector_bits=bits)
        assert len(joined(graph, target)) == 1
        folder = tmp_path_factory.mktemp("attention")
        with build(graph, folder / "bundle", target, generator, draw(st.integers(1, 2))) as bundle:
            found = bundle.run(a.feeds)
        check(found, interpret(graph, a.feeds))
        with build(graph, folder / "apart", replace(target, l2_bytes=0), generator) as bundle:
            check(found, bundle.run(a.feeds))

    run()


# ---------------------------------------------------------------- transposes around it
def heads(a: Attention, batch: int, length: int, count: int, depth: int, **order: tuple[int, ...]) -> Value:
    """A projection's result as heads: (batch, length, count * depth) to (batch, count, length, depth)."""
    x = a.builder.add("reshape", a.input(batch, length, count * depth), shape=(batch, length, count, depth))
    return a.builder.add("transpose", x, **(order or {"order": (0, 2, 1, 3)}))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("target", [SERVER.l2_bytes, 0, 1 << 14], ids=["large", "none", "small"])
def test_transposes_of_rows_are_views(batch: int, target: int, tmp_path: Path) -> None:
    """Of queries, values and the result; keys have to be transposed indeed."""
    a = Attention()
    add = a.builder.add
    queries, values = heads(a, batch, 40, 3, 16), heads(a, batch, 56, 3, 24)
    keys = heads(a, batch, 56, 3, 16, order=(0, 2, 3, 1))
    shares = add("softmax", add("matmul", queries, keys), axis=-1)
    y = add("transpose", add("matmul", shares, values), order=(0, 2, 1, 3))
    y = add("relu", add("reshape", y, shape=(batch, 40, 72)))
    graph = a.graph(y)
    machine = replace(host(), l2_bytes=target)
    made = compiled(graph, machine, "llvm")
    assert [c.kernel.name for c in made.calls].count("transpose") == 1
    with build(graph, tmp_path / "bundle", machine, "llvm", threads=2) as bundle:
        check(bundle.run(a.feeds), interpret(graph, a.feeds))


def test_other_transposes_are_copies(tmp_path: Path) -> None:
    """Of what others read too, before weights, of an output, and of columns."""
    a = Attention()
    add, b = a.builder.add, a.builder
    read_twice = heads(a, 1, 8, 2, 16)
    before_weights = heads(a, 1, 8, 2, 16)
    columns = heads(a, 1, 8, 2, 16, order=(0, 2, 3, 1))
    weights = b.constant(np.ones((16, 4), np.float32))
    kept = add("matmul", a.input(1, 2, 8, 8), a.input(1, 2, 8, 16))
    outputs = (
        add("matmul", a.input(1, 2, 5, 8), read_twice),
        add("relu", read_twice),
        add("matmul", before_weights, weights),
        add("matmul", a.input(1, 2, 8, 16), columns),
        add("transpose", kept, order=(0, 2, 1, 3)),
    )
    graph = a.graph(*outputs)
    views = plan_views(graph)
    assert [node.op for node in views.removed].count("transpose") == 0
    with build(graph, tmp_path / "bundle", generator="llvm") as bundle:
        check(bundle.run(a.feeds), interpret(graph, a.feeds))
