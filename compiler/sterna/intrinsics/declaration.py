"""What an intrinsic is: a behaviour, and how the generators write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sterna.ir import dtypes
from sterna.te.expr import Binary, Cast, Load, Reduce
from sterna.te.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """An operation of the hardware that adds sums of products to accumulators.

    Args:
        name: by which targets and schedules know it.
        behaviour: a stage whose last axis are the lanes and whose body is the sum that each gets; the last axis that
            is reduced is the group of neighbours in its operands, as they lie in registers. A dot product has no other
            axes, and operands (lanes, group).
        template: the macro `<template>(i)` of `intrinsics/c.j2` that defines the C function `i.function` (accumulator,
            operands...), and the one of `intrinsics/llvm.j2` that gives the body of the LLVM function: instructions
            that compute %r from %a0, %a1, %a2.
        settings: what the macros need to know beside the behaviour.
        needs: the features of a processor that has it, by the names that targets use; each member is enough.
        spare: vector registers that the lowering takes beside its operands.
    """

    name: str
    behaviour: Tensor
    template: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    spare: int = 0
    needs: tuple[tuple[str, ...], ...] = ((),)

    @property
    def reduction(self) -> Reduce:
        body = self.behaviour.reduction
        assert body is not None
        return body

    @property
    def lanes(self) -> int:
        return int(self.behaviour.shape[-1])

    @property
    def group(self) -> int:
        """Products that are added up per lane."""
        return int(self.reduction.axes[-1].extent)

    @property
    def dtype(self) -> str:
        """The accumulators' element type."""
        return self.behaviour.dtype

    @property
    def vector_bits(self) -> int:
        """Width of the vector registers that it takes."""
        return self.lanes * dtypes.bits(self.dtype)

    @property
    def factors(self) -> tuple[Load, Load]:
        """What is multiplied: an element of either operand, before it is widened."""
        product = self.reduction.a
        assert isinstance(product, Binary)
        found = tuple(c.a if isinstance(c, Cast) else c for c in product.children())
        assert all(isinstance(load, Load) for load in found)
        return found  # type: ignore[return-value]

    @property
    def operands(self) -> tuple[str, str]:
        """Element types of the operands."""
        a, b = self.factors
        return a.dtype, b.dtype

    @property
    def function(self) -> str:
        """The name of the function that generated code calls."""
        return self.name.replace(".", "_")


#: (rows, bytes of a row) of a tile register; a register that is not used has none.
TileShape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class TileIntrinsic(Intrinsic):
    """One that multiplies matrices kept in registers of two dimensions, tiles.

    The behaviour's axes are (row, lane), those reduced (word, group): the left operand is (row, word and group), the
    right one (word, lane, group). Each may be of fewer rows or words than the hardware's most, as the tiles are
    configured. `settings` has, for "c" and for "llvm", the names of the functions `configure` (address), `release` (),
    `zero` (tile), `load` and `store` (tile, address, bytes from row to row) and `multiply` (accumulators, left, right),
    where a tile is the number of its register.

    Args:
        registers: how many tiles there are, accumulators and operands alike.
        configuration: the memory that `configure` reads, by the shapes of the registers.
        multiply_cycles, load_cycles: from one such instruction to the next; latency: from a product to the next one
            into the same accumulators.
    """

    registers: int = 8
    configuration: Callable[[Sequence[TileShape]], bytes] = lambda shapes: b""
    multiply_cycles: int = 16
    load_cycles: int = 8
    latency: int = 52

    @property
    def vector_bits(self) -> int:
        """None: tiles have registers of their own."""
        return 0

    @property
    def rows(self) -> int:
        """The most rows of the accumulators and of the left operand."""
        return int(self.behaviour.shape[0])

    @property
    def words(self) -> int:
        """The most groups of a row of the left operand, which are the rows of the right one."""
        return int(self.reduction.axes[0].extent)

    @property
    def depth(self) -> int:
        """The most products that are added up per accumulator."""
        return self.words * self.group

    def name_in(self, language: str, operation: str) -> str:
        """What a language ("c", "llvm") calls an operation on tiles."""
        names = self.settings[language]
        assert isinstance(names, Mapping)
        return str(names[operation])
