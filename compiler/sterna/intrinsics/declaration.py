"""What an intrinsic is: a behaviour, where its operands are, and how the generators write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, as_int
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.layout import dense_strides, most_elements
from sterna.te.tensor import Tensor

#: (rows, bytes of a row) of a tile register; a register that is not used has none.
TileShape = tuple[int, int]
Array = np.ndarray[Any, Any]
#: What an instruction leaves, bit by bit: of the accumulators and the operands, in the shapes of the behaviour.
Rounding = Callable[..., Array]


@dataclass(frozen=True, eq=False)
class TileUnit:
    """Registers of two dimensions, tiles, that some intrinsics take their operands from.

    Tiles of a processor have registers that are configured. Those of a subgroup of threads, fragments of matrices, are
    held by all of its threads together, each a part; an operation on them is one of the whole subgroup.

    Args:
        names: by language ("c", "llvm") the names of the functions `configure` (address), `release` (), `zero` (tile),
            `load` and `store` (tile, address, bytes from row to row), where a tile is the number of its register.
        header: what C includes for them.
        registers: how many tiles there are, accumulators and operands alike.
        load_cycles: from one load to the next.
        configuration: the memory that `configure` reads, by the shapes of the registers; None where nothing is
            configured.
        threads: that hold a tile together; row_bytes: that the distance of rows in memory is a multiple of; of twice as
            many where a tile begins, or of those of its row if these are fewer.
        along_terms: whether operands are loaded sooner whose terms of a sum lie side by side.
        in_memory: whether operands are read where they lie, in memory that all of the threads share; then no register
            holds one, and they have to lie there as the behaviour's do.
    """

    names: Mapping[str, Mapping[str, str]]
    header: str
    registers: int
    load_cycles: int
    configuration: Callable[[Sequence[TileShape]], bytes] | None = None
    threads: int = 1
    row_bytes: int = 1
    along_terms: bool = False
    in_memory: bool = False


class Form(Enum):
    """Where an intrinsic has its operands and its result."""

    VECTORS = "vectors"
    """in vector registers"""
    TILES = "tiles"
    """in registers of two dimensions"""
    MEMORY = "memory"
    """in memory, each element a constant step from the next along each dimension"""


@dataclass(frozen=True)
class Place:
    """Where an operand or the result of an intrinsic over memory lies.

    Args:
        memory: the name of a target's memory, or ANY_MEMORY.
        strides: elements from one position to the next along each dimension; None: any number, which the lowering is
            told.
    """

    memory: str
    strides: tuple[int | None, ...]


#: The memory of an operand that may lie wherever ordinary loads reach.
ANY_MEMORY = "any"


@dataclass(frozen=True)
class Lowering:
    """How a language writes an intrinsic that a target's description declares.

    Args:
        text: with `$operand` for the address or value of each operand and of the result, `$operand_stride0` and so on
            for strides. C: a statement, or of an intrinsic over vectors an expression. LLVM: instructions; those over
            vectors compute %r.
        header: what C includes for it.
    """

    text: str
    header: str = ""


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """An operation of the hardware.

    Args:
        name: by which targets and schedules know it.
        behaviour: the stage that it computes. Of one over vectors the last axis of the stage are the lanes, and one
            before it the rows; result and operands are vectors of all their elements in order, and the axis that is
            reduced is the group of neighbours in the operands. One over tiles has the axes (row, lane), those reduced
            (word, group): the left operand is (row, word and group), the right one (word, lane, group).
        accumulates: whether the reduction is added to (or otherwise combined with) what the result was before.
        template: of the package's own over vectors: the macro `<template>(i)` of `intrinsics/c.j2` that defines the C
            function `i.function` (accumulator, operands...), and the one of `intrinsics/llvm.j2` that gives the body of
            the LLVM function: instructions that compute %r from %a0, %a1, %a2.
        settings: what the macros need to know beside the behaviour; of one over tiles, for each language the name of
            the function `multiply` (accumulators, left, right); of one over words of bytes, as `words`, their signs.
        lowerings: by language ("c", "llvm"), of one that a target's description declares.
        spare: vector registers that the lowering takes beside its operands.
        parts: vector registers that the result takes.
        bounds: (least, greatest) of what an operand may hold, by name, where that is not all of its type.
        needs: the features of a processor that has it, by the names that targets use; each member is enough.
        shorter: axes of which a use may have fewer positions than the behaviour, as tiles are configured.
        tiles: the registers of one over tiles.
        places: of one over memory, where each operand and the result lie, by name; what is not there is a value.
        couples: weights that each element of the right operand is made of: see `te.couples`.
        instructions: of the lowering; prepares: that make the left operand, which all vectors of a row share; unpacks:
            that make the right one, which all rows share.
        cycles: from one to the next; latency: from one to the next one into the same accumulators.
        exact: of floats, what the instruction computes to the last bit: where it rounds, in which order it adds, what
            becomes of numbers that are too small; None where the behaviour says it all, as of integers.
    """

    name: str
    behaviour: Tensor
    accumulates: bool = True
    template: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    lowerings: Mapping[str, Lowering] = field(default_factory=dict)
    spare: int = 0
    parts: int = 1
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    needs: tuple[tuple[str, ...], ...] = ((),)
    shorter: tuple[str, ...] = ()
    tiles: TileUnit | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    couples: int = 1
    instructions: float = 1.0
    prepares: float = 1.0
    unpacks: float = 0.0
    cycles: float = 1.0
    latency: float = 0.0
    exact: Rounding | None = None

    @property
    def form(self) -> Form:
        """Where its operands are."""
        if self.tiles is not None:
            return Form.TILES
        return Form.MEMORY if self.places else Form.VECTORS

    @property
    def reduction(self) -> Reduce:
        """The body of a behaviour that reduces."""
        body = self.behaviour.reduction
        assert body is not None
        return body

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the behaviour, those reduced last."""
        return self.behaviour.all_axes

    def size(self, axis: str) -> int:
        """The (most) positions of an axis."""
        return int(next(a.extent for a in self.axes if a.name == axis))

    @property
    def lanes(self) -> int:
        return int(self.behaviour.shape[-1])

    @property
    def rows(self) -> int:
        """Rows of the result; 1 where it is one vector of lanes."""
        return int(self.behaviour.shape[0]) if len(self.behaviour.shape) > 1 else 1

    @property
    def elements(self) -> int:
        """Of the result."""
        return self.rows * self.lanes

    @property
    def group(self) -> int:
        """Elements that are added up per lane."""
        return 1 if self.behaviour.reduction is None else int(self.reduction.axes[-1].extent)

    @property
    def depth(self) -> int:
        """Products that are added up per lane."""
        return self.group * self.couples

    @property
    def dtype(self) -> str:
        """The result's element type."""
        return self.behaviour.dtype

    @property
    def vector_bits(self) -> int:
        """Width of the vector registers that it takes; none of those that have other registers, or no registers, or
        that add up into one number."""
        if self.form is not Form.VECTORS or self.elements == 1:
            return 0
        return self.elements * dtypes.bits(self.dtype) // self.parts

    @property
    def of_words(self) -> bool:
        """Whether its operands are words of bytes, of which each lane takes one of either."""
        return "words" in self.settings

    @property
    def reads(self) -> tuple[Load, ...]:
        """For each operand the first place where the behaviour reads it, in their order."""
        found: dict[str, Load] = {}
        for load in self.behaviour.reads():
            found.setdefault(load.tensor.name, load)
        return tuple(found.values())

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The operands."""
        tensors = tuple(load.tensor for load in self.reads)
        assert all(isinstance(t, Tensor) for t in tensors)
        return tensors  # type: ignore[return-value]

    @property
    def operands(self) -> tuple[str, ...]:
        """Element types of the operands."""
        return tuple(t.dtype for t in self.inputs)

    @property
    def adjoining(self) -> int:
        """Elements of the group that lie side by side in the right operand."""
        places = self._places()
        return next((n for n, place in enumerate(places) if place != n), len(places))

    @property
    def woven(self) -> int:
        """Parts of the group whose elements take turns in the right operand of one lane; 1 where they do not."""
        places = self._places()
        return places[1] if self.lanes == 1 and len(places) > 1 else 1

    def _places(self) -> list[int]:
        """Where in the right operand the group of the first lane lies."""
        read, (r, *_) = self.reads[-1], self.reduction.axes
        first: dict[Atom, int] = dict.fromkeys(self.axes, 0)
        return [self.position(read, {**first, r: n}) for n in range(int(r.extent))]

    @property
    def plain(self) -> bool:
        """Whether it adds up groups side by side, one for each lane: those of the operands lie lane after lane."""
        return self.form is Form.VECTORS and self.rows == 1 and self.adjoining == self.group and self.couples == 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the operands."""
        return tuple(most_elements(t.shape) for t in self.inputs)

    @property
    def terms(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Of a sum of products of two operands, term by term: where every element of the result has its factors."""
        left, right = self.reads
        spatial = [list(zip(self.behaviour.axes, at, strict=True)) for at in product(*map(_range, self.behaviour.axes))]
        found = []
        for term in product(*map(_range, self.reduction.axes)):
            inner = list(zip(self.reduction.axes, term, strict=True))
            places: list[dict[Atom, int]] = [dict([*outer, *inner]) for outer in spatial]
            first, second = (tuple(self.position(read, at) for at in places) for read in (left, right))
            found.append((first, second))
        return tuple(found)

    def position(self, load: Load, at: Mapping[Atom, int]) -> int:
        """Where in the vector of an operand the element lies that the behaviour reads, by the values of its axes."""
        strides = dense_strides(load.tensor.shape)  # type: ignore[attr-defined]
        values = {atom: as_int(n) for atom, n in at.items()}
        return int(sum((i.substitute(values) * n for i, n in zip(load.indices, strides, strict=True)), ZERO))

    @property
    def function(self) -> str:
        """The name of the function that generated code calls and defines; a user's header may have one of the name that
        a description gives."""
        name = self.name.replace(".", "_").replace("-", "_")
        return f"apply_{name}" if self.lowerings else name

    def name_in(self, language: str, operation: str) -> str:
        """What a language ("c", "llvm") calls an operation on tiles."""
        assert self.tiles is not None
        names = self.settings[language] if operation == "multiply" else self.tiles.names[language]
        assert isinstance(names, Mapping)
        return str(names[operation])


def _range(axis: Axis) -> range:
    return range(int(axis.extent))
