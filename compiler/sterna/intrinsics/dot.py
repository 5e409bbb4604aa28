"""Dot products of a few small integers per lane, added to int32 accumulators."""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total


def dot_product(lanes: int, group: int, left: str, right: str) -> Tensor:
    """sum over r of left[lane, r] * right[lane, r], exact in int32 and wrapping where it does not fit."""
    a, b = placeholder("a", (lanes, group), left), placeholder("b", (lanes, group), right)
    r = reduce_axis("r", group)

    def element(lane: Int) -> E.Expr:
        return total(E.cast(a[lane, r], "int32") * E.cast(b[lane, r], "int32"), r)

    return compute("dot", (lanes,), element, axes=("lane",))


#: x86, AVX512_VNNI (512 bits) and AVX512_VNNI with AVX512VL (256 bits), or AVX_VNNI, whose encoding differs.
_VNNI = (
    Intrinsic("vpdpbusd.512", dot_product(16, 4, "uint8", "int8"), "vpdpbusd", {"bits": 512}),
    Intrinsic("vpdpbusd.256", dot_product(8, 4, "uint8", "int8"), "vpdpbusd", {"bits": 256}),
)

DOT_PRODUCTS: tuple[Intrinsic, ...] = _VNNI
