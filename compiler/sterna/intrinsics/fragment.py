"""Products of matrix fragments: tiles that the threads of a subgroup hold together; which part each has is not said.
All of them load, multiply and store at once. Those of four subgroups, a warpgroup, hold sums alone: both factors are
multiplied where they lie, in the memory of the task.

Products of 16-bit floats, and of float32 rounded to TF32, are exact in float32, which they are added up in; in which
order is the hardware's affair, so that the last bits of a sum are not said. Those of bytes, of one sign on both sides,
are added up in int32, and exact.
"""

from __future__ import annotations

from dataclasses import replace

from sterna.intrinsics.declaration import Intrinsic, TileUnit
from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total

#: Rows and lanes of a product.
SIZE = 16
#: How the elements of a matrix lie: rows, or columns, of neighbours.
ORDERS = ("row", "col")


def fragment_product(dtype: str, left: str, right: str, words: int = SIZE, rounding: str = "") -> Tensor:
    """sum over w of left[row, w] * right[w, lane] in float32, of bytes in int32; what lies by columns is read the other
    way round.

    Args:
        left, right: how the operands lie, of `ORDERS`.
        words: that are added up; rounding: of both factors, an operation of `te.expr.UNARY`.
    """
    a = placeholder("a", (SIZE, words) if left == "row" else (words, SIZE), dtype)
    b = placeholder("b", (words, SIZE) if right == "row" else (SIZE, words), dtype)
    w, g = reduce_axis("w", words), reduce_axis("g", 1)
    sums = "int32" if dtypes.is_integer(dtype) else "float32"

    def factor(value: E.Expr) -> E.Expr:
        return E.unary(rounding, value) if rounding else E.cast(value, sums)

    def element(row: Int, lane: Int) -> E.Expr:
        x = a[(row, w.var) if left == "row" else (w.var, row)]
        y = b[(w.var, lane) if right == "row" else (lane, w.var)]
        return total(factor(x) * factor(y), w, g)

    return compute("fragment", (SIZE, SIZE), element, axes=("row", "lane"))


#: PTX ISA, "Warp-level Matrix Load/Store/MMA Instructions": wmma. Registers: of 255, eight each.
_WMMA = TileUnit(names={}, header="mma.h", registers=24, load_cycles=8, threads=32, row_bytes=16)
#: Of bytes a register has four terms of a sum, and none of these instructions exchanges bytes of the threads.
_WMMA_BYTES = replace(_WMMA, along_terms=True)
#: By PTX's word for what is multiplied: the type of the operands' elements, how many words are added up, what factors
#: are rounded to, what a thread holds of an operand, and the feature.
_TYPES = {
    "f16": ("float16", SIZE, "", "<2 x half>", 8, "sm_75"),
    "bf16": ("bfloat16", SIZE, "", "i32", 4, "sm_80"),
    "tf32": ("float32", 8, "tf32", "i32", 4, "sm_80"),
    "s8": ("int8", SIZE, "", "i32", 2, "sm_75"),
    "u8": ("uint8", SIZE, "", "i32", 2, "sm_75"),
}


def _wmma(word: str, left: str, right: str) -> Intrinsic:
    dtype, words, rounding, part, parts, feature = _TYPES[word]
    behaviour = fragment_product(dtype, left, right, words, rounding)
    held = {"shape": f"m{SIZE}n{SIZE}k{words}", "type": word, "part": part, "parts": parts}
    return Intrinsic(
        f"wmma.{word}.{left}.{right}",
        behaviour,
        settings={**held, "rounding": rounding, "orders": (left, right)},
        needs=((feature,),),
        tiles=_WMMA_BYTES if dtypes.size(dtype) == 1 else _WMMA,
        cycles=32,
        latency=32,
    )


#: Rows of a warpgroup's product, terms that are added up by one instruction and at a time, and columns.
ROWS, TERMS, AT_ONCE, COLUMNS = 64, 16, 64, (64, 128, 256)
#: Elements of 16 bits that lie side by side in a block of a matrix, and rows of these.
BLOCK = 8
#: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate": wgmma. Blocks begin at multiples of 16 bytes.
_WGMMA = TileUnit(names={}, header="", registers=4, load_cycles=8, threads=128, row_bytes=8, in_memory=True)


def warpgroup_product(dtype: str, left: str, right: str, columns: int) -> Tensor:
    """sum over w and g of left[row, w and g] * right[w and g, lane] in float32, of matrices that lie in blocks: of
    eight neighbours along the dimension that `left` and `right` name, eight of these rows of 16 bytes one after another
    (the canonical layout without swizzling).

    Args:
        left, right: which elements are neighbours, of `ORDERS`: of the left factor terms or rows, of the right one
            columns or terms.
    """

    def blocks(name: str, across: int, by_terms: bool) -> Tensor:
        shape = (AT_ONCE // BLOCK, across, BLOCK) if by_terms else (across // BLOCK, AT_ONCE, BLOCK)
        return placeholder(name, shape, dtype)

    a, b = blocks("a", ROWS, left == "row"), blocks("b", columns, right == "col")
    w, g = reduce_axis("w", AT_ONCE // BLOCK), reduce_axis("g", BLOCK)

    def place(across: Int, by_terms: bool) -> tuple[Int, Int, Int]:
        return (w.var, across, g.var) if by_terms else (across // BLOCK, w.var * BLOCK + g.var, across % BLOCK)

    def element(row: Int, lane: Int) -> E.Expr:
        x, y = a[place(row, left == "row")], b[place(lane, right == "col")]
        return total(E.cast(x, "float32") * E.cast(y, "float32"), w, g)

    return compute("fragment", (ROWS, columns), element, axes=("row", "lane"))


def _wgmma(word: str, left: str, right: str, columns: int) -> Intrinsic:
    dtype = _TYPES[word][0]
    return Intrinsic(
        f"wgmma.{word}.n{columns}.{left}.{right}",
        warpgroup_product(dtype, left, right, columns),
        settings={
            "shape": f"m{ROWS}n{columns}k{TERMS}",
            "type": word,
            "times": AT_ONCE // TERMS,
            "rounding": "",
            "orders": (left, right),
        },
        needs=(("sm_90a",),),
        tiles=_WGMMA,
        cycles=columns // 2,
        latency=columns // 2,
    )


#: Every pair of orders of all types.
FRAGMENT_PRODUCTS: tuple[Intrinsic, ...] = (
    *(_wmma(word, left, right) for word in _TYPES for left in ORDERS for right in ORDERS),
    *(
        _wgmma(word, left, right, columns)
        for word in ("f16", "bf16")
        for columns in COLUMNS
        for left in ORDERS
        for right in ORDERS
    ),
)
