"""Each graph pass does what it is for, and the whole pipeline leaves what a convolutional network should become."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes.crop_taps import crop_taps
from sterna.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.eliminate_identities import eliminate_identities
from sterna.passes.fold_batch_norm import fold_batch_norm
from sterna.passes.fold_constants import fold_constants
from sterna.passes.fuse import fuse
from sterna.passes.hoist_elementwise import hoist_elementwise
from sterna.passes.layout import layout
from sterna.passes.materialize_outputs import materialize_outputs
from sterna.passes.multiply_by_reciprocals import multiply_by_reciprocals
from sterna.passes.separate_pools import separate_pools
from sterna.passes.views import plan_views
from sterna.passes.winograd import tile_choices, winograd
from sterna.pipeline import PIPELINE, STAGES, optimize, outline_of
from sterna.targets.description import load_target
from support.networks import mobilenet_v2, resnet18, resnet50

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def start(*shape: int) -> tuple[Builder, Value]:
    builder = Builder()
    return builder, Value(builder.name("x"), tensor_type("float32", shape))


def finish(builder: Builder, x: Value, *outputs: Value) -> Graph:
    return Graph("test", (x,), outputs, tuple(builder.nodes))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def same(before: Graph, after: Graph, tolerance: float = 1e-5) -> None:
    """Both compute the same on random input, up to rounding."""
    feeds = {v.name: np.random.default_rng(3).standard_normal(v.type.sizes).astype(np.float32) for v in before.inputs}
    one, other = interpret(before, feeds), interpret(after, feeds)
    assert list(one) == list(other)
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=tolerance, atol=tolerance)


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_constants_fold_and_views_share_memory() -> None:
    b, x = start(3, 4)
    w = b.constant(weights(4, 3))
    turned = b.add("transpose", w, order=(1, 0))
    result = b.add("add", x, b.add("mul", turned, b.scalar(2.0, "float32")))
    other = b.add("add", x, turned)
    graph = finish(b, x, result, other)
    folded = fold_constants(graph)
    assert ops(folded) == ["add", "add"]
    view = folded.nodes[1].inputs[1]
    assert view is not None
    assert view.data is not None
    assert w.data is not None
    assert np.shares_memory(view.data, w.data)
    same(graph, folded)


def test_large_results_are_not_folded() -> None:
    b, x = start(1)
    row = b.constant(weights(1 << 12, 1))
    column = b.constant(weights(1, 1 << 12))
    graph = finish(b, x, b.add("add", x, b.add("mul", row, column)))
    assert ops(fold_constants(graph)) == ["mul", "add"]


def test_identities_disappear() -> None:
    b, x = start(2, 3, 4)
    y = b.add("transpose", b.add("transpose", x, order=(2, 0, 1)), order=(1, 2, 0))
    y = b.add("reshape", b.add("reshape", y, shape=(6, 4)), shape=(2, 3, 4))
    y = b.add("pad", y, before=(0, 0, 0), after=(0, 0, 0))
    y = b.add("mul", y, b.constant(np.ones(4, np.float32)))
    y = b.add("add", b.scalar(0.0, "float32"), y)
    y = b.add("slice", y, starts=(0, 0, 0), sizes=(2, 3, 4), steps=(1, 1, 1))
    y = b.add("cast", y, to="float32")
    y = b.add("relu", y)
    graph = finish(b, x, y)
    assert ops(eliminate_dead_code(eliminate_identities(graph))) == ["relu"]
    same(graph, eliminate_identities(graph))


def test_a_reversal_is_no_identity() -> None:
    b, x = start(3)
    graph = finish(b, x, b.add("slice", x, starts=(2,), sizes=(3,), steps=(-1,)))
    assert ops(eliminate_identities(graph)) == ["slice"]


def test_equal_nodes_become_one_and_unequal_stay() -> None:
    b, x = start(3, 4)
    one, two = (b.add("clip", x, min=0.0, max=6.0) for _ in range(2))
    negative = b.add("pad", x, before=(1, 0), after=(0, 0), value=-0.0)
    positive = b.add("pad", x, before=(1, 0), after=(0, 0), value=0.0)
    graph = finish(b, x, b.add("add", one, two), b.add("div", negative, positive))
    assert Counter(ops(eliminate_common_subexpressions(graph))) == {"clip": 1, "add": 1, "pad": 2, "div": 1}


def test_dead_code() -> None:
    b, x = start(3)
    kept = b.add("relu", x)
    b.add("exp", b.add("neg", x))
    assert ops(eliminate_dead_code(finish(b, x, kept))) == ["relu"]


def test_scales_and_shifts_fold_into_a_convolution() -> None:
    b, x = start(1, 5, 5, 3)
    y = b.add("conv", x, b.constant(weights(3, 3, 3, 4)), strides=(1, 1), dilations=(1, 1))
    y = b.add("add", y, b.constant(weights(4)))
    y = b.add("mul", y, b.constant(weights(1, 1, 1, 4, seed=2)))
    y = b.add("sub", y, b.constant(weights(4, seed=3)))
    graph = finish(b, x, y)
    folded = eliminate_dead_code(fold_batch_norm(graph))
    assert ops(folded) == ["conv", "add"]
    same(graph, folded)


def test_what_others_read_is_not_folded() -> None:
    b, x = start(2, 3)
    y = b.add("matmul", x, b.constant(weights(3, 4)))
    graph = finish(b, x, b.add("mul", y, b.constant(weights(4))), y)
    assert ops(eliminate_dead_code(fold_batch_norm(graph))) == ["matmul", "mul"]


def convolution(b: Builder, x: Value, cin: int, cout: int) -> Value:
    """As front ends write it: channels first outside, last inside."""
    y = b.add("transpose", x, order=LAST)
    y = b.add("conv", y, b.constant(weights(1, 1, cin, cout)), strides=(1, 1), dilations=(1, 1))
    return b.add("transpose", y, order=FIRST)


def test_transposes_between_convolutions_cancel() -> None:
    b, x = start(1, 3, 6, 5)
    y = convolution(b, x, 3, 4)
    y = b.add("mul", b.add("relu", y), b.constant(weights(4, 1, 1)))
    y = b.add("pad", y, before=(0, 0, 1, 2), after=(0, 0, 0, 1))
    y = b.add("concat", y, b.add("exp", y), axis=1)
    y = b.add("resize", y, sizes=(1, 8, 14, 8), scales=(1.0, 1.0, 2.0, 1.0))
    y = b.add("softmax", convolution(b, y, 8, 2), axis=1)
    graph = finish(b, x, b.add("reduce_max", y, axes=(2, 3), keep_dims=False))
    after = layout(graph)
    assert ops(after).count("transpose") == 1
    same(graph, after)


def test_flattening_before_a_dense_layer_permutes_the_weight() -> None:
    b, x = start(2, 3, 4, 5)
    y = b.add("reshape", convolution(b, x, 3, 6), shape=(2, 120))
    graph = finish(b, x, b.add("matmul", y, b.constant(weights(120, 7))))
    after = layout(graph)
    assert ops(after) == ["transpose", "conv", "reshape", "matmul"]
    same(graph, after)


def test_channel_shuffle_needs_no_transpose_but_its_own() -> None:
    b, x = start(1, 4, 3, 3)
    y = b.add("reshape", convolution(b, x, 4, 6), shape=(1, 2, 3, 3, 3))
    y = b.add("reshape", b.add("transpose", y, order=(0, 2, 1, 3, 4)), shape=(1, 6, 3, 3))
    graph = finish(b, x, convolution(b, y, 6, 2))
    after = layout(graph)
    assert ops(after).count("transpose") <= 3
    same(graph, after)


def test_products_across_rows_exchange_their_factors() -> None:
    """Layers over positions, as of mixers: groups of threads read either factor in any order."""
    b, x = start(1, 14, 16)
    y = b.add("matmul", b.add("transpose", x, order=(0, 2, 1)), b.constant(weights(14, 7)))
    y = b.add("add", y, b.constant(weights(7)))
    y = b.add("transpose", b.add("matmul", b.add("relu", y), b.constant(weights(7, 14))), order=(0, 2, 1))
    graph = finish(b, x, b.add("matmul", b.add("add", y, x), b.constant(weights(16, 5))))
    after = layout(graph, exchanges=True)
    assert "transpose" not in ops(after)
    assert "transpose" in ops(layout(graph))
    same(graph, after)
    uneven, short = start(1, 16, 14)
    y = uneven.add("matmul", uneven.add("transpose", short, order=(0, 2, 1)), uneven.constant(weights(16, 7)))
    assert "transpose" in ops(layout(finish(uneven, short, y), exchanges=True))


def test_scores_of_two_orders_stay_as_their_products_want_them() -> None:
    """Half of them come transposed: they are turned, not the half that the softmax's rows already follow."""
    b, x = start(2, 8, 8)
    turned = b.add("transpose", b.add("matmul", x, x), order=(0, 2, 1))
    scores = b.add("softmax", b.add("mul", b.add("add", x, turned), b.scalar(0.5, "float32")), axis=2)
    rows = b.add("reshape", scores, shape=(1, 2, 8, 8))
    graph = finish(b, x, b.add("matmul", rows, b.constant(weights(8, 3))))
    after = layout(graph)
    assert ops(after).count("transpose") == 1
    (softmax,) = (node for node in after.nodes if node.op == "softmax")
    assert softmax.attributes["axis"] == 2
    same(graph, after)


