"""Long sums in parts, and their sum, as two kernels or one: they compute what the one did, and are chosen where a
device would have few tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import sterna
from sterna.api import compile_model, options_of
from sterna.driver import reading
from sterna.frontends.formats import read_model, source_of
from sterna.passes.context import PassContext, context_of
from sterna.passes.kernels import Call
from sterna.passes.linearize import CallSequence, Choice, Repeat
from sterna.passes.stages import Sequenced
from sterna.pipeline import walk
from sterna.schedule.strategies import Context, propose
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.split_sums import shared_sum, shared_sum_of, split_sum
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis
from support import device_bundles
from support.bound_axes import compare
from support.compiling import check
from support.opencl_host import opencl_target
from support.small_kernels import arrays, matmul, window


def combined(rows: int, depth: int, combiner: str) -> Kernel:
    """A row's reduction of what another stage computes, and an element-wise stage that reads both an input of it and
    one of its own."""
    x, y = placeholder("x", (rows, depth)), placeholder("parts", (rows,))
    k = reduce_axis("k", depth)
    twice = compute("twice", (rows, depth), lambda i, j: x[i, j] * 2.0)
    found = compute("found", (rows,), lambda i: reduce(combiner, twice[i, k.var], k))
    out = compute("out", (rows,), lambda i: E.unary("tanh", found[i]) + y[i] * x[i, 0])
    return Kernel("combined", (x, y), (), (out,))


def both(kernel: Kernel, stage: str, axis: int, parts: int) -> dict[str, np.ndarray]:
    """What the two kernels of a sum compute, one after the other."""
    t = kernel.tensor(stage)
    assert t.reduction is not None
    first, second = split_sum(kernel, t, t.reduction.axes[axis], parts)
    feeds = arrays(kernel)
    at_once = shared_sum(kernel, t, t.reduction.axes[axis], parts, 3)
    assert (found := shared_sum_of(at_once)) is not None
    assert (found.total.name, found.alone.outputs) == (stage, (found.parts,))
    assert shared_sum_of(kernel) is None
    feeds |= run_kernel(first, {t.name: feeds[t.name] for t in (*first.inputs, *first.params)})
    made = run_kernel(second, {t.name: feeds[t.name] for t in (*second.inputs, *second.params)})
    one = run_kernel(at_once, {t.name: feeds[t.name] for t in (*at_once.inputs, *at_once.params)})
    assert all(np.array_equal(one[name], array) for name, array in made.items())
    assert not one[found.arrivals.name].any()
    return made


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_two_kernels_compute_what_one_does(data: Any) -> None:
    parts, terms, rows = (data.draw(st.integers(1, 6)) for _ in range(3))
    kernel, stage = data.draw(
        st.sampled_from(
            [
                (combined(rows, parts * terms, data.draw(st.sampled_from(["sum", "prod", "min", "max"]))), "found"),
                (matmul(rows, 3, parts * terms, constant=data.draw(st.booleans())), "acc"),
                (window(rows, parts * terms, 2, dilation=2), "out"),
            ]
        )
    )
    wanted = run_kernel(kernel, arrays(kernel))
    for name, found in both(kernel, stage, 0, parts).items():
        np.testing.assert_allclose(found, wanted[name], 1e-4, 1e-4)


@pytest.mark.parametrize("parts", [3, 7])
def test_parts_are_alike(parts: int) -> None:
    with pytest.raises(ValueError, match="not alike"):
        both(matmul(4, 4, 16), "acc", 0, parts)


def test_only_plain_reductions_have_parts() -> None:
    kernel = matmul(4, 4, 16)
    with pytest.raises(ValueError, match="no plain reduction"):
        split_sum(kernel, kernel.tensor("out"), reduce_axis("k", 16), 2)


def test_strategies_schedule_both_kernels() -> None:
    kernel = matmul(24, 40, 96)
    acc = kernel.tensor("acc")
    assert acc.reduction is not None
    for each in split_sum(kernel, acc, acc.reduction.axes[0], 4):
        compare(propose(each, Context(opencl_target(groups=True))), None, orders=2)


# ---------------------------------------------------------------- the choice
def dense(rows: int, depth: int, columns: int) -> ModelProto:
    """x W + b, with random weights."""
    random = np.random.default_rng(3)
    constants = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (depth, columns)), ("b", (columns,)))
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "dense", ends, made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(layers: int) -> ModelProto:
    """Products of one row, each of what the one before it gives."""
    random = np.random.default_rng(4)
    names = ["x", *(f"h{n}" for n in range(1, layers)), "y"]
    weights = [numpy_helper.from_array(random.standard_normal((1024, 1024)).astype(np.float32) / 32, f"w{n}")
               for n in range(layers)]  # fmt: skip
    nodes = [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(layers)]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1024])] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sequence(model: ModelProto, target: str, change: Callable[[PassContext], PassContext] = lambda c: c) -> Sequenced:
    options = options_of(target)
    context = change(context_of(options))
    found = walk(read_model(source_of(model), reading(options)), context, "split-sums")
    assert isinstance(found, Sequenced)
    return found


@pytest.mark.parametrize(
    ("rows", "target", "outputs"),
    [(49, "cuda-sm90", [1, 1]), (1, "cuda-sm90", [3]), (49, "opencl", [1, 1]),
     (4096, "cuda-sm90", [1]), (49, "host", [1])],
    ids=["few tiles", "one row", "no last task", "many tiles", "no threads"],
)  # fmt: skip
def test_sums_are_split_where_tasks_are_few(rows: int, target: str, outputs: list[int]) -> None:
    """As two kernels, or as one whose outputs are the parts, too, and what counts tasks."""
    calls = sequence(dense(rows, 4608, 512), target).sequence.calls
    assert [len(call.outputs) for call in calls] == outputs


def test_what_may_run_on_the_cpu_stays_two_kernels() -> None:
    def asked(context: PassContext) -> PassContext:
        return replace(context, options=replace(context.options, device_for=(("*_total", "cpu"),)))

    assert [len(call.outputs) for call in sequence(dense(1, 4608, 512), "cuda-sm90", asked).sequence.calls] == [1, 1]


@pytest.mark.parametrize(("rows", "target"), [(1, "cuda-sm90"), (49, "opencl")])
def test_what_is_on_the_cpu_stays_whole(rows: int, target: str) -> None:
    """As asked, because of a type, or within a branch, where an equal kernel outside of it is in parts."""

    def asked(context: PassContext) -> PassContext:
        return replace(context, options=replace(context.options, device_for=(("y", "cpu"),)))

    def lacking(context: PassContext) -> PassContext:
        assert context.target.device is not None
        device = replace(context.target.device, lacks=("float32",))
        return replace(context, target=replace(context.target, device=device))

    def in_parts(calls: Sequence[Call]) -> bool:
        return any("parts" in call.kernel.name for call in calls)

    assert in_parts(sequence(dense(rows, 4608, 512), target).sequence.calls)
    for change in (asked, lacking):
        assert not in_parts(sequence(dense(rows, 4608, 512), target, change).sequence.calls)
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[{rows}, 4608] x, bool go) => (float[{rows}, 512] y, float[{rows}, 512] z) {{
          y = MatMul(x, w)
          z = If (go) <then_branch = yes () => (float[{rows}, 512] a) {{ b = Relu(x)  a = MatMul(b, w) }},
                       else_branch = no () => (float[{rows}, 512] c) {{ d = Exp(x)  c = MatMul(d, w) }}> }}""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4608, 512), np.float32), "w"))
    made = sequence(model, target).sequence
    (choice,) = made.control
    inside = made.calls[choice.first : choice.last]
    assert in_parts(made.calls)
    assert not in_parts(inside)
    assert any(call.key.startswith(f"{each.key}\n") for call in made.calls[: choice.first] for each in inside)


def test_counters_have_memory_of_their_own() -> None:
    """From before the first kernel on, and nothing else lies there at any time."""
    made = compile_model(chain(4), "cuda-sm80")
    counters = [v for call in made.calls for v in call.counters]
    assert len(counters) > 1
    places = {v: (at, at + int(v.type.bytes)) for v, at in made.plan.offsets.items()}
    for v in counters:
        first, end = places[v]
        assert not any(a < end and first < b for other, (a, b) in places.items() if other is not v)


def test_short_sums_stay_whole() -> None:
    assert len(sequence(dense(49, 24, 64), "cuda-sm90").sequence.calls) == 1


def test_more_multiprocessors_want_more_parts() -> None:
    def parts(count: int) -> int:
        def change(context: PassContext) -> PassContext:
            threads = context.target.threads
            assert threads is not None
            target = replace(context.target, threads=replace(threads, multiprocessors=count))
            return replace(context, target=target)

        values = sequence(dense(64, 4608, 64), "cuda-sm90", change).sequence.calls[0].outputs
        return int(values[1 if len(values) > 1 else 0].shape[0])

    assert 2 < parts(8) < parts(64)


def test_control_stays_over_its_calls() -> None:
    """Of calls of which every second becomes two, control is over the same ones."""
    calls = sequence(dense(1, 32, 8), "host").sequence.calls * 5
    value = calls[0].outputs[0]
    control = (Choice("if", value, 1, 3, 5), Repeat("loop", 3, 4, 2, None, None, None, 2))
    numbered = iter(range(5))
    found = CallSequence(calls, control).replaced(lambda call: (call,) * (1 + next(numbered) % 2))
    assert len(found.calls) == 7
    assert [(c.first, c.last) for c in found.control] == [(1, 7), (4, 6)]
    assert isinstance(found.control[0], Choice)
    assert found.control[0].middle == 4


@pytest.mark.family("opencl")
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 4096, 40), (49, 2304, 96)])
def test_on_a_device(rows: int, depth: int, columns: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = dense(rows, depth, columns)
    x = np.random.default_rng(5).standard_normal((rows, depth)).astype(np.float32)
    with (
        device_bundles.opencl(tmp_path_factory.mktemp("pocl")),
        sterna.compile(model, "opencl") as there,
        sterna.compile(model) as here,
    ):
        assert any(t.kernel.endswith("_total") for t in there.profile(1))
        first = there.run({"x": x})
        check(first, here.run({"x": x}), 1e-5)
        assert np.array_equal(there.run({"x": x})["y"], first["y"])
