"""What a model is compiled for, and how: one record, from the command line and the Python interface to the bundle."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from sterna.choices import Tuning
from sterna.targets.target import Target
from sterna_runtime.arguments import DimSize

#: What weights may be stored as, and the type of each.
WEIGHTS = {"fp32": "", "fp16": "float16", "bf16": "bfloat16"}

#: The bound of `math="fast"` where none is said.
FAST = 1e-3


def math_bound(text: str) -> float | None:
    """What `Options.math` is for "exact", "fast" or "fast=BOUND"; None for anything else, and for a bound that is not
    between 0 and 1."""
    word, equals, number = text.partition("=")
    if text == "exact":
        return 0.0
    if word != "fast":
        return None
    try:
        bound = float(number) if equals else FAST
    except ValueError:
        return None
    return bound if math.isfinite(bound) and 0 < bound < 1 else None


@dataclass(frozen=True)
class Patches:
    """Which layers are computed in patches.

    Args:
        result: the name of the value that is put together of patches.
        parts: how many there are along each of its dimensions.
    """

    result: str
    parts: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.parts)

    @property
    def grid(self) -> str:
        """The parts of each dimension that is cut."""
        return " x ".join(str(n) for n in self.parts if n > 1)


@dataclass(frozen=True)
class Options:
    """What a model is compiled for, and how. `api.options_of` makes one of a user's words.

    Args:
        generator: one of `codegen.generators.GENERATORS`.
        compiler: for the C generator: "zig", "clang", "gcc" or a path.
        threads: how many threads the model will probably run on; a hint that never limits the bundle.
        debug: no memory is reused and in-place computation is off, so that every tensor between kernels can be read.
        variants: targets whose libraries the bundle holds too, best first; their kernels are the same loop programs,
            so that one graph and one set of weights serve all. The target itself may be among them.
        alternatives: targets for which the model is compiled again, best first: other kernels, a graph of their own,
            and of the weights what is equal (`sterna.alternatives`).
        single_file: the bundle is one file, graph, kernels and weights.
        math: the largest error of an output, relative to its largest magnitude, that results may have for the sake of
            speed (`sterna.fast` decides by what); 0: everything is computed as the model says.
        tiles: what that led to: of convolutions, by the name of the result, the outputs of a tile (`passes.winograd`).
        halves: and of products, by the same name, those whose weights are rounded to float16 (`passes.halve_weights`).
        patches: the leading layers of an image model that are computed in parts, for less memory (`passes.patches`).
        narrow: and of products, those whose factors are rounded, to which type (`passes.narrow_products`).
        weights: "fp32", as they are, or "fp16" or "bf16": the weights of matrix products, convolutions and recurrences
            are rounded to 16 bits, and widened where they are read; everything is computed in float32 as before.
        widened: those weights are rounded, and stored in float32 all the same: what `weights` is compared with.
        shapes: sizes of inputs that the model leaves open, by name; None for a sequence or optional of nothing.
        dims: the size, (least, greatest), or (least, greatest, divisor), of named dimensions.
        values: of inputs that are constants of the bundle, a number or a row of numbers by name.
        signature: which of the model's signatures; None: its first graph.
        weights_file: where the model's weights are, if they are in a file of their own; None: beside it.
        example_inputs, dynamic_shapes: what a module of Python is exported with.
        name: of the model, with which the symbols of its library and its C begin; None: that of its file.
        max_constant_bytes: what constants may take while the model is compiled; None: as much as usual.
        weights_section: of the program, where firmware's weights are put; None: among other constants.
        weights_array: up to how many bytes they are an array of C; None: as many as `bundle.weights` says.
        weights_address: at which the program finds them, in flash of their own; None: where it is linked to.
        tuning: what strategies choose otherwise than their rules say, kernel by kernel, as was measured before.
        host: what kernels on the CPU are compiled for, where the target has a device.
        device_for: names of nodes or kernels, with * for any text, and "cpu" or the kind of device that is to run them.
        max_flash, max_ram, max_stack: bytes that firmware may take: of code and weights, of arena and stack, of stack.
    """

    target: Target
    generator: str = "c"
    compiler: str = "zig"
    threads: int = 1
    debug: bool = False
    variants: tuple[Target, ...] = ()
    alternatives: tuple[Target, ...] = ()
    single_file: bool = False
    weights: str = "fp32"
    math: float = 0.0
    tiles: tuple[tuple[str, tuple[int, ...]], ...] = ()
    halves: tuple[str, ...] = ()
    narrow: tuple[tuple[str, str], ...] = ()
    widened: bool = False
    patches: Patches | None = None
    shapes: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    dims: tuple[tuple[str, DimSize], ...] = ()
    values: tuple[tuple[str, float | tuple[float, ...]], ...] = ()
    signature: str | None = None
    weights_file: str | None = None
    example_inputs: Any = field(default=None, compare=False)
    dynamic_shapes: Any = field(default=None, compare=False)
    name: str | None = None
    max_constant_bytes: int | None = None
    weights_section: str | None = None
    weights_array: int | None = None
    weights_address: int | None = None
    max_flash: int | None = None
    max_ram: int | None = None
    max_stack: int | None = None
    tuning: Tuning | None = None
    host: Target | None = None
    device_for: tuple[tuple[str, str], ...] = ()

    @property
    def alone(self) -> Options:
        """The same for one target, in the files of a bundle of one library."""
        return replace(self, variants=(), alternatives=(), single_file=False)

    @property
    def exact(self) -> Options:
        """The same without anything that trades accuracy."""
        return replace(self, weights="fp32", widened=False, math=0.0, tiles=(), halves=(), narrow=())

    @property
    def stored_weights(self) -> str:
        """The type that kernels read weights in; "" as they are."""
        return "" if self.widened else WEIGHTS[self.weights]
