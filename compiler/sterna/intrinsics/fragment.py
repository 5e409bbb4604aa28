"""Products of matrix fragments: tiles that the threads of a subgroup hold together; which part each has is not said.
All of them load, multiply and store at once.

Products of 16-bit floats, and of float32 rounded to TF32, are exact in float32, which they are added up in; in which
order is the hardware's affair, so that the last bits of a sum are not said.
"""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic, TileUnit
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total

#: Rows and lanes of a product.
SIZE = 16
#: How the elements of a matrix lie: rows, or columns, of neighbours.
ORDERS = ("row", "col")


def fragment_product(dtype: str, left: str, right: str, words: int = SIZE, rounding: str = "") -> Tensor:
    """sum over w of left[row, w] * right[w, lane] in float32; what lies by columns is read the other way round.

    Args:
        left, right: how the operands lie, of `ORDERS`.
        words: that are added up; rounding: of both factors, an operation of `te.expr.UNARY`.
    """
    a = placeholder("a", (SIZE, words) if left == "row" else (words, SIZE), dtype)
    b = placeholder("b", (words, SIZE) if right == "row" else (SIZE, words), dtype)
    w, g = reduce_axis("w", words), reduce_axis("g", 1)

    def factor(value: E.Expr) -> E.Expr:
        return E.unary(rounding, value) if rounding else E.cast(value, "float32")

    def element(row: Int, lane: Int) -> E.Expr:
        x = a[(row, w.var) if left == "row" else (w.var, row)]
        y = b[(w.var, lane) if right == "row" else (lane, w.var)]
        return total(factor(x) * factor(y), w, g)

    return compute("fragment", (SIZE, SIZE), element, axes=("row", "lane"))


#: PTX ISA, "Warp-level Matrix Load/Store/MMA Instructions": wmma. Registers: of 255, eight each.
_WMMA = TileUnit(names={}, header="mma.h", registers=24, load_cycles=8, threads=32, row_bytes=16)
#: By PTX's word for what is multiplied: the type of the operands' elements, how many words are added up, what factors
#: are rounded to, what a thread holds of an operand, and the feature.
_TYPES = {
    "f16": ("float16", SIZE, "", "<2 x half>", 8, "sm_75"),
    "bf16": ("bfloat16", SIZE, "", "i32", 4, "sm_80"),
    "tf32": ("float32", 8, "tf32", "i32", 4, "sm_80"),
}


def _wmma(word: str, left: str, right: str) -> Intrinsic:
    dtype, words, rounding, part, parts, feature = _TYPES[word]
    held = {"shape": f"m{SIZE}n{SIZE}k{words}", "type": word, "part": part, "parts": parts}
    return Intrinsic(
        f"wmma.{word}.{left}.{right}",
        fragment_product(dtype, left, right, words, rounding),
        settings={**held, "rounding": rounding, "orders": (left, right)},
        needs=((feature,),),
        tiles=_WMMA,
        cycles=32,
        latency=32,
    )


#: Every pair of orders of all types.
FRAGMENT_PRODUCTS: tuple[Intrinsic, ...] = tuple(
    _wmma(word, left, right) for word in _TYPES for left in ORDERS for right in ORDERS
)
