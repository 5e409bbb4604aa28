"""Functions of complex numbers, of their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable

from sterna.frontends.angles import arc_tangent, distance, quotient, scaled
from sterna.frontends.pytorch.operators.pairs import joined, parts
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value

Parts = tuple[Value, Value]
#: Exponents up to which a power is a product.
_MOST_FACTORS = 64


def product(t: Translation, z: Parts, w: Parts) -> Parts:
    (a, b), (c, d) = z, w
    real = t.op("sub", t.op("mul", a, c), t.op("mul", b, d))
    return real, t.op("add", t.op("mul", a, d), t.op("mul", b, c))


def size(t: Translation, z: Parts) -> Value:
    return distance(t, *z)


def reciprocal(t: Translation, z: Parts) -> Parts:
    return quotient(t, (t.scalar(1, z[0].dtype), t.scalar(0, z[0].dtype)), z)


def exponential(t: Translation, z: Parts) -> Parts:
    a, b = z
    factor = t.op("exp", a)
    return t.op("mul", factor, t.op("cos", b)), t.op("mul", factor, t.op("sin", b))


def logarithm(t: Translation, z: Parts) -> Parts:
    return t.op("log", size(t, z)), arc_tangent(t, z[1], z[0])


def square_root(t: Translation, z: Parts) -> Parts:
    """The one whose real part is not negative; of the two forms that which loses no digits."""
    a, b = z
    zero, two = t.scalar(0, a.dtype), t.scalar(2, a.dtype)
    half = [t.op("div", each, two) for each in (t.op("abs", a), size(t, z))]  # their sum might overflow
    long = t.op("sqrt", t.op("add", *half))
    none = t.op("equal", long, zero)
    short = t.op("div", b, t.op("mul", two, t.op("where", none, t.scalar(1, a.dtype), long)))
    right, below = t.op("greater_equal", a, zero), t.op("less", b, zero)
    imaginary = t.op("where", below, t.op("neg", long), long)
    return t.op("where", right, long, t.op("abs", short)), t.op("where", right, short, imaginary)


def sine(t: Translation, z: Parts) -> Parts:
    a, b = z
    return (
        t.op("mul", t.op("sin", a), t.op("cosh", b)),
        t.op("mul", t.op("cos", a), t.op("sinh", b)),
    )


def cosine(t: Translation, z: Parts) -> Parts:
    a, b = z
    return (
        t.op("mul", t.op("cos", a), t.op("cosh", b)),
        t.op("neg", t.op("mul", t.op("sin", a), t.op("sinh", b))),
    )


def turned(t: Translation, z: Parts) -> Parts:
    """i z."""
    return t.op("neg", z[1]), z[0]


def _quarter_on(function: Callable[[Translation, Parts], Parts], back: bool) -> Callable[[Translation, Parts], Parts]:
    """A hyperbolic function: sinh z = -i sin iz, cosh z = cos iz."""

    def run(t: Translation, z: Parts) -> Parts:
        real, imaginary = function(t, turned(t, z))
        return (imaginary, t.op("neg", real)) if back else (real, imaginary)

    return run


def hyperbolic_tangent(t: Translation, z: Parts) -> Parts:
    """By functions that do not overflow: with v = tan b and w = tanh a."""
    w, v = t.op("tanh", z[0]), t.op("tan", z[1])
    one = t.scalar(1, w.dtype)
    ww, vv = t.op("mul", w, w), t.op("mul", v, v)
    below = t.op("add", one, t.op("mul", ww, vv))
    real = t.op("div", t.op("mul", w, t.op("add", one, vv)), below)
    return real, t.op("div", t.op("mul", v, t.op("sub", one, ww)), below)


def direction(t: Translation, z: Parts) -> Parts:
    """Numbers of size 1, and 0 of 0."""
    a, b, _ = scaled(t, *z)
    far = size(t, (a, b))
    far = t.op("where", t.op("equal", far, t.scalar(0, far.dtype)), t.scalar(1, far.dtype), far)
    return t.op("div", a, far), t.op("div", b, far)


def power(t: Translation) -> Value:
    """Whole powers by products, others by exp(n log z)."""
    z, n = parts(t, t.tensor()), t.arg("exponent")
    if isinstance(n, complex):
        return _joined(t, exponential(t, product(t, logarithm(t, z), (t.scalar(n.real, z[0].dtype),
                                                                     t.scalar(n.imag, z[0].dtype)))))  # fmt: skip
    number = t.number("exponent")
    if number == 0.5:
        return _joined(t, square_root(t, z))
    if number != int(number) or abs(number) > _MOST_FACTORS:
        factor = t.scalar(number, z[0].dtype)
        real, imaginary = (t.op("mul", part, factor) for part in logarithm(t, z))
        return _joined(t, exponential(t, (real, imaginary)))
    made = t.full(z[0].shape, 1, z[0].dtype), t.full(z[0].shape, 0, z[0].dtype)
    for digit in bin(abs(int(number)))[2:]:
        made = product(t, made, made)
        made = product(t, made, z) if digit == "1" else made
    return _joined(t, reciprocal(t, made) if number < 0 else made)


def _joined(t: Translation, z: Parts) -> Value:
    return joined(t, *z)


def function_of(function: Callable[[Translation, Parts], Parts]) -> Translator:
    """A function of one tensor."""
    return lambda t: joined(t, *function(t, parts(t, t.tensor())))


def less_than_other(t: Translation) -> Value:
    """other - alpha self, of a number."""
    a, b = parts(t, t.tensor())
    given, alpha = complex(t.arg("other")), t.number("alpha", 1)
    scaled = [v if alpha == 1 else t.op("mul", v, t.scalar(alpha, v.dtype)) for v in (a, b)]
    ends = t.scalar(given.real, a.dtype), t.scalar(given.imag, a.dtype)
    return joined(t, *(t.op("sub", end, part) for end, part in zip(ends, scaled, strict=True)))


def dot(conjugated: bool) -> Translator:
    """Of two vectors; vdot takes the conjugate of the first."""

    def run(t: Translation) -> Value:
        (a, b), w = parts(t, t.tensor()), parts(t, t.tensor(t.given("other", "tensor")))
        both = product(t, (a, t.op("neg", b) if conjugated else b), w)
        return joined(t, *(t.op("reduce_sum", part, axes=(0,), keep_dims=False) for part in both))

    return run


def adjoint(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    order = list(range(a.type.rank))
    order[-2:] = order[:-3:-1]
    return joined(t, t.transpose(a, order), t.transpose(t.op("neg", b), order))


def equal(negated: bool) -> Translator:
    def run(t: Translation) -> Value:
        other = t.arg("other")
        z = parts(t, t.tensor())
        if isinstance(other, Value):
            w = parts(t, other)
        else:
            w = t.scalar(complex(other).real, z[0].dtype), t.scalar(complex(other).imag, z[0].dtype)
        found = t.op("logical_and", *(t.op("equal", a, b) for a, b in zip(z, w, strict=True)))
        return t.op("logical_not", found) if negated else found

    return run


def _tested(operators: tuple[str, ...], negated: bool) -> Translator:
    """Whether either part is one of what these find."""

    def run(t: Translation) -> Value:
        found = [t.op(operator, part) for operator in operators for part in parts(t, t.tensor())]
        any_ = found[0]
        for each in found[1:]:
            any_ = t.op("logical_or", any_, each)
        return t.op("logical_not", any_) if negated else any_

    return run


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(function_of(reciprocal), "reciprocal.default"), **_named(function_of(exponential), "exp.default"),
    **_named(function_of(logarithm), "log.default"), **_named(function_of(square_root), "sqrt.default"),
    **_named(function_of(sine), "sin.default"), **_named(function_of(cosine), "cos.default"),
    **_named(function_of(_quarter_on(sine, True)), "sinh.default"),
    **_named(function_of(_quarter_on(cosine, False)), "cosh.default"),
    **_named(function_of(hyperbolic_tangent), "tanh.default"), **_named(function_of(direction), "sgn.default"),
    **_named(function_of(lambda t, z: product(t, z, z)), "square.default"),
    **_named(power, "pow.Tensor_Scalar"), **_named(less_than_other, "rsub.Scalar"),
    **_named(dot(False), "dot.default"), **_named(dot(True), "vdot.default"),
    **_named(adjoint, "mH.default", "adjoint.default", "matrix_H.default"),
    **_named(equal(False), "eq.Tensor", "eq.Scalar"), **_named(equal(True), "ne.Tensor", "ne.Scalar"),
    **_named(_tested(("is_nan",), False), "isnan.default"), **_named(_tested(("is_inf",), False), "isinf.default"),
    **_named(_tested(("is_nan", "is_inf"), True), "isfinite.default"),
}  # fmt: skip
