"""Sums of products of bytes whose constant factors lie two by two in one number of 16 bits, a couple.

With a couple of weights q = 256 v + w, and factors x and y of them,

    x q + (256 y + 127 - x) w  =  256 (x v + y w) + 127 w

and every factor on the left has 16 bits: w is the lower byte of q, and 256 y + 127 - x are the bytes x and y side by
side, with the bits of 127 of the lower one turned. A processor that multiplies numbers of 16 bits in pairs takes q as
it lies in memory, so that of four weights two are widened instead of four. The sum is 256 times what is wanted, and
127 times the sum of all w, a constant. It is taken from 32 bits, so what is wanted has to fit in 24.
"""

from __future__ import annotations

from sterna.ir.integer import of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import Tensor

#: What the sum of products is multiplied by, as a shift, and what is added for every second weight.
SHIFT, ADDED = 8, 127
#: The greatest magnitude of what is wanted.
MOST_SUM = (1 << (31 - SHIFT)) - 1


def coupled_products(x: Expr, y: Expr, couple: Expr) -> Expr:
    """256 (x v + y w) + 127 w in int32, of int8 x and y and an int16 couple 256 v + w."""
    first, second, both = (E.cast(e, "int32") for e in (x, y, couple))
    low = E.cast(E.cast(couple, "int8"), "int32")
    sides = second * E.const(1 << SHIFT, "int32") + (E.const(ADDED, "int32") - first)
    return first * both + sides * low


def couples(weights: Tensor, dimension: int, name: str) -> Tensor:
    """The stage that couples neighbours along a dimension: int16, half as many. No element may be -128."""
    axes = tuple(Axis(f"i{d}", n // 2 if d == dimension else n) for d, n in enumerate(weights.shape))

    def element(side: int) -> Expr:
        at = tuple(of(a) * 2 + side if d == dimension else of(a) for d, a in enumerate(axes))
        return E.cast(weights[at], "int32")

    couple = element(0) * E.const(1 << SHIFT, "int32") + element(1)
    return Tensor(name, tuple(a.extent for a in axes), "int16", axes, E.cast(couple, "int16"))


def sum_of_couples(x: Load, w: Load, coupled: Tensor, reduction: Reduce, axis: Axis) -> tuple[Reduce, Reduce]:
    """The sum of products x w, over an axis whose positions are coupled, as that over couples; and of the weights alone
    the rest that is to be subtracted from it: 127 times every second one.

    Args:
        coupled: `couples(w.tensor, ...)`, or a tensor of its shape and type.
    """
    half = Axis(axis.name, axis.extent // 2, reduction=True)
    axes = tuple(half if a is axis else a for a in reduction.axes)
    at = tuple(of(half) if i == of(axis) else i for i in w.indices)
    couple = Load(coupled.dtype, tensor=coupled, indices=at)
    first, second = ({axis: of(half) * 2 + n} for n in (0, 1))
    products = coupled_products(E.substitute_index(x, first), E.substitute_index(x, second), couple)
    rest = E.cast(E.substitute_index(w, second), "int32") * E.const(ADDED, "int32")
    return (
        Reduce("int32", combiner="sum", a=products, axes=axes),
        Reduce("int32", combiner="sum", a=rest, axes=axes),
    )


def restored(total: Expr, correction: Expr) -> Expr:
    """The sum of products, and what `with_shift` had added, of that over couples and its correction."""
    return E.binary("shift_right", total + correction, E.const(SHIFT, "int32"))


def with_shift(added: Expr, rest: Expr) -> Expr:
    """The correction that takes off the rest, and adds a number to the sum of products."""
    return added * E.const(1 << SHIFT, "int32") - rest
