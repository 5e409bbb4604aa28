"""Convolutions."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.operators.quantized import integer_convolution
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def convolved(t: Translation, x: Value, transposed: bool, spatial: int) -> Value:
    """A convolution of a tensor with a batch dimension."""
    weight, bias = t.tensor("weight"), t.maybe("bias")
    strides, dilations = t.spatial("stride", spatial, 1), t.spatial("dilation", spatial, 1)
    padding, groups = t.arg("padding", 0), t.integer("groups", 1)
    if transposed:
        pads = t.spatial("padding", spatial, 0)
        return standard(
            t, "ConvTranspose", x, weight, bias, strides=strides, dilations=dilations, group=groups,
            pads=(*pads, *pads), output_padding=t.spatial("output_padding", spatial, 0),
        )  # fmt: skip
    if isinstance(padding, str):
        kernel = t.static(weight)[2:]
        both = [0 if padding == "valid" else d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        first = [n // 2 for n in both]
        pads = (*first, *(n - m for n, m in zip(both, first, strict=True)))
    else:
        ends = t.spatial("padding", spatial, 0)
        pads = (*ends, *ends)
    settings: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups, "pads": pads}
    found = integer_convolution(t, x, weight, bias, settings)
    return standard(t, "Conv", x, weight, bias, **settings) if found is None else found


def convolution(spatial: int, transposed: bool = False) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor("input")
        if x.type.rank == spatial + 1:
            y = convolved(t, t.unsqueeze(x, 0), transposed, spatial)
            return t.reshape(y, y.shape[1:])
        return convolved(t, x, transposed, spatial)

    return translate


def general(t: Translation) -> Value:
    """aten.convolution, of any number of dimensions, transposed or not."""
    x = t.tensor("input")
    spatial = x.type.rank - 2
    if not 1 <= spatial <= 3:
        raise error("E0108", f"{t.kind} takes tensors of 3 to 5 dimensions, not {x.type}")
    return convolved(t, x, t.flag("transposed"), spatial)


def of_steps(t: Translation) -> Value:
    """conv_tbc: (time, batch, channels), with weights (width, channels, filters)."""
    x, pad = t.tensor(), t.integer("pad", 0)
    weight = t.transpose(t.tensor("weight"), (2, 1, 0))
    y = standard(t, "Conv", t.transpose(x, (1, 2, 0)), weight, t.maybe("bias"), pads=(pad, pad))
    return t.transpose(y, (2, 0, 1))


TRANSLATORS: dict[str, Translator] = {
    **{f"aten.conv{n}d.{overload}": convolution(n) for n in (1, 2, 3) for overload in ("default", "padding")},
    "aten._convolution_mode.default": general,
    "aten.conv_tbc.default": of_steps,
    "aten.conv_transpose1d.default": convolution(1, True),
    "aten.conv_transpose2d.input": convolution(2, True),
    "aten.conv_transpose3d.input": convolution(3, True),
    "aten.convolution.default": general,
    "aten._convolution.default": general,
}
