"""Random numbers: a function of the seed and of the element's place, so that every generator makes the same ones."""

from __future__ import annotations

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.operator import Application, Attribute, Fusion, Operator, case
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

#: C. Wellons, "Prospecting for Hash Functions" (2018): shifts and factors of lowbias32, a permutation of 32 bits.
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1))
_WEYL = 0x9E3779B9  # an odd number near 2**32 / golden ratio: neighbours are far apart before they are hashed


def _u32(value: int) -> Expr:
    return E.const(value & 0xFFFFFFFF, "uint32")


def _hashed(x: Expr) -> Expr:
    for shift, factor in _ROUNDS:
        x = E.binary("xor", x, E.binary("shift_right", x, _u32(shift)))
        x = x if factor == 1 else x * _u32(factor)
    return x


def _uniform(applied: Application) -> Tensor:
    def body(*index: Int) -> Expr:
        place = as_int(0)
        for i, size in zip(index, applied.output.shape, strict=True):
            place = place * size + i
        bits = _hashed(
            _hashed(E.index_value(place, "uint32") * _u32(_WEYL) + _u32(applied["seed"])) + _u32(applied["seed"])
        )
        return E.cast(E.binary("shift_right", bits, _u32(8)), "float32") * (1.0 / (1 << 24))

    return compute(applied.name, applied.output.shape, body)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "random_uniform",
        "Numbers from 0 to 1, without 1, each a multiple of 2**-24: those of the seed, the same at every run.",
        lambda types, a: (TensorType("float32", tuple(as_int(n) for n in a["shape"])),),
        _uniform,
        Fusion.INJECTIVE,
        (Attribute("shape", "dims", "of the result"), Attribute("seed", "int", "which numbers", 0)),
        cases=(case(shape=(3, 5, 7), seed=11), case(shape=(64,), seed=-3), case(shape=(), seed=1)),
    ),
)
