"""Recurrent layers of DarkNet beside NumPy: several runs of one bundle, with what they leave to each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.darknet_networks import convolved, drawn, network, sigmoid

Array = np.ndarray
STEPS = 3


class Drawn:
    """Weights in the order in which they are asked for, and what they compute."""

    def __init__(self, normalized: bool):
        self.normalized, self.arrays = normalized, list[Array]()

    def take(self, *shape: int, positive: bool = False) -> Array:
        self.arrays.append(drawn(*shape, seed=len(self.arrays) + 1, positive=positive) * np.float32(0.4))
        return self.arrays[-1]

    def statistics(self, size: int) -> tuple[Array, Array, Array]:
        return self.take(size), self.take(size), self.take(size, positive=True)

    def product(self, inputs: int, outputs: int) -> Callable[[Array], Array]:
        bias, matrix = self.take(outputs), self.take(outputs, inputs)
        scale, mean, variance = self.statistics(outputs) if self.normalized else (1.0, 0.0, 1.0 - 1e-5)
        return lambda x: (x @ matrix.T - mean) / np.sqrt(variance + 1e-5) * scale + bias

    def convolution(self, inputs: int, outputs: int) -> Callable[[Array], Array]:
        bias, one = self.take(outputs), (slice(None), None, None)
        scale, mean, variance = self.statistics(outputs) if self.normalized else (np.ones(1), np.zeros(1), np.ones(1))
        kernel = self.take(outputs, inputs, 3, 3)
        root = np.sqrt(variance + 1e-5)[one] if self.normalized else 1.0
        return lambda x: (
            (convolved(x, kernel, (1, 1), 1, 1, 1)[0] - mean[one]) / root * scale[one] + bias[one]
        )[None]  # fmt: skip


def runs(folder: Path, text: str, weights: Drawn, inputs: list[Array]) -> list[Array]:
    path = network(folder, text, weights.arrays, inputs[0].shape[1:])
    with sterna.compile(path, generator="llvm") as bundle:
        found = [next(iter(bundle.run({"data": x}).values())) for x in inputs]
        bundle.reset_state()
        again = next(iter(bundle.run({"data": inputs[0]}).values()))
    assert np.array_equal(again, found[0])
    return found


@pytest.mark.family("host-llvm")
@settings(max_examples=6, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.booleans(), st.sampled_from([0, 1, 2]), st.booleans()
)
def test_rnn(
    tmp_path_factory: pytest.TempPathFactory,
    inputs: int,
    hidden: int,
    outputs: int,
    normalized: bool,
    logistic: int,
    shortcut: bool,
) -> None:
    text = f"[rnn]\nhidden={hidden}\noutput={outputs}\nactivation=leaky\nbatch_normalize={int(normalized)}\n"
    text += f"logistic={logistic}\nshortcut={int(shortcut)}\n"
    weights = Drawn(normalized)
    one, own, last = (weights.product(a, b) for a, b in ((inputs, hidden), (hidden, hidden), (hidden, outputs)))
    xs = [drawn(1, inputs, seed=50 + n) for n in range(STEPS)]

    def leaky(x: Array) -> Array:
        return np.where(x > 0, x, 0.1 * x)

    of_state = (leaky, sigmoid, lambda x: 2 * sigmoid(x) - 1)[logistic]
    state = np.zeros((1, hidden))
    for x, found in zip(xs, runs(tmp_path_factory.mktemp("net"), text, weights, xs), strict=True):
        state = (state if shortcut else 0) + leaky(one(x)) + of_state(own(state))
        np.testing.assert_allclose(found, leaky(last(state)), rtol=1e-4, atol=1e-5)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("normalized", [False, True])
def test_crnn(normalized: bool, tmp_path: Path) -> None:
    text = f"[crnn]\nsize=3\npad=1\nhidden=4\noutput=2\nactivation=tanh\nbatch_normalize={int(normalized)}\n"
    weights = Drawn(normalized)
    one, own, last = (weights.convolution(a, b) for a, b in ((3, 4), (4, 4), (4, 2)))
    xs = [drawn(1, 3, 4, 5, seed=50 + n) for n in range(STEPS)]
    state = np.zeros((1, 4, 4, 5))
    for x, found in zip(xs, runs(tmp_path, text, weights, xs), strict=True):
        state = np.tanh(one(x)) + np.tanh(own(state))
        np.testing.assert_allclose(found, np.tanh(last(state)), rtol=1e-4, atol=1e-5)


@pytest.mark.family("host-llvm")
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans())
def test_gru(tmp_path_factory: pytest.TempPathFactory, inputs: int, outputs: int, normalized: bool, tanh: bool) -> None:
    text = f"[gru]\noutput={outputs}\nbatch_normalize={int(normalized)}\ntanh={int(tanh)}\n"
    weights = Drawn(normalized)
    xz, xr, xh = (weights.product(inputs, outputs) for _ in range(3))
    hz, hr, hh = (weights.product(outputs, outputs) for _ in range(3))
    xs = [drawn(1, inputs, seed=50 + n) for n in range(STEPS)]
    h = np.zeros((1, outputs))
    for x, found in zip(xs, runs(tmp_path_factory.mktemp("net"), text, weights, xs), strict=True):
        z, r = sigmoid(xz(x) + hz(h)), sigmoid(xr(x) + hr(h))
        new = (np.tanh if tanh else sigmoid)(xh(x) + hh(r * h))
        h = z * h + (1 - z) * new
        np.testing.assert_allclose(found, h, rtol=1e-4, atol=1e-5)


@pytest.mark.family("host-llvm")
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_lstm(tmp_path_factory: pytest.TempPathFactory, inputs: int, outputs: int, normalized: bool) -> None:
    text = f"[lstm]\noutput={outputs}\nbatch_normalize={int(normalized)}\n"
    weights = Drawn(normalized)
    wf, wi, wg, wo = (weights.product(outputs, outputs) for _ in range(4))
    uf, ui, ug, uo = (weights.product(inputs, outputs) for _ in range(4))
    xs = [drawn(1, inputs, seed=50 + n) for n in range(STEPS)]
    h, c = np.zeros((1, outputs)), np.zeros((1, outputs))
    for x, found in zip(xs, runs(tmp_path_factory.mktemp("net"), text, weights, xs), strict=True):
        f, i, o = (sigmoid(w(h) + u(x)) for w, u in ((wf, uf), (wi, ui), (wo, uo)))
        c = f * c + i * np.tanh(wg(h) + ug(x))
        h = o * np.tanh(c)
        np.testing.assert_allclose(found, h, rtol=1e-4, atol=1e-5)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize(
    ("peephole", "bottleneck", "normalized", "bound"), [(0, 0, False, 32.0), (1, 0, True, 0.1), (1, 1, False, 64.0)]
)
def test_conv_lstm(peephole: int, bottleneck: int, normalized: bool, bound: float, tmp_path: Path) -> None:
    text = f"[conv_lstm]\nsize=3\npad=1\noutput=4\nactivation=leaky\nbatch_normalize={int(normalized)}\n"
    text += f"peephole={peephole}\nbottleneck={bottleneck}\n" + (f"state_constrain={bound}\n" if bound != 32 else "")
    weights = Drawn(normalized)

    def convolutions(inputs: int, count: int) -> list[Callable[[Array], Array]]:
        made = [weights.convolution(inputs, 4) for _ in range(count)]
        return [lambda x, one=one: leaky(one(x)) for one in made]

    def leaky(x: Array) -> Array:
        return np.where(x > 0, x, 0.1 * x)

    vf, vi, vo = convolutions(4, 3) if peephole else [lambda x: 0.0] * 3
    w = convolutions(7 if bottleneck else 4, 1 if bottleneck else 4)
    u = convolutions(4 if bottleneck else 3, 4)
    xs = [drawn(1, 3, 4, 5, seed=50 + n) for n in range(STEPS)]
    h, c = np.zeros((1, 4, 4, 5)), np.zeros((1, 4, 4, 5))
    for x, found in zip(xs, runs(tmp_path, text, weights, xs), strict=True):
        if bottleneck:
            both = np.tanh(w[0](np.concatenate([h, x], 1)))
            f, i, g, o = (one(both) for one in u)
        else:
            f, i, g, o = (a(h) + b(x) for a, b in zip(w, u, strict=True))
        c = sigmoid(f + vf(c)) * c + sigmoid(i + vi(c)) * np.tanh(g)
        h = sigmoid(o + vo(c)) * np.tanh(c)
        np.testing.assert_allclose(found, h, rtol=1e-4, atol=1e-5)
        c = np.clip(c, -bound, bound)


def test_a_stride_has_no_state(tmp_path: Path) -> None:
    path = network(tmp_path, "[crnn]\nsize=3\nstride=2\nhidden=4\noutput=2\n", [], (3, 4, 4))
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0113",)
