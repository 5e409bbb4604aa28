"""What an intrinsic is: a behaviour, and the templates of its lowerings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sterna.te.expr import Binary, Cast, Load, Reduce
from sterna.te.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """An operation of the hardware that adds sums of products to a vector of accumulators.

    Args:
        name: by which targets and schedules know it.
        behaviour: a stage of one axis, the lanes, whose body is the sum that each lane gets, over one reduced axis,
            the group. Its operands are tensors (lanes, group), the group innermost, as they lie in registers.
        template: the macro `<template>(i)` of `intrinsics/c.j2` that defines the C function `i.function` (accumulator,
            operands...), and the one of `intrinsics/llvm.j2` that gives the body of the LLVM function: instructions
            that compute %r from %a0, %a1, %a2.
        settings: what the macros need to know beside the behaviour.
        spare: vector registers that the lowering takes beside its operands.
    """

    name: str
    behaviour: Tensor
    template: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    spare: int = 0

    @property
    def reduction(self) -> Reduce:
        body = self.behaviour.reduction
        assert body is not None
        return body

    @property
    def lanes(self) -> int:
        return int(self.behaviour.shape[0])

    @property
    def group(self) -> int:
        """Products that are added up per lane."""
        return int(self.reduction.axes[0].extent)

    @property
    def dtype(self) -> str:
        """The accumulators' element type."""
        return self.behaviour.dtype

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
