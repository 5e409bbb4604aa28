"""What a bundle is written from: the last stage of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.passes.kernels import Call
from sterna.passes.linearize import Control
from sterna.passes.memory_plan import MemoryPlan
from sterna.passes.stages import Planned
from sterna.passes.views import Views
from sterna.targets.target import Target


@dataclass(frozen=True)
class Library:
    """A kernel library: its file's name in the bundle, what it was built for, its bytes."""

    name: str
    target: Target
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Origin:
    """The model file that was compiled: its format, and the SHA-256 of its bytes; external data are other files."""

    format: str
    sha256: str


@dataclass(frozen=True)
class Compiled:
    """Everything a bundle is written from.

    Args:
        calls: the bundle's nodes; control: of them; kernel_of: index of each call's kernel; kernels: distinct ones.
        params: contents of params.bin; params_at: (offset, size) of each call's block.
        states_at: the offset there of what each state holds first; None where that is zeros.
        libraries: the kernel library, none where the target has none; then those of the variants.
        origin: None for a model that came from no file.
    """

    graph: Graph
    options: Options
    model: str
    views: Views
    calls: tuple[Call, ...]
    kernels: tuple[Planned, ...]
    kernel_of: tuple[int, ...]
    plan: MemoryPlan
    params: bytes
    params_at: tuple[tuple[int, int], ...]
    states_at: tuple[int | None, ...]
    source: str
    libraries: tuple[Library, ...] = ()
    control: tuple[Control, ...] = ()
    origin: Origin | None = None

    @property
    def library(self) -> bytes:
        """Bytes of the target's own kernel library, empty where it has none."""
        return self.libraries[0].data if self.libraries else b""
