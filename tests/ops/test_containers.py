"""Sequences and optionals among inputs, outputs and the values that loops carry: a bundle sees their tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from sterna.api import compile_to
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna_runtime import load

APPENDED = """
    agraph (seq(float[n, 2]) x, float[3, 2] y) => (seq(float[n, 2]) z, float[m, 2] whole, int64 count)
    {
      z = SequenceInsert(x, y)
      whole = ConcatFromSequence <axis = 0> (z)
      count = SequenceLength(z)
    }"""


def model(graph: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{graph}')


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_a_bundle_takes_and_gives_the_elements(generator: str, tmp_path: Path) -> None:
    feeds = {"x[0]": numbers(1, 2), "x[1]": numbers(4, 2), "y": numbers(3, 2)}
    shapes = {name: array.shape for name, array in feeds.items()}
    bundle = load(compile_to(tmp_path / "bundle", model(APPENDED), shapes=shapes, generator=generator))
    assert [spec.name for spec in bundle.inputs] == list(feeds)
    found = bundle.run(feeds)
    assert list(found) == ["z[0]", "z[1]", "z[2]", "whole", "count"]
    for n, want in enumerate(feeds.values()):
        np.testing.assert_array_equal(found[f"z[{n}]"], want)
    np.testing.assert_array_equal(found["whole"], np.concatenate(list(feeds.values())))
    assert found["count"] == 3


def test_a_sequence_without_elements() -> None:
    graph = read(model(APPENDED), {"x": None})
    found = interpret(graph, {"y": numbers(3, 2)})
    assert list(found) == ["z[0]", "whole", "count"]
    assert found["count"] == 1


def test_a_sequence_of_unknown_length() -> None:
    with pytest.raises(SternaError) as caught:
        read(model(APPENDED))
    assert caught.value.codes == ("E0105",)
    assert 'shapes={"x[0]": ' in str(caught.value)


def test_a_tensor_cannot_be_absent() -> None:
    with pytest.raises(SternaError) as caught:
        read(model(APPENDED), {"x": None, "y": None})
    assert caught.value.codes == ("E0106",)


OPTIONAL = """
    agraph (optional(float[3]) x) => (float[3] y)
    {
      has = OptionalHasElement(x)
      y = If(has) <then_branch = present () => (float[3] a) { a = OptionalGetElement(x) },
                   else_branch = absent () => (float[3] b) { b = Constant <value = float[3] {1, 2, 3}> () }>
    }"""


def test_an_optional_is_its_tensor_or_absent() -> None:
    x = numbers(3)
    np.testing.assert_array_equal(interpret(read(model(OPTIONAL)), {"x": x})["y"], x)
    graph = read(model(OPTIONAL), {"x": None})
    assert not graph.inputs
    np.testing.assert_array_equal(interpret(graph, {})["y"], [1, 2, 3])


def test_a_loop_that_collects() -> None:
    """What exporters make of a list that a loop appends to."""
    graph = read(
        model("""
        agraph (float[2, 3] x) => (float[K, 3] y)
        <int64 trips = {3}, bool on = {1}>
        {
          empty = SequenceEmpty()
          found, last = Loop(trips, on, empty, x) <body = step
            (int64 i, bool go, seq(float[2, 3]) s, float[2, 3] v) => (bool going, seq(float[2, 3]) t, float[2, 3] w)
            { going = Identity(go)  w = Add(v, v)  t = SequenceInsert(s, w) }>
          y = ConcatFromSequence <axis = 0> (found)
        }""")
    )
    x = numbers(2, 3)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], np.concatenate([2 * x, 4 * x, 8 * x]))


@pytest.mark.parametrize("op", ["Scan", "Loop"])
def test_what_stays_unresolved(op: str) -> None:
    """A sequence where a loop makes rows of its results, or scans."""
    body = "(int64 i, bool go) => (bool going, seq(float[2]) t) { going = Identity(go)  t = SequenceConstruct(x) }"
    node = f"y = Loop(trips, on) <body = step {body}>"
    if op == "Scan":
        node = (
            "s = SequenceConstruct(x)  y = Scan <num_scan_inputs = 1, body = step (float[2] a) => (float[2] b) "
            "{ b = Identity(a) }> (s)"
        )
    text = f"agraph (float[2] x) => (float[K, 2] y) <int64 trips = {{2}}, bool on = {{1}}> {{ {node} }}"
    with pytest.raises(SternaError) as caught:
        read(model(text))
    assert caught.value.codes == ("E0104",)


def test_a_choice_of_sequences_needs_a_constant_condition() -> None:
    text = """
    agraph (bool c, float[2] x) => (seq(float[2]) y)
    {
      y = If(c) <then_branch = one () => (seq(float[2]) a) { a = SequenceConstruct(x) },
                 else_branch = two () => (seq(float[2]) b) { b = SequenceConstruct(x, x) }>
    }"""
    with pytest.raises(SternaError) as caught:
        read(model(text))
    assert caught.value.codes == ("E0107",)


def test_sequence_map_of_nothing() -> None:
    text = """
    agraph (seq(float[2]) x) => (int64 n)
    {
      y = SequenceMap(x) <body = twice (float[2] a) => (float[2] b) { b = Add(a, a) }>
      n = SequenceLength(y)
    }"""
    assert interpret(read(model(text), {"x": None}), {})["n"] == 0
