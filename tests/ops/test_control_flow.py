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
from sterna.ir.sizes import open_dimensions
from sterna.pipeline import optimize
from sterna.targets.description import load_target
from sterna_runtime import load
from support.control_flow import CHOICE, DATA_SIZED, GROWING, ROWS, TRIPS, WHILE, model, numbers

Feeds = Mapping[str, Any]


def compiled(text: str, generator: str = "llvm", target: str = "host") -> Compiled:
    return compile_graph(read(parser.parse_model(model(text))), "flow", Options(load_target(target), generator))


def check(
    text: str,
    place: Path,
    every: Iterable[Feeds],
    generators: Iterable[str] = ("c", "llvm"),
    dims: Mapping[str, tuple[int, int]] | None = None,
) -> Compiled:
    """The model gives what ONNX Runtime says: interpreted, before and after the passes, and as a bundle.

    Args:
        dims: bounds of dimensions that stay open.
    """
    proto = parser.parse_model(model(text))
    session = onnxruntime.InferenceSession(onnx.shape_inference.infer_shapes(proto).SerializeToString())
    graph = read(proto, dims=dims)
    every = [{name: np.asarray(value) for name, value in feeds.items()} for feeds in every]
    wanted = [session.run(None, feeds) for feeds in every]

    def compare(found: Mapping[str, np.ndarray], expected: list[np.ndarray]) -> None:
        for have, want in zip(found.values(), expected, strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)

    for version in (graph, optimize(graph, check=True)) if not open_dimensions(graph) else ():
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


def test_if(tmp_path: Path) -> None:
    feeds = {"x": numbers(3, 4), "y": numbers(4, 4)}
    result = check(CHOICE, tmp_path, [{**feeds, "hot": True}, {**feeds, "hot": False}])
    assert decided(result) == ["Choice"]


# ---------------------------------------------------------------- Loop


BY_RATE = """
    net (bool slow, float[1, 6] x, float[3, 2] a, float[6, 2] b) => (y) {
      y = If (slow) <
        then_branch = slow () => (p) { p = MatMul(x, a) },
        else_branch = fast () => (q) { q = MatMul(x, b) }
      >
    }
"""


