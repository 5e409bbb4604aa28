"""Operators on lists of tensors (`_foreach_add` and its like): those of single tensors, one after the other."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.operators import (
    activations,
    comparisons,
    mathematics,
    pointwise,
    reductions,
)
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value

_ONE = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
#: Name -> the operator of single tensors by overload of the list's.
_TWO = {
    **{name: {"List": "Tensor", "Scalar": "Scalar", "ScalarList": "Scalar", "Tensor": "Tensor"}
       for name in ("add", "sub", "mul", "div")},
    "pow": {"List": "Tensor_Tensor", "Scalar": "Tensor_Scalar", "ScalarList": "Tensor_Scalar",
            "ScalarAndTensor": "Scalar"},
    **{name: {"List": "default"} for name in ("maximum", "minimum")},
    **{name: {"List": "Tensor", "Scalar": "default", "ScalarList": "default"} for name in ("clamp_min", "clamp_max")},
    **{name: {"Scalar": "default", "ScalarList": "default", "Tensor": "default"} for name in ("addcmul", "addcdiv")},
    "lerp": {"List": "Tensor", "Scalar": "Scalar", "ScalarList": "Scalar"}, "copy": {"default": "default"},
    "clone": {"default": "default"}, "zero": {"default": "default"},
    "norm": {"Scalar": "Scalar"}, "max": {"default": "default"},
}  # fmt: skip
#: What the operators of lists call their arguments.
_NAMES = {
    "scalars": {"addcmul": "value", "addcdiv": "value", "pow": "exponent", "lerp": "weight", "clamp_min": "min",
                "clamp_max": "max"},
    "scalar": {"pow": "exponent", "addcmul": "value", "addcdiv": "value", "clamp_min": "min", "clamp_max": "max"},
    "other": {"clamp_min": "min", "clamp_max": "max"},
    "ord": {"norm": "p"}, "tensors1": {"lerp": "end"}, "weights": {"lerp": "weight"}, "src": {"copy": "src"},
}  # fmt: skip
_OTHERS = {"scalars": "other", "scalar": "other", "tensors1": "end"}


def _called(name: str, argument: str) -> str:
    return _NAMES.get(argument, {}).get(name, _OTHERS.get(argument, argument))


def each(name: str, translate: Translator) -> Translator:
    """The translator of single tensors, applied to every tensor of a list with the items of the other lists."""

    def run(t: Translation) -> list[Any]:
        counts = {len(value) for value in t.arguments.values() if isinstance(value, (list, tuple))}
        if len(counts) != 1:
            raise error("E0103", f"{t.kind} needs lists of one length, and is given {sorted(counts) or 'none'}")
        made: list[Any] = []
        for n in range(*counts):
            given: dict[str, Any] = {}
            for argument, value in t.arguments.items():
                item = value[n] if isinstance(value, (list, tuple)) else value
                if argument == "scalars" and isinstance(item, Value) and name in ("addcmul", "addcdiv"):
                    item = t.take(item, 0, n)
                given[_called(name, argument)] = item
            values = [value for value in given.values() if isinstance(value, Value)]
            own = Translation(t.node, f"{t.name}/{n}", given, values, t.builder, t.origin, t.shared)
            made.append(translate(own))
        return made

    return run


def _table() -> dict[str, Translator]:
    single: dict[str, Translator] = {}
    for module in (pointwise, mathematics, activations, reductions, comparisons):
        single |= module.TRANSLATORS
    found: dict[str, Translator] = {}
    for name in _ONE:
        if f"aten.{name}.default" in single:
            found[f"aten._foreach_{name}.default"] = each(name, single[f"aten.{name}.default"])
    for name, overloads in _TWO.items():
        for overload, own in overloads.items():
            if f"aten.{name}.{own}" in single:
                found[f"aten._foreach_{name}.{overload}"] = each(name, single[f"aten.{name}.{own}"])
    return found


TRANSLATORS = _table()
