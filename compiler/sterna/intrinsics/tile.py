"""Products of small matrices of bytes, added to int32 accumulators."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from sterna.intrinsics.declaration import Intrinsic, TileShape, TileUnit
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total


def tile_product(rows: int, lanes: int, words: int, group: int, left: str, right: str) -> Tensor:
    """sum over w, g of left[row, group w + g] * right[w, lane, g] in int32, wrapping where it does not fit."""
    a, b = placeholder("a", (rows, words * group), left), placeholder("b", (words, lanes, group), right)
    w, g = reduce_axis("w", words), reduce_axis("g", group)

    def element(row: Int, lane: Int) -> E.Expr:
        return total(E.cast(a[row, w.var * group + g.var], "int32") * E.cast(b[w.var, lane, g.var], "int32"), w, g)

    return compute("tile", (rows, lanes), element, axes=("row", "lane"))


def _amx_configuration(shapes: Sequence[TileShape]) -> bytes:
    """The operand of LDTILECFG, palette 1: bytes of a row (16 bits) from byte 16 on, rows (8 bits) from byte 48 on."""
    columns, rows = [bytes_ for _, bytes_ in shapes], [n for n, _ in shapes]
    return struct.pack("<BB14x16H16B", 1, 0, *columns, *[0] * (16 - len(shapes)), *rows, *[0] * (16 - len(shapes)))


#: Cycles: Intel 64 and IA-32 Architectures Optimization Reference Manual, throughput and latency of the instructions of
#: AMX.
_AMX = TileUnit(
    names={
        "c": {
            "configure": "_tile_loadconfig", "release": "_tile_release", "zero": "_tile_zero",
            "load": "_tile_loadd", "store": "_tile_stored",
        },
        "llvm": {
            "configure": "llvm.x86.ldtilecfg", "release": "llvm.x86.tilerelease", "zero": "llvm.x86.tilezero",
            "load": "llvm.x86.tileloadd64", "store": "llvm.x86.tilestored64",
        },
    },
    header="immintrin.h", registers=8, load_cycles=8, configuration=_amx_configuration,
)  # fmt: skip


def _amx(left: str, right: str) -> Intrinsic:
    signs = "".join("s" if dtype == "int8" else "u" for dtype in (left, right))
    name = f"tdpb{signs}d"
    return Intrinsic(
        name,
        tile_product(16, 16, 16, 4, left, right),
        settings={"c": {"multiply": f"_tile_dpb{signs}d"}, "llvm": {"multiply": f"llvm.x86.{name}"}},
        needs=(("amx-tile", "amx-int8"),),
        shorter=("row", "w"),
        tiles=_AMX,
        cycles=16,
        latency=52,
    )


#: x86, AMX-INT8, for all signednesses of the operands (Intel 64 and IA-32 Architectures Software Developer's Manual,
#: volume 2, TDPBSSD/TDPBSUD/TDPBUSD/TDPBUUD).
TILE_PRODUCTS: tuple[Intrinsic, ...] = tuple(
    _amx(left, right) for left in ("uint8", "int8") for right in ("int8", "uint8")
)
