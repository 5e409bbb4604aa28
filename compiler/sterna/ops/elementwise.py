"""Operators that work element by element on operands that broadcast: arithmetic, comparison, logic, choice, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ops.formulas import at, map_elements, polynomial, round_away
from sterna.ops.operator import Application, Attribute, Case, Fusion, Onnx, Operator, Types, case, unfit
from sterna.ops.types import INTEGERS, NUMBERS, SIGNED_NUMBERS, broadcast, elementwise, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

FLOATS = dtypes.FLOATS
BOOL = ("bool",)


def declare(
    name: str,
    doc: str,
    function: Callable[..., Any],
    operands: int,
    allowed: Sequence[str] = FLOATS,
    *,
    onnx: str = "",
    result: str | None = None,
    attributes: tuple[Attribute, ...] = (),
    renamed: Mapping[str, str] | None = None,
    low: float = -3.0,
    high: float = 3.0,
    cases: tuple[Case, ...] = (),
) -> Operator:
    """An element-wise operator.

    Args:
        function: the element, from the operands' elements (float16 and bfloat16 already widened to float32) and the
            attributes as keywords.
        operands: how many it takes, all of one type.
        allowed: element types.
        onnx: the ONNX operator that is exactly this one, if there is one; `renamed`: its attribute names -> ours.
        result: element type of the result, where it is not the operands'.
        low, high: range of the values it is tested with; `cases`: more of them.
    """

    def formula(applied: Application) -> Tensor:
        inputs = [applied.input(position) for position in range(operands)]
        return map_elements(
            applied.name, inputs, applied.output, lambda *values: function(*values, **applied.attributes)
        )

    shapes: list[tuple[tuple[int, ...], ...]]
    if operands == 1:
        shapes = [((2, 3, 5),), ((),)]
    else:
        shapes = [((2, 3, 5), (2, 3, 5), (2, 3, 5)), ((4, 1, 5), (3, 1), (1,)), ((), (7,), ())]
    standard = [d for d in ("float32", "float16", "int32", "uint8", "bool") if d in allowed]
    generated = tuple(
        case(*((dtype, shape) for shape in group[:operands]), low=low, high=high)
        for dtype in standard
        for group in (shapes if dtype == standard[0] else shapes[:1])
    )
    return Operator(
        name,
        doc,
        elementwise(allowed, result, operands),
        formula,
        Fusion.BROADCAST,
        attributes,
        (Onnx(onnx, attributes=renamed or {}),) if onnx else (),
        generated + cases,
        tags=frozenset({"elementwise"}),
    )


def unary(name: str, doc: str, function: Callable[..., Any], allowed: Sequence[str] = FLOATS, **rest: Any) -> Operator:
    """An element-wise operator of one operand; see `declare`."""
    return declare(name, doc, function, 1, allowed, **rest)


def binary(
    name: str, doc: str, function: Callable[..., Any], allowed: Sequence[str] = NUMBERS, **rest: Any
) -> Operator:
    """An element-wise operator of two operands; see `declare`."""
    return declare(name, doc, function, 2, allowed, **rest)


# ---------------------------------------------------------------- formulas that need more than a line
def absolute(x: Expr) -> Expr:
    return E.unary("abs", x)


def elementary(op: str) -> Callable[[Expr], Expr]:
    """The one-operand operation of that name."""
    return lambda x: E.unary(op, x)


def compare(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: E.compare(op, a, b)


def operation(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: E.binary(op, a, b)


def _remainder(a: Expr, b: Expr, truncated: bool) -> Expr:
    return a - a / b * b if truncated else E.binary("mod", a, b)


def _float_remainder(a: Expr, b: Expr, truncated: bool) -> Expr:
    whole = E.unary("trunc", a / b)
    # Where nothing is taken off, b may be infinite.
    rest = E.select(E.compare("eq", whole, 0.0), a, a - whole * b)
    if truncated:
        return rest
    unlike = E.compare("lt", rest * b, 0.0)
    return E.select(unlike, rest + b, rest)


def _shift(a: Expr, b: Expr, direction: str) -> Expr:
    # C leaves negative shifts and those by the width or more undefined; ONNX's reference gives 0, or the sign.
    width = dtypes.bits(a.dtype)
    inside = E.compare("lt", b, width)
    if dtypes.is_signed(b.dtype):
        inside = E.binary("and", inside, E.compare("ge", b, 0))
    if direction == "LEFT":
        return E.select(inside, E.binary("shift_left", a, E.select(inside, b, 0)), 0)
    if dtypes.is_signed(a.dtype):
        return E.binary("shift_right", a, E.select(inside, b, width - 1))
    return E.select(inside, E.binary("shift_right", a, E.select(inside, b, 0)), 0)


def _is_infinite(x: Expr, negative: bool, positive: bool) -> Expr:
    if negative and positive:
        return E.unary("isinf", x)
    if positive:
        return E.compare("eq", x, math.inf)
    return E.compare("eq", x, -math.inf) if negative else E.const(False, "bool")


#: atan(x) = x + x z (...) of z = x^2, |x| <= tan(pi / 8), the highest power first: of Cephes' atanf and fdlibm.
_ATAN = {
    "float32": (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1),
    "float64": (
        -1.62858201153657823623e-2, 3.65315727442169155270e-2, -4.97687799461593236017e-2, 5.83357013379057348645e-2,
        -6.66107313738753120669e-2, 7.69187620504482999495e-2, -9.09088713343650656196e-2, 1.11111104054623557880e-1,
        -1.42857142725034663711e-1, 1.99999999998764832476e-1, -3.33333333333329318027e-1,
    ),
}  # fmt: skip
#: asin(x) = x + x z (...), |x| <= 1 / 2: a polynomial, and one over another.
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ASIN_ABOVE = (
    3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02, 2.01212532134862925881e-01,
    -3.25565818622400915405e-01, 1.66666666666666657415e-01,
)  # fmt: skip
_ASIN_BELOW = (
    7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00, -2.40339491173441421878e+00,
    1.0,
)  # fmt: skip


def _odd(x: Expr, value: Expr) -> Expr:
    """The value of |x| with the sign of x, which zeros have, too."""
    return E.select(E.compare("eq", x, 0.0), x, E.select(x < 0.0, -value, value))


def _atan(x: Expr) -> Expr:
    """By reduction to |x| <= tan(pi / 8); within 3 ulp."""
    size = absolute(x)
    large, middle = size > 2.414213562373095, size > 0.4142135623730950
    # The denominators are guarded because both sides of a select are evaluated.
    reduced = E.select(large, -1.0 / E.maximum(size, 1.0), E.select(middle, (size - 1.0) / (size + 1.0), size))
    z = reduced * reduced
    series = polynomial(z, _ATAN["float64" if x.dtype == "float64" else "float32"])
    inner = series * z * reduced + reduced
    angle = E.select(large, math.pi / 2, E.const(math.pi / 4, x.dtype)) + inner
    return _odd(x, E.select(middle, angle, inner))


def _arc(x: Expr) -> tuple[Expr, Expr]:
    """Whether |x| > 1 / 2, and then asin(sqrt((1 - |x|) / 2)), which is half of acos |x|; else asin x."""
    size = absolute(x)
    far = size > 0.5
    z = E.select(far, (1.0 - size) * 0.5, size * size)
    root = E.select(far, E.unary("sqrt", z), x)
    if x.dtype == "float64":
        series = polynomial(z, _ASIN_ABOVE) / polynomial(z, _ASIN_BELOW)
    else:
        series = polynomial(z, _ASIN)
    return far, root + root * (z * series)


def _asin(x: Expr) -> Expr:
    far, arc = _arc(x)
    angle = math.pi / 2 - 2.0 * arc
    return E.select(far, E.select(x < 0.0, -angle, angle), arc)


def _acos(x: Expr) -> Expr:
    far, arc = _arc(x)
    return E.select(far, E.select(x < 0.0, math.pi - 2.0 * arc, 2.0 * arc), math.pi / 2 - arc)


def _sinh(x: Expr) -> Expr:
    # The series near 0, where the difference of exponentials would cancel.
    square = x * x
    terms = [1 / math.factorial(n) for n in range(15 if x.dtype == "float64" else 7, 1, -2)]
    series = x + x * square * polynomial(square, terms)
    half = E.unary("exp", x) * 0.5 - E.unary("exp", -x) * 0.5
    return E.select(absolute(x) < 0.5, series, half)


_FAR = 2.0**28  # 1 is less than half a unit of its last place, squared, even in float64


def _asinh(x: Expr) -> Expr:
    size = absolute(x)
    square = size * size
    value = _log_twice(size, E.unary("log1p", size + square / (1.0 + E.unary("sqrt", square + 1.0))))
    return _odd(x, value)


def _acosh(x: Expr) -> Expr:
    return _log_twice(x, E.unary("log1p", x - 1.0 + E.unary("sqrt", x - 1.0) * E.unary("sqrt", x + 1.0)))


def _atanh(x: Expr) -> Expr:
    size = absolute(x)
    value = 0.5 * E.unary("log1p", 2.0 * size / (1.0 - size))
    return _odd(x, value)


def _log_twice(x: Expr, near: Expr) -> Expr:
    """log(2 x) where x is so large that its square could overflow, and 1 is nothing beside it; else `near`."""
    return E.select(x > _FAR, E.unary("log", x) + math.log(2.0), near)


# ---------------------------------------------------------------- operators with rules of their own
def _where_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    condition, a, b = present(types, 0, 1, 2)
    if condition.dtype != "bool":
        raise unfit(f"the condition is {condition.dtype}, not bool")
    return TensorType(same_dtype((a, b)), broadcast([condition.shape, a.shape, b.shape]))


def _where(applied: Application) -> Tensor:
    tensors = [applied.input(n) for n in range(3)]
    return map_elements(applied.name, tensors, applied.output, E.select)


def _cast_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    return TensorType(attributes["to"], x.shape)


def _bit_cast_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if dtypes.bits(x.dtype) != dtypes.bits(attributes["to"]):
        raise unfit(f"{x.dtype} and {attributes['to']} differ in width")
    return TensorType(attributes["to"], x.shape)


def _bit_cast(applied: Application) -> Tensor:
    # A bool is a byte of 0 or 1 in memory and a truth value in kernels.
    to = dtypes.storage(applied["to"])
    change = E.cast if "bool" in (applied.input(0).dtype, to) or applied.input(0).dtype == to else E.bitcast
    return compute(applied.name, applied.output.shape, lambda *i: change(at(applied.input(0), i), to))


def _cast(applied: Application) -> Tensor:
    return map_elements(applied.name, [applied.input(0)], applied.output, lambda x: E.cast(x, applied["to"]))


WHERE = Operator(
    "where",
    "The first of two values where the condition holds, else the second.",
    single(_where_type),
    _where,
    Fusion.BROADCAST,
    onnx=(Onnx("Where"),),
    cases=(
        case(("bool", (2, 3)), ("float32", (2, 3)), ("float32", (2, 3))),
        case(("bool", (3, 1)), ("int32", (4,)), ("int32", ())),
    ),
    tags=frozenset({"elementwise"}),
)
CAST = Operator(
    "cast",
    "Conversion of the element type; from float to integer truncates and saturates (`te.expr.Cast`).",
    single(_cast_type),
    _cast,
    Fusion.BROADCAST,
    (Attribute("to", "dtype", "the element type of the result", choices=dtypes.ALL),),
    cases=tuple(
        case((a, (3, 4)), to=b)
        for a, b in (
            ("float32", "int32"),
            ("float32", "float16"),
            ("int32", "float32"),
            ("int64", "int32"),
            ("float32", "bool"),
            ("bool", "float32"),
            ("uint8", "float32"),
            ("float16", "float32"),
            ("int32", "int8"),
        )
    ),
    tags=frozenset({"elementwise"}),
)
BITCAST = Operator(
    "bit_cast",
    "The same bits read as another element type of the same width.",
    single(_bit_cast_type),
    _bit_cast,
    Fusion.BROADCAST,
    (Attribute("to", "dtype", "the element type of the result", choices=(*dtypes.ALL, dtypes.STRING)),),
    cases=(
        case(("float32", (3, 4)), to="int32"),
        case(("int32", (5,)), to="float32"),
        case(("int8", (5,)), to="uint8"),
    ),
    tags=frozenset({"elementwise"}),
)
IDENTITY = Operator(
    "identity",
    "A copy.",
    lambda types, attributes: present(types, 0),
    lambda applied: map_elements(applied.name, [applied.input(0)], applied.output, lambda x: x),
    Fusion.INJECTIVE,
    cases=(case(("float32", (2, 3))), case(("int64", ()))),
    view=lambda data, attributes: data,
)

_TRUNCATED = Attribute("truncated", "bool", "the sign of the dividend (C's fmod) instead of the divisor's", False)
_NEGATIVE = Attribute("negative", "bool", "whether -inf counts", True)
_POSITIVE = Attribute("positive", "bool", "whether +inf counts", True)
_DIRECTION = Attribute("direction", "string", "which way", "LEFT", choices=("LEFT", "RIGHT"))
_NAN = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5], np.float32)
_SPECIAL = (Case((_NAN,)),)
_HALVES = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, -8388607.5, 16777217.0], np.float32)
_PAIRS = (Case((np.repeat(_NAN, 6).reshape(6, 6), _NAN)),)

OPERATORS: tuple[Operator, ...] = (
    binary("add", "a + b", operation("add"), onnx="Add"),
    binary("sub", "a - b", operation("sub"), onnx="Sub"),
    binary("mul", "a * b", operation("mul"), onnx="Mul"),
    declare("multiply_add", "a b + c, rounded once where the machine can", E.fma, 3),
    binary("div", "a / b; integers truncate toward zero", operation("div"), onnx="Div", low=1.0, high=9.0),
    binary("pow", "a to the power b", operation("pow"), low=0.5, high=3.0),
    binary("minimum", "the smaller; NaN if either is", E.minimum, cases=_PAIRS),
    binary("maximum", "the greater; NaN if either is", E.maximum, cases=_PAIRS),
    binary(
        "mod",
        "the remainder of floor(a / b)",
        _remainder,
        attributes=(_TRUNCATED,),
        onnx="Mod",
        renamed={"fmod": "truncated"},
        low=1.0,
        high=9.0,
        allowed=INTEGERS,
        cases=(
            case(("int32", (20,)), np.array(3, np.int32), low=-9, high=9, truncated=True),
            case(("int32", (20,)), np.array(-3, np.int32), low=-9, high=9),
        ),
    ),
    binary(
        "fmod",
        "the remainder of a / b with the sign of b, or of a",
        _float_remainder,
        FLOATS,
        attributes=(_TRUNCATED,),
        low=1.0,
        high=9.0,
        cases=(
            case(("float32", (9,)), np.array(-2.5, np.float32)),
            case(("float32", (9,)), np.array(-2.5, np.float32), truncated=True),
            Case(
                (
                    np.array([-1, 0, 1, np.inf, -np.inf, 2.5], np.float32),
                    np.array([[np.inf], [-np.inf], [2], [0]], np.float32),
                )
            ),
        ),
    ),
    unary("neg", "-x", elementary("neg"), SIGNED_NUMBERS, onnx="Neg"),
    unary("abs", "|x|", elementary("abs"), NUMBERS, onnx="Abs", cases=_SPECIAL),
    unary("sign", "-1, 0 or 1", elementary("sign"), SIGNED_NUMBERS, onnx="Sign"),
    unary("floor", "the greatest integer not above x", elementary("floor"), onnx="Floor"),
    unary("ceil", "the least integer not below x", elementary("ceil"), onnx="Ceil"),
    unary("round", "the nearest integer, halves to even", elementary("rint"), onnx="Round"),
    unary("round_away", "the nearest integer, halves away from 0", round_away, cases=(*_SPECIAL, Case((_HALVES,)))),
    unary("sqrt", "the square root", elementary("sqrt"), onnx="Sqrt", low=0.0, high=9.0),
    unary("reciprocal", "1 / x", lambda x: 1.0 / x, onnx="Reciprocal", low=0.25),
    unary("exp", "e to the power x", elementary("exp"), onnx="Exp", cases=_SPECIAL),
    unary("log", "the natural logarithm", elementary("log"), onnx="Log", low=0.1, high=9.0, cases=_SPECIAL),
    unary("expm1", "e to the power x, less 1: accurate relative to itself near 0", elementary("expm1"), cases=_SPECIAL),
    unary("log1p", "the natural logarithm of 1 + x", elementary("log1p"), low=-0.9, high=9.0, cases=_SPECIAL),
    unary("sin", "sine", elementary("sin"), onnx="Sin"),
    unary("cos", "cosine", elementary("cos"), onnx="Cos"),
    unary("tan", "tangent", lambda x: E.unary("sin", x) / E.unary("cos", x), onnx="Tan", low=-1.4, high=1.4),
    unary("asin", "inverse sine", _asin, onnx="Asin", low=-1.0, high=1.0),
    unary("acos", "inverse cosine", _acos, onnx="Acos", low=-1.0, high=1.0),
    unary("atan", "inverse tangent", _atan, onnx="Atan", low=-9.0, high=9.0),
    unary("sinh", "hyperbolic sine", _sinh, onnx="Sinh"),
    unary("cosh", "hyperbolic cosine", lambda x: (E.unary("exp", x) + E.unary("exp", -x)) * 0.5, onnx="Cosh"),
    unary("tanh", "hyperbolic tangent", elementary("tanh"), onnx="Tanh", cases=_SPECIAL),
    unary("asinh", "inverse hyperbolic sine", _asinh, onnx="Asinh"),
    unary(
        "acosh",
        "inverse hyperbolic cosine",
        _acosh,
        onnx="Acosh",
        low=1.0,
        high=9.0,
    ),
    unary(
        "atanh",
        "inverse hyperbolic tangent",
        _atanh,
        onnx="Atanh",
        low=-0.9,
        high=0.9,
    ),
    unary("erf", "the error function", elementary("erf"), onnx="Erf"),
    unary("sigmoid", "1 / (1 + exp(-x))", elementary("sigmoid"), onnx="Sigmoid", cases=_SPECIAL),
    unary("is_nan", "whether x is not a number", elementary("isnan"), onnx="IsNaN", result="bool", cases=_SPECIAL),
    unary(
        "is_inf",
        "whether x is infinite",
        _is_infinite,
        onnx="IsInf",
        result="bool",
        attributes=(_NEGATIVE, _POSITIVE),
        renamed={"detect_negative": "negative", "detect_positive": "positive"},
        cases=_SPECIAL,
    ),
    unary("logical_not", "not x", elementary("logical_not"), BOOL, onnx="Not"),
    binary("logical_and", "a and b", operation("and"), BOOL, onnx="And"),
    binary("logical_or", "a or b", operation("or"), BOOL, onnx="Or"),
    binary("logical_xor", "either, not both", operation("xor"), BOOL, onnx="Xor"),
    unary("bitwise_not", "every bit inverted", elementary("invert"), INTEGERS, onnx="BitwiseNot"),
    binary("bitwise_and", "bits that both have", operation("and"), INTEGERS, onnx="BitwiseAnd"),
    binary("bitwise_or", "bits that either has", operation("or"), INTEGERS, onnx="BitwiseOr"),
    binary("bitwise_xor", "bits that one has", operation("xor"), INTEGERS, onnx="BitwiseXor"),
    binary(
        "bit_shift",
        "bits moved; those beyond the width are lost",
        _shift,
        INTEGERS,
        onnx="BitShift",
        attributes=(_DIRECTION,),
        cases=(
            case(("uint8", (9,)), ("uint8", (9,)), low=0, high=9, direction="LEFT"),
            case(("uint32", (9,)), ("uint32", (9,)), low=0, high=40, direction="RIGHT"),
        ),
    ),
    binary("equal", "a = b", compare("eq"), dtypes.ALL, onnx="Equal", result="bool", cases=_PAIRS),
    binary("less", "a < b", compare("lt"), onnx="Less", result="bool", cases=_PAIRS),
    binary("less_equal", "a <= b", compare("le"), onnx="LessOrEqual", result="bool"),
    binary("greater", "a > b", compare("gt"), onnx="Greater", result="bool"),
    binary("greater_equal", "a >= b", compare("ge"), onnx="GreaterOrEqual", result="bool"),
    WHERE,
    CAST,
    BITCAST,
    IDENTITY,
)
