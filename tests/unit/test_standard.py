"""ONNX's operators as building blocks of other front ends."""

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.emitter import Emitter
from sterna.frontends.onnx.reader import FOLD
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder


def _emitter(*sizes):
    builder = Builder(fold=FOLD)
    inputs = [Value(builder.name(f"x{n}"), tensor_type("float32", s)) for n, s in enumerate(sizes)]
    return Emitter(builder, "Mine", "mine", inputs, lambda n: f"is x{n}"), inputs


def _run(t, inputs, outputs, **values):
    graph = Graph(
        "g", tuple(inputs), tuple(outputs), tuple(t.builder.nodes), tuple(f"y{n}" for n in range(len(outputs)))
    )
    return interpret(graph, values)


def test_an_operator_with_its_defaults_and_attributes():
    t, (x,) = _emitter((1, 2, 4, 4))
    weight = t.constant(np.ones((3, 2, 3, 3), np.float32))
    y = standard(t, "Conv", x, weight, None, pads=(1, 1, 1, 1))
    assert y.type.sizes == (1, 3, 4, 4)
    data = np.ones((1, 2, 4, 4), np.float32)
    (result,) = _run(t, [x], [y], x0=data).values()
    assert (result[0, 0, 1, 1], result[0, 0, 0, 0]) == (18, 8)


def test_several_results_and_left_out_operands():
    t, (x,) = _emitter((3, 1, 2))
    w, r = (t.constant(np.zeros(s, np.float32)) for s in ((1, 8, 2), (1, 8, 2)))
    y, h, c = standard_results(t, "LSTM", x, w, r, None, None, None, results=3, hidden_size=2)
    assert (y.type.sizes, h.type.sizes, c.type.sizes) == ((3, 1, 1, 2), (1, 1, 2), (1, 1, 2))


def test_an_operator_that_onnx_defines_by_others():
    t, (x,) = _emitter((2, 4, 8))
    y = standard(
        t,
        "GroupNormalization",
        x,
        t.constant(np.ones(4, np.float32)),
        t.constant(np.zeros(4, np.float32)),
        num_groups=2,
    )
    data = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)
    (result,) = _run(t, [x], [y], x0=data).values()
    groups = data.reshape(2, 2, -1)
    expected = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result, expected.reshape(2, 4, 8), atol=1e-5)


def test_sizes_that_the_data_decide_have_names_of_their_own():
    """Two operators count what they find; their results have as many elements as each of them has found."""
    t, (x, y) = _emitter((4,), (4,))
    found = [standard(t, "NonZero", each) for each in (x, y)]
    first, second = (each.shape[1] for each in found)
    assert first != second
    assert str(first) != str(second)
    data = {"x0": np.array([0, 1, 2, 0], np.float32), "x1": np.array([5, 6, 7, 0], np.float32)}
    results = _run(t, [x, y], found, **data).values()
    assert [each.tolist() for each in results] == [[[1, 2]], [[0, 1, 2]]]


def test_mistakes_are_those_of_onnx():
    t, (x,) = _emitter((1, 2, 4, 4))
    with pytest.raises(SternaError) as caught:
        standard(t, "Conv", x, t.constant(np.ones((3, 5, 3, 3), np.float32)))
    assert set(caught.value.codes) == {"E0108"}
    with pytest.raises(SternaError) as caught:
        standard(t, "Concat", x, x)
    assert set(caught.value.codes) == {"E0109"}
