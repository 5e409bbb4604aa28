"""Complex numbers between layers: what stands for one is its real part; the context has the imaginary part beside it.

Functions that are not here take none, and no output of a model is complex.
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.errors import error
from sterna.frontends.angles import arc_tangent, distance, quotient
from sterna.frontends.keras.layers.arguments import promoted, two_operands
from sterna.frontends.keras.stores import snake_case
from sterna.frontends.keras.translation import Translation, Translator, values_in
from sterna.ir.graph import Value

#: Real and imaginary part.
Parts = tuple[Value, Value]


def complex_operation(t: Translation) -> Translator | None:
    """The translator of a call with complex operands; None if it has none.

    Raises:
        SternaError: E0113, the function takes no complex numbers.
    """
    if not any(value in t.context.imaginary for each in (*t.args, *t.kwargs.values()) for value in values_in(each)):
        return None
    name = snake_case(t.kind)
    if name not in _OF_COMPLEX:
        raise t.unsupported("of complex numbers")
    return _OF_COMPLEX[name]


def made(t: Translation, real: Value, imaginary: Value) -> Value:
    """Complex numbers from their parts, which are of one type and of shapes that fit."""
    zero = t.op("sub", imaginary, imaginary)
    value = t.builder.add("identity", t.op("add", real, zero) if real.shape != imaginary.shape else real)
    t.context.imaginary[value] = imaginary
    return value


def _parts(t: Translation, x: Value) -> Parts:
    imaginary = t.context.imaginary.get(x)
    return x, t.op("sub", x, x) if imaginary is None else imaginary


def _of_pairs(t: Translation) -> Value:
    """view_as_complex: of a last dimension of two."""
    x = t.x
    if x.type.rank < 1 or t.extent(x, -1) != 2:
        raise error("E0108", f"{t.kind} takes pairs in the last dimension, not {x.type}")
    real, imaginary = (t.reshape(t.part(x, -1, n, 1), x.shape[:-1]) for n in (0, 1))
    return made(t, real, imaginary)


def _as_pairs(t: Translation) -> Value:
    wide = [t.reshape(each, (*each.shape, 1)) for each in _parts(t, t.x)]
    return t.op("concat", *wide, axis=wide[0].type.rank - 1)


def _polar(t: Translation) -> Value:
    length, angle = promoted(t, two_operands(t, ("abs_", "angle")))
    return made(t, t.op("mul", length, t.op("cos", angle)), t.op("mul", length, t.op("sin", angle)))


def _length(t: Translation) -> Value:
    return distance(t, *_parts(t, t.x))


def _angle(t: Translation) -> Value:
    real, imaginary = _parts(t, t.x)
    return arc_tangent(t, imaginary, real)


def _conjugate(t: Translation) -> Value:
    real, imaginary = _parts(t, t.x)
    return made(t, real, t.op("neg", imaginary))


def _negative(t: Translation) -> Value:
    real, imaginary = _parts(t, t.x)
    return made(t, t.op("neg", real), t.op("neg", imaginary))


def _exponential(t: Translation) -> Value:
    real, imaginary = _parts(t, t.x)
    length = t.op("exp", real)
    return made(t, t.op("mul", length, t.op("cos", imaginary)), t.op("mul", length, t.op("sin", imaginary)))


def _of_two(combine: Callable[[Translation, Parts, Parts], Parts]) -> Translator:
    def translate(t: Translation) -> Value:
        first, second = two_operands(t)
        return made(t, *combine(t, _parts(t, first), _parts(t, second)))

    return translate


def _by_part(operator: str) -> Translator:
    return _of_two(lambda t, a, b: (t.op(operator, a[0], b[0]), t.op(operator, a[1], b[1])))


def _product(t: Translation, a: Parts, b: Parts) -> Parts:
    real = t.op("sub", t.op("mul", a[0], b[0]), t.op("mul", a[1], b[1]))
    return real, t.op("add", t.op("mul", a[0], b[1]), t.op("mul", a[1], b[0]))


#: Functions of complex numbers.
_OF_COMPLEX: dict[str, Translator] = {
    "view_as_real": _as_pairs,
    "real": lambda t: t.builder.add("identity", t.x),
    "imag": lambda t: t.context.imaginary[t.x],
    "abs": _length,
    "absolute": _length,
    "angle": _angle,
    "conj": _conjugate,
    "conjugate": _conjugate,
    "negative": _negative,
    "exp": _exponential,
    "add": _by_part("add"),
    "subtract": _by_part("sub"),
    "multiply": _of_two(_product),
    "divide": _of_two(quotient),
    "true_divide": _of_two(quotient),
}
#: Functions that make them of real numbers, or take those, too.
OPERATIONS: dict[str, Translator] = {
    "polar": _polar,
    "view_as_complex": _of_pairs,
    "view_as_real": _as_pairs,
}
