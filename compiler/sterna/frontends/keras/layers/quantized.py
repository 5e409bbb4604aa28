"""Weights that `model.quantize` leaves, and adapters of low rank beside them.

Of "int8" they are integers with a scale for each result, and operands are rounded as well. Of "int4" two stand in a
byte, with a scale and a zero for each block of rows and each column, or with a scale for each column; operands are
rounded if the configuration says so. Keras 3.13 and before pack in other ways.
"""

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
_FIX = 'save the model without model.quantize or with "int8" or "int4", or make an 8-bit one by sterna quantize'


def refused(t: Translation) -> SternaError:
    return t.unsupported("with weights quantized in this way", _FIX)


def mode_of(t: Translation) -> str:
    """As the layer's type says, or its configuration."""
    policy: Any = t.layer.config.get("dtype")
    said = policy.get("config", {}).get("mode") if isinstance(policy, dict) else None
    config: Any = t.layer.config.get("quantization_config")
    named = str(config.get("class_name", "")).lower() if isinstance(config, dict) else ""
    return str(said or next((mode for mode in ("int8", "int4", "float8") if mode in named), "")).split("/")[0]


def is_rounding(t: Translation, store: Store, names: Sequence[str]) -> bool:
    """Whether operands are rounded, too: not where weights are floats, or only they are quantized."""
    if store.variables(names)[0].dtype.kind == "f":
        return False
    config: Any = t.layer.config.get("quantization_config")
    settings = config.get("config") if isinstance(config, dict) else None
    quantizer = settings.get("activation_quantizer") if isinstance(settings, dict) else None
    if not _is_packed(t, store, names):
        return quantizer is not None or not isinstance(settings, dict) or "activation_quantizer" not in settings
    return quantizer is not None and store.variables((*names, "kernel_scale"))[-1].ndim == 1


def kernel_of(
    t: Translation, store: Store, names: Sequence[str], kept: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
) -> list[Array]:  # fmt: skip
    """A layer's variables, the kernel in floats; `kernel` is the first of the names.

    Args:
        kept: of integers, the kernel's dimensions in the order in which the scale has them; None: as many of the last
            ones as it has elements.
        shape: of the kernel, which is packed as a matrix, with -1 for one dimension that is not known; None: a matrix.

    Raises:
        SternaError: E0103; E0113, the weights are of another kind of integers or of floats of 8 bits.
    """
    if mode_of(t) not in ("", "int8", "int4"):
        raise refused(t)
    kernel, *rest = t.adapted(store, names)
    if kernel.dtype.kind == "f":
        scales = isinstance(store, NumberedStore) and store.count() > len(names)  # of 8-bit floats
        if scales or mode_of(t) == "int4":
            raise refused(t)
        return [kernel, *rest]
    if _is_packed(t, store, names):
        return [_unpacked(t, store, names, shape), *rest]
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
    sizes = [kernel.shape[n] if n in kept else 1 for n in range(kernel.ndim)]
    return [kernel.astype(np.float32) / wide.transpose(order).reshape(sizes), *rest]


def _is_packed(t: Translation, store: Store, names: Sequence[str]) -> bool:
    """Whether two weights stand in a byte; layers within others do not say so, but have scales for more columns."""
    kernel, *_, scale = store.variables((*names, "kernel_scale"))
    more = kernel.ndim == 2 and scale.ndim in (1, 2) and scale.shape[-1] > kernel.shape[1]
    return mode_of(t) == "int4" or more


def _unpacked(t: Translation, store: Store, names: Sequence[str], shape: Sequence[int] | None) -> Array:
    packed, *_, scale = store.variables((*names, "kernel_scale"))
    zeros = groups = None
    if scale.ndim == 2:
        *_, zeros, groups = store.variables((*names, "kernel_scale", "kernel_zero", "g_idx"))
    found = widened(t, packed, scale, zeros, groups)
    try:
        return found if shape is None else found.reshape(shape)
    except ValueError:
        raise refused(t) from None


def widened(t: Translation, packed: Array, scale: Array, zeros: Array | None, groups: Array | None) -> Array:
    """A matrix of which two columns stand in a byte, the first of them in the lower half, in floats.

    Args:
        scale: for each column, by which the integers are divided; with `zeros` and `groups` (the block of each row)
            for each block and column, by which they are multiplied.

    Raises:
        SternaError: E0113, they do not belong together.
    """
    columns = scale.shape[-1] if scale.ndim else 0
    if packed.dtype != np.int8 or packed.ndim != 2 or packed.shape[1] != -(-columns // 2) or scale.dtype.kind != "f":
        raise refused(t)
    halves = np.stack([packed << 4 >> 4, packed >> 4], axis=-1)  # with their signs
    whole = halves.reshape(len(packed), -1)[:, :columns].astype(np.float32)
    if zeros is None or groups is None:
        return whole / scale
    if zeros.shape != scale.shape or groups.shape != (len(packed),) or scale.ndim != 2:
        raise refused(t)
    blocks = groups.astype(np.int64)
    if blocks.size and not 0 <= blocks.min() <= blocks.max() < len(scale):
        raise refused(t)
    return (whole - zeros[blocks].astype(np.float32)) * scale[blocks]


def rounded(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    """Numbers as the integers from -127 to 127 that stand for them, the largest along some dimensions being the end."""
    most = t.shifted(t.reduced("reduce_max", t.op("abs", x), axes, True), _LEAST)
    scale = t.op("div", t.scalar(127.0, x.dtype), most)
    whole = t.op("clip", t.op("round", t.op("mul", x, scale)), min=-127.0, max=127.0)
    return t.op("div", whole, scale)
