"""Decisions above kernels: what may be decided, that results are the same whatever is, and what is measured."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.bundle.writer import write_bundle
from sterna.choices import BY_RULE, Choice, Chooser, Knob
from sterna.driver import compile_graph
from sterna.frontends.formats import read_model
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.passes.decisions import fingerprint
from sterna.pipeline import walk
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.tuning.parts import Decided, differing, excerpt, formed
from sterna_runtime import load
from sterna_runtime.checks import compare

#: More examples than the suite has time for.
EXAMPLES = int(os.environ.get("STERNA_EXAMPLES", "1"))
#: Of results, relative to the largest: sums may be added up in another order.
TOLERANCE = 2e-5


class Network:
    """A random network of blocks whose kernels may be cut otherwise."""

    def __init__(self, seed: int):
        self.random, self.builder = random.Random(seed), Builder()
        self.numbers = np.random.default_rng(seed)

    def data(self, *shape: int) -> np.ndarray:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def conv(self, x: Value, outputs: int, taps: int = 1, groups: int = 1, stride: int = 1) -> Value:
        channels, edge = x.type.sizes[-1], taps // 2
        if taps > 1:
            ends = {"before": (0, edge, edge, 0), "after": (0, edge, edge, 0)}
            x = self.builder.add("pad", x, **ends, mode="constant", value=0.0)
        w = self.data(taps, taps, channels // groups, outputs) / np.float32(np.sqrt(taps * taps * channels / groups))
        y = self.builder.add(
            "conv", x, self.builder.constant(w), strides=(stride, stride), dilations=(1, 1), groups=groups
        )
        return self.builder.add("add", y, self.builder.constant(self.data(outputs)))

    def activation(self, x: Value) -> Value:
        b, kind = self.builder, self.random.randrange(4)
        if kind == 0:
            return b.add("clip", x, min=0.0, max=6.0)
        if kind == 1:
            return b.add("mul", x, b.add("sigmoid", x))
        return b.add("tanh", x) if kind == 2 else x

    def block(self, x: Value) -> Value:
        b, channels = self.builder, x.type.sizes[-1]
        kind = self.random.randrange(5)
        if kind == 0:  # a bottleneck, whose three convolutions may be one kernel
            y = self.activation(self.conv(x, 3 * channels))
            y = self.activation(self.conv(y, 3 * channels, 3, 3 * channels))
            return b.add("add", self.conv(y, channels), x)
        if kind == 1:
            return self.activation(self.conv(x, channels, 3, self.random.choice((1, 2, channels))))
        if kind == 2:  # normalized: the difference is read twice
            mean = b.add("reduce_mean", x, axes=(3,), keep_dims=True)
            apart = b.add("sub", x, mean)
            spread = b.add("reduce_mean", b.add("mul", apart, apart), axes=(3,), keep_dims=True)
            return b.add("div", apart, b.add("sqrt", b.add("add", spread, b.constant(np.float32(1)))))
        if kind == 3:  # an image that lies channels first, and is wanted so
            y = b.add("transpose", x, order=(0, 3, 1, 2))
            y = b.add("transpose", b.add("mul", y, b.constant(np.float32(0.5))), order=(0, 2, 3, 1))
            y = self.conv(y, channels, 3)
            y = b.add("softmax", b.add("transpose", y, order=(0, 3, 1, 2)), axis=3)
            return b.add("transpose", y, order=(0, 2, 3, 1))
        shared = b.add("exp", b.add("mul", x, b.constant(np.float32(0.1))))
        left, right = b.add("relu", b.add("sub", shared, x)), b.add("reduce_max", shared, axes=(3,), keep_dims=True)
        return b.add("mul", left, right)

    def graph(self) -> Graph:
        channels = self.random.choice((4, 8, 12))
        x = Value(self.builder.name("x"), tensor_type("float32", (1, self.random.choice((6, 14)), 15, channels)))
        y = x
        for _ in range(self.random.choice((1, 2, 3))):
            y = self.block(y)
        return Graph("network", (x,), (y,), tuple(self.builder.nodes))


class Drawn(Decided):
    """Every decision is drawn."""

    def __init__(self, seed: int):
        super().__init__()
        self._random, self.drawn = random.Random(seed), dict[str, object]()

    def part(self, part: str, target: Target) -> Chooser:
        decided = self

        class Drawing:
            def choose(self, name: str, candidates: Callable[[], object], default: object) -> object:
                values = tuple(dict.fromkeys((default, *candidates())))  # type: ignore[misc]
                return decided.drawn.setdefault(part, decided._random.choice(values))

        return Drawing()  # type: ignore[return-value]


def results(graph: Graph, options: Options) -> Mapping[str, np.ndarray]:
    x = np.random.default_rng(1).standard_normal(graph.inputs[0].type.sizes).astype(np.float32)
    with (
        tempfile.TemporaryDirectory() as folder,
        load(write_bundle(compile_graph(graph, "network", options), Path(folder) / "bundle")) as bundle,
    ):
        return {name: array.copy() for name, array in bundle.run({graph.inputs[0].name: x}).items()}


@settings(max_examples=5 * EXAMPLES, deadline=None, suppress_health_check=[*HealthCheck], derandomize=EXAMPLES == 1)
@given(seed=st.integers(0, 1 << 20), drawn=st.integers(0, 1 << 20))
def test_whatever_is_decided_gives_the_same(seed: int, drawn: int) -> None:
    graph, options = Network(seed).graph(), Options(host(), "llvm")
    wanted = results(graph, options)
    found = results(graph, replace(options, tuning=Drawn(drawn)))
    for name, array in wanted.items():
        assert compare(name, found[name], array).error <= TOLERANCE


def asked_of(graph: Graph, target: str = "x86-64-v2") -> dict[str, list[Knob]]:
    """The decisions about a graph, by their names."""
    found: dict[str, list[Knob]] = {}
    for knob in formed(graph, Options(load_target(target), "llvm"), {}).asked.values():
        found.setdefault(knob.name, []).append(knob)
    return found


def normalized() -> Graph:
    network = Network(0)
    x = Value(network.builder.name("x"), tensor_type("float32", (64, 96)))
    b = network.builder
    apart = b.add("sub", x, b.add("reduce_mean", x, axes=(1,), keep_dims=True))
    spread = b.add("reduce_mean", b.add("mul", apart, apart), axes=(1,), keep_dims=True)
    y = b.add("mul", apart, spread)
    return Graph("normalized", (x,), (y,), tuple(b.nodes))


def groups_of(graph: Graph, tuning: Decided) -> list[list[str]]:
    options = replace(Options(load_target("x86-64-v2"), "llvm"), tuning=tuning)
    grouped = walk(graph, context_of(options), "recompute")
    return [[node.op for node in group.nodes] for group in grouped.groups[grouped.graph]]


def test_what_several_kernels_read_may_be_computed_by_each() -> None:
    graph, decided = normalized(), Decided()
    stored = groups_of(graph, decided)
    (part,) = (part for part, knob in decided.asked.items() if knob == Knob("again", (False, True)))
    again = groups_of(graph, Decided({part: {"again": True}}))
    assert ["sub"] in stored
    assert ["sub"] not in again
    assert len(again) == len(stored) - 1
    assert sum(group.count("sub") for group in again) == 2


def test_a_chain_may_end_before_a_function() -> None:
    network = Network(0)
    x = Value(network.builder.name("x"), tensor_type("float32", (1, 8, 8, 16)))
    y = network.builder.add("tanh", network.builder.add("relu", network.conv(x, 16)))
    graph, decided = Graph("chain", (x,), (y,), tuple(network.builder.nodes)), Decided()
    assert groups_of(graph, decided) == [["conv", "add", "relu", "tanh"]]
    ((part, knob),) = decided.asked.items()
    assert knob == Knob("end", (4, 3))
    assert groups_of(graph, Decided({part: {"end": 3}})) == [["conv", "add", "relu"], ["tanh"]]


def test_parts_that_look_alike_have_one_fingerprint() -> None:
    def part(channels: int, seed: int) -> str:
        network = Network(seed)
        for _ in range(seed):
            network.builder.name("x")  # so that values are called otherwise
        x = Value(network.builder.name("x"), tensor_type("float32", (1, 8, 8, channels)))
        network.conv(x, 16, 3)
        return fingerprint("joined", network.builder.nodes)

    assert part(8, 0) == part(8, 3)
    assert part(8, 0) != part(12, 0)
    network = Network(0)
    x = Value("x", tensor_type("float32", (1, 8, 8, 8)))
    network.conv(x, 16, 3)
    assert fingerprint("joined", network.builder.nodes) != fingerprint("end", network.builder.nodes)


def test_only_calls_that_differ_are_taken_out_and_of_those_that_look_alike_one() -> None:
    network = Network(0)
    x = Value(network.builder.name("x"), tensor_type("float32", (1, 10, 10, 8)))
    y = x
    for _ in range(3):
        y = network.builder.add("relu", network.conv(network.conv(y, 8, 3, 8), 8))
    graph, options = Graph("blocks", (x,), (y,), tuple(network.builder.nodes)), Options(host(), "llvm")
    base = formed(graph, options, {})
    part, knob = next((part, knob) for part, knob in base.asked.items() if knob.name == "joined")
    other = formed(graph, options, {part: {"joined": knob.values[1]}})
    own, others = differing(base.calls, other.calls)
    assert 0 < len(own) < len(base.calls)
    cut = excerpt(other.outline, others, options)
    assert len(cut.sequence.calls) == len(others)
    compiled = walk(cut, context_of(options, "part"), after="group-channels")
    with tempfile.TemporaryDirectory() as folder, load(write_bundle(compiled, Path(folder) / "part")) as bundle:
        assert bundle.outputs
        assert differing(base.calls, base.calls) == ((), ())


@pytest.mark.parametrize("choice", [{"end": 99}, {"again": "perhaps"}])
def test_what_is_no_candidate_is_as_the_rule_says(choice: Choice) -> None:
    graph, decided = normalized(), Decided()
    stored = groups_of(graph, decided)
    assert groups_of(graph, Decided(dict.fromkeys(decided.asked, choice))) == stored
    assert Decided().chooser("", host()) is BY_RULE


def test_a_loop_computes_nothing_again() -> None:
    """What a loop reads beside another kernel stays a kernel of its own."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float16 start, float16 limit, float16 delta) => (float z) {
          c = Constant<value = bool {1}>()
          s = Cast<to = 1>(start)
          l = Cast<to = 1>(limit)
          d = Cast<to = 1>(delta)
          range = Sub(l, s)
          steps = Div(range, d)
          n = Cast<to = 7>(steps)
          z = Loop(n, c, s) <body = b (int64 i, bool k, float sum) => (bool k2, float more) {
            k2 = Identity(k)
            more = Add(sum, d)
          }>
        }"""
    )
    inputs = {name: np.array(value, np.float16) for name, value in (("start", 1), ("limit", 4), ("delta", 0.5))}
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_graph(read_model(model), "network", Options(host(), "llvm"))
        with load(write_bundle(compiled, Path(folder) / "bundle")) as bundle:
            assert bundle.run(inputs)["z"] == 4.0
