"""Sizes as numbers of the program, arithmetic with them, and tests that they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sterna.errors import error
from sterna.frontends import expressions
from sterna.frontends.pytorch.layouts import Layout, layout_of
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int


def size(t: Translation) -> Int:
    x = t.tensor()
    return x.shape[t.dim()]


def sizes(t: Translation) -> list[Int]:
    return list(t.tensor().shape)


def count(t: Translation) -> Int:
    return t.tensor().type.elements


def _layout(t: Translation) -> Layout | None:
    said = next(iter(t.operands), None)
    return None if said is None else layout_of(said, t.shared.symbols)


def memory_offset(t: Translation) -> Int:
    """Where a tensor begins in the memory that it is a view of; of what the file does not say, in one of its own."""
    layout = _layout(t)
    return as_int(0) if layout is None else layout.offset


def memory_stride(t: Translation) -> Int:
    """How far apart neighbours along a dimension lie in memory; in order where the file does not say it."""
    x, layout = t.tensor(), _layout(t)
    if layout is not None:
        return layout.strides[t.dim(rank=len(layout.strides))]
    return math.prod(x.shape[t.dim() + 1 :], start=as_int(1))


def nothing(t: Translation) -> tuple[()]:
    """What says something to PyTorch, or what is tested when the model is read."""
    return ()


def required(t: Translation) -> Any:
    """A condition that holds, or the run fails."""
    _require(t, t.arguments[t.given("self", "cond", "#0")])
    return t.arg("dep_token", ())


def within(t: Translation) -> Any:
    """A number between bounds, or the run fails; one that becomes a size is not negative."""
    number = t.arguments[t.given("size")]
    low, high = t.arg("min", 0 if "for_size" in t.kind else None), t.arg("max")
    for bound, compare in ((low, "greater_equal"), (high, "less_equal")):
        if bound is not None:
            _require(t, t.op(compare, *t.together(number, bound)))
    return t.arg("dep_token", ())


def token(t: Translation) -> Value:
    """What orders tests among each other: an empty tensor."""
    return t.full((0,), 0, "float32")


def _require(t: Translation, condition: Any) -> None:
    if isinstance(condition, Int) and condition.is_const:
        condition = int(condition)
    value = t.cast(t.as_value(condition), "bool")
    if value.data is None:
        t.shared.required.append(t.reshape(value, ()))
    elif not value.data.all():
        said = str(t.arg("assert_msg") or t.arg("msg") or "what never holds of these sizes")
        raise error("E0108", f"the model asserts {said}")


def _first_two(t: Translation) -> tuple[Any, Any]:
    found = list(t.arguments.values())
    if len(found) < 2:
        raise error("E0103", f"{t.kind} lacks an argument")
    return found[0], found[1]


def _is_open(value: Any) -> bool:
    return isinstance(value, Value) or (isinstance(value, Int) and not value.is_const)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Int) else value


def _combined(
    plain: Callable[[Any, Any], Any], symbolic: Callable[[Int, Int], Int] | None, operator: str
) -> Translator:
    """Arithmetic of two numbers: constants now, open sizes as an expression, what is computed by an operator."""

    def translate(t: Translation) -> Any:
        a, b = _first_two(t)
        if not _is_open(a) and not _is_open(b):
            return plain(_plain(a), _plain(b))
        if symbolic is not None and all(isinstance(v, (Int, int)) for v in (a, b)):
            try:
                return symbolic(as_int(a), as_int(b))
            except ValueError:
                pass
        left, right = t.together(a, b, floats=operator == "div")
        return t.op(operator, left, right)

    return translate


def _compared(plain: Callable[[Any, Any], bool], operator: str, negated: bool = False) -> Translator:
    """A comparison; of open sizes decided by their bounds where those say it."""

    def translate(t: Translation) -> Any:
        a, b = _first_two(t)
        if not _is_open(a) and not _is_open(b):
            return plain(_plain(a), _plain(b))
        if all(isinstance(v, (Int, int)) for v in (a, b)):
            low, high = (as_int(a) - as_int(b)).bounds()
            if low is not None and high is not None and low == high:
                return plain(low, 0)
            ends = [end for end in (low, high) if end is not None]
            if ends and len({plain(end, 0) for end in ends}) == 1:
                same_side = (low is not None and low > 0) or (high is not None and high < 0)
                if same_side or (len(ends) == 2 and operator != "equal"):
                    return plain(ends[0], 0)
        found = t.op(operator, *t.together(a, b))
        return t.op("logical_not", found) if negated else found

    return translate


def _one(plain: Callable[[Any], Any], operator: str) -> Translator:
    def translate(t: Translation) -> Any:
        value = t.arguments[t.given()]
        if not _is_open(value):
            return plain(_plain(value))
        if operator == "identity":
            return value
        if operator == "neg" and isinstance(value, Int):
            return value * -1
        x = t.as_value(value)
        if operator == "float":
            return t.cast(x, "float64")
        return t.op(operator, t.cast(x, "float64") if operator == "sqrt" else x)

    return translate


def if_else(t: Translation) -> Any:
    test, a, b = list(t.arguments.values())[:3]
    if not _is_open(test):
        return a if test else b
    return t.op("where", t.cast(t.as_value(test), "bool"), *t.together(a, b))


def _multiply(a: Int, b: Int) -> Int:
    return a * b


_ARITHMETIC: dict[str, Translator] = {
    "add": _combined(lambda a, b: a + b, lambda a, b: a + b, "add"),
    "sub": _combined(lambda a, b: a - b, lambda a, b: a - b, "sub"),
    "mul": _combined(lambda a, b: a * b, _multiply, "mul"),
    "floordiv": _combined(lambda a, b: a // b, expressions.floor_divide, "div"),
    "mod": _combined(lambda a, b: a % b, expressions.remainder, "mod"),
    "pow": _combined(lambda a, b: a**b if abs(b) < 64 else 0, expressions.power, "pow"),
    "truediv": _combined(lambda a, b: a / b, None, "div"),
    "and_": _combined(lambda a, b: a and b, None, "logical_and"),
    "or_": _combined(lambda a, b: a or b, None, "logical_or"),
    "lshift": _combined(lambda a, b: a << b if 0 <= b < 64 else 0, None, "bit_shift"),
    "rshift": _combined(lambda a, b: a >> b if 0 <= b < 64 else 0, None, "bit_shift"),
    "eq": _compared(lambda a, b: a == b, "equal"), "ne": _compared(lambda a, b: a != b, "equal", True),
    "lt": _compared(lambda a, b: a < b, "less"), "le": _compared(lambda a, b: a <= b, "less_equal"),
    "gt": _compared(lambda a, b: a > b, "greater"), "ge": _compared(lambda a, b: a >= b, "greater_equal"),
    "neg": _one(lambda a: -a, "neg"), "pos": _one(lambda a: a, "identity"),
}  # fmt: skip
_FUNCTIONS: dict[str, Translator] = {
    "sym_max": _combined(max, expressions.greatest, "maximum"), "sym_min": _combined(min, expressions.least, "minimum"),
    "sym_float": _one(float, "float"), "sym_int": _one(int, "identity"),
    "sym_not": _one(lambda a: not a, "logical_not"),
    "sym_sqrt": _one(math.sqrt, "sqrt"), "sym_ite": if_else,
}  # fmt: skip

#: What only tests, or says something to PyTorch.
TESTS: dict[str, Translator] = {
    **dict.fromkeys(
        (
            "aten._assert_async.msg", "aten._assert_async.default", "aten._assert_scalar.default",
            "aten._functional_assert_async.msg", "aten._functional_assert_scalar.default", "torch._check.default",
        ),
        required,
    ),
    **dict.fromkeys(
        (
            "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
            "aten._functional_sym_constrain_range.default", "aten._functional_sym_constrain_range_for_size.default",
        ),
        within,
    ),
    **dict.fromkeys(
        ("aten._assert_tensor_metadata.default", "aten._print.default", "aten.record_stream.default"), nothing
    ),
    "aten._make_dep_token.default": token,
}  # fmt: skip

#: What asks for the sizes of a tensor.
OF_TENSORS: dict[str, Translator] = {
    "aten.sym_size.int": size, "aten.sym_size.default": sizes, "aten.size.int": size,
    "aten.sym_storage_offset.default": memory_offset, "aten.sym_stride.int": memory_stride,
    "aten.sym_numel.default": count, "aten.numel.default": count,
}  # fmt: skip

TRANSLATORS: dict[str, Translator] = {
    **OF_TENSORS,
    **TESTS,
    **{f"_operator.{name}": function for name, function in _ARITHMETIC.items()},
    **{f"torch.{name}": function for name, function in _FUNCTIONS.items()},
    **{f"torch.fx.experimental.symbolic_shapes.{name}": function for name, function in _FUNCTIONS.items()},
    **{f"math.{name}": _one(int, "identity") for name in ("trunc",)},
}  # fmt: skip
