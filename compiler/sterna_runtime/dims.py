"""Sizes that stay open until a model runs: expressions over named dimensions, and what arrays say about them.

The C runtime evaluates the expressions of `graph.json` (docs/bundle.md) for itself; here they are printed, and compared
with the shapes of a caller's arrays, so that an error can say what was wanted and why.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sterna_runtime.advice import Advice, dims
from sterna_runtime.arguments import is_integer
from sterna_runtime.errors import Diagnostic, SternaError

Expression = int | list[Any]
"""As in graph.json: an integer, `["d", k]`, `["+", e, ...]` and so on."""


class Bounds(NamedTuple):
    """Least and greatest size of a dimension."""

    lo: int
    hi: int


class Dimension(str):
    """A size that is open, printed: `seq`, `2*seq + 1`; or `0..100`, the bounds of one that the model computes while it
    runs. It is a string, and remembers what it means."""

    __slots__ = ("divisor", "expression", "names", "range", "symbol", "uses")
    expression: Expression
    names: tuple[str, ...]
    """names of all dimensions of the model"""
    symbol: str | None
    """the name of the dimension, if it is that or a multiple of it: such a size says what the dimension is"""
    divisor: int
    """what a size is divided by to have the dimension: 1, or more where the size is a multiple of it"""
    uses: tuple[str, ...]
    """the dimensions on which it depends, in the model's order"""
    range: Bounds | None
    """least and greatest value of one that the model computes"""

    def __new__(cls, expression: Expression, names: Sequence[str], range: Bounds | None = None) -> Dimension:
        text = _text(expression, names, 0) if range is None else f"{range.lo}..{range.hi}"
        self = super().__new__(cls, text)
        self.range = range
        self.expression = expression
        self.names = tuple(names)
        found: set[int] = set()
        _collect(expression, found)
        self.uses = tuple(names[k] for k in sorted(found))
        self.divisor = _times(expression)
        self.symbol = self.uses[0] if self.divisor else None
        return self

    @classmethod
    def of(cls, expression: Expression, bounds: Mapping[str, Bounds], computed: Collection[str]) -> Dimension:
        """The size that an expression over the model's dimensions is; `computed`: those that the model computes."""
        names = tuple(bounds)
        plain = cls(expression, names)
        if not any(name in computed for name in plain.uses):
            return plain
        return cls(expression, names, _range(expression, tuple(bounds.values())))

    def __getnewargs__(self) -> tuple[Expression, tuple[str, ...], Bounds | None]:  # type: ignore[override]
        return self.expression, self.names, self.range

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value at these sizes."""
        if self.symbol is not None:
            return sizes[self.symbol] * self.divisor
        return _value(self.expression, [sizes.get(name, 0) for name in self.names])


def _times(expression: Expression) -> int:
    """How many times a dimension a size is, if it is nothing else; 0 if it is."""
    match expression:
        case ["d", _]:
            return 1
        case ["*", ["d", _], int(times)] | ["*", int(times), ["d", _]] if times > 0:
            return times
    return 0


def _value(expression: Expression, sizes: Sequence[int]) -> int:
    if isinstance(expression, int):
        return expression
    kind, *operands = expression
    if kind == "d":
        return sizes[operands[0]]
    values = [_value(operand, sizes) for operand in operands]
    if kind == "+":
        return sum(values)
    if kind == "*":
        return math.prod(values)
    if kind == "/":
        return values[0] // values[1]
    if kind == "%":
        return values[0] % values[1]
    return min(values) if kind == "min" else max(values)


def _range(expression: Expression, bounds: Sequence[Bounds]) -> Bounds:
    """Least and greatest value by interval arithmetic; a size is not negative."""

    def ends(e: Expression) -> tuple[int, int]:
        if isinstance(e, int):
            return e, e
        kind, *operands = e
        if kind == "d":
            return bounds[operands[0]]
        if kind in ("/", "%"):
            (lo, hi), by = ends(operands[0]), operands[1]
            if kind == "/":
                return lo // by, hi // by
            return (lo % by, hi % by) if lo // by == hi // by else (0, by - 1)
        rows = [ends(operand) for operand in operands]
        if kind == "*":
            least, greatest = rows[0]
            for lo, hi in rows[1:]:
                corners = (least * lo, least * hi, greatest * lo, greatest * hi)
                least, greatest = min(corners), max(corners)
            return least, greatest
        least_of, greatest_of = [lo for lo, _ in rows], [hi for _, hi in rows]
        if kind == "+":
            return sum(least_of), sum(greatest_of)
        return (min(least_of), min(greatest_of)) if kind == "min" else (max(least_of), max(greatest_of))

    lo, hi = ends(expression)
    return Bounds(max(lo, 0), hi)


def _collect(expression: Expression, found: set[int]) -> None:
    if isinstance(expression, list):
        if expression[0] == "d":
            found.add(expression[1])
        else:
            for operand in expression[1:]:
                _collect(operand, found)


def _text(expression: Expression, names: Sequence[str], binding: int) -> str:
    """`binding`: 0 alone, 1 in a sum, 2 in a product or quotient."""
    if isinstance(expression, int):
        return f"({expression})" if expression < 0 and binding else str(expression)
    kind, *operands = expression
    if kind == "d":
        return names[operands[0]]
    if kind in ("min", "max"):
        return f"{kind}({', '.join(_text(operand, names, 0) for operand in operands)})"
    if kind == "+":
        text = _text(operands[0], names, 1)
        for operand in operands[1:]:
            negated = _negated(operand)
            text += f" + {_text(operand, names, 1)}" if negated is None else f" - {_text(negated, names, 2)}"
        own = 1
    elif kind == "*":
        text, own = "*".join(_text(operand, names, 2) for operand in operands), 2
        if operands[0] == -1 and len(operands) > 1:
            text = "-" + "*".join(_text(operand, names, 2) for operand in operands[1:])
    else:
        text = f"{_text(operands[0], names, 2)} {'//' if kind == '/' else '%'} {operands[1]}"
        own = 1
    return f"({text})" if binding > own or (binding == own == 1 and kind == "+") else text


def _negated(expression: Expression) -> Expression | None:
    """What is subtracted, if that is how a term of a sum is read: -1, -2*seq."""
    if isinstance(expression, int):
        return -expression if expression < 0 else None
    if expression[0] == "*" and isinstance(expression[1], int) and expression[1] < 0 and len(expression) > 2:
        rest = expression[2:] if expression[1] == -1 else [-expression[1], *expression[2:]]
        return rest[0] if len(rest) == 1 else ["*", *rest]
    return None


@dataclass(frozen=True)
class GivenShape:
    """The shape that was given for an input whose own shape is `wanted`: of the same rank."""

    input: str
    wanted: tuple[int | str, ...]
    found: tuple[int, ...]


def given_dimension(name: str) -> tuple[str, int]:
    """The dimension that a user gives, and what divides its sizes: of `height/32`, which is `height` over 32."""
    whole, slash, divisor = name.rpartition("/")
    return (whole, int(divisor)) if slash and divisor.isdecimal() and int(divisor) > 1 else (name, 1)


def bounds_text(names: Iterable[str], bounds: Mapping[str, Bounds]) -> str:
    """`batch 1 to 8, seq 1 to 256`"""
    return ", ".join(f"{name} {bounds[name].lo} to {bounds[name].hi}" for name in names)


def assignments(sizes: Mapping[str, int]) -> str:
    """`batch = 1, seq = 7`"""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def check_sizes(bounds: Mapping[str, Bounds], sizes: Mapping[str, Any]) -> None:
    """Raises E0501 for a name that is no open dimension's, and for a size out of its bounds."""
    problems = []
    for name, size in sizes.items():
        if name not in bounds:
            has = f"it has: {bounds_text(bounds, bounds)}" if bounds else "all its sizes are fixed"
            problems.append(Diagnostic("E0501", f'the model has no open dimension "{name}"', (has,)))
        elif not is_integer(size) or not bounds[name].lo <= size <= bounds[name].hi:
            wants = f"{bounds[name].lo} to {bounds[name].hi}"
            problems.append(Diagnostic("E0501", f'dimension "{name}" is {size!r}; the model takes {wants}'))
    if problems:
        raise SternaError(problems)


