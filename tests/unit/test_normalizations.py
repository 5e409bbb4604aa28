"""Normalizations as exporters spell them out become `layer_norm`, or sums of channels; what only looks alike stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.passes.normalizations import group_statistics, layer_normalizations

EPSILON = 1e-3


class Writer(Builder):
    """Operators by name: `b.sub(x, y)`."""

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *inputs, **attributes: self.add(op, *inputs, **attributes)

    def number(self, value: float) -> Value:
        return self.scalar(value, "float32")

    def statistics(self, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
        """The mean, what is left of it, and the deviation."""
        mean = self.reduce_mean(x, axes=axes, keep_dims=True)
        gap = self.sub(x, mean)
        variance = self.reduce_mean(self.mul(gap, gap), axes=axes, keep_dims=True)
        return mean, gap, self.sqrt(self.add("add", variance, self.number(EPSILON)))


def divided(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    _, gap, deviation = b.statistics(x, axes)
    return b.div(gap, deviation)


def multiplied(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """By 1 / deviation, the distance computed anew."""
    mean, _, deviation = b.statistics(x, axes)
    return b.mul(b.reciprocal(deviation), b.sub(x, mean))


def of_squares(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """Of the mean of squares, as ONNX defines GroupNormalization."""
    mean = b.reduce_mean(x, axes=axes, keep_dims=True)
    squares = b.reduce_mean(b.mul(x, x), axes=axes, keep_dims=True)
    variance = b.sub(squares, b.mul(mean, mean))
    return b.div(b.sub(x, mean), b.sqrt(b.add("add", variance, b.number(EPSILON))))


def as_batch_norm(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """x * scale + (shift - mean * scale), with a factor for each of the last elements."""
    mean, _, deviation = b.statistics(x, axes)
    factor = b.constant(np.linspace(1, 2, int(x.shape[-1]), dtype=np.float32))
    shift = b.constant(np.linspace(-1, 1, int(x.shape[-1]), dtype=np.float32))
    scale = b.mul(b.div(b.number(1), deviation), factor)
    return b.add("add", b.mul(x, scale), b.sub(shift, b.mul(mean, scale)))


def negated(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """x * scale + -mean * scale, without factor and shift."""
    mean, _, deviation = b.statistics(x, axes)
    scale = b.reciprocal(deviation)
    return b.add("add", b.mul(b.neg(mean), scale), b.mul(x, scale))


FORMS = [divided, multiplied, of_squares, as_batch_norm, negated]


def graph_of(form: Callable[..., Value], shape: tuple[int, ...], axes: tuple[int, ...]) -> Graph:
    b, x = Writer(), Value("x", tensor_type("float32", shape))
    y = form(b, x, axes)
    return Graph("net", (x,), (y,), tuple(b.nodes), ("y",))


def check(before: Graph, after: Graph) -> None:
    x = np.random.default_rng(0).normal(2, 3, [int(n) for n in before.inputs[0].shape]).astype(np.float32)
    wanted, found = (interpret(graph, {"x": x})["y"] for graph in (before, after))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("shape", "axes"), [((3, 10), (1,)), ((2, 3, 4, 5), (2, 3)), ((2, 3, 4), (-1,))])
def test_over_the_last_dimensions(form: Callable[..., Value], shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    before = graph_of(form, shape, axes)
    after = layer_normalizations(before)
    operators = [node.op for node in after.nodes]
    assert operators == ["layer_norm", *(["mul", "add"] if form is as_batch_norm else [])]
    check(before, after)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 4, 5, 3, 4), (1, 2, 4)), ((1, 9, 3, 2, 2), (1, 3, 4)), ((8, 3, 2), (0, 2))]
)
def test_over_groups_of_channels(form: Callable[..., Value], shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """No mean goes over places and channels at once any more."""
    before = graph_of(form, shape, axes)
    assert layer_normalizations(before) is before
    after = group_statistics(before)
    means = [node for node in after.nodes if node.op == "reduce_mean"]
    assert [len(node.attributes["axes"]) for node in means] == [1] * 4
    check(before, after)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 16, 5), (1,)), ((1, 3, 2, 3, 4), (1, 2, 4)), ((2, 16, 3, 64), (1, 3)), ((2, 16, 3, 4), (0, 1))],
)
def test_sums_that_stay(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Of every channel alone, of few places, or of many channels side by side."""
    before = graph_of(divided, shape, axes)
    assert group_statistics(layer_normalizations(before)) is before


def other_mean(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    _, _, deviation = b.statistics(x, axes)
    return b.div(b.sub(x, b.reduce_max(x, axes=axes, keep_dims=True)), deviation)


def other_axes(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    gap = b.sub(x, b.reduce_mean(x, axes=(0, *axes), keep_dims=True))
    variance = b.reduce_mean(b.mul(gap, gap), axes=axes, keep_dims=True)
    return b.div(gap, b.sqrt(b.add("add", variance, b.number(EPSILON))))


def other_epsilon(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """Which is one per row."""
    mean = b.reduce_mean(x, axes=axes, keep_dims=True)
    gap = b.sub(x, mean)
    variance = b.reduce_mean(b.mul(gap, gap), axes=axes, keep_dims=True)
    return b.div(gap, b.sqrt(b.add("add", variance, b.constant(np.array([[1], [2], [3]], np.float32)))))


def other_offset(b: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """mean * scale, not -mean * scale."""
    mean, _, deviation = b.statistics(x, axes)
    scale = b.reciprocal(deviation)
    return b.add("add", b.mul(x, scale), b.mul(mean, scale))


@pytest.mark.parametrize("form", [other_mean, other_axes, other_epsilon, other_offset])
def test_what_only_looks_alike(form: Callable[..., Value]) -> None:
    before = graph_of(form, (3, 10), (1,))
    assert layer_normalizations(before) is before


def test_statistics_that_are_read_stay() -> None:
    b, x = Writer(), Value("x", tensor_type("float32", (3, 10)))
    mean, gap, deviation = b.statistics(x, (1,))
    y = b.div(gap, deviation)
    before = Graph("net", (x,), (y, mean), tuple(b.nodes), ("y", "mean"))
    after = layer_normalizations(before)
    assert sorted(node.op for node in after.nodes) == ["layer_norm", "reduce_mean"]
    check(before, after)
