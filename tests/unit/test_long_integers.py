"""Floats to integers of 64 bits by way of two words: as a conversion that truncates and saturates has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sterna.loops.long_integers import is_long_integer, of_words
from sterna.targets.description import load_target
from sterna.targets.features import splits_longs
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder

Array = np.ndarray[Any, Any]


def converted(x: Array, dtype: str, words: bool) -> Array:
    given = placeholder("x", x.shape, str(x.dtype))

    def body(i: Any) -> E.Expr:
        node = E.cast(given[i], dtype)
        assert isinstance(node, E.Cast)
        assert is_long_integer(node)
        return of_words(node) if words else node

    z = compute("z", x.shape, body)
    return run_kernel(Kernel("k", (given,), (), (z,)), {"x": x})["z"]


@pytest.mark.parametrize("to", ["int64", "uint64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_magnitude(dtype: str, to: str) -> None:
    kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    word = np.dtype(f"uint{8 * kind.itemsize}")
    drawn = rng.integers(0, np.iinfo(word).max, 200_000, word).view(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.float64(2.0) ** np.arange(-4, 66)
        near = np.concatenate([near + d * np.spacing(near) for d in (-1, 0, 1)] + [near + 0.5, near - 0.5])
        scaled = rng.uniform(-1, 1, 100_000) * 2.0 ** rng.integers(0, 66, 100_000)
        x = np.concatenate([drawn, *(s * a.astype(kind) for a in (near, scaled) for s in (1, -1))])
    x = np.append(x, [0.0, -0.0, np.inf, -np.inf, np.nan]).astype(kind)
    np.testing.assert_array_equal(converted(x, to, words=True), converted(x, to, words=False))
    inside = np.isfinite(x) & (np.abs(x.astype(np.float64)) < 2.0**63) & ((x >= 0) | (to == "int64"))
    np.testing.assert_array_equal(converted(x, to, words=True)[inside], x[inside].astype(to))


def test_where_it_is_needed() -> None:
    """Where vectors of float64 are rounded, but not converted."""
    needed = {name: splits_longs(load_target(name)) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "browser")}
    assert needed == {"x86-64-v2": False, "x86-64-v3": True, "x86-64-v4": False, "browser": True}
    assert not any(splits_longs(load_target(name)) for name in ("arm64", "armv7", "riscv64-v", "cortex-m55", "cuda"))