def infer(
    given: Sequence[GivenShape], bounds: Mapping[str, Bounds], present: Mapping[str, int]
) -> tuple[dict[str, int], list[Diagnostic]]:
    """The size of every dimension, and what is wrong with the shapes.

    A dimension that stands alone in some shape, or a number of times, has the size that is found there; any other keeps
    its `present` size. All other sizes are checked by evaluation.
    """
    sizes = dict(present)
    says: dict[str, list[tuple[int, str]]] = {}
    problems: list[Diagnostic] = []
    wrong: set[str] = set()
    for shape in given:
        for axis, (wanted, found) in enumerate(zip(shape.wanted, shape.found, strict=True)):
            if isinstance(wanted, Dimension) and wanted.symbol is not None:
                place = f'input "{shape.input}", dimension {axis}'
                size, rest = divmod(found, wanted.divisor)
                lo, hi = (end * wanted.divisor for end in bounds[wanted.symbol])
                if rest or (wanted.divisor > 1 and not lo <= found <= hi):
                    title = f"{place} is {found}; the model expects a multiple of {wanted.divisor} from {lo} to {hi}"
                    sizes_to = (lo, found, wanted.divisor)
                    beyond = {given_dimension(wanted.symbol)[0]: sizes_to} if found > hi and not rest else {}
                    fix = Advice("compile the model for it: ", dims(beyond)) if beyond else None
                    problems.append(Diagnostic("E0604", title, fix=fix))
                    wrong.add(wanted.symbol)
                else:
                    says.setdefault(wanted.symbol, []).append((size, place))
    for name, places in says.items():
        lo, hi = bounds[name]
        sizes[name] = places[0][0]
        different = {found for found, _ in places}
        if len(different) > 1:
            where = [f"{found} in {place}" for found, place in places]
            title = f'dimension "{name}" has {len(different)} sizes: {", ".join(map(str, sorted(different)))}'
            problems.append(Diagnostic("E0604", title, tuple(where)))
            wrong.add(name)
        for found, place in dict(reversed(places)).items():  # the first place of every size
            if not lo <= found <= hi:
                title = f'{place} is {found}; the model expects "{name}" from {lo} to {hi}'
                fix = Advice("compile the model for it: ", dims({name: (lo, found)})) if found > hi else None
                problems.append(Diagnostic("E0604", title, fix=fix))
                wrong.add(name)
    for shape in given:
        for axis, (wanted, found) in enumerate(zip(shape.wanted, shape.found, strict=True)):
            if not isinstance(wanted, Dimension) or wanted.symbol is not None or not wrong.isdisjoint(wanted.uses):
                continue
            value = wanted.at(sizes)
            if value != found:
                at = ", ".join(f"{name} = {sizes[name]}" for name in wanted.uses)
                title = f'input "{shape.input}", dimension {axis} is {found}; the model expects {wanted}, here {value}'
                problems.append(Diagnostic("E0604", title, (f"with {at}", bounds_text(wanted.uses, bounds))))
    return sizes, problems
