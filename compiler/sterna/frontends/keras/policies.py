"""The element types in which layers compute: what their type or its policy says (`mixed_float16`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.frontends.keras.config import Layer
from sterna.frontends.keras.layers.operations import operation
from sterna.frontends.keras.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Value

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_HALVES = ("float16", "bfloat16")
#: Layers that compute in float32 at least, whatever their operands and results are.
_WIDE = frozenset((
    "BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "Softmax",
))  # fmt: skip
#: Layers that make floats of integers, too, by which they multiply.
_OF_INTEGERS = frozenset((
    "BatchNormalization", "Bidirectional", "Conv1D", "Conv2D", "Conv3D", "Dense", "DepthwiseConv1D", "DepthwiseConv2D",
    "EinsumDense", "GRU", "GroupNormalization", "LSTM", "LayerNormalization", "PReLU", "RMSNormalization", "RNN",
    "SimpleRNN", "UnitNormalization",
))  # fmt: skip


def computed_in(layer: Layer) -> str | None:
    """The floats that a layer makes of its operands and gives; None: what the operands are."""
    if layer.is_model or operation(layer.kind, layer.module, dict(layer.config)) is not None:
        return None
    policy: Any = layer.config.get("dtype")
    if isinstance(policy, dict):
        config = policy.get("config")
        policy = (config.get("source_name") or config.get("name")) if isinstance(config, dict) else None
    name = str(policy).split("_from_")[-1].removeprefix("mixed_")
    if name in _FLOATS:
        return name
    return "float32" if layer.kind in _OF_INTEGERS else None


def operands(t: Translation, dtype: str) -> Translation:
    """A call with operands of a type, or a wider one where the layer computes in that."""
    wanted = "float32" if dtype in _HALVES and t.kind in _WIDE else dtype
    args = tuple(_converted(t, each, wanted, t.kind in _OF_INTEGERS) for each in t.args)
    kwargs = {key: _converted(t, each, wanted) for key, each in t.kwargs.items()}
    return Translation(t.context, t.layer, t.store, args, kwargs, t.name)


def result(t: Translation, made: Any, dtype: str) -> Any:
    """What a layer gives in its type."""
    return _converted(t, made, dtype)


def _converted(t: Translation, value: Any, dtype: str, integers: bool = False) -> Any:
    """Floats in a type, and integers too if they are meant."""
    if isinstance(value, Value):
        if value.dtype in (dtype, "bool") or not (integers or dtypes.is_float(value.dtype)):
            return value
        made = t.cast(value, dtype)
        if (mask := t.context.masks.get(value)) is not None:
            t.context.masks[made] = mask
        return made
    if isinstance(value, (list, tuple)):
        return type(value)(_converted(t, each, dtype, integers) for each in value)
    if isinstance(value, Mapping):
        return {key: _converted(t, each, dtype, integers) for key, each in value.items()}
    return value
