"""Operations of ML programs on lists, states and sequences, against NumPy written from their definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.converters.mil import Builder as mb  # noqa: E402, N813

from support.coreml_programs import interpreted  # noqa: E402

W = np.random.default_rng(0).normal(size=(4, 15, 5)).astype(np.float32)


def listed(x: Any, y: Any) -> Any:
    held = mb.make_list(init_length=3, dynamic_length=False, elem_shape=(4,))
    held = mb.list_write(ls=held, index=1, value=x)
    held = mb.list_scatter(ls=held, indices=np.array([0, 2], np.int32), value=mb.stack(values=[y, x], axis=0))
    whole = mb.list_gather(ls=held, indices=np.array([2, 1, 0], np.int32))
    return whole, mb.list_read(ls=held, index=0), mb.list_length(ls=held)


def grown(x: Any) -> Any:
    held = mb.make_list(init_length=1, dynamic_length=True, elem_shape=(4,))
    for n in range(3):
        held = mb.list_write(ls=held, index=n, value=mb.mul(x=x, y=np.float32(n)))
    return mb.list_gather(ls=held, indices=np.arange(3, dtype=np.int32))


def looped(x: Any) -> Any:
    held = mb.make_list(init_length=4, dynamic_length=False, elem_shape=(4,))

    def body(n: Any, held: Any) -> Any:
        return mb.add(x=n, y=1), mb.list_write(ls=held, index=n, value=mb.mul(x=x, y=mb.cast(x=n, dtype="fp32")))

    made = mb.while_loop(_cond=lambda n, _: mb.less(x=n, y=4), _body=body, loop_vars=(0, held))
    return mb.list_gather(ls=made[1], indices=np.arange(4, dtype=np.int32))


def placed(x: Any, update: Any, start: Any) -> Any:
    zero, end = np.array([0], np.int32), mb.add(x=start, y=np.array([2], np.int32))
    settings = {"begin_mask": [True, False, True], "end_mask": [True, False, True]}
    begin, end = (mb.concat(values=[zero, each, zero], axis=0) for each in (start, end))
    return mb.slice_update(x=x, update=update, begin=begin, end=end, **settings)


def put(x: np.ndarray, update: np.ndarray, start: np.ndarray) -> np.ndarray:
    made, first = x.copy(), int(start[0]) % x.shape[1]
    made[:, first : first + 2] = update
    return made


def gru(x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    def logistic(v: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-v)))

    steps = []
    for row in x:
        (a, b, c), (p, q, s) = np.split(row @ W[0].T + W[2, :, 0], 3, 1), np.split(h @ W[1].T + W[3, :, 0], 3, 1)
        r, z = logistic(a + p), logistic(c + s)
        h = (1 - z) * np.tanh(b + r * q) + z * h
        steps.append(h)
    return [np.stack(steps), h]


def gru_after(x: Any, h: Any) -> Any:
    weights = {"weight_ih": W[0], "weight_hh": W[1], "input_bias": W[2, :, 0].copy(), "bias": W[3, :, 0].copy()}
    return mb.gru(x=x, initial_h=h, reset_after=True, output_sequence=True, **weights)


F = ((4,),)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...], Any]] = {
    "lists": (listed, lambda x, y: [np.stack([x, x, y]), y, 3], F * 2, "iOS15"),
    "a list that grows": (grown, lambda x: np.stack([0 * x, x, 2 * x]), F, "iOS15"),
    "a list in a loop": (looped, lambda x: np.arange(4)[:, None] * x, F, "iOS15"),
    "gru that resets after": (gru_after, gru, ((3, 2, 5), (2, 5)), "iOS18"),
    "reverse_sequence": (
        lambda x: mb.reverse_sequence(x=x, lengths=np.array([2, 4], np.int32), seq_axis=2, batch_axis=0),
        lambda x: np.stack([np.concatenate([r[:, :n][:, ::-1], r[:, n:]], 1) for r, n in zip(x, (2, 4), strict=True)]),
        ((2, 3, 4),),
        "iOS17",
    ),
    "reshape by zeros": (
        lambda x: mb.mul(x=mb.reshape(x=x, shape=[0, 0, 2, -1]), y=np.float32(1)),
        lambda x: x.reshape(1, 2, 2, 6),
        ((2, 3, 4),),
        "iOS17",
    ),
    "reshape_like": (
        lambda x, y: mb.reshape_like(x=x, ref_tensors=(y, x), begins=[0, 1], ends=[2, 0], end_masks=[False, True]),
        lambda x, _: x.reshape(3, 4, 5),
        ((12, 5), (3, 4, 7)),
        "iOS17",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str, tmp_path: Path) -> None:
    build, expected, shapes, opset = CASES[name]
    random = np.random.default_rng(1)
    given = [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    found, wanted = interpreted(build, given, tmp_path, getattr(ct.target, opset)), expected(*given)
    for got, want in zip(found, wanted if isinstance(wanted, list) else [wanted], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("start", [0, 3, -2])
def test_an_update_at_a_computed_place(start: int, tmp_path: Path) -> None:
    """As caches of keys and values are written."""
    random = np.random.default_rng(2)
    given = [random.normal(size=(2, 6, 4)).astype(np.float32), random.normal(size=(2, 2, 4)).astype(np.float32)]
    given.append(np.array([start], np.int32))
    (found,) = interpreted(placed, given, tmp_path, ct.target.iOS18)
    np.testing.assert_array_equal(found, put(*given))


@pytest.mark.parametrize("kind", ["uniform", "normal", "bernoulli", "categorical"])
def test_random_numbers_are_of_the_distribution(kind: str, tmp_path: Path) -> None:
    x = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]], np.float32))
    build = {
        "uniform": lambda _: mb.random_uniform(shape=[50, 40], low=np.float32(1), high=np.float32(3)),
        "normal": lambda _: mb.random_normal(shape=[50, 40], mean=np.float32(2), stddev=np.float32(0.5)),
        "bernoulli": lambda _: mb.random_bernoulli(shape=[50, 40], prob=np.float32(0.3)),
        "categorical": lambda x: mb.random_categorical(x=x, size=2000),
    }[kind]
    (found,) = interpreted(build, [x], tmp_path)
    if kind == "categorical":
        shares = np.stack([np.bincount(row.astype(int), minlength=3) / 2000 for row in found])
        np.testing.assert_allclose(shares, np.exp(x), atol=0.05)
        return
    mean, deviation = {"uniform": (2, 1 / 3**0.5), "normal": (2, 0.5), "bernoulli": (0.3, 0.21**0.5)}[kind]
    assert abs(found.mean() - mean) < 0.05
    assert abs(found.std() - deviation) < 0.05
