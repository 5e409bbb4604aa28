"""Arithmetic of one and two operands, and with a scalar; comparisons give numbers, but for NumPy's operators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from sterna.errors import error
from sterna.frontends import special
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

Binary = Callable[[Translation, Value, Value], Value]


def _core(operator: str) -> Binary:
    return lambda t, a, b: t.op(operator, a, b)


def _compared(operator: str, *, negated: bool = False) -> Binary:
    def binary(t: Translation, a: Value, b: Value) -> Value:
        y = t.op(operator, a, b)
        y = t.op("logical_not", y) if negated else y
        return y if t.kind.startswith("_np") else t.cast(y, a.dtype)

    return binary


def _logical(operator: str) -> Binary:
    def binary(t: Translation, a: Value, b: Value) -> Value:
        y = t.op(operator, t.truth(a), t.truth(b))
        return y if t.kind.startswith("_np") else t.cast(y, a.dtype)

    return binary


def _divided(t: Translation, a: Value, b: Value) -> Value:
    """NumPy's true division of integers is one of floats."""
    if t.kind.startswith("_np"):
        a, b = t.floats(a), t.floats(b)
    return t.op("div", a, b)


def _modulo(t: Translation, a: Value, b: Value) -> Value:
    """The remainder with the sign of the divisor; 0 by 0."""
    if not dtypes.is_float(a.dtype):
        return t.op("mod", a, b)
    y = t.op("fmod", a, b)
    zero = t.number(0, y)
    nonzero = t.op("logical_not", t.op("equal", y, zero))
    differs = t.op("logical_xor", t.op("less", y, zero), t.op("less", b, zero))
    y = t.op("where", t.op("logical_and", nonzero, differs), t.op("add", y, b), y)
    return t.op("where", t.op("equal", b, zero), zero, y)


def _hypotenuse(t: Translation, a: Value, b: Value) -> Value:
    return t.op("sqrt", t.op("add", t.op("mul", a, a), t.op("mul", b, b)))


#: What operators are made of, by the names that they share.
_BINARIES: dict[str, Binary] = {
    "add": _core("add"), "sub": _core("sub"), "mul": _core("mul"), "div": _divided, "mod": _modulo,
    "power": _core("pow"), "maximum": _core("maximum"), "minimum": _core("minimum"), "hypot": _hypotenuse,
    "equal": _compared("equal"), "not_equal": _compared("equal", negated=True), "greater": _compared("greater"),
    "greater_equal": _compared("greater_equal"), "lesser": _compared("less"), "lesser_equal": _compared("less_equal"),
    "logical_and": _logical("logical_and"), "logical_or": _logical("logical_or"),
    "logical_xor": _logical("logical_xor"),
}  # fmt: skip


def on_two(binary: Binary) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.input(0), t.input(1)
        if t.kind.startswith("_np") and a.dtype != b.dtype:
            # NumPy's mixed types become the wider float, or the first operand's type.
            kinds = [v.dtype for v in (a, b) if dtypes.is_float(v.dtype)] or [a.dtype]
            a, b = t.cast(a, kinds[0]), t.cast(b, kinds[0])
        return binary(t, a, b)

    return translate


def on_scalar(binary: Binary, *, turned: bool = False) -> Translator:
    """With a number of the settings as the second operand, or the first."""

    def translate(t: Translation) -> Value:
        x, number = t.input(0), t.said.number("scalar", 0.0)
        if not dtypes.is_float(x.dtype) and (number != int(number) if math.isfinite(number) else True):
            if not t.kind.startswith("_np"):
                number = math.trunc(number) if math.isfinite(number) else 0
            else:
                x = t.cast(x, "float32")
        if x.dtype == "bool":
            x = t.cast(x, "int64" if number == int(number) else "float32")
        other = t.number(number if dtypes.is_float(x.dtype) else int(number), x)
        return binary(t, other, x) if turned else binary(t, x, other)

    return translate


def _unary(operator: str, **attributes: object) -> Translator:
    return lambda t: t.op(operator, t.floats(t.input(0)), **attributes)


def _kept(operator: str) -> Translator:
    """Of integers too."""
    return lambda t: t.op(operator, t.input(0))


def rounded(t: Translation) -> Value:
    x = t.input(0)
    if not dtypes.is_float(x.dtype):
        return t.op("identity", x)
    name, is_new = re.sub("^_(npi|sparse)_", "", t.kind), t.kind.startswith("_np")
    if name in ("floor", "ceil"):
        return t.op(name, x)
    if name == "round":
        return t.op("round_away", x)
    if name == "around":
        scale = t.number(10.0 ** t.said.integer("decimals", 0), x)
        return t.op("div", t.op("round", t.op("mul", x, scale)), scale)
    if name == "rint" and is_new:
        return t.op("round", x)
    if name == "rint":  # halves go down
        down = t.op("floor", x)
        high = t.op("greater", t.op("sub", x, down), t.number(0.5, x))
        return t.op("where", high, t.op("ceil", x), down)
    return t.op("where", t.op("less", x, t.number(0, x)), t.op("ceil", x), t.op("floor", x))


