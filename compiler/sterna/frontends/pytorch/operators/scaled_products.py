"""Products of matrices that are stored in few bits, with scales beside them."""

from __future__ import annotations

from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import ONE


def of_scaled(t: Translation) -> Value:
    """(a scale_a) (b scale_b) + bias, each scale one number or one for each row of a and column of b (_scaled_mm)."""
    a, b = (t.cast(t.tensor(name), "float32") for name in ("self", "mat2"))
    if t.maybe("scale_result") is not None:
        raise t.unsupported("with a scale of the result")
    y = product(t, a, b)
    rows, columns = y.shape
    for name, wanted in (("scale_a", (rows, ONE)), ("scale_b", (ONE, columns))):
        scale = t.cast(t.tensor(name), "float32")
        if scale.type.elements != 1 and scale.shape != wanted:
            raise t.unsupported("with scales of blocks")
        y = t.op("mul", y, t.reshape(scale, ()) if scale.type.elements == 1 else scale)
    bias = t.maybe("bias")
    y = y if bias is None else t.op("add", y, t.cast(bias, "float32"))
    return t.cast(y, t.scalar_type(t.tensor().dtype, "out_dtype"))


def of_bytes(t: Translation) -> Value:
    """x w^T scales, of int8 weights with a scale for each row (_weight_int8pack_mm)."""
    x = t.tensor()
    w = t.transpose(t.cast(t.tensor("mat2"), x.dtype), (1, 0))
    return t.op("mul", product(t, x, w), t.cast(t.tensor("scales"), x.dtype))


TRANSLATORS: dict[str, Translator] = {
    "aten._scaled_mm.default": of_scaled, "aten._weight_int8pack_mm.default": of_bytes,
}  # fmt: skip
