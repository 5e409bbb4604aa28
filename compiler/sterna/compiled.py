"""What a bundle is written from: the last stage of the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sterna.ir.graph import Graph
from sterna.options import Options, Patches
from sterna.passes.kernels import Call
from sterna.passes.linearize import Control, Placement
from sterna.passes.memory_plan import MemoryPlan
from sterna.passes.stages import Planned
from sterna.passes.views import Views
from sterna.targets.target import Target


@dataclass(frozen=True)
class Library:
    """A kernel library: its file's name in the bundle, what it was built for, its bytes, and its kernels."""

    name: str
    target: Target
    data: bytes = field(repr=False)
    kernels: tuple[Planned, ...] = field(repr=False)


@dataclass(frozen=True)
class Origin:
    """The model file that was compiled: its format, and the SHA-256 of its bytes; external data are other files."""

    format: str
    sha256: str


@dataclass(frozen=True)
class Measured:
    """What `Options.math` led to.

    Args:
        bound: of the error of every output.
        errors: of every output, the largest difference from what is computed as the model says, relative to its largest
            magnitude; empty where nothing was traded.
        tiles: of convolutions, by the model's own names of them: taps, and outputs of a tile.
        halves: the products, by the same names, whose weights are rounded to float16.
        layers: that could be faster, of all kinds.
        machine: the target that it was measured with; sets: of inputs.
        narrow: the products, by the same names, whose factors are rounded, and to which type.
        data: what inputs they were, "" for random ones; tuned: whether the ways of layers were chosen by measuring.
    """

    bound: float
    errors: tuple[tuple[str, float], ...]
    tiles: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    halves: tuple[str, ...]
    layers: int
    machine: str
    sets: int
    narrow: tuple[tuple[str, str], ...] = ()
    data: str = ""
    tuned: bool = False

    @property
    def error(self) -> float:
        """The largest of all outputs."""
        return max((error for _, error in self.errors), default=0.0)

    @property
    def text(self) -> str:
        """In a line."""
        if not self.tiles and not self.halves and not self.narrow:
            if self.layers:
                return f"nothing traded: what could be exceeds the bound of {self.bound:.1e}"
            return "nothing to trade: no layer is faster otherwise"
        kinds = Counter(f"F({_sizes(outputs)}, {_sizes(taps)})" for _, taps, outputs in self.tiles)
        words = ", ".join(f"{count} by {kind}" for kind, count in kinds.most_common())
        made = [f"convolutions by Winograd: {words}"] if words else []
        made += [f"weights in fp16: {len(self.halves)} of the products that wait for them"] if self.halves else []
        s = "" if self.sets == 1 else "s"
        inputs = f"sample{s} of {self.data}" if self.data else f"set{s} of random inputs"
        types = Counter(_SHORT[dtype] for _, dtype in self.narrow)
        made += [f"products of factors in {dtype}: {count}" for dtype, count in types.most_common()]
        return (
            f"{'; '.join(made)}; outputs differ from exact ones by at most {self.error:.1e} of the "
            f"largest, the bound is {self.bound:.1e} (measured on {self.sets} {inputs})"
        )


_SHORT = {"float16": "fp16", "bfloat16": "bf16", "tf32": "TF32"}


def _sizes(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))


@dataclass(frozen=True)
class Fitted:
    """What was chosen for firmware to meet its budgets (`sterna.budgets`).

    Args:
        code: how its code became smaller, or fewer weights are fetched; "": it is as fast as it can be.
        patches: its leading layers in parts, if they are; layer: the last of them, by the model's own name.
        arena: bytes before and after; multiply_adds: without patches and with them.
    """

    code: str
    patches: Patches | None
    layer: str
    arena: tuple[int, int]
    multiply_adds: tuple[int, int]

    @property
    def text(self) -> str:
        """In a line."""
        words = [self.code] if self.code else []
        if self.patches is not None:
            before, after = self.multiply_adds
            words.append(
                f"the layers up to {self.layer} in {self.patches.grid} patches: arena {self.arena[0]:,} to "
                f"{self.arena[1]:,} bytes, {after / before - 1:.1%} more multiply-adds"
            )
        return f"to meet the budgets: {'; '.join(words)}"

    def json(self) -> dict[str, object]:
        """For programs."""
        patches = None
        if self.patches is not None:
            patches = {"layer": self.layer, "result": self.patches.result, "parts": list(self.patches.parts)}
        return {
            "text": self.text,
            "code": self.code,
            "patches": patches,
            "arena_bytes": list(self.arena),
            "multiply_adds": list(self.multiply_adds),
        }


@dataclass(frozen=True)
class Compiled:
    """Everything a bundle is written from.

    Args:
        calls: the bundle's nodes; control: of them; kernel_of: index of each call's kernel; kernels: distinct ones.
        params: contents of params.bin; params_at: (offset, size) of each call's block.
        states_at: the offset there of what each state holds first; None where that is zeros.
        libraries: the kernel library, none where the target has none; then those of the variants.
        origin: None for a model that came from no file.
        math: what was measured where accuracy was traded for speed (`sterna.fast`).
        fitted: what was chosen to meet the budgets of firmware, if anything had to be.
        alternatives: the same model for more capable processors, best first, each with a graph of its own; what they
            read lies in `params` (`sterna.alternatives`).
        module: the kernels of a device, as its driver takes them; placement: of calls and buffers beside it.
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
    math: Measured | None = None
    fitted: Fitted | None = None
    alternatives: tuple[Compiled, ...] = ()
    module: str = ""
    placement: Placement | None = None

    @property
    def library(self) -> bytes:
        """Bytes of the target's own kernel library, empty where it has none."""
        return self.libraries[0].data if self.libraries else b""
