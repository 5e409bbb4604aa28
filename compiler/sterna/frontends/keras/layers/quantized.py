"""Weights that `model.quantize("int8")` leaves: integers with a scale for each result; operands are rounded as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError
from sterna.frontends.keras.stores import NumberedStore, Store
from sterna.frontends.keras.translation import Translation
from sterna.ir.graph import Array, Value

#: The distance from 0 that Keras adds to what it divides by.
_LEAST = 1e-7
_FIX = 'save the model without model.quantize or with model.quantize("int8"), or make an 8-bit one by sterna quantize'


def refused(t: Translation) -> SternaError:
    return t.unsupported("with weights quantized to int4 or float8", _FIX)


def mode_of(t: Translation) -> str:
    """As the layer's type says, or its configuration."""
    policy: Any = t.layer.config.get("dtype")
    found = policy.get("config", {}).get("mode") if isinstance(policy, dict) else None
    config: Any = t.layer.config.get("quantization_config")
    named = str(config.get("class_name", "")).lower() if isinstance(config, dict) else ""
    return str(found or next((mode for mode in ("int8", "int4", "float8") if mode in named), ""))


def is_rounding(t: Translation) -> bool:
    """Whether operands are rounded, too: not where only weights are quantized."""
    config: Any = t.layer.config.get("quantization_config")
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
        return True
    return config["config"].get("activation_quantizer", "") is not None


def kernel_of(t: Translation, store: Store, names: Sequence[str], kept: Sequence[int] | None = None) -> list[Array]:
    """A layer's variables, the kernel in floats; `kernel` is the first of the names.

    Args:
        kept: of integers, the kernel's dimensions in the order in which the scale has them; None: as many of the last
            ones as it has elements.

    Raises:
        SternaError: E0103; E0113, the weights are of another kind of integers or of floats of 8 bits.
    """
    if mode_of(t) not in ("", "int8"):
        raise refused(t)
    kernel, *rest = store.variables(names)
    if kernel.dtype.kind == "f":
        if isinstance(store, NumberedStore) and store.count() > len(names):
            raise refused(t)  # scales of 8-bit floats
        return [kernel, *rest]
    (*_, scale) = store.variables((*names, "kernel_scale"))
    if kernel.dtype != np.int8 or scale.dtype.kind != "f":
        raise refused(t)
    if kept is None:
        first = next((n for n in range(kernel.ndim + 1) if np.prod(kernel.shape[n:]) == scale.size), None)
        if first is None:
            raise refused(t)
        kept = range(first, kernel.ndim)
    if np.prod([kernel.shape[n] for n in kept]) != scale.size:
        raise refused(t)
    wide = scale.reshape([kernel.shape[n] for n in kept])
    order = sorted(range(len(kept)), key=lambda n: kept[n])
    shape = [kernel.shape[n] if n in kept else 1 for n in range(kernel.ndim)]
    return [kernel.astype(np.float32) / wide.transpose(order).reshape(shape), *rest]


def is_whole(store: Store) -> bool:
    """Whether a kernel is of integers."""
    return store.variables(("kernel",))[0].dtype.kind != "f" if isinstance(store, NumberedStore) else False


def rounded(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    """Numbers as the integers from -127 to 127 that stand for them, the largest along some dimensions being the end."""
    most = t.shifted(t.reduced("reduce_max", t.op("abs", x), axes, True), _LEAST)
    scale = t.op("div", t.scalar(127.0, x.dtype), most)
    whole = t.op("clip", t.op("round", t.op("mul", x, scale)), min=-127.0, max=127.0)
    return t.op("div", whole, scale)
