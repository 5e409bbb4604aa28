"""What a pass may ask besides what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sterna.intrinsics import FRAGMENTS
from sterna.loops.program import Function
from sterna.options import Options
from sterna.passes.decisions import Decide, decider
from sterna.passes.kernels import CPU, Call
from sterna.passes.programs import Programs
from sterna.targets.target import Target


class Ahead(Protocol):
    """Whoever makes objects of kernels while later ones are still lowered; see `codegen.ahead`."""

    @property
    def printed(self) -> Sequence[Any]: ...

    def begin(self, kernels: int) -> None: ...

    def add(self, function: Function, comments: Sequence[str]) -> None: ...

    def objects(self) -> list[bytes] | None: ...


@dataclass(frozen=True)
class PassContext:
    """What a model is compiled for, and how.

    Args:
        model: the model's name as a C identifier.
        ahead: who is given every kernel as soon as it is finished, if anybody is.
        programs: the loop programs that passes have made.
    """

    target: Target
    options: Options
    model: str = "model"
    ahead: Ahead | None = None
    programs: Programs = field(default_factory=Programs, repr=False, compare=False)

    @property
    def host(self) -> Target:
        """What kernels on the CPU are compiled for, where the target has a device."""
        return self.options.host or self.target

    @property
    def decide(self) -> Decide:
        """Who decides above kernels."""
        return decider(self.options.tuning, self.target)

    def target_of(self, call: Call) -> Target:
        """What a call's kernel is compiled for."""
        return self.host if self.target.device is not None and call.place == CPU else self.target

    @property
    def multiplied_bytes(self) -> Mapping[str, str]:
        """The type of activations that the target multiplies by weights of bytes, by the type of these, where it takes
        one alone: fragments of matrices are of one sign on both sides; dot products may be of one sign and signed
        weights."""
        target = self.target
        dots = {target.known_intrinsics[name].operands for name in target.int_dot}
        if len(dots) == 1:
            ((left, right),) = dots
            return {right: left} if right == "int8" else {}
        fragments = {FRAGMENTS[name].operands for name in target.fragments}
        return {right: left for left, right in fragments if left == right and left in ("int8", "uint8")}


def context_of(options: Options, model: str = "model") -> PassContext:
    """The context of a model that is compiled with these options."""
    return PassContext(options.target, options, model)
