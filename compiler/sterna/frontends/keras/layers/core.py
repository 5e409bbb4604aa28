"""Dense, EinsumDense, Embedding, and layers that only mean something while training."""

from __future__ import annotations

import re

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.layers.activations import activated
from sterna.frontends.keras.layers.quantized import is_rounding, kernel_of, mode_of, refused, rounded, widened
from sterna.frontends.keras.stores import places
from sterna.frontends.keras.translation import Result, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value


def dense(t: Translation) -> Value:
    bias = bool(t.setting("use_bias", True))
    names = ("kernel", *(("bias",) if bias else ()))
    kernel, *rest = kernel_of(t, t.store, names)
    x = rounded(t, t.x, (-1,)) if is_rounding(t, t.store, names) else t.x
    y = t.op("matmul", x, t.weight(kernel, x))
    return activated(t, t.op("add", y, t.weight(rest[0], y)) if bias else y)


def _full(t: Translation, kernel: np.ndarray) -> np.ndarray:
    """The table, which must stand there in full."""
    if kernel.dtype.kind != "f" or t.layer.config.get("quantization_config"):
        raise refused(t)
    return kernel


def einsum_dense(t: Translation) -> Value:
    equation = str(t.setting("equation", ""))
    bias_axes = t.layer.config.get("bias_axes")
    found = re.fullmatch(r"(\.{3})?([a-zA-Z]+)(\.{3})?,([a-zA-Z]+)->(\.{3})?([a-zA-Z]+)(\.{3})?", equation)
    if found is None:
        raise error("E0109", f"the equation {equation!r} is of another form")
    (given, inner, made), x = (found[n] for n in (2, 4, 6)), t.x
    kept = [inner.index(label) for label in made if label in inner]
    names = ("kernel", *(("bias",) if bias_axes else ()))
    skipped = x.type.rank - len(given) if found[1] else 0
    kernel, *rest = kernel_of(t, t.store, names, kept, _sizes(t, inner, given, skipped, made))
    if is_rounding(t, t.store, names):
        x = rounded(t, x, [n + skipped for n, label in enumerate(given) if label not in made])
    y = t.standard("Einsum", x, t.weight(kernel, x), equation=equation)
    if bias_axes:
        y = t.op("add", y, t.weight(_bias(rest[0], equation, str(bias_axes), y.type.rank), y))
    return activated(t, y)


def _sizes(t: Translation, inner: str, given: str, skipped: int, made: str) -> list[int]:
    """The kernel's sizes, by the operand and by the setting `output_shape`, which is without the batch."""
    wanted = t.setting("output_shape", [])
    known = {label: t.x.shape[n + skipped] for n, label in enumerate(given) if n + skipped < t.x.type.rank}
    for label, size in zip(reversed(made), reversed([wanted] if isinstance(wanted, int) else wanted), strict=False):
        if size is not None:
            known[label] = size
    return [
        int(known[label]) if isinstance(known.get(label), int) or getattr(known.get(label), "is_const", False) else -1
        for label in inner
    ]


def _bias(bias: np.ndarray, equation: str, axes: str, rank: int) -> np.ndarray:
    """The bias with a dimension for each of the result's; those that it has are named."""
    output = equation.split("->")[1]
    named = output.replace("...", "")
    skipped = 0 if output.endswith("...") else rank - len(named)
    places = {label: n + skipped for n, label in enumerate(named)}
    shape = [1] * rank
    for label, size in zip(sorted(axes, key=lambda a: places.get(a, -1)), bias.shape, strict=True):
        if label not in places:
            raise error("E0109", f"bias_axes names {label}, which the result of {equation} has not")
        shape[places[label]] = size
    return bias.reshape(shape)


def embedding(t: Translation) -> Value:
    (table,) = t.variables("embeddings")
    if table.dtype.kind != "f":  # of model.quantize
        table, scale = t.variables("embeddings", "embeddings_scale")
        if mode_of(t) == "int4":
            table = _unpacked(t, table, scale)
        elif mode_of(t) not in ("", "int8") or table.dtype != np.int8 or scale.shape != table.shape[:1]:
            raise refused(t)
        else:
            table = table.astype(np.float32) / scale[:, None]
    ids = t.x if t.x.dtype in ("int32", "int64") else t.cast(t.x, "int32")
    dtype = str(table.dtype) if table.dtype in (np.float16, np.float64) else "float32"
    y = t.op("gather", t.constant(table, dtype), ids, axis=0)
    if t.setting("mask_zero", False):
        t.context.masks[y] = t.op("logical_not", t.op("equal", ids, t.scalar(0, ids.dtype)))
    return y


def _unpacked(t: Translation, table: Array, scale: Array) -> Array:
    """A table of which two columns stand in a byte, with a scale for each row, or for each row's blocks."""
    size = int(t.setting("output_dim", 0))
    if scale.ndim == 1 and len(scale) == len(table):
        return np.divide(widened(t, table, np.ones(size, np.float32), None, None), scale[:, None])
    if scale.ndim != 2 or len(scale) != len(table):
        raise refused(t)
    *_, zeros, groups = t.variables("embeddings", "embeddings_scale", "embeddings_zero", "g_idx")
    blocks = groups.astype(np.int64)
    if groups.shape != (size,) or zeros.shape != scale.shape or not 0 <= blocks.min() <= blocks.max() < scale.shape[1]:
        raise refused(t)
    whole = widened(t, table, np.ones(size, np.float32), None, None)
    made: Array = (whole - zeros[:, blocks].astype(np.float32)) * scale[:, blocks]
    return made


