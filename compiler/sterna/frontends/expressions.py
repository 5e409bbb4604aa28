"""Sizes that are made of others, as exporters and users write them: text (`2*s0`, `past + 1`), or what SymPy's `srepr`
gives (`Mul(Integer(2), Symbol('s0'))`). They are read as trees and never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from sterna.errors import error
from sterna.ir.division import ceil_div, divide_exactly
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Int, as_int

_LONGEST = 10_000  # characters


def parse(text: str, symbols: Mapping[str, Int]) -> Int:
    """The integer that an expression stands for.

    Raises:
        SternaError: E0103, it is none; E0105, it has symbols that are not known.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError("it is too long")
        return _value(ast.parse(text.strip(), mode="eval").body, symbols)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as problem:
        raise error("E0103", f'the size "{text[:200]}" is not understood', str(problem)[:200]) from None


def symbols_of(text: str) -> list[str]:
    """The symbols of an expression, in order; none of one that is not understood."""
    try:
        tree = ast.parse(text.strip()[:_LONGEST], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    calls = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == "Symbol" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.append(first.value)
        elif isinstance(node, ast.Name) and id(node) not in calls:
            found.append(node.id)
    return list(dict.fromkeys(found))


def solved(text: str, size: int) -> tuple[str, int] | None:
    """(symbol, value) that gives an expression of one symbol this size, as 4 of 2*s for 8; None if no value does."""
    inside = symbols_of(text)
    if len(inside) != 1:
        return None
    (name,) = inside
    # Of a straight line two points say all.
    zero, one = (int(parse(text, {name: as_int(n)})) for n in (0, 1))
    if one == zero or (size - zero) % (one - zero):
        return None
    value = (size - zero) // (one - zero)
    return (name, value) if int(parse(text, {name: as_int(value)})) == size else None


def equality_of(text: str) -> tuple[str, int] | None:
    """(expression, number) where a program says that they are equal; None if the text says something else."""
    found = re.fullmatch(r"(?:Equality|Eq)\((.+), (?:Integer\((\d+)\)|(\d+))\)", text.strip())
    return None if found is None else (found[1], int(found[2] or found[3]))


def floor_divide(a: Int, b: Int) -> Int:
    """a // b.

    Raises:
        ValueError: b is neither constant and positive nor divides a.
    """
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    if b.is_const and int(b) > 0:
        return a // int(b)
    if b.is_const and int(b) < 0:
        return (a * -1) // -int(b)
    raise ValueError(f"{a} // {b} has no form")


def remainder(a: Int, b: Int) -> Int:
    """a % b, of the sign of b."""
    return a - floor_divide(a, b) * b


def power(a: Int, b: Int) -> Int:
    if not b.is_const or not 0 <= int(b) <= 8:
        raise ValueError(f"{a} to the power of {b} has no form")
    product = as_int(1)
    for _ in range(int(b)):
        product = product * a
    return product


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _value(node: ast.expr, symbols: Mapping[str, Int]) -> Int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return as_int(node.value)
    if isinstance(node, ast.Name):
        return _symbol(node.id, symbols)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _value(node.operand, symbols) * -1
    if isinstance(node, ast.BinOp):
        a, b = _value(node.left, symbols), _value(node.right, symbols)
        for kind, combine in _OPERATORS.items():
            if isinstance(node.op, kind):
                return combine(a, b)
    if isinstance(node, ast.Call):
        name = _name(node.func).rpartition(".")[2]
        if name == "Symbol" and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            return _symbol(node.args[0].value, symbols)
        if name in ("Integer", "Int", "floor", "Trunc", "ToInt", "IntTrueDiv") and len(node.args) == 1:
            return _value(node.args[0], symbols)
        arguments = [_value(each, symbols) for each in node.args]
        if name in _FUNCTIONS and arguments:
            return _FUNCTIONS[name](arguments)
    raise ValueError(f"{ast.unparse(node)[:100]} is not known")


def _symbol(name: str, symbols: Mapping[str, Int]) -> Int:
    if name not in symbols:
        raise error("E0105", f"the size {name} is not known")
    return symbols[name]


def _folded(combine: Callable[[Int, Int], Int]) -> Callable[[Sequence[Int]], Int]:
    def function(values: Sequence[Int]) -> Int:
        total = values[0]
        for value in values[1:]:
            total = combine(total, value)
        return total

    return function


def _add(a: Int, b: Int) -> Int:
    return a + b


def _sub(a: Int, b: Int) -> Int:
    return a - b


def _mul(a: Int, b: Int) -> Int:
    return a * b


def ceil_divide(a: Int, b: Int) -> Int:
    if not b.is_const or int(b) < 1:
        raise ValueError(f"{a} over {b} has no form")
    return as_int(ceil_div(a, int(b)))


def greatest(a: Int, b: Int) -> Int:
    return as_int(maximum(a, b))


def least(a: Int, b: Int) -> Int:
    return as_int(minimum(a, b))


_OPERATORS: dict[type[ast.operator], Callable[[Int, Int], Int]] = {
    ast.Add: _add, ast.Sub: _sub, ast.Mult: _mul, ast.FloorDiv: floor_divide, ast.Div: floor_divide,
    ast.Mod: remainder, ast.Pow: power,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Sequence[Int]], Int]] = {
    "Add": _folded(_add), "Mul": _folded(_mul), "FloorDiv": _folded(floor_divide), "CleanDiv": _folded(floor_divide),
    "Mod": _folded(remainder), "PythonMod": _folded(remainder), "Max": _folded(greatest), "Min": _folded(least),
    "CeilDiv": _folded(ceil_divide), "Pow": _folded(power), "PowByNatural": _folded(power),
}  # fmt: skip
