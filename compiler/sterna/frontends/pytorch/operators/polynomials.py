"""Orthogonal polynomials of a degree that is known, by their recurrences (DLMF, section 18.9)."""

from __future__ import annotations

from collections.abc import Callable

from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value

#: How many the degree may be: each takes an operator or two.
_MOST = 256

#: (a, b, c) of p[k + 1] = (a x + b) p[k] - c p[k - 1], by k.
_Recurrence = Callable[[int], tuple[float, float, float]]


def _chebyshev(k: int) -> tuple[float, float, float]:
    return 2.0, 0.0, 1.0


#: Name -> (p[1] as (factor, constant), recurrence).
_KINDS: dict[str, tuple[tuple[float, float], _Recurrence]] = {
    "chebyshev_polynomial_t": ((1, 0), _chebyshev), "chebyshev_polynomial_u": ((2, 0), _chebyshev),
    "chebyshev_polynomial_v": ((2, -1), _chebyshev), "chebyshev_polynomial_w": ((2, 1), _chebyshev),
    "hermite_polynomial_h": ((2, 0), lambda k: (2.0, 0.0, 2.0 * k)),
    "hermite_polynomial_he": ((1, 0), lambda k: (1.0, 0.0, float(k))),
    "laguerre_polynomial_l": ((-1, 1), lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1))),
    "legendre_polynomial_p": ((1, 0), lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1))),
}  # fmt: skip


def polynomial(name: str) -> Translator:
    """`shifted`: of 2 x - 1."""
    (factor, constant), recurrence = _KINDS[name.removeprefix("shifted_")]

    def translate(t: Translation) -> Value:
        x, degree = t.floating("x"), int(t.number("n"))
        if degree > _MOST:
            raise t.unsupported(f"of the degree {degree}")

        def linear(a: float, b: float) -> Value:
            y = x if a == 1 else t.op("mul", x, t.scalar(a, x.dtype))
            return y if b == 0 else t.op("add", y, t.scalar(b, x.dtype))

        if degree < 1:
            return t.full(x.shape, float(degree == 0), x.dtype)
        if name.startswith("shifted_"):
            x = linear(2, -1)
        before, y = t.scalar(1, x.dtype), linear(factor, constant)
        for k in range(1, degree):
            a, b, c = recurrence(k)
            less = before if c == 1 else t.op("mul", before, t.scalar(c, x.dtype))
            before, y = y, t.op("sub", t.op("mul", linear(a, b), y), less)
        return y

    return translate


TRANSLATORS: dict[str, Translator] = {
    f"aten.special_{prefix}{name}.{form}": polynomial(prefix + name)
    for name in _KINDS
    for prefix in ("", "shifted_")
    if not prefix or name.startswith("chebyshev")
    for form in ("n_scalar", "default")
}