def reversible_embedding(t: Translation) -> Value:
    """A table from numbers to rows, or of `reverse` from rows to scores of the numbers: by the same table, or by one of
    its own."""
    if not t.argument(1, "reverse", False):
        return embedding(t)
    tied = bool(t.setting("tie_weights", True))
    tables = [_full(t, table) for table in t.variables("embeddings", *(() if tied else ("reverse_embeddings",)))]
    x = t.x if (dtype := t.layer.config.get("reverse_dtype")) is None else t.cast(t.x, str(dtype))
    y = t.op("matmul", x, t.weight(tables[0].T if tied else tables[1], x))
    cap = t.layer.config.get("logit_soft_cap")
    return y if cap is None else t.scaled(t.op("tanh", t.op("div", y, t.scalar(float(cap), y.dtype))), float(cap))


def masking(t: Translation) -> Value:
    """Steps of which all elements have one value do not count, and become 0."""
    x = t.x
    same = t.op("equal", x, t.scalar(float(t.setting("mask_value", 0.0)), x.dtype))
    counts = t.op("logical_not", t.reduced("reduce_all", same, (-1,), keep=True))
    y = t.op("where", counts, x, t.scalar(0.0, x.dtype))
    t.context.masks[y] = t.reshape(counts, counts.shape[:-1])
    return y


def unchanged(t: Translation) -> Result:
    """What does nothing outside of training."""
    value = t.args[0] if t.args else t.kwargs.get("inputs")
    return list(value) if isinstance(value, (list, tuple)) else t.x


def unchanged_floats(t: Translation) -> Value:
    """As `unchanged`; integers, as of pictures, become floats."""
    return t.x if dtypes.is_float(t.x.dtype) else t.cast(t.x, "float32")


def pipeline(t: Translation) -> Result:
    """Layers one after the other."""
    layers = t.layer.layers("layers")
    value: Result = t.x
    for number, layer in zip(places([layer.kind for layer in layers]), layers, strict=True):
        value = t.within(layer, t.store.child("layers", number, layer.name, layer.kind), value)
    return value


def wrapper(t: Translation) -> Result:
    """A layer around another one, which alone computes something."""
    layer = t.layer.layer("layer")
    result: Result = t.within(layer, t.store.child("layer", name=layer.name), *t.args, **t.kwargs)
    return result


def time_distributed(t: Translation) -> Result:
    """A layer that is applied to every step: to all of them at once."""
    x, layer = t.x, t.layer.layer("layer")
    flat = t.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    mask = t.mask
    if mask is not None and mask.type.rank > 2:
        t.context.masks[flat] = t.reshape(mask, (mask.shape[0] * mask.shape[1], *mask.shape[2:]))
    y = t.within(layer, t.store.child("layer", name=layer.name), flat)
    if not isinstance(y, Value):
        raise t.unsupported("of a layer with several results")
    made = t.reshape(y, (x.shape[0], x.shape[1], *y.shape[1:]))
    inner = t.context.masks.get(y) if t.context.major < 3 else None
    if inner is not None:
        mask = t.reshape(inner, (x.shape[0], x.shape[1], *inner.shape[1:]))
    elif mask is not None and mask.type.rank > 2 and t.context.major < 3:
        mask = t.reduced("reduce_any", mask, range(2, mask.type.rank))
    if mask is not None and made != x:
        t.context.masks[made] = mask
    return made


def _lambda(t: Translation) -> Result:
    raise t.unsupported(
        "(its code is not part of the model's description)",
        'register a translation of it: sterna.frontends.register("keras", "Lambda", translate)',
    )


LAYERS: dict[str, Translator] = {
    "Dense": dense,
    "EinsumDense": einsum_dense,
    "Embedding": embedding,
    "ReversibleEmbedding": reversible_embedding,
    "Masking": masking,
    "Pipeline": pipeline,
    "TimeDistributed": time_distributed,
    "SpectralNormalization": wrapper,
    "StochasticDepth": lambda t: t.x,  # of ConvNeXt in keras.applications
    "Lambda": _lambda,
    **dict.fromkeys(
        (
            "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout",
            "GaussianDropout", "GaussianNoise", "ActivityRegularization", "InputLayer", "Equalization",
            "MaxNumBoundingBoxes", "MixUp", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter",
            "RandomContrast", "RandomCrop", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPosterization",
            "RandomSaturation",
        ),
        unchanged,
    ),
    **dict.fromkeys(
        (
            "AugMix", "CutMix", "RandAugment", "RandomElasticTransform", "RandomErasing", "RandomFlip",
            "RandomGaussianBlur", "RandomPerspective", "RandomRotation", "RandomSharpness", "RandomShear",
            "RandomTranslation", "RandomZoom", "Solarization",
        ),
        unchanged_floats,
    ),
}  # fmt: skip