def _log(base: float) -> Translator:
    return lambda t: t.op(
        "mul", t.op("log", t.floats(t.input(0))), t.number(1 / math.log(base), t.floats(t.input(0)))
    )  # fmt: skip


def _times(factor: float) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.floats(t.input(0))
        return t.op("mul", x, t.number(factor, x))

    return translate


def square(t: Translation) -> Value:
    return t.op("mul", t.input(0), t.input(0))


def root(t: Translation) -> Value:
    """sqrt, 1 / sqrt, and the cubic ones, which negative numbers have too."""
    x = t.floats(t.input(0))
    name = t.kind.rpartition("_")[2]
    if name in ("sqrt", "rsqrt"):
        y = t.op("sqrt", x)
    else:
        y = t.op("mul", t.op("sign", x), t.power(t.op("abs", x), 1 / 3))
    return t.op("reciprocal", y) if name.startswith("r") else y


def negated_truth(t: Translation) -> Value:
    y = t.op("logical_not", t.truth(t.input(0)))
    return y if t.kind.startswith("_np") else t.cast(y, t.input(0).dtype)


def clip(t: Translation) -> Value:
    x = t.input(0)
    low = t.said.number("a_min", -math.inf)
    high = t.said.number("a_max", math.inf)
    if math.isnan(low) or math.isnan(high):
        raise error("E0109", f"{t.kind} from {low} to {high}")
    if dtypes.is_float(x.dtype):
        return t.op("clip", x, min=None if low == -math.inf else low, max=None if high == math.inf else high)
    least, most = dtypes.limits(x.dtype)
    low, high = (max(min(v, most), least) for v in (low, high))
    return t.op("clip", x, min=math.trunc(low), max=math.trunc(high))


def cast(t: Translation) -> Value:
    return t.cast(t.input(0), t.dtype(t.input(0).dtype))


def automatic(t: Translation) -> tuple[Value, ...]:
    """amp_multicast: all in the widest type among them (the narrowest, if asked)."""
    values = t.all_inputs()
    names = ["float16", "float32", "float64"]
    found = [names.index(v.dtype) for v in values if v.dtype in names]
    if not found:
        return tuple(values)
    wanted = names[min(found) if t.said.flag("cast_narrow") else max(found)]
    return tuple(t.cast(v, wanted) for v in values)


def same(t: Translation) -> Value:
    return t.op("identity", t.input(0))


def total(t: Translation) -> Value:
    values = t.all_inputs()
    y = values[0]
    for value in values[1:]:
        y = t.op("add", y, value)
    return y if len(values) > 1 else t.op("identity", y)


def smooth_l1(t: Translation) -> Value:
    """x^2 s^2 / 2 near 0, |x| - 1 / (2 s^2) elsewhere."""
    x, scalar = t.input(0), t.said.finite("scalar", 1.0)
    if scalar == 0:
        raise error("E0109", f"{t.kind} with the scalar 0")
    size, squared = t.op("abs", x), scalar * scalar
    near = t.op("mul", t.op("mul", x, x), t.number(squared / 2, x))
    far = t.op("sub", size, t.number(0.5 / squared, x))
    return t.op("where", t.op("less", size, t.number(1 / squared, x)), near, far)


def quadratic(t: Translation) -> Value:
    x = t.input(0)
    a, b, c = (t.said.finite(name, 0.0) for name in "abc")
    y = t.op("add", t.op("mul", x, t.number(a, x)), t.number(b, x))
    return t.op("add", t.op("mul", y, x), t.number(c, x))


def square_root_of_size(t: Translation) -> Value:
    """x over the square root of the size of its last dimension."""
    x = t.input(0)
    return t.op("div", x, t.number(math.sqrt(t.extent(x, -1)), x))


def _tested(operator: str) -> Translator:
    return lambda t: t.op(operator, t.input(0))


def finite(t: Translation) -> Value:
    x = t.input(0)
    return t.op("logical_not", t.op("logical_or", t.op("is_nan", x), t.op("is_inf", x)))


def _special(function: special.Function) -> Translator:
    return lambda t: function(t, t.floats(t.input(0)))


