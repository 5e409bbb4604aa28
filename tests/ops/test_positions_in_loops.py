"""Parts of tensors at positions that are only known at run time, as Paddle's exporter writes them, and the numbers that
its loops and choices carry: against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.frontends.onnx.spans import distance, positions
from sterna.ir.graph import Value, tensor_type
from sterna.ops import Builder
from support.compiling import build
from support.control_flow import model, numbers

Feeds = Mapping[str, Any]

#: x[:, i] = row, in a loop that counts in floating point and cuts the end off.
SET = """
agraph (int64 trips, float[2, 4] x, float[2] first) => (float[2, 4] set)
<bool on = {1}, int64[1] axis = {1}, int64[1] step = {1}, int64[1] size = {4}, float plus = {1.0}, int64[1] zero = {0},
 int64[2] column = {1, -1}>
{
  start = Squeeze(zero)
  set, seen, end = Loop (trips, on, x, first, start) <body = step
    (int64 i, bool going, float[2, 4] a, float[2] r, int64 k)
    => (bool going, float[2, 4] b, float[2] q, int64 n)
    { f = Cast <to = 1> (k)  g = Add(f, plus)  n = Cast <to = 7> (g)
      from = Unsqueeze(k, zero)  until = Unsqueeze(n, zero)  cut = Min(size, until)
      part = Slice(a, from, cut, axis, step)  shape = Shape(part)
      one = Unsqueeze(r, axis)  many = Expand(one, shape)
      s = Squeeze(from)  e = Squeeze(cut)  d = Squeeze(step)  places = Range(s, e, d)
      row = Reshape(places, column)  to = Expand(row, shape)
      b = ScatterElements <axis = 1> (a, to, many)  q = Add(r, r) }>
}"""

#: Carries a scalar first and a vector later, and a number in the place of a tensor that every iteration sets.
CARRIED = """
agraph (float[3] x, float limit) => (float[3] last, float[1] count)
<bool on = {1}, float nothing = {0.0}, float[1] zero = {0.0}, float[1] unit = {1.0}, int64[1] flat = {1}>
{
  last, count = Loop (, on, nothing, nothing) <body = step
    (int64 i, bool going, float s, float[N] c) => (bool again, float[3] t, float[1] n)
    { a = Add(c, unit)  n = Reshape(a, flat)  t = Mul(x, n)  sum = ReduceSum <keepdims = 0> (t)
      again = Less(sum, limit) }>
}"""

#: One branch gives a scalar, the other a vector of one element.
CHOSEN = """
agraph (bool which, float[1] x) => (float[1] y)
<int64[1] axis = {0}>
{
  a = If (which) <then_branch = t () => (float[] p) { p = Squeeze(x, axis) },
                  else_branch = e () => (float[1] q) { q = Neg(x) }>
  y = Add(a, x)
}"""

#: From a computed position up to another.
PART = """
agraph (float[3, 7] x, int64[1] first, int64[1] last) => (float[3, K] part, float[L, 7] rows)
<int64[1] axis = {1}, int64[1] zero = {0}>
{ part = Slice(x, first, last, axis)  twice = Slice(x, zero, last, zero)  rows = Relu(twice) }"""


def agree(text: str, place: Path, *every: Feeds) -> None:
    """Interpreted and compiled, the model gives what ONNX Runtime gives."""
    proto = parser.parse_model(model(text))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    graph = read(proto)
    with build(graph, place / "bundle", generator="llvm") as bundle:
        for feeds in every:
            given = {name: np.asarray(value) for name, value in feeds.items()}
            wanted = session.run(None, given)
            for found in (interpret(graph, given), bundle.run(given)):
                for have, want in zip(found.values(), wanted, strict=True):
                    assert have.shape == want.shape
                    np.testing.assert_allclose(have, want, rtol=1e-5)


def test_a_row_is_set_in_every_iteration(tmp_path: Path) -> None:
    feeds = {"x": numbers(2, 4), "first": numbers(2)}
    agree(SET, tmp_path, *({**feeds, "trips": np.int64(n)} for n in (0, 1, 4)))


def test_what_is_cut_off_at_the_end_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime would set nothing; there is room for a row of one element only."""
    feeds = {"x": numbers(2, 4), "first": numbers(2), "trips": np.array(5)}
    refused = pytest.raises(SternaError, match=r"E0511.*does not allow the values of an input")
    with build(read(parser.parse_model(model(SET))), tmp_path / "bundle", generator="llvm") as bundle, refused:
        bundle.run(feeds)


def test_states_that_get_their_shape_in_the_first_iteration(tmp_path: Path) -> None:
    agree(CARRIED, tmp_path, *({"x": np.full(3, 0.5, np.float32), "limit": np.float32(n)} for n in (1, 7)))


def test_branches_of_one_element(tmp_path: Path) -> None:
    agree(CHOSEN, tmp_path, *({"which": np.array(which), "x": numbers(1)} for which in (True, False)))


def test_a_part_of_computed_size(tmp_path: Path) -> None:
    bounds = [(0, 7), (2, 3), (-4, -1), (5, 2), (3, 99), (-99, 1)]
    cases = [{"x": numbers(3, 7), "first": np.array([a]), "last": np.array([b])} for a, b in bounds]
    agree(PART, tmp_path, *cases)


def test_distances() -> None:
    builder = Builder()
    i = Value("i", tensor_type("int64", (1,)))

    def number(*values: int) -> Value:
        return builder.constant(np.array(values, np.int64))

    counted = builder.add("add", builder.add("cast", i, to="float32"), builder.constant(np.float32(3)))
    later = builder.add("minimum", counted, builder.constant(np.float32(9)))
    pair = builder.add("concat", i, number(4), axis=0)
    (start,), (end,) = (positions(value, builder.nodes) or [] for value in (i, later))
    assert distance(start, end) == 3
    first, second = positions(pair, builder.nodes) or []
    assert distance(first, start) == 0
    assert distance(second, start) is None
    assert distance(second, (positions(number(6), ()) or [])[0]) == 2
    assert positions(Value("many", tensor_type("int64", (17,))), ()) is None
