"""What stages read, as plain numbers: for each read, by how much its position moves along each axis.

Lowering asks the same questions with symbolic integers, since it has to be exact. A cost model asks thousands of times
and only how much: positions are linear here, a quotient moves by a fraction, and a range is a number of elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from sterna.ir import dtypes
from sterna.ir.integer import Atom, FloorDiv, Int, Mod
from sterna.schedule.strategies.analysis import size
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor

#: By the name of an axis, how far an index moves in one step along it, sign left aside.
Steps = Mapping[str, float]


@dataclass(frozen=True)
class Read:
    """A read of a tensor.

    Args:
        name: of the tensor; bits: of an element; sizes: of its dimensions.
        steps: of the index of each dimension; first: the index where all axes are 0.
    """

    name: str
    bits: int
    sizes: tuple[int, ...]
    steps: tuple[Steps, ...]
    first: tuple[float, ...]

    @cached_property
    def _moves(self) -> tuple[tuple[int, tuple[tuple[str, float], ...]], ...]:
        """Of each dimension, its size and its steps: `widths` asks forty times for each candidate."""
        return tuple((most, tuple(steps.items())) for most, steps in zip(self.sizes, self.steps, strict=True))

    def widths(self, spans: Mapping[str, float]) -> tuple[float, ...]:
        """Elements in each dimension that are read while axes take so many values; those that are not named stand."""
        found = []
        for most, steps in self._moves:
            width = 1.0
            for axis, step in steps:
                if (values := spans.get(axis, 1.0)) != 1.0:
                    moved = step * (values - 1.0)
                    width += moved if step >= 1.0 else int(moved)  # A tile begins where a quotient is whole.
            found.append(width if width <= most else most)
        return tuple(found)

    def bytes(self, spans: Mapping[str, float]) -> float:
        """Bytes that are read meanwhile, each once."""
        return prod(self.widths(spans)) * self.bits / 8

    def within(self, axes: Sequence[Axis], outer: Read) -> Read:
        """The same read by the axes of another stage, which reads the one in whose body this read stands.

        Args:
            axes: of the stage that is read; outer: how the other one reads it.
        """
        read_at = {a.name: each for a, each in zip(axes, zip(outer.steps, outer.first, strict=True), strict=True)}
        composed, first = [], []
        for steps, start in zip(self.steps, self.first, strict=True):
            total: dict[str, float] = {}
            own = start
            for axis, step in steps.items():
                around, at = read_at.get(axis, ({}, 0.0))
                own += step * at
                for name, moved in around.items():
                    total[name] = total.get(name, 0.0) + step * moved
            composed.append(total)
            first.append(own)
        return Read(self.name, self.bits, self.sizes, tuple(composed), tuple(first))


@dataclass(frozen=True)
class Body:
    """What is done for one element of a stage, or one term of a reduction.

    Args:
        operations: all but reads and constants.
    """

    operations: int
    reads: tuple[Read, ...]


@lru_cache(4096)
def body_of(body: Expr) -> Body:
    """What an expression does and reads."""
    operations, reads = 0, []
    for node in E.walk(body):
        if isinstance(node, E.Load):
            reads.append(_read(node))
        elif not isinstance(node, E.Const):
            operations += 1
    return Body(operations, tuple(reads))


def _read(load: E.Load) -> Read:
    assert isinstance(load.tensor, Tensor)
    sizes = tuple(map(size, load.tensor.shape))
    first = tuple(float(index.const) for index in load.indices)
    return Read(load.tensor.name, dtypes.bits(load.dtype), sizes, tuple(map(_steps, load.indices)), first)


def _steps(index: Int) -> Steps:
    found: dict[str, float] = {}
    for monomial, coefficient in index.terms.items():
        for atom in monomial:
            for axis, step in _moved(atom).items():
                found[axis] = found.get(axis, 0.0) + abs(coefficient) * step
    return found


def _moved(atom: Atom) -> Steps:
    if isinstance(atom, Axis):
        return {atom.name: 1.0}
    found: dict[str, float] = {}
    for part in atom.parts():
        # What is read at a position that data decide has no steps; its part says along which axes it varies.
        shrunk = 1.0 / atom.divisor if isinstance(atom, FloorDiv) else 1.0
        most = float(atom.divisor - 1) if isinstance(atom, Mod) else float("inf")
        for axis, step in _steps(part).items():
            found[axis] = min(step * shrunk, most)
    return found