#: Operators of one operand by the core operator, or what it is called here.
_UNARIES: dict[str, Translator] = {
    "gamma": _special(special.gamma), "gammaln": _special(special.core("lgamma")),
    "digamma": _special(special.core("digamma")), "erfinv": _special(special.core("erfinv")),
    **{name: _unary(name) for name in (
        "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "reciprocal",
    )},
    **{f"arc{name}": _unary(f"a{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "abs": _kept("abs"), "sign": _kept("sign"), "negative": _kept("neg"), "square": square, "sqrt": root, "cbrt": root,
    "log2": _log(2), "log10": _log(10), "degrees": _times(180 / math.pi),
    "radians": _times(math.pi / 180), "logical_not": negated_truth,
    **dict.fromkeys(("ceil", "floor", "fix", "trunc", "rint"), rounded),
}  # fmt: skip
_NUMPY_BINARIES = {
    "sub": "subtract", "mul": "multiply", "div": "true_divide", "lesser": "less", "lesser_equal": "less_equal",
}  # fmt: skip
_NUMPY_TURNED = {"sub": "rsubtract", "div": "rtrue_divide", "mod": "rmod", "power": "rpower"}
#: Names of before 0.9.
_OLD = {
    "add": "_Plus", "sub": "_Minus", "mul": "_Mul", "div": "_Div", "mod": "_Mod", "power": "_Power",
    "maximum": "_Maximum", "minimum": "_Minimum", "hypot": "_Hypot", "equal": "_Equal", "not_equal": "_Not_Equal",
    "greater": "_Greater", "greater_equal": "_Greater_Equal", "lesser": "_Lesser", "lesser_equal": "_Lesser_Equal",
    "logical_and": "_Logical_And", "logical_or": "_Logical_Or", "logical_xor": "_Logical_Xor",
}  # fmt: skip


def _named() -> dict[str, Translator]:
    """All names of the operators of one and two operands."""
    table: dict[str, Translator] = {}
    for name, unary in _UNARIES.items():
        table |= {name: unary, f"_npi_{name}": unary}
    for name, binary in _BINARIES.items():
        both, right, left = on_two(binary), on_scalar(binary), on_scalar(binary, turned=True)
        old, new = _OLD[name], _NUMPY_BINARIES.get(name, name)
        table |= dict.fromkeys((f"broadcast_{name}", f"_{name}", f"elemwise_{name}", old, f"_npi_{new}"), both)
        squeezed = old.replace("_", "")
        table |= dict.fromkeys((f"_{name}_scalar", f"_{squeezed}Scalar", f"_npi_{new}_scalar"), right)
        if name in _NUMPY_TURNED:
            short = {"sub": "minus"}.get(name, name)
            table |= dict.fromkeys((f"_r{short}_scalar", f"_npi_{_NUMPY_TURNED[name]}_scalar"), left)
            table[f"_R{squeezed}Scalar"] = left
    for alias, name in (("plus", "add"), ("minus", "sub")):
        table |= dict.fromkeys((f"broadcast_{alias}", f"_{alias}"), table[f"broadcast_{name}"])
        table[f"_{alias}_scalar"] = table[f"_{name}_scalar"]
    return table


TRANSLATORS: dict[str, Translator] = {
    **_named(),
    "BlockGrad": same,
    "Cast": cast,
    "Dropout": same,
    "ElementWiseSum": total,
    "IdentityAttachKLSparseReg": same,
    "MakeLoss": same,
    "_CrossDeviceCopy": same,
    "_contrib_div_sqrt_dim": square_root_of_size,
    "_contrib_gradientmultiplier": same,
    "_contrib_quadratic": quadratic,
    "_copy": same,
    "_copyto": same,
    "_grad_add": on_two(_core("add")),
    "_identity_with_attr_like_rhs": same,
    "_np_copy": same,
    "_npi_absolute": _kept("abs"),
    "_npi_around": rounded,
    "_npi_cast": cast,
    "_npi_clip": clip,
    "_npi_isfinite": finite,
    "_npi_isinf": _tested("is_inf"),
    "_npi_isnan": _tested("is_nan"),
    "_npx_cast": cast,
    "_npx_dropout": same,
    "_npx_erf": _unary("erf"),
    "_npx_smooth_l1": smooth_l1,
    "_scatter_elemwise_div": on_two(_divided),
    "_scatter_minus_scalar": on_scalar(_core("sub")),
    "_scatter_plus_scalar": on_scalar(_core("add")),
    "add_n": total,
    "cast_storage": same,
    "amp_cast": cast,
    "amp_multicast": automatic,
    "cast": cast,
    "clip": clip,
    "identity": same,
    "make_loss": same,
    "rcbrt": root,
    "round": rounded,
    "rsqrt": root,
    "smooth_l1": smooth_l1,
    "stop_gradient": same,
}
