"""What a pass may ask besides what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sterna.loops.program import Function
from sterna.options import Options
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
    """

    target: Target
    options: Options
    model: str = "model"
    ahead: Ahead | None = None

    @property
    def multiplies_unsigned_bytes(self) -> bool:
        """Whether dot products of bytes take unsigned ones by signed ones, and nothing else."""
        dots = self.target.int_dot
        known = self.target.known_intrinsics if dots else {}
        return bool(dots) and all(known[name].operands == ("uint8", "int8") for name in dots)


def context_of(options: Options, model: str = "model") -> PassContext:
    """The context of a model that is compiled with these options."""
    return PassContext(options.target, options, model)
