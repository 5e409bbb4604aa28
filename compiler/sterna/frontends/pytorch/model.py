"""An exported program with its tensors, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sterna.frontends.pytorch.program import Program
from sterna.ir.graph import Array


@dataclass(frozen=True)
class Model:
    """An exported program, and its parameters, buffers and constants by name.

    Args:
        models: names of the programs in the file.
        input_names: what its inputs are called, where that is not what the program calls them.
    """

    program: Program
    tensors: Mapping[str, Array]
    name: str
    where: str
    models: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()
