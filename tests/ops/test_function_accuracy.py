"""Functions of one number against extended precision: errors in units in the last place, in float32 and in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sterna.ops.evaluate import evaluate
from sterna.ops.table import operator

Array = np.ndarray[Any, Any]


def _log_exp(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


_SMALL = np.concatenate([np.logspace(-12, 0, 500), -np.logspace(-12, 0, 500), [0.0, -0.0]])
_UNIT = np.concatenate([np.linspace(-1, 1, 4001), np.clip(_SMALL, -1, 1), 1 - np.logspace(-7, -1, 200)])
_WIDE = np.concatenate([np.linspace(-20, 20, 4001), _SMALL])
_FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "acos": (np.arccos, _UNIT),
    "asin": (np.arcsin, _UNIT),
    "atan": (np.arctan, _WIDE),
    "acosh": (np.arccosh, 1 + np.logspace(-12, 8, 3000)),
    "asinh": (np.arcsinh, _WIDE),
    "atanh": (np.arctanh, _UNIT),
    "cosh": (np.cosh, _WIDE),
    "sinh": (np.sinh, _WIDE),
    "expm1": (np.expm1, _WIDE),
    "log1p": (np.log1p, np.concatenate([_UNIT, np.logspace(-12, 12, 3000)])),
    "softplus": (_log_exp, _WIDE),
    "mish": (lambda x: x * np.tanh(_log_exp(x)), _WIDE),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), _WIDE),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_within_four_units(name: str, dtype: Any) -> None:
    function, numbers = _FUNCTIONS[name]
    x = numbers.astype(dtype)
    (found,) = evaluate(name, [x], {each.name: each.default for each in operator(name).attributes})
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble))
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(found[~finite], exact[~finite].astype(dtype))
        spacing = np.spacing(np.maximum(np.abs(exact[finite]).astype(dtype), np.finfo(dtype).tiny))
        error = np.abs(found[finite].astype(np.longdouble) - exact[finite]) / spacing
        zeros = exact == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(exact[zeros]))
    worst = int(np.argmax(error))
    assert error[worst] <= 4, f"{name}({x[finite][worst]!r}) is {error[worst]} units off"
