"""If, Loop and Scan that are only decided at run time, compiled, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Compiled, Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.passes.pipeline import optimize
from sterna.runtime import load
from sterna.targets.target import load_target

Feeds = Mapping[str, Any]


def model(graph: str) -> str:
    return f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}'


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def compiled(text: str, generator: str = "llvm", target: str = "host") -> Compiled:
    return compile_graph(read(parser.parse_model(model(text))), "flow", Options(load_target(target), generator))


def check(text: str, place: Path, every: Iterable[Feeds], generators: Iterable[str] = ("c", "llvm")) -> Compiled:
    """The model gives what ONNX Runtime says: interpreted, before and after the passes, and as a bundle."""
    proto = parser.parse_model(model(text))
    session = onnxruntime.InferenceSession(onnx.shape_inference.infer_shapes(proto).SerializeToString())
    graph = read(proto)
    every = [{name: np.asarray(value) for name, value in feeds.items()} for feeds in every]
    wanted = [session.run(None, feeds) for feeds in every]

    def compare(found: Mapping[str, np.ndarray], expected: list[np.ndarray]) -> None:
        for have, want in zip(found.values(), expected, strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)

    for version in (graph, optimize(graph, check=True)):
        for feeds, expected in zip(every, wanted, strict=True):
            compare(interpret(version, feeds), expected)
    for generator in generators:
        result = compile_graph(graph, "flow", Options(load_target("host"), generator))
        with load(write_bundle(result, place / generator)) as bundle:
            for feeds, expected in zip(every, wanted, strict=True):
                compare(bundle.run(feeds), expected)
    return result


def decided(result: Compiled) -> list[str]:
    return [type(control).__name__ for control in result.control]


# ---------------------------------------------------------------- If
CHOICE = """
    agraph (bool hot, float[3, 4] x, float[4, 4] y) => (float[3, 4] z, float[3, 4] w)
    <float[4, 4] weight = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}>
    {
      before = Tanh(x)
      z, w = If (hot) <
        then_branch = one () => (float[3, 4] a, float[3, 4] b) { a = MatMul(before, weight)  b = Identity(x) },
        else_branch = two () => (float[3, 4] c, float[3, 4] d) { p = MatMul(x, y)  c = Sub(p, before)  d = Relu(c) }>
    }"""


def test_if(tmp_path: Path) -> None:
    feeds = {"x": numbers(3, 4), "y": numbers(4, 4)}
    result = check(CHOICE, tmp_path, [{**feeds, "hot": True}, {**feeds, "hot": False}])
    assert decided(result) == ["Choice"]


# ---------------------------------------------------------------- Loop
TRIPS = """
    agraph (int64 trips, float[4, 4] first, float[4, 4] x) => (float[4, 4] last)
    <bool on = {1}, float[4, 4] weight = {1, 2, 3, 4, -5, -6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}>
    {
      scaled = Mul(x, weight)
      last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[4, 4] s) => (bool going, float[4, 4] t)
        { f = Cast <to = 1> (i)  p = MatMul(s, scaled)  q = Add(p, f)  t = Tanh(q) }>
    }"""


def test_a_loop_whose_number_of_iterations_is_an_input(tmp_path: Path) -> None:
    feeds = {"first": numbers(4, 4), "x": numbers(4, 4)}
    result = check(TRIPS, tmp_path, [{**feeds, "trips": np.int64(n)} for n in (0, 1, 7, 200)])
    assert decided(result) == ["Repeat"]


WHILE = """
    agraph (bool start, float[4] first, float bound) => (float[4] last, int64 made)
    <int64 none = {9223372036854775807}, int64 zero = {0}, int64 one = {1}>
    {
      last, made = Loop (none, start, first, zero) <body = step
        (int64 i, bool going, float[4] s, int64 n) => (bool more, float[4] t, int64 m)
        { t = Add(s, s)  m = Add(n, one)  sum = ReduceSum <keepdims = 0> (t)  more = Less(sum, bound) }>
    }"""


def test_a_loop_with_a_condition(tmp_path: Path) -> None:
    first = np.ones(4, np.float32)
    runs = [
        {"start": start, "first": first, "bound": np.float32(b)} for start, b in ((True, 50), (True, 1), (False, 9))
    ]
    result = check(WHILE, tmp_path, [*runs, {"start": True, "first": first, "bound": np.float32(1e9)}])
    assert "copy" not in [call.kernel.name for call in result.calls[result.control[0].first :]], "states stay in place"


def test_a_loop_without_trips_or_condition_of_its_own(tmp_path: Path) -> None:
    text = """
    agraph (float[2] first) => (float[2] last)
    <float ten = {10}>
    {
      last = Loop (, , first) <body = step
        (int64 i, bool going, float[2] s) => (bool more, float[2] t)
        { t = Add(s, s)  top = ReduceMax <keepdims = 0> (t)  more = Less(top, ten) }>
    }"""
    check(text, tmp_path, [{"first": np.array([1, 3], np.float32)}, {"first": np.array([1, 300], np.float32)}])


ROWS = """
    agraph ({inputs}float[2] first, float[2] x) => (float[2] last, float[{rows}, 2] rows)
    <bool on = {{1}}{trips}>
    {{
      last, rows = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[2] s) => (bool more, float[2] t, float[2] row)
        {{ f = Cast <to = 1> (i)  p = Mul(s, x)  t = Add(p, f)  row = Sub(t, s)  more = {more} }}>
    }}"""


def test_more_iterations_than_are_written_out(tmp_path: Path) -> None:
    text = ROWS.format(inputs="", rows=70, trips=", int64 trips = {70}", more="Identity(going)")
    result = check(text, tmp_path, [{"first": numbers(2), "x": numbers(2) * np.float32(0.3)}])
    assert decided(result) == ["Repeat"]
    assert len(result.calls) < 12


def test_results_of_every_iteration_have_the_declared_number(tmp_path: Path) -> None:
    feeds = {"first": numbers(2), "x": numbers(2)}
    text = ROWS.format(inputs="int64 trips, ", rows=5, trips="", more="Identity(going)")
    result = check(text, tmp_path, [{**feeds, "trips": np.int64(5)}])
    until = ROWS.format(inputs="int64 stop, ", rows=5, trips=", int64 trips = {80}", more="Less(i, stop)")
    stopped = check(until, tmp_path / "until", [{**feeds, "stop": np.int64(4)}])
    for bundle_of, name, wrong in ((result, "trips", (4, 6)), (stopped, "stop", (3, 5))):
        with load(write_bundle(bundle_of, tmp_path / name)) as bundle:
            for value in wrong:
                with pytest.raises(SternaError, match="E0511"):
                    bundle.run({**feeds, name: np.array(value)})


@pytest.mark.parametrize("trips", ["", ", int64 trips = {80}"])
def test_a_number_of_rows_that_nothing_says_is_refused(trips: str) -> None:
    given = "" if trips else "int64 trips, "
    text = ROWS.format(inputs=f"{given}int64 stop, ", rows="K", trips=trips, more="Less(i, stop)")
    with pytest.raises(SternaError, match="E0107"):
        read(parser.parse_model(model(text)))


def test_a_state_that_changes_its_shape_is_refused() -> None:
    text = """
    agraph (int64 trips, float[2] first) => (float[K] last)
    <bool on = {1}>
    { last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[N] s) => (bool going, float[M] t) { t = Concat <axis = 0> (s, s) }> }"""
    with pytest.raises(SternaError, match=r"E0107.*float32\[2\] first and float32\[4\] later"):
        read(parser.parse_model(model(text)))


def test_a_choice_in_a_loop_in_a_loop(tmp_path: Path) -> None:
    text = """
    agraph (int64 trips, float[3] first, float[3] x) => (float[3] last)
    <bool on = {1}, int64 two = {2}, int64 zero = {0}>
    {
      last = Loop (trips, on, first) <body = outer
        (int64 i, bool going, float[3] s) => (bool going, float[3] t)
        {
          t = Loop (i, on, s) <body = inner
            (int64 j, bool more, float[3] u) => (bool more, float[3] v)
            {
              both = Add(i, j)
              rest = Mod(both, two)
              even = Equal(rest, zero)
              v = If (even) <
                then_branch = one () => (float[3] a) { a = Add(u, x) },
                else_branch = two () => (float[3] b) { d = Sub(u, s)  b = Mul(d, x) }>
            }>
        }>
    }"""
    feeds = {"first": numbers(3), "x": numbers(3) + np.float32(1)}
    result = check(text, tmp_path, [{**feeds, "trips": np.int64(n)} for n in (0, 1, 2, 5)])
    assert decided(result) == ["Repeat", "Repeat", "Choice"]


def test_states_that_change_places(tmp_path: Path) -> None:
    text = """
    agraph (int64 trips, float[3] a, float[3] b) => (float[3] c, float[3] d, float[3] e)
    <bool on = {1}>
    {
      c, d, e = Loop (trips, on, a, b, a) <body = step
        (int64 i, bool going, float[3] p, float[3] q, float[3] r) => (bool going, float[3] q, float[3] n, float[3] r)
        { n = Add(p, q) }>
    }"""
    check(text, tmp_path, [{"a": numbers(3), "b": numbers(3) * 2, "trips": np.int64(n)} for n in (0, 1, 2, 9)])


def test_a_loop_of_convolutions_and_recurrent_layers(tmp_path: Path) -> None:
    text = """
    agraph (int64 trips, float[1, 2, 6, 6] image, float[2, 2, 3, 3] w, float[5, 1, 3] seq, float[1, 12, 3] p,
            float[1, 12, 3] r) => (float[1, 2, 6, 6] y, float[5, 1, 3] z)
    <bool on = {1}, int64[3] shape = {5, 1, 3}>
    {
      y, z = Loop (trips, on, image, seq) <body = step
        (int64 i, bool going, float[1, 2, 6, 6] s, float[5, 1, 3] q)
        => (bool going, float[1, 2, 6, 6] t, float[5, 1, 3] h)
        {
          c = Conv <pads = [1, 1, 1, 1]> (s, w)
          t = Tanh(c)
          every = LSTM <hidden_size = 3> (q, p, r)
          h = Reshape(every, shape)
        }>
    }"""
    feeds = {"image": numbers(1, 2, 6, 6), "w": numbers(2, 2, 3, 3), "seq": numbers(5, 1, 3)}
    feeds |= {"p": numbers(1, 12, 3), "r": numbers(1, 12, 3) * np.float32(0.5)}
    check(text, tmp_path, [{**feeds, "trips": np.int64(n)} for n in (0, 1, 4)])


# ---------------------------------------------------------------- Scan
SCAN = """
    agraph (float[3] first, float[3, 3] other, float[{x}] x, float[30, 3] y, float[3, 3] outer)
      => (float[3] last, float[3, 3] rest, float[{x}] z, float[30] sums)
    {{
      last, rest, z, sums = Scan <num_scan_inputs = 2, {settings} body = step
        (float[3] s, float[3, 3] m, float[3] a, float[3] b) => (float[3] t, float[3, 3] n, float[3] r, float k)
        {{
          n = MatMul(m, outer)
          p = MatMul(s, n)
          q = Mul(p, a)
          t = Add(q, b)
          r = Sub(t, a)
          k = ReduceSum <keepdims = 0> (r)
        }}> (first, other, x, y)
    }}"""


@pytest.mark.parametrize("backward", [(0, 0), (1, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(axis: int, backward: tuple[int, int], tmp_path: Path) -> None:
    settings = f"scan_input_axes = [{axis}, 0], scan_output_axes = [{axis}, 0], "
    settings += f"scan_input_directions = [{backward[0]}, 0], scan_output_directions = [{backward[0]}, {backward[1]}],"
    shape = (3, 30) if axis else (30, 3)
    feeds = {"first": numbers(3), "other": numbers(3, 3), "x": numbers(*shape), "y": numbers(30, 3)}
    feeds["outer"] = numbers(3, 3) * np.float32(0.1)
    text = SCAN.format(x=",".join(map(str, shape)), settings=settings)
    assert decided(check(text, tmp_path, [feeds])) == ["Repeat"]
