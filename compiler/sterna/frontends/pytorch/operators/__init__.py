"""Translators of PyTorch's operators into core operators, by the name and overload that programs call them by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.pytorch.operators import views
from sterna.frontends.pytorch.operators.views import is_view, view_of
from sterna.frontends.pytorch.translation import Translator

_MODULES = (
    "activations",
    "attention",
    "bags",
    "bits",
    "comparisons",
    "convolution",
    "creation",
    "decompositions",
    "experts",
    "foreach",
    "forms",
    "found",
    "gathering",
    "gradients",
    "linear_algebra",
    "losses",
    "matrices",
    "mathematics",
    "movement",
    "normalizations",
    "pointwise",
    "polynomials",
    "pooling",
    "quantized",
    "random",
    "recurrent",
    "reductions",
    "reflections",
    "resampling",
    "scaled_products",
    "scattering",
    "shapes",
    "sizes",
    "sorting",
    "statistics",
    "vision",
    "complexes",  # the last: what others have too is theirs where numbers are real
)


@cache
def translators() -> Mapping[str, Translator]:
    """By target, `aten.add.Tensor`; not to be changed."""
    table: dict[str, Translator] = {}
    for name in _MODULES:
        own = import_module(f"sterna.frontends.pytorch.operators.{name}").TRANSLATORS
        table.update({target: translate for target, translate in own.items() if target not in table})
    return MappingProxyType(table)


#: What changes the shape of a tensor in place, never its elements: a view of it under its own name.
_LAYOUT = frozenset(("as_strided", "detach", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"))
#: Overloads that are called otherwise in place.
_OVERLOADS = {
    "transpose.default": "transpose.int", "pow.Tensor": "pow.Tensor_Tensor", "ldexp.default": "ldexp.Tensor",
    "float_power.Tensor": "float_power.Tensor_Tensor", "floor_divide.Tensor": "floor_divide.default",
}  # fmt: skip


@cache
def functional(target: str) -> tuple[str, bool]:
    """(operator that gives a new tensor, whether the one given writes that tensor in place of its first operand)."""
    library, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if library != "aten" or not overload or name.startswith("_foreach_"):  # lists in place give nothing back
        return target, False
    if name.startswith("__i"):  # a &= b and its like
        return f"aten.__{name.removeprefix('__i')}.{overload}", True
    if not name.endswith("_") or name.endswith("__"):
        return target, False
    plain = f"{name[:-1]}.{overload}"
    return f"aten.{_OVERLOADS.get(plain, plain)}", name[:-1] not in _LAYOUT


def _registered(target: str) -> Translator | None:
    """A user's translation: of `namespace.name.overload` or, for all overloads, of `namespace.name`; `::` does too."""
    own = translations("pytorch")
    if not own:
        return None
    namespace, _, rest = target.partition(".")
    name = rest.partition(".")[0]
    spelled = (target, f"{namespace}::{rest}", f"{namespace}.{name}", f"{namespace}::{name}")
    return next((own[each] for each in spelled if each in own), None)


def is_translated(target: str) -> bool:
    """Whether there is a translator of an operator."""
    return _registered(target) is not None or functional(target)[0] in translators()


def translator_of(target: str) -> Translator:
    """The translator of an operator, which there is."""
    return _registered(target) or translators()[functional(target)[0]]


__all__ = ["functional", "is_translated", "is_view", "translator_of", "translators", "view_of", "views"]
