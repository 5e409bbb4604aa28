"""Products of matrices whose weights are numbers of few bits, with a scale for every block of them.

The activations come as digits of 8 bits, so that sums of products are those of integers: one digit where the model asks
for no more, three of them (24 bits, relative to the largest activation of a block) where it wants float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import Array, TensorType
from sterna.ir.integer import Int
from sterna.ops.formulas import HALF, at, widened
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operand, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis

#: Bits of a digit, but its sign may make it one less.
DIGIT = 8


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, steps, excess, w, scales = present(types, 0, 1, 2, 3, 4)
    zeros = types[5] if len(types) > 5 else None
    for operand, dtype in ((x, "int8"), (steps, "float32"), (excess, "float32"), (w, "uint8")):
        check_dtype(operand.dtype, (dtype,))
    check_dtype(scales.dtype, ("float32", *HALF))
    if (x.rank, steps.rank, excess.rank, w.rank, scales.rank) != (3, 2, 2, 2, 2):
        raise unfit("takes digits of three dimensions (rows, digits, depth), and matrices")
    blocks, columns = scales.shape
    parts = 8 // attributes["bits"]
    if w.shape[1] != columns or w.shape[0] * parts != x.shape[2]:
        raise unfit(f"weights of {w} do not fit {x.shape[2]} activations and {columns} columns")
    if not (blocks.is_const and w.shape[0].is_const) or int(w.shape[0]) % int(blocks):
        raise unfit(f"{w.shape[0]} rows of bytes do not fall into {blocks} blocks")
    if steps.shape != (x.shape[0], blocks) or excess.shape != steps.shape:
        raise unfit(f"{steps} and {excess} do not fit {x.shape[0]} rows of {blocks} blocks")
    if zeros is not None and (zeros.dtype != "uint8" or zeros.shape != scales.shape):
        raise unfit(f"zero points of {zeros} for scales of {scales}")
    return TensorType("float32", (x.shape[0], columns))


def _formula(applied: Application) -> Tensor:
    x, steps, excess, w, scales = (applied.input(n) for n in range(5))
    zeros = applied.inputs[5] if len(applied.inputs) > 5 else None
    rows, columns = applied.output.shape
    digits, blocks, bits = int(x.shape[1]), int(scales.shape[0]), applied["bits"]
    length = int(w.shape[0]) // blocks
    part, place = reduce_axis("part", 8 // bits), reduce_axis("place", length)
    block = reduce_axis("block", blocks)

    def product(i: Int, d: Int, b: Int, j: Int) -> Expr:
        byte: Expr = at(w, (b * length + place.var, j))
        if bits < 8:
            byte = E.binary("shift_right", byte, E.index_value(part.var * bits, "uint8"))
            byte = E.binary("and", byte, (1 << bits) - 1)
        digit = at(x, (i, d, b * (length * (8 // bits)) + part.var * length + place.var))
        value = E.cast(byte, "int32") * E.cast(digit, "int32")
        return reduce("sum", value, *(a for a in (part, place) if a.extent != 1))

    shape = (rows, Int({}, digits), Int({}, blocks), columns)
    products = compute(applied.stage("products"), shape, product, ("i", "digit", "b", "j"))

    def element(i: Int, j: Int) -> Expr:
        value = E.cast(at(products, (i, Int({}, digits - 1), block.var, j)), "float32")
        for d in reversed(range(digits - 1)):
            value = value * float(1 << DIGIT) + E.cast(at(products, (i, Int({}, d), block.var, j)), "float32")
        more: Expr = at(excess, (i, block.var))
        if zeros is not None:
            more = more * E.cast(E.cast(at(zeros, (block.var, j)), "int32"), "float32")
        value = (value - more) * at(steps, (i, block.var)) * widened(at(scales, (block.var, j)))
        return reduce("sum", value, block) if blocks > 1 else value

    if blocks == 1:
        block = reduce_axis("block", 1)
    return compute(applied.name, applied.output.shape, element, ("i", "j"))


# ---------------------------------------------------------------- digits
def _digits_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, inverse = present(types, 0, 1)
    check_dtype(x.dtype, ("float32",))
    check_dtype(inverse.dtype, ("float32",))
    if x.rank != 3 or inverse.shape != x.shape[:2]:
        raise unfit(f"{inverse} does not fit blocks of {x}")
    return TensorType("int8", (x.shape[0], Int({}, attributes["count"]), *x.shape[1:]))


def _digits(applied: Application) -> Tensor:
    x, inverse, count = applied.input(0), applied.input(1), applied["count"]

    def element(i: Int, d: Int, b: Int, p: Int) -> Expr:
        whole = E.cast(E.unary("rint", at(x, (i, b, p)) * at(inverse, (i, b))), "int32")
        if count > 1:
            # Half of each lower digit's range is added, so that what is left after it is rounded, not cut off.
            halves = E.binary("shift_right", E.const(0x8080, "int32"), E.index_value(16 - d * DIGIT, "int32"))
            whole = E.binary("shift_right", whole + halves, E.index_value(d * DIGIT, "int32"))
        return E.cast(whole, "int8")

    return compute(applied.name, applied.output.shape, element, dtype="int8")


def _cases() -> tuple[Case, ...]:
    random = np.random.default_rng(5)

    def made(
        rows: int, digits: int, blocks: int, length: int, columns: int, bits: int, zeros: bool, scales: str = "float32"
    ) -> Case:
        depth = blocks * length
        operands: list[Operand | Array | None] = [
            random.integers(-127, 128, (rows, digits, depth)).astype(np.int8),
            random.uniform(0.5, 1.5, (rows, blocks)).astype(np.float32),
            random.integers(-50, 50, (rows, blocks)).astype(np.float32),
            random.integers(0, 256, (depth * bits // 8, columns)).astype(np.uint8),
            random.uniform(0.01, 0.02, (blocks, columns)).astype(scales),
        ]
        if zeros:
            operands.append(random.integers(0, 1 << bits, (blocks, columns)).astype(np.uint8))
        return Case(tuple(operands), {"bits": bits})

    return (
        made(1, 1, 3, 32, 40, 4, zeros=False),
        made(5, 1, 2, 16, 64, 4, zeros=True, scales="float16"),
        made(1, 3, 2, 32, 16, 4, zeros=True),
        made(3, 3, 1, 64, 33, 2, zeros=False),
        made(2, 1, 2, 8, 5, 8, zeros=True),
    )


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "digits",
        "Numbers (rows, blocks, length) times a factor for every block, rounded to integers of 8 or 24 bits, as digits "
        "of 8 bits with a sign, the lowest first: (rows, digits, blocks, length).",
        single(_digits_type),
        _digits,
        Fusion.INJECTIVE,
        (Attribute("count", "int", "of digits", choices=(1, 3)),),
        cases=(
            case(("float32", (2, 3, 16)), ("float32", (2, 3)), count=1, low=-3.0, high=40.0),
            case(("float32", (2, 3, 16)), ("float32", (2, 3)), count=3, low=-2000.0, high=2000.0),
        ),
    ),
    Operator(
        "matmul_blocks",
        "The product of a matrix by one of few bits. Rows are given as digits of 8 bits, the lowest first, with a step "
        "per block and what is taken off a block's sum (times the zero point, if there are any); a byte of the weights "
        "(depth, columns) holds numbers that are far apart in a block, those of its first part in the lowest bits.",
        single(_type),
        _formula,
        Fusion.COMPLEX,
        (Attribute("bits", "int", "of a weight", choices=(2, 4, 8)),),
        cases=_cases(),
    ),
)
