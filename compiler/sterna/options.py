"""What a model is compiled for, and how: one record, from the command line and the Python interface to the bundle."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.targets.target import Target

#: What weights may be stored as, and the type of each.
WEIGHTS = {"fp32": "", "fp16": "float16", "bf16": "bfloat16"}


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
        single_file: the bundle is one file, graph, kernels and weights.
        winograd: convolutions of 3 x 3 in 16 products where the definition has 36, rounded otherwise.
        weights: "fp32", as they are, or "fp16" or "bf16": the weights of matrix products, convolutions and recurrences
            are rounded to 16 bits, and widened where they are read; everything is computed in float32 as before.
        widened: those weights are rounded, and stored in float32 all the same: what `weights` is compared with.
        shapes: sizes of inputs that the model leaves open, by name; None for a sequence or optional of nothing.
        dims: the size, or (least, greatest), of named dimensions.
        signature: which of the model's signatures; None: its first graph.
        max_constant_bytes: what constants may take while the model is compiled; None: as much as usual.
    """

    target: Target
    generator: str = "c"
    compiler: str = "zig"
    threads: int = 1
    debug: bool = False
    variants: tuple[Target, ...] = ()
    single_file: bool = False
    weights: str = "fp32"
    winograd: bool = False
    widened: bool = False
    shapes: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    dims: tuple[tuple[str, int | tuple[int, int]], ...] = ()
    signature: str | None = None
    max_constant_bytes: int | None = None

    @property
    def stored_weights(self) -> str:
        """The type that kernels read weights in; "" as they are."""
        return "" if self.widened else WEIGHTS[self.weights]
