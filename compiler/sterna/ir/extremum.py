"""The smaller and the greater of two symbolic integers."""

from __future__ import annotations

from typing import Any

from sterna.ir.integer import Atom, Bound, FloorDiv, Int, IntLike, Values, as_int, of


class Extremum(Atom):
    """The smaller (`min`) or greater (`max`) of two integers."""

    __slots__ = ("kind", "operands")

    def __init__(self, kind: str, a: Int, b: Int):
        (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
        # For a minimum, one known upper bound suffices and both lower bounds are needed; a maximum mirrors that.
        pick, loose = (min, 1) if kind == "min" else (max, 0)
        pairs = [(alo, blo), (ahi, bhi)]
        limits: list[Bound] = []
        for side, (x, y) in enumerate(pairs):
            if x is not None and y is not None:
                limits.append(pick(x, y))
            else:
                limits.append((x if x is not None else y) if side == loose else None)
        # The smaller of two is at most their mean: what they have in common with opposite signs drops out.
        slo, shi = (a + b).bounds()
        if kind == "min" and shi is not None:
            limits[1] = shi // 2 if limits[1] is None else min(limits[1], shi // 2)
        if kind == "max" and slo is not None:
            limits[0] = -(-slo // 2) if limits[0] is None else max(limits[0], -(-slo // 2))
        super().__init__(limits[0], limits[1], (kind, a, b))
        self.kind, self.operands = kind, (a, b)

    def parts(self) -> tuple[Int, ...]:
        return self.operands

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        return minimum(*parts) if self.kind == "min" else maximum(*parts)

    def evaluate(self, values: Values) -> Any:
        a, b = (operand.evaluate(values) for operand in self.operands)
        less = a < b
        if isinstance(less, bool):
            return a if less == (self.kind == "min") else b
        return less * a + (1 - less) * b if self.kind == "min" else less * b + (1 - less) * a

    def __str__(self) -> str:
        return f"{self.kind}({self.operands[0]}, {self.operands[1]})"


def minimum(a: IntLike, b: IntLike) -> Int:
    return _extremum("min", as_int(a), as_int(b))


def maximum(a: IntLike, b: IntLike) -> Int:
    return _extremum("max", as_int(a), as_int(b))


def _extremum(kind: str, a: Int, b: Int) -> Int:
    if _never_positive(a - b):
        return a if kind == "min" else b
    if _never_positive(b - a):
        return b if kind == "min" else a
    return Int({(Extremum(kind, a, b),): 1}, 0)


def _never_positive(value: Int) -> bool:
    """Whether value <= 0 by its bounds, or by those that x / d >= x // d gives."""
    for _ in range(4):
        hi = value.bounds()[1]
        if hi is not None and hi <= 0:
            return True
        quotient = next((m[0] for m in value.terms if len(m) == 1 and isinstance(m[0], FloorDiv)), None)
        if not isinstance(quotient, FloorDiv):
            return False
        coefficient = value.terms[(quotient,)]
        most = quotient.value if coefficient > 0 else quotient.value - (quotient.divisor - 1)
        value = (value - of(quotient) * coefficient) * quotient.divisor + most * coefficient
    return False
