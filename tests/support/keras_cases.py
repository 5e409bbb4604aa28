"""Models of functions of keras.ops, read and compared with Keras, which must be installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions

#: From symbolic operands to results.
Make = Callable[..., list[Any]]


def drawn(shape: tuple[int, ...], dtype: str, number: int) -> np.ndarray:
    random = np.random.default_rng(number)
    return random.integers(0, 6, shape).astype(dtype) if dtype == "int32" else random.normal(size=shape).astype(dtype)


def check(make: Make, given: list[np.ndarray], folder: Path, tolerance: float = 2e-4) -> None:
    inputs = [keras.Input(x.shape[1:], dtype=x.dtype.name, name=f"x{n}") for n, x in enumerate(given)]
    model = keras.Model(inputs, make(*inputs))
    model.save(folder / "model.keras")
    graph = read_model(folder / "model.keras", ReadOptions(dims={"batch": len(given[0])}))
    found = interpret(graph, {f"x{n}": x for n, x in enumerate(given)})
    for name, wanted in zip(graph.output_names, keras.tree.flatten(model(given)), strict=True):
        expected = np.asarray(wanted)
        assert found[name].shape == expected.shape, name
        np.testing.assert_allclose(
            found[name].astype(np.float64), expected.astype(np.float64), atol=tolerance, rtol=tolerance, err_msg=name
        )
