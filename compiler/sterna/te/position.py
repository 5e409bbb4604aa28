"""Positions that are computed: the data-dependent indices of gathers.

    y = compute("y", (n, 8), lambda i, j: x[position(idx[i], 100), j])

Such an index is an ordinary `Int` in which the loaded value is an atom with bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Atom, Int, as_int
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr


class IndexAtom(Atom):
    """A position that is itself computed, as that of a gather; made by `position`.

    `value` is an integer expression whose value always lies in [lo, hi]: the clamp is part of it. The positions inside
    `value` are the parts of the atom, so symbols are substituted through it. `greatest` says what `hi` does where the
    dimension is open.
    """

    __slots__ = ("greatest", "value")

    def __init__(self, value: Expr, lo: int | None, hi: int | None, greatest: Int):
        super().__init__(lo, hi, ("index", value, lo, hi))
        self.value, self.greatest = value, greatest

    def expressions(self) -> tuple[Expr, ...]:
        return (self.value,)

    def parts(self) -> tuple[Int, ...]:
        return tuple(index for node in E.walk(self.value) for index in E.positions(node))

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        values = dict(zip(self.parts(), parts, strict=True))
        return self.map(lambda value: E.map_positions(value, values.__getitem__))

    def map(self, function: Callable[[Expr], Expr]) -> Int:
        """The position with another expression of the same value, for instance one that reads lowered buffers."""
        value = function(self.value)
        if isinstance(value, E.Const):
            return Int({}, int(value.value))
        return Int({(self if value == self.value else IndexAtom(value, self.lo, self.hi, self.greatest),): 1}, 0)

    def __str__(self) -> str:
        read = [f"{load.tensor.name}[{', '.join(map(str, load.indices))}]" for load in E.loads(self.value)]
        return f"clamp({', '.join(read)})"


def position(value: Expr, extent: Int | int, from_end: bool = False) -> Int:
    """An integer value as a position among `extent` elements: x[position(idx[i], n), j] is a gather.

    Values outside the range are clamped to it, so that no input can make a kernel read elsewhere; with `from_end`,
    negative values count from the end first, as they do in ONNX and NumPy.
    """
    size = as_int(extent)
    if isinstance(value, E.Const):
        index = Int({}, int(value.value))
        index = index + size if from_end and int(value.value) < 0 else index
        return maximum(minimum(index, size - 1), 0)
    if isinstance(value, E.IndexValue) and not from_end:
        return maximum(minimum(value.index, size - 1), 0)
    hi = size.bounds()[1]
    # 32 bits are enough for positions of tensors of known size below 2**31, and cheaper on small machines.
    narrow = value.dtype not in ("int64", "uint64", "uint32") and hi is not None and hi < 2**31
    value = E.cast(value, "int32" if narrow else "int64")
    if from_end:
        value = E.select(value < 0, value + E.index_value(size, value.dtype), value)
    # The 0 comes last: a dimension whose size is computed may have no element.
    value = E.maximum(E.minimum(value, E.index_value(size - 1, value.dtype)), 0)
    atom = IndexAtom(value, 0, None if hi is None else max(hi - 1, 0), maximum(size - 1, 0))
    return Int({(atom,): 1}, 0)


def rewrite_all(expr: Expr, rule: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`te.expr.rewrite` that also reaches the values inside computed positions."""

    def both(node: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
        moved = E.with_positions(node, lambda index: rewrite_index(index, again))
        replacement = rule(node if moved is None else moved)
        return moved if replacement is None else replacement

    return E.rewrite_within(expr, both, memo)


def rewrite_index(index: Int, function: Callable[[Expr], Expr]) -> Int:
    """Applies `function` to the expression of every computed position in an index; those nested inside are its task."""
    if not index.expressions():
        return index
    values: dict[Atom, Int] = {}
    for atom in index.atoms():
        if isinstance(atom, IndexAtom) and atom not in values:
            values[atom] = atom.map(function)
    return index.substitute(values)


class Quotient(IndexAtom):
    """The quotient of a position that is not negative by a size that is only known at run time; made by `quotient`."""

    __slots__ = ("dividend", "divisor")

    def __init__(self, dividend: Int, divisor: Int):
        (_, hi), (least, greatest) = dividend.bounds(), divisor.bounds()
        short = hi is not None and greatest is not None and max(hi, greatest) < 2**31
        parts = (E.index_value(n, "int32" if short else "int64") for n in (dividend, divisor))
        super().__init__(E.binary("floor_div", *parts), 0, None if hi is None else hi // max(least or 1, 1), dividend)
        self.dividend, self.divisor = dividend, divisor

    def parts(self) -> tuple[Int, ...]:
        return (self.dividend, self.divisor)

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        return quotient(*parts)

    def map(self, function: Callable[[Expr], Expr]) -> Int:
        return Int({(self,): 1}, 0)  # it reads nothing

    def __str__(self) -> str:
        return f"({self.dividend}) // ({self.divisor})"


def quotient(dividend: Int, divisor: Int) -> Int:
    """The quotient of a position that is not negative by a size."""
    return dividend // int(divisor) if divisor.is_const else Int({(Quotient(dividend, divisor),): 1}, 0)


def divided(dividend: Int, divisor: Int) -> tuple[Int, Int]:
    """The quotient of a position that is not negative by a size, and what it leaves."""
    first = quotient(dividend, divisor)
    return first, dividend % divisor if divisor.is_const else dividend - first * divisor


def taken_apart(axes: Sequence[Axis], position: Int) -> dict[Atom, Int]:
    """The values of axes by the position in all of them, of which the last one moves fastest."""
    values: dict[Atom, Int] = {}
    for axis in reversed(axes[1:]):
        position, values[axis] = divided(position, axis.extent)
    return values | ({axes[0]: position} if axes else {})


def depends_on_data(*positions: Int) -> bool:
    """Whether a position is computed from more than positions and constants: from elements of a tensor, or from a
    variable, which may hold one. A quotient by a size is not: all know it."""
    values = (atom.value for index in positions for atom in index.atoms() if isinstance(atom, IndexAtom))
    return any(_is_data(node) for value in values for node in E.walk(value))


def _is_data(node: Expr) -> bool:
    return not node.children() and not isinstance(node, (E.Const, E.IndexValue))


def is_rest(index: Int) -> bool:
    """Whether it is what the division by a size leaves of a position."""
    quotients = [a for a in index.atoms() if isinstance(a, Quotient)]
    return any(index == a.dividend - Int({(a,): 1}, 0) * a.divisor for a in quotients)
