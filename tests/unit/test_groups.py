"""Grouped convolutions with the groups as a dimension of their own: the same values, linear indices."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.passes.group_channels import group_channels
from sterna.passes.kernels import Call
from sterna.passes.views import plan_views
from sterna.targets.description import load_target
from sterna.te.groups import Groups, groups_of
from sterna.te.interpreter import run_kernel
from sterna.te.printer import print_kernel
from sterna.te.tensor import Kernel
from support.partition import build_calls


def call_of(groups: int, per_group: int, outputs: int, size: int, epilogue: bool) -> Call:
    """A grouped convolution, with a bias and a residual sum that fuse into it."""
    random = np.random.default_rng(3)
    b = Builder()
    x = Value(b.name("x"), tensor_type("float32", (1, 5, 4, groups * per_group)))
    w = b.constant(random.integers(-4, 5, (size, 1, per_group, groups * outputs)).astype(np.float32))
    y = b.add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=groups)
    inputs = [x]
    if epilogue:
        y = b.add("add", y, b.constant(random.integers(-4, 5, groups * outputs).astype(np.float32)))
        inputs.append(Value(b.name("r"), y.type))
        y = b.add("relu", b.add("add", y, inputs[1]))
    graph = Graph("test", tuple(inputs), (y,), tuple(b.nodes))
    views = plan_views(graph)
    (call,) = build_calls(graph, views)
    return call


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(1, 20), st.integers(1, 3), st.booleans())
def test_it_computes_the_same(groups: int, per_group: int, outputs: int, size: int, epilogue: bool) -> None:
    call = call_of(groups, per_group, outputs, size, epilogue)
    new = group_channels(call, load_target("x86-64-v2"))
    before, after = call.kernel, new.kernel
    assert isinstance(before, Kernel)
    assert isinstance(after, Kernel)
    assert (after is not before) == (outputs > 1 and size * per_group > 1)
    random = np.random.default_rng(5)
    feeds = {t.name: random.integers(-4, 5, [int(n) for n in t.shape]).astype(t.dtype) for t in before.inputs}
    old = {**feeds, **{p.name: c for p, c in zip(before.params, call.constants, strict=True)}}
    given_ = {t.name: feeds[t.name].reshape([int(n) for n in t.shape]) for t in after.inputs}
    given_ |= {p.name: c for p, c in zip(after.params, new.constants, strict=True)}
    for one, other in zip(run_kernel(before, old).values(), run_kernel(after, given_).values(), strict=True):
        np.testing.assert_array_equal(one.reshape(-1), other.reshape(-1))


def test_groups_become_a_dimension_of_all_that_has_their_channels() -> None:
    call = group_channels(call_of(3, 2, 8, 3, epilogue=True), load_target("x86-64-v4"))
    assert isinstance(call.kernel, Kernel)
    shapes = {
        t.name: [int(n) for n in t.shape] for t in (*call.kernel.inputs, *call.kernel.params, *call.kernel.outputs)
    }
    assert [shapes[name] for name in ("x0", "x1", "c0", "c1")] == [[5, 4, 6], [3, 4, 3, 8], [3, 2, 3, 8], [3, 8]]
    assert shapes[call.kernel.outputs[0].name] == [3, 4, 3, 8]
    assert "//" not in print_kernel(call.kernel)


def test_groups_that_share_a_vector_stay() -> None:
    target = load_target("x86-64-v4")
    small, large = (call_of(4, 3, outputs, 3, epilogue=False) for outputs in (4, 5))
    assert group_channels(small, target) is small
    assert group_channels(large, target) is not large
    assert isinstance(small.kernel, Kernel)
    assert [groups_of(t) for t in small.kernel.stages] == [Groups(len(small.kernel.outputs[0].axes) - 1, 4)]
