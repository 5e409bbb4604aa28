"""What generators write for an intrinsic that a target's description declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from sterna.errors import error
from sterna.intrinsics import Intrinsic, Lowering
from sterna.targets.target import Target


@dataclass(frozen=True)
class InstructionOperand:
    """The text of an operand: its address, with the elements from one position to the next along each dimension, or a
    value."""

    text: str
    strides: tuple[int, ...] = ()


def lowering(intrinsic: Intrinsic, language: str, target: Target) -> Lowering:
    """How a language writes an intrinsic.

    Raises:
        SternaError: E0203, the target does not have it, or does not say how.
    """
    if not target.has(intrinsic):
        why = f"the target {target.name} has no {intrinsic.name}, which the schedules of this bundle use"
        raise error("E0203", why, fix="compile for that target by itself")
    found = intrinsic.lowerings.get(language)
    if found is None:
        missing = f"says nothing of {intrinsic.name} in {language or target.dialect}"
        raise error("E0203", f"the target {target.name} {missing}", fix=f"add `{language or 'c'}` to its declaration")
    return found


def instruction_text(text: str, operands: Mapping[str, InstructionOperand]) -> str:
    """A lowering with what stands for its fields."""
    fields = {name: operand.text for name, operand in operands.items()}
    for name, operand in operands.items():
        fields |= {f"{name}_stride{d}": str(stride) for d, stride in enumerate(operand.strides)}
    return Template(text).substitute(fields)
