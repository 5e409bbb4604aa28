"""Whether a stage computes what an intrinsic does: its body, and the axes that stand for those of the behaviour.

The bodies are unified: each operand of the intrinsic stands for what the stage has in its place, the order of operands
of commutative operations being free. What stands for an operand may depend on no other axes than the operand does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sterna.intrinsics import Form, Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom
from sterna.schedule.products import contains
from sterna.te import expr as E
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.text import print_expr

#: Operations whose operands may be exchanged.
_COMMUTATIVE = ("add", "mul", "minimum", "maximum", "and", "or", "xor")
#: By axes of the stage: the axes of the behaviour that they move along with.
Roles = Mapping[Atom, frozenset[str]]


@dataclass(frozen=True)
class Match:
    """What stands for the operands: for every place where the behaviour reads one, the expression of the stage."""

    places: tuple[tuple[Load, Expr], ...]


def match(body: Expr, intrinsic: Intrinsic, roles: Roles) -> Match | str:
    """How a stage's body is an intrinsic's behaviour; if it is not, why.

    Args:
        roles: of the stage's axes, those reduced included.
    """
    behaviour = intrinsic.behaviour.body
    assert behaviour is not None
    if isinstance(behaviour, Reduce) != isinstance(body, Reduce):
        return f"one of them is a reduction and the other is not: {intrinsic.name} computes {behaviour_text(intrinsic)}"
    pattern, found = behaviour, body
    if isinstance(behaviour, Reduce) and isinstance(body, Reduce):
        if (behaviour.combiner, behaviour.index) != (body.combiner, body.index):
            return f"it is a {body.combiner}, not a {behaviour.combiner}"
        pattern, found = behaviour.a, body.a
    unifier = _Unifier(intrinsic, roles)
    for places in unifier.unify(pattern, found, ()):
        return Match(places)
    return unifier.problem or f"{intrinsic.name} computes {behaviour_text(intrinsic)}"


def fits(value: Expr, dtype: str) -> bool:
    """Whether an integer type has every value of an integer expression: of its type, or of the bits that it keeps."""
    if isinstance(value, E.Binary) and value.op == "and" and isinstance(value.b, E.Const) and value.b.value >= 0:
        return value.b.value <= dtypes.limits(dtype)[1]
    return contains(dtype, value.dtype)


def behaviour_text(intrinsic: Intrinsic) -> str:
    """The behaviour in words of its formula."""
    body = intrinsic.behaviour.body
    assert body is not None
    return print_expr(body)


@dataclass
class _Unifier:
    intrinsic: Intrinsic
    roles: Roles
    #: Why the first thing that stood for an operand cannot.
    problem: str = ""
    memo: dict[Expr, frozenset[str]] = field(default_factory=dict)

    def unify(
        self, pattern: Expr, found: Expr, bound: tuple[tuple[Load, Expr], ...]
    ) -> Iterator[tuple[tuple[Load, Expr], ...]]:
        """All ways in which an expression of the stage is one of the behaviour."""
        if isinstance(pattern, Load):
            if self.stands_for(pattern, found):
                yield (*bound, (pattern, found))
            return
        if isinstance(pattern, E.Cast) and isinstance(pattern.a, Load):
            if pattern.dtype == found.dtype:
                # The stage may widen what is narrower than the operand, or have it as it is.
                narrow = found.a if isinstance(found, E.Cast) else found
                if self.stands_for(pattern.a, narrow):
                    yield (*bound, (pattern.a, narrow))
            return
        if isinstance(pattern, E.Const):
            if pattern == found:
                yield bound
            return
        if type(pattern) is not type(found) or pattern.dtype != found.dtype:
            return
        if getattr(pattern, "op", None) != getattr(found, "op", None):
            return
        wanted, given = pattern.children(), found.children()
        orders = [given]
        if isinstance(pattern, E.Binary) and pattern.op in _COMMUTATIVE:
            orders.append(given[::-1])
        for order in orders:
            yield from self.together(wanted, order, bound)

    def together(
        self, wanted: tuple[Expr, ...], given: tuple[Expr, ...], bound: tuple[tuple[Load, Expr], ...]
    ) -> Iterator[tuple[tuple[Load, Expr], ...]]:
        if not wanted:
            yield bound
            return
        for more in self.unify(wanted[0], given[0], bound):
            yield from self.together(wanted[1:], given[1:], more)

    def stands_for(self, operand: Load, found: Expr) -> bool:
        """Whether an expression can be an operand."""
        name, dtype = operand.tensor.name, operand.dtype
        exact = self.intrinsic.form is not Form.VECTORS
        both = dtypes.is_integer(found.dtype) and dtypes.is_integer(dtype)
        if not (found.dtype == dtype if exact or not both else fits(found, dtype)):
            self.problem = self.problem or f"what stands for its operand {name} is {found.dtype}, not {dtype}"
            return False
        own = {s.name for index in operand.indices for s in index.symbols()}
        own |= {a.name for a in self.intrinsic.axes if a.extent == 1}  # They move nothing.
        if stray := sorted(self.moves_along(found) - own):
            self.problem = self.problem or f"what stands for its operand {name} depends on its axis {stray[0]}, too"
            return False
        return True

    def moves_along(self, e: Expr) -> frozenset[str]:
        """The axes of the behaviour that an expression of the stage depends on."""
        if (known := self.memo.get(e)) is None:
            found: set[str] = set()
            for node in (*E.walk(e), *E.loads(e)):
                for index in E.positions(node):
                    for atom in index.atoms():
                        found |= self.roles.get(atom, frozenset())
            self.memo[e] = known = frozenset(found)
        return known
