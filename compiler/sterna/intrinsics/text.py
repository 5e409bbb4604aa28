"""Behaviours of intrinsics as text, as descriptions of targets have them.

    c[i, j] += sum(int32(a[i, k]) * int32(b[k, j]), k)
    y[i] = maximum(x[i], 0)

One assignment. The left side names the result and the axes of its dimensions. On the right, `name[index, ...]` is an
element of an operand and a bare name an operand of one element; an index is a sum of axes, their multiples and
constants. There are numbers, `+ - * / // % & | ^ << >>`, comparisons, `select(condition, a, b)`, the operations of
`te.expr` as functions (`maximum(a, b)`, `abs(a)`, `exp(a)` ...) and conversions by the name of a type (`int32(a)`).
`sum`, `prod`, `min` and `max` of a value and the axes that are reduced stand for the whole right side. `+=` adds a sum
to what the result was, `*=` multiplies; `c[i] = maximum(c[i], max(..., k))` and the same with `min` keep the extreme.

The text is parsed as Python's syntax and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from sterna.ir import dtypes
from sterna.ir.integer import Int, as_int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load
from sterna.te.tensor import Tensor, placeholder, reduce

#: Characters of a behaviour; deeper and longer ones are no instruction.
MOST_CHARACTERS = 2000
#: Of an axis, and of all axes together.
MOST_POSITIONS = 1 << 20
_REDUCTIONS = ("sum", "prod", "min", "max")
_INFIX: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div", ast.Mod: "mod",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shift_left", ast.RShift: "shift_right",
}  # fmt: skip
_RELATION: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_TYPES = (*dtypes.SIGNED, *dtypes.UNSIGNED, "float16", "bfloat16", "float32", "float64", "bool")


class BehaviourError(Exception):
    """The text is no behaviour; says why."""


@dataclass(frozen=True)
class Behaviour:
    """What a text says: the stage, and whether it is combined with what the result was before."""

    stage: Tensor
    accumulates: bool


def parse_behaviour(text: str, axes: Mapping[str, int], types: Mapping[str, str]) -> Behaviour:
    """The stage that a text describes.

    Args:
        axes: the positions of every axis; types: the element type of every operand and of the result.

    Raises:
        BehaviourError: with what is wrong.
    """
    if len(text) > MOST_CHARACTERS:
        raise BehaviourError(f"it has {len(text)} characters, more than {MOST_CHARACTERS}")
    try:
        module = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise BehaviourError(f"it is no formula: {problem}") from None
    if len(module.body) != 1 or not isinstance(module.body[0], (ast.Assign, ast.AugAssign)):
        raise BehaviourError("it is not one assignment to the result, as c[i] = a[i] + b[i]")
    try:
        return _Reader(axes, types).assignment(module.body[0])
    except RecursionError:
        raise BehaviourError("it is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as problem:  # of constants
        raise BehaviourError(str(problem)) from None


@dataclass
class _Reader:
    axes: Mapping[str, int]
    types: Mapping[str, str]
    reduced: tuple[str, ...] = ()
    variables: dict[str, Axis] = field(default_factory=dict)
    #: Positions along each dimension of the operands, as far as they are read.
    sizes: dict[str, list[int]] = field(default_factory=dict)

    def assignment(self, node: ast.Assign | ast.AugAssign) -> Behaviour:
        target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
        if isinstance(node, ast.Assign) and len(node.targets) != 1:
            raise BehaviourError("it assigns twice")
        name, indices = _element(target)
        if name not in self.types:
            raise BehaviourError(f"the result {name} is not among the operands")
        spatial = [i.id for i in indices if isinstance(i, ast.Name)]
        if len(spatial) != len(indices) or len(set(spatial)) != len(spatial) or not spatial:
            raise BehaviourError("the indices of the result are not different axes")
        combiner, value = self.combination(node, name, target)
        reduction = None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _REDUCTIONS:
            reduction = value.func.id
            value, self.reduced = self.reduction(value)
        if combiner is not None and reduction != combiner:
            raise BehaviourError(f"what is combined with {name} is no {combiner}(...)")
        self.variables = {a: Axis(a, self.extent(a), a in self.reduced) for a in (*spatial, *self.reduced)}
        if len(self.variables) != len(spatial) + len(self.reduced):
            raise BehaviourError("an axis is both an index of the result and reduced")
        body = self.value(value)
        dtype = self.types[name]
        if not isinstance(body, Expr):
            body = E.const(body, dtype)
        if body.dtype != dtype:
            raise BehaviourError(f"it computes {body.dtype}, and the result {name} is {dtype}: convert it")
        if name in self.sizes:
            raise BehaviourError(f"it reads its own result {name}")
        if unread := [n for n in self.types if n != name and n not in self.sizes]:
            raise BehaviourError(f"the operand {unread[0]} is not read")
        if unused := [a for a in self.axes if a not in self.variables]:
            raise BehaviourError(f"the axis {unused[0]} is neither an index of the result nor reduced")
        body = self.sized(body)
        if reduction is not None:
            body = reduce(reduction, body, *(self.variables[a] for a in self.reduced))
        own = tuple(self.variables[a] for a in spatial)
        stage = Tensor(name, tuple(a.extent for a in own), dtype, own, body)
        return Behaviour(stage, combiner is not None)

    def combination(self, node: ast.Assign | ast.AugAssign, name: str, target: ast.expr) -> tuple[str | None, ast.expr]:
        """By which reduction a value is combined with what the result was before, and that value."""
        if isinstance(node, ast.AugAssign):
            kinds: dict[type[ast.operator], str] = {ast.Add: "sum", ast.Mult: "prod"}
            if type(node.op) not in kinds:
                raise BehaviourError("a result is combined by += or *=, or by maximum or minimum")
            return kinds[type(node.op)], node.value
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and len(value.args) == 2:
            kind = {"maximum": "max", "minimum": "min"}.get(value.func.id)
            if kind is not None and ast.unparse(value.args[0]) == ast.unparse(target):
                return kind, value.args[1]
        return None, value

    def reduction(self, call: ast.Call) -> tuple[ast.expr, tuple[str, ...]]:
        if len(call.args) < 2 or call.keywords:
            raise BehaviourError("a reduction is of a value and of the axes that are reduced, as sum(a[i, k], k)")
        value, *axes = call.args
        names = tuple(a.id for a in axes if isinstance(a, ast.Name))
        if len(names) != len(axes) or len(set(names)) != len(names):
            raise BehaviourError("what is reduced are not different axes")
        return value, names

    def extent(self, axis: str) -> int:
        if axis not in self.axes:
            raise BehaviourError(f"{axis} is no axis")
        return self.axes[axis]

    # -- values
    def value(self, node: ast.expr) -> Expr | int | float:
        """A value; a number whose type its neighbour says."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            assert isinstance(node.value, (int, float))
            return node.value
        if isinstance(node, (ast.Subscript, ast.Name)):
            return self.load(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _INFIX:
            return self.both(_INFIX[type(node.op)], node.left, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand)
            return E.unary("neg", inner) if isinstance(inner, Expr) else -inner
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _RELATION:
            a, b = self.value(node.left), self.value(node.comparators[0])
            return E.compare(_RELATION[type(node.ops[0])], *self.typed(a, b))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self.call(node.func.id, node.args)
        raise BehaviourError(f"{ast.unparse(node)[:60]} is nothing that a behaviour can have")

    def both(self, op: str, left: ast.expr, right: ast.expr) -> Expr:
        a, b = self.typed(self.value(left), self.value(right))
        return E.binary(op, a, b)

    def typed(self, a: Expr | int | float, b: Expr | int | float) -> tuple[Expr, Expr]:
        """Two values of one type: that of the one that is no number."""
        if isinstance(a, Expr):
            return a, self.number(b, a.dtype)
        if isinstance(b, Expr):
            return self.number(a, b.dtype), b
        raise BehaviourError(f"nothing says which type {a} and {b} have: convert one, as int32({a})")

    @staticmethod
    def number(value: Expr | int | float, dtype: str) -> Expr:
        if isinstance(value, Expr):
            return value
        if dtypes.is_integer(dtype):
            low, high = dtypes.limits(dtype)
            if not isinstance(value, int) or not low <= value <= high:
                raise BehaviourError(f"{value} is no {dtype}")
        return E.const(value, dtype)

    def call(self, name: str, arguments: list[ast.expr]) -> Expr:
        if name in _REDUCTIONS:
            raise BehaviourError(f"{name} stands for the whole right side only")
        values = [self.value(a) for a in arguments]
        if name in _TYPES and len(values) == 1:
            (value,) = values
            return E.cast(value, name) if isinstance(value, Expr) else self.number(value, name)
        if name in E.UNARY and len(values) == 1 and isinstance(values[0], Expr):
            return E.unary(name, values[0])
        if name in E.BINARY and len(values) == 2:
            return E.binary(name, *self.typed(*values))
        if name == "select" and len(values) == 3 and isinstance(values[0], Expr):
            return E.select(values[0], *self.typed(*values[1:]))
        raise BehaviourError(f"there is no {name} of {len(values)} values")

    # -- operands
    def load(self, node: ast.expr) -> Expr:
        name, indices = _element(node)
        if name not in self.types:
            raise BehaviourError(f"{name} is not among the operands")
        found = [self.index(i) for i in indices]
        ends = []
        for index in found:
            low, high = index.bounds()
            if low is None or high is None or low < 0:
                raise BehaviourError(f"an index of {name} is negative somewhere: {index}")
            ends.append(high + 1)
        known = self.sizes.setdefault(name, ends)
        if len(known) != len(ends):
            raise BehaviourError(f"{name} has {len(known)} indices in one place and {len(ends)} in another")
        self.sizes[name] = [max(pair) for pair in zip(known, ends, strict=True)]
        return Load(self.types[name], tensor=Tensor(name, (), self.types[name]), indices=tuple(found))

    def index(self, node: ast.expr) -> Int:
        if isinstance(node, ast.Name):
            if node.id not in self.variables:
                raise BehaviourError(f"{node.id} is no axis of the result, nor reduced")
            axis = self.variables[node.id]
            return of(axis) if axis.lo != axis.hi else as_int(0)
        if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= MOST_POSITIONS:
            return as_int(node.value)
        if isinstance(node, ast.BinOp):
            a, b = self.index(node.left), self.index(node.right)
            if isinstance(node.op, ast.Add):
                return a + b
            if isinstance(node.op, ast.Sub):
                return a - b
            if isinstance(node.op, ast.Mult) and (a.is_const or b.is_const):
                return a * b
        raise BehaviourError(f"the index {ast.unparse(node)[:60]} is no sum of axes and their multiples")

    def sized(self, body: Expr) -> Expr:
        """The body with operands that have their sizes, one tensor each."""
        tensors = {name: placeholder(name, sizes, self.types[name]) for name, sizes in self.sizes.items()}

        def rule(node: Expr) -> Expr | None:
            return tensors[node.tensor.name][node.indices] if isinstance(node, Load) else None

        return E.rewrite(body, rule)


def _element(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """The tensor of an element, and its indices."""
    if isinstance(node, ast.Name):
        return node.id, []
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return node.value.id, list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    raise BehaviourError(f"{ast.unparse(node)[:60]} is no element of an operand")