@pytest.mark.parametrize(
    ("rate", "stride", "before", "after", "taps"),
    [(7, 1, 7, 7, 1), (9, 2, 9, 9, 1), (6, 1, 12, 0, 1), (6, 1, 9, 3, 2), (3, 1, 3, 3, 3), (8, 1, 4, 12, 2)],
)
def test_taps_outside_the_image_are_cropped(rate: int, stride: int, before: int, after: int, taps: int) -> None:
    """At rates of the image's size only some taps read it."""
    b, x = start(1, 6, 6, 3)
    y = b.add("pad", x, before=(0, before, before, 0), after=(0, after, after, 0))
    y = b.add("conv", y, b.constant(weights(3, 3, 3, 4)), strides=(stride, stride), dilations=(rate, rate))
    graph = finish(b, x, y)
    after_all = eliminate_dead_code(crop_taps(graph))
    (conv,) = (node for node in after_all.nodes if node.op == "conv")
    assert tuple(map(int, conv.operands[1].shape[:2])) == (taps, taps)
    same(graph, after_all)


def test_lookups_are_stored_before_they_are_transposed() -> None:
    b, x = start(4, 8, 8)
    places = b.constant(np.random.default_rng(0).integers(0, 8, (4, 8, 8)))
    found = b.add("exp", b.add("gather_elements", x, places, axis=2))
    graph = finish(b, x, b.add("transpose", found, order=(0, 2, 1)))
    groups = fuse(graph, plan_views(graph))
    assert [[node.op for node in group.nodes] for group in groups] == [["gather_elements", "exp"], ["transpose"]]


