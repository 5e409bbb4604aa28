"""Products of matrix fragments: tiles that the threads of a subgroup hold together; which part each has is not said.
All of them load, multiply and store at once.

Products of 16-bit floats are exact in float32, which they are added up in; in which order is the hardware's affair, so
that the last bits of a sum are not said.
"""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic, TileUnit
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total

#: Rows, lanes and words of a product.
SIZE = 16
#: How the elements of a matrix lie: rows, or columns, of neighbours.
ORDERS = ("row", "col")


def fragment_product(dtype: str, left: str, right: str) -> Tensor:
    """sum over w of left[row, w] * right[w, lane] in float32; what lies by columns is read the other way round.

    Args:
        left, right: how the operands lie, of `ORDERS`.
    """
    a, b = (placeholder(name, (SIZE, SIZE), dtype) for name in ("a", "b"))
    w, g = reduce_axis("w", SIZE), reduce_axis("g", 1)

    def element(row: Int, lane: Int) -> E.Expr:
        x = a[(row, w.var) if left == "row" else (w.var, row)]
        y = b[(w.var, lane) if right == "row" else (lane, w.var)]
        return total(E.cast(x, "float32") * E.cast(y, "float32"), w, g)

    return compute("fragment", (SIZE, SIZE), element, axes=("row", "lane"))


#: PTX ISA, "Warp-level Matrix Load/Store/MMA Instructions": wmma. Registers: of 255, eight each.
_WMMA = TileUnit(names={}, header="mma.h", registers=24, load_cycles=8, threads=32, row_bytes=16)
#: By element type: the word that PTX has for it, and what a thread holds of an operand.
_TYPES = {"float16": ("f16", "<2 x half>", 8), "bfloat16": ("bf16", "i32", 4)}


def _wmma(dtype: str, left: str, right: str) -> Intrinsic:
    word, part, parts = _TYPES[dtype]
    shape = f"m{SIZE}n{SIZE}k{SIZE}"
    return Intrinsic(
        f"wmma.{word}.{left}.{right}",
        fragment_product(dtype, left, right),
        settings={"shape": shape, "type": word, "part": part, "parts": parts, "orders": (left, right)},
        needs=(("sm_75",),) if dtype == "float16" else (("sm_80",),),
        tiles=_WMMA,
        cycles=32,
        latency=32,
    )


#: Every pair of orders of both types.
FRAGMENT_PRODUCTS: tuple[Intrinsic, ...] = tuple(
    _wmma(dtype, left, right) for dtype in _TYPES for left in ORDERS for right in ORDERS
)