@pytest.mark.parametrize("sizes", [{"x": (1, 6)}, {"x": (1, 3)}], ids=["else", "then"])
def test_a_branch_for_other_sizes_fails_only_where_it_is_taken(
    sizes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    proto = parser.parse_model(model(BY_RATE.replace("float[1, 6] x", "float[1, n] x")))
    compiled = compile_graph(read(proto, shapes=sizes), "flow", Options(load_target("host"), "llvm"))
    feeds = {"x": numbers(*sizes["x"]), "a": numbers(3, 2), "b": numbers(6, 2)}
    fits = sizes["x"] == (1, 3)
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        found = bundle.run({"slow": np.array(fits), **feeds})["y"]
        np.testing.assert_allclose(found, feeds["x"] @ feeds["a" if fits else "b"], rtol=1e-5)
        with pytest.raises(SternaError, match="for_other_sizes") as caught:
            bundle.run({"slow": np.array(not fits), **feeds})
    assert caught.value.codes == ("E0511",)


def test_branches_that_both_are_for_other_sizes_are_refused() -> None:
    proto = parser.parse_model(model(BY_RATE.replace("float[1, 6] x", "float[1, n] x")))
    with pytest.raises(SternaError) as caught:
        read(proto, shapes={"x": (1, 5)})
    assert caught.value.codes == ("E0108", "E0108")


def test_a_loop_whose_number_of_iterations_is_an_input(tmp_path: Path) -> None:
    feeds = {"first": numbers(4, 4), "x": numbers(4, 4)}
    result = check(TRIPS, tmp_path, [{**feeds, "trips": np.int64(n)} for n in (0, 1, 7, 200)])
    assert decided(result) == ["Repeat"]


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


def test_a_number_of_rows_that_nothing_bounds_is_refused() -> None:
    text = ROWS.format(inputs="int64 trips, int64 stop, ", rows="K", trips="", more="Less(i, stop)")
    with pytest.raises(SternaError, match=r"(?s)E0107.*needs a bound.*dims=\{.rows.: \(0, N\)}"):
        read(parser.parse_model(model(text)))


def test_a_loop_without_an_end_is_refused() -> None:
    text = """
    agraph (float[2] first) => (float[2] last)
    { last = Loop (, , first) <body = step
        (int64 i, bool going, float[2] s) => (bool going, float[2] t) { t = Add(s, s) }> }"""
    with pytest.raises(SternaError, match=r"E0103.*neither"):
        read(parser.parse_model(model(text)))


# ---------------------------------------------------------------- as many rows as iterations
def test_a_loop_that_ends_before_its_number_of_iterations(tmp_path: Path) -> None:
    text = ROWS.format(inputs="int64 stop, ", rows="K", trips=", int64 trips = {20}", more="Less(i, stop)")
    feeds = {"first": numbers(2), "x": numbers(2)}
    result = check(text, tmp_path, [{**feeds, "stop": np.int64(n)} for n in (4, 0, 17, 18, 50)])
    assert decided(result) == ["Repeat"]


@pytest.mark.parametrize("more", ["Identity(going)", "Less(i, stop)"])
def test_a_bound_for_the_number_of_iterations(more: str, tmp_path: Path) -> None:
    text = ROWS.format(inputs="int64 trips, int64 stop, ", rows="K", trips="", more=more)
    feeds = {"first": numbers(2), "x": numbers(2)}
    runs = [
        {**feeds, "trips": np.int64(n), "stop": np.int64(m)} for n, m in ((3, 9), (0, 1), (9, 3), (-1, 0), (10, 20))
    ]
    result = check(text, tmp_path, runs, dims={"rows": (0, 10)})
    with load(write_bundle(result, tmp_path / "bundle")) as bundle:
        for trips in (11, 4000):
            with pytest.raises(SternaError, match="E0511"):
                bundle.run({**feeds, "trips": np.int64(trips), "stop": np.int64(5000)})
        assert bundle.run(runs[0])["rows"].shape == (3, 2), "a run after one that failed"


def test_rows_that_are_used_further(tmp_path: Path) -> None:
    """A size that a loop makes decides those of other tensors, and the iterations of the next loop."""
    text = """
    agraph (int64 stop, float[3] first) => (float[K, 3] rows, float[L] sums, float[3] last, float[M, 3] both)
    <bool on = {1}, int64 trips = {30}, int64 zero = {0}>
    {
      unused, rows = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[3] s) => (bool more, float[3] t, float[3] t)
        { t = Sin(s)  u = Add(s, t)  more = Less(i, stop) }>
      shape = Shape(rows)
      count = Gather <axis = 0> (shape, zero)
      last, sums = Loop (count, on, first) <body = next
        (int64 j, bool going, float[3] s) => (bool going, float[3] t, float sum)
        { row = Gather <axis = 0> (rows, j)  t = Add(s, row)  sum = ReduceSum <keepdims = 0> (t) }>
      both = Concat <axis = 0> (rows, rows)
    }"""
    check(text, tmp_path, [{"first": numbers(3), "stop": np.int64(n)} for n in (4, 0, 90)])


def test_as_many_iterations_as_a_dimension_has_elements(tmp_path: Path) -> None:
    text = """
    agraph (float[seq, 3] x, float[3] first) => (float[3] last, float[seq, 3] rows)
    <bool on = {1}, int64 zero = {0}>
    {
      shape = Shape(x)
      trips = Gather <axis = 0> (shape, zero)
      last, rows = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[3] s) => (bool going, float[3] t, float[3] row)
        { e = Gather <axis = 0> (x, i)  p = Mul(s, e)  t = Add(p, e)  row = Relu(t) }>
    }"""
    runs = [{"x": numbers(n, 3), "first": numbers(3)} for n in (1, 5, 12)]
    check(text, tmp_path, runs, dims={"seq": (1, 12)})


PART = """
    agraph (int64 trips, float[1] y) => (float[1] last, float[5, 1] rows)
    <bool on = {1}, float[5] x = {1, 2, 3, 4, 5}, int64 one = {1}, int64[1] axes = {0}>
    {
      last, rows = Loop (trips, on, y) <body = step
        (int64 i, bool going, float[1] s) => (bool going, float[1] t, float[1] t)
        { end = Add(i, one)  a = Unsqueeze(i, axes)  b = Unsqueeze(end, axes)  e = Slice(x, a, b)  t = Add(s, e) }>
    }"""


def test_a_part_whose_bounds_are_made_of_the_number_of_the_iteration(tmp_path: Path) -> None:
    result = check(PART, tmp_path, [{"trips": np.int64(5), "y": numbers(1)}])
    assert decided(result) == ["Repeat"]


def test_sizes_that_grow_with_the_iterations(tmp_path: Path) -> None:
    """Attention over everything so far: its size is that of the iteration."""
    feeds = {"x": numbers(9, 4), "first": numbers(4)}
    check(GROWING, tmp_path, [{**feeds, "trips": np.int64(n)} for n in (0, 1, 4, 9, 12)])


def test_a_body_that_only_written_out_iterations_can_have(tmp_path: Path) -> None:
    text = """
    agraph (float[30] x) => (float[1] last)
    <bool on = {1}, int64 trips = {12}, int64[1] zero = {0}, int64[1] three = {3}, float[1] first = {0}>
    {
      last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[1] s) => (bool going, float[1] t)
        { j = Unsqueeze(i, zero)  n = Mod(j, three)  p = Slice(x, n, j)  q = ReduceMean(p)  w = Size(p)
          f = Cast <to = 1> (w)  g = Where(on, s, s)  h = Add(g, f)  t = Reshape(h, one) }>
    }"""
    text = text.replace("float[1] first = {0}", "float[1] first = {0}, int64[1] one = {1}")
    check(text, tmp_path, [{"x": numbers(30)}], generators=["llvm"])


def test_sizes_of_the_data_in_branches_and_loops(tmp_path: Path) -> None:
    grid = np.maximum(numbers(3, 4), 0)
    runs = [{"hot": np.array(hot), "trips": np.int64(n), "x": grid} for hot, n in ((True, 0), (False, 1), (True, 3))]
    check(DATA_SIZED, tmp_path, runs)


def test_rows_of_different_sizes_are_refused() -> None:
    text = """
    agraph (int64 trips, float[3] x) => (float[3] last, int64[5, 1, K] rows)
    <bool on = {1}>
    {
      last, rows = Loop (trips, on, x) <body = step
        (int64 i, bool going, float[3] s) => (bool going, float[3] t, int64[1, N] row)
        { row = NonZero(s)  t = Relu(s) }>
    }"""
    with pytest.raises(SternaError, match="E0107"):
        read(parser.parse_model(model(text)), dims={"rows": (0, 5)})


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


@pytest.mark.parametrize("backward", [(0, 0), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_over_an_open_dimension(axis: int, backward: tuple[int, int], tmp_path: Path) -> None:
    settings = f"scan_input_axes = [{axis}, 0], scan_output_axes = [{axis}, 0], "
    settings += f"scan_input_directions = [{backward[0]}, 0], scan_output_directions = [{backward[1]}, {backward[0]}],"
    fixed = {"first": numbers(3), "other": numbers(3, 3), "outer": numbers(3, 3) * np.float32(0.1)}
    runs = [{**fixed, "x": numbers(*((3, n) if axis else (n, 3))), "y": numbers(n, 3)} for n in (20, 1, 7)]
    text = SCAN.format(x="3, n" if axis else "n, 3", settings=settings).replace("30", "n")
    assert decided(check(text, tmp_path, runs, dims={"n": (1, 20)})) == ["Repeat"]