def test_activations_join_what_is_before_a_reshape() -> None:
    b, x = start(1, 6, 8)
    turned = b.add("transpose", x, order=(0, 2, 1))
    rows = b.add("reshape", b.add("reshape", turned, shape=(1, 2, 4, 6)), shape=(1, 8, 6))
    result = b.add("tanh", b.add("sigmoid", rows))
    graph = finish(b, x, result)
    hoisted = eliminate_dead_code(hoist_elementwise(graph))
    assert ops(hoisted) == ["transpose", "sigmoid", "tanh", "reshape"]
    assert hoisted.outputs[0].name == result.name
    same(graph, hoisted)


def test_activations_stay_where_others_read_what_is_between() -> None:
    b, x = start(1, 6, 8)
    rows = b.add("reshape", b.add("matmul", x, b.constant(weights(8, 10))), shape=(60,))
    graph = finish(b, x, b.add("sigmoid", rows), b.add("tanh", rows))
    assert ops(eliminate_dead_code(hoist_elementwise(graph))) == ops(graph)


def test_divisions_whose_rounding_is_lost_are_multiplications() -> None:
    b, x = start(3, 4)
    divisor = b.scalar(1.7, "float32")
    lost = b.add("matmul", b.add("erf", b.add("div", x, divisor)), b.constant(weights(4, 5)))
    returned = b.add("div", x, divisor)
    rounded = b.add("matmul", b.add("round", b.add("div", x, divisor)), b.constant(weights(4, 5)))
    graph = finish(b, x, lost, returned, rounded)
    changed = multiply_by_reciprocals(graph)
    assert Counter(ops(changed)) == Counter(ops(graph)) - Counter({"div": 1}) + Counter({"mul": 1})
    assert ops(changed)[0] == "mul"
    same(graph, changed)


@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "dilations"),
    [
        ((1, 24, 20, 3), (5, 5), (1, 1), (1, 1)),
        ((2, 20, 24, 2), (9, 7), (2, 1), (1, 2)),
        ((1, 9, 9, 9, 2), (4, 4, 4), (1, 1, 1), (1, 1, 1)),
        ((1, 20, 3, 20, 2), (5, 1, 5), (1, 1, 1), (1, 1, 1)),
    ],
)
def test_large_windows_are_taken_one_axis_after_the_other(
    shape: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> None:
    b, x = start(*shape)
    graph = finish(b, x, b.add("max_pool", x, kernel=kernel, strides=strides, dilations=dilations))
    changed = separate_pools(graph)
    axes = sum(size > 1 for size in kernel)
    assert ops(changed) == ["max_pool"] * axes
    assert changed.outputs[0].shape == graph.outputs[0].shape
    data = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    data.flat[data.size // 2], data.flat[0] = np.nan, -np.inf
    (before,), (after,) = (interpret(each, {x.name: data}).values() for each in (graph, changed))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("kernel", "strides"), [((3, 3), (1, 1)), ((3, 3), (2, 2)), ((1, 9), (1, 1)), ((1, 5), (2, 1))]
)
def test_small_windows_stay_whole(kernel: tuple[int, int], strides: tuple[int, int]) -> None:
    b, x = start(1, 30, 30, 4)
    graph = finish(b, x, b.add("max_pool", x, kernel=kernel, strides=strides, dilations=(1, 1)))
    assert ops(separate_pools(graph)) == ["max_pool"]


@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize("sizes", [(1, 8, 8), (2, 7, 10), (1, 5, 5), (1, 3, 4)])
@pytest.mark.parametrize("padded", [False, True])
def test_minimal_filtering(sizes: tuple[int, int, int], padded: bool, tile: int) -> None:
    b, x = start(*sizes, 32)
    y = b.add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0) if padded else x
    y = b.add("conv", y, b.constant(weights(3, 3, 32, 40) / 17), strides=(1, 1), dilations=(1, 1), groups=1)
    graph = finish(b, x, b.add("relu", y))
    changed = eliminate_dead_code(winograd(graph, {y.name: (tile, tile)}))
    assert [op for op in ops(changed) if op != "pad"] == ["winograd_input", "matmul", "winograd_output", "relu"]
    whole = all((n if padded else n - 2) % tile == 0 for n in sizes[1:])
    assert ops(changed).count("pad") == (padded or not whole)
    same(graph, changed, {2: 1e-5, 4: 2e-5, 6: 5e-5}[tile])


@pytest.mark.parametrize(
    ("taps", "tile"), [((3,), (4,)), ((5,), (2,)), ((5,), (4,)), ((3, 1), (4, 1)), ((1, 5), (1, 2)), ((3, 5), (2, 4))]
)
def test_minimal_filtering_of_other_filters(taps: tuple[int, ...], tile: tuple[int, ...]) -> None:
    b, x = start(2, *(9 for _ in taps), 16)
    once = tuple(1 for _ in taps)
    y = b.add("conv", x, b.constant(weights(*taps, 16, 24) / 9), strides=once, dilations=once, groups=1)
    graph = finish(b, x, y)
    changed = winograd(graph, {y.name: tile})
    assert "conv" not in ops(changed)
    same(graph, changed, 5e-5)


def test_tiles_read_nothing_of_a_padding_that_is_not_finite() -> None:
    """A sum with an infinity is not what the definition gives, which does not read it."""
    b, x = start(1, 5, 5, 16)
    y = b.add("pad", x, before=(0, 0, 0, 0), after=(0, 1, 1, 0), mode="constant", value=float("inf"))
    y = b.add("slice", y, starts=(0, 0, 0, 0), sizes=(1, 5, 5, 16), steps=(1, 1, 1, 1))
    y = b.add("conv", y, b.constant(weights(3, 3, 16, 16) / 9), strides=(1, 1), dilations=(1, 1), groups=1)
    same(finish(b, x, y), winograd(finish(b, x, y), {y.name: (2, 2)}))


def test_tiles_are_worth_it_where_there_are_channels() -> None:
    target = load_target("x86-64-v3")

    def choices(size: int, depth: int) -> list[int]:
        b, x = start(1, size, size, depth)
        w = b.constant(weights(3, 3, depth, depth))
        b.add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=1)
        return [choice.outputs[0] for choice in tile_choices(b.nodes[-1], target)]

    assert choices(58, 64)[-1] == 4, "6 x 6 has 64 places, too far apart"
    assert choices(58, 3) == []
    assert choices(5, 512) in ([], [2]), "all outputs are one or two tiles, whose weights are 36 numbers where 9 are"


@pytest.mark.parametrize(
    "how", [{"strides": (2, 2)}, {"dilations": (2, 2)}, {"groups": 2}, {"kernel": 4}, {"kernel": 1}, {"value": np.inf}]
)
def test_other_convolutions_have_no_minimal_form(how: dict[str, Any]) -> None:
    settings = {"strides": (1, 1), "dilations": (1, 1), "groups": 1, "kernel": 3, "value": 1.0, **how}
    kernel, value = settings.pop("kernel"), settings.pop("value")
    b, x = start(1, 9, 9, 64)
    w = weights(kernel, kernel, 64 // settings["groups"], 64) * np.float32(value)
    y = b.add("conv", x, b.constant(w), **settings)
    assert ops(winograd(finish(b, x, y), {y.name: (2, 2)})) == ["conv"]
    assert tile_choices(b.nodes[-1], load_target("x86-64-v3")) == ()


def test_outputs_have_storage_of_their_own() -> None:
    b, x = start(3)
    y = b.add("relu", x)
    graph = materialize_outputs(
        Graph("g", (x,), (x, y, y, b.scalar(1.0, "float32")), tuple(b.nodes), ("a", "b", "c", "d"))
    )
    assert ops(graph) == ["relu", "identity", "identity", "identity"]
    assert graph.output_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("array", "made"),
    [
        (np.eye(64, dtype=np.float32), "scattered"),
        (np.eye(64, k=1, dtype=bool), "scattered"),
        (np.where(np.eye(40) == 1, -0.0, np.nan), "scattered"),
        (np.full((40, 50), -7, np.int64), "expand"),
        (np.full((40, 50), np.inf, np.float16), "expand"),
        (np.eye(8, dtype=np.float32), "identity"),
        (np.tri(64, dtype=np.float32), "identity"),
        (np.where(np.arange(4096) % 2, 0.0, -0.0), "identity"),
    ],
)  # fmt: skip
def test_outputs_that_are_one_number_but_for_a_few_elements_are_made(array: np.ndarray, made: str) -> None:
    """Their bytes are neither kept nor read."""
    b, x = start(3)
    graph = materialize_outputs(Graph("g", (x,), (b.constant(array),), (), ("y",)))
    assert ops(graph) == [made]
    same = interpret(graph, {"x": np.zeros(3, np.float32)})["y"]
    assert same.dtype == array.dtype
    assert same.tobytes() == array.tobytes()
    kept = sum(value.data.nbytes for node in graph.nodes for value in node.operands if value.data is not None)
    assert made == "identity" or kept < array.nbytes / 2


def test_equal_kernels_are_formed_once() -> None:
    random = np.random.default_rng(0)
    b, x = start(8, 16)
    hidden = x
    for _ in range(3):
        weights = b.constant(random.standard_normal((16, 16)).astype(np.float32))
        hidden = b.add("relu", b.add("matmul", hidden, weights))
    wider = b.add("matmul", hidden, b.constant(random.standard_normal((16, 24)).astype(np.float32)))
    calls = outline_of(finish(b, x, wider), Options(load_target("c99"))).sequence.calls
    first, second, third, last = calls
    assert first.kernel is second.kernel is third.kernel is not last.kernel
    assert first.key == second.key == third.key != last.key
    assert len({call.constants[0].tobytes() for call in calls}) == len(calls)


def test_stages_have_names_of_their_own() -> None:
    assert len({each.name for each in PIPELINE}) == len(PIPELINE)
    assert len(set(STAGES)) == len(STAGES)


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "batch-norm"])
@pytest.mark.parametrize("build", [mobilenet_v2, resnet18])
def test_networks_keep_one_transpose_and_no_normalization(build: object, folded: bool) -> None:
    assert callable(build)
    graph = read(build(size=64, folded=folded))
    after = optimize(graph, check=True)
    kinds = Counter(ops(after))
    assert kinds["transpose"] == 1
    assert kinds["mul"] == kinds["sub"] == kinds["div"] == 0
    same(graph, after)


@pytest.mark.parametrize(("build", "seconds"), [(mobilenet_v2, 4.0), (resnet50, 10.0)])
def test_reading_and_passes_are_quick(build: object, seconds: float) -> None:
    """Ten times the processor time that it takes on an idle machine, so that only a change of kind fails."""
    assert callable(build)
    model = build()
    begin = time.process_time()
    optimize(read(model))
    assert time.process_time() - begin < seconds
