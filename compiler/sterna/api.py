"""The Python interface: compile a model, load a bundle.

bundle = sterna.compile("mobilenet.onnx", target="host")
outputs = bundle.run({"image": x})
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.driver import Compiled, Observe, Options, Progress, compile_graph, model_name
from sterna.errors import error
from sterna.frontends.formats import Model, read_model
from sterna.runtime import Bundle, load
from sterna.targets.target import Target, load_target

Dims = Mapping[str, int | tuple[int, int]]
#: Sizes of inputs; None for a sequence or an optional that holds nothing.
Shapes = Mapping[str, Sequence[int] | None]


def compile(
    model: Model,
    target: str | Target = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    output: str | os.PathLike[str] | None = None,
    *,
    compiler: str = "zig",
    weights: str = "fp32",
    winograd: bool = False,
    signature: str | None = None,
    debug: bool = False,
) -> Bundle:
    """Compiles a model for this machine and loads it.

    Args:
        model: path of an ONNX or TensorFlow Lite file, or a loaded ONNX model.
        target: name of a target that this machine can run, or a `Target`. For others use `compile_to`.
        shapes: input name -> sizes, where the model leaves them open. Tensors of a sequence `x` are `x[0]`, `x[1]`...;
            None stands for a sequence or an optional that holds nothing.
        dims: dimension name -> its size, or (least, greatest) of one that stays open until the model runs.
        generator: "c" (through a C compiler) or "llvm" (in this process).
        threads: how many threads it will run on; a cost hint and what the returned bundle is loaded with, never a
            limit of the bundle.
        output: a directory to keep the bundle in; without one it lives as long as the returned object.
        compiler: for the C generator: "zig", "clang", "gcc" or a path.
        weights: "fp32", as they are, or "fp16" or "bf16": rounded to 16 bits and widened where they are read.
        winograd: convolutions of 3 x 3 in fewer products (F(2 x 2, 3 x 3)), which are rounded otherwise.
        signature: which of a TensorFlow Lite model's signatures to compile, with its names of inputs and outputs; None:
            the first graph, with the tensors' own names.
        debug: every tensor between kernels can be read after a run, at the price of memory.

    Returns:
        The loaded bundle.

    Raises:
        SternaError: everything that is wrong, at once.
    """
    temporary = None
    if output is None:
        temporary = tempfile.TemporaryDirectory(prefix="sterna-bundle-")
        output = Path(temporary.name) / "bundle"
    path = compile_to(
        output,
        model,
        target,
        shapes,
        dims,
        generator,
        threads,
        compiler=compiler,
        weights=weights,
        winograd=winograd,
        signature=signature,
        debug=debug,
    )
    bundle = load(path, threads)
    return bundle if temporary is None else bundle.keep(temporary)


def compile_to(
    output: str | os.PathLike[str],
    model: Model,
    target: str | Target = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    compiler: str = "zig",
    weights: str = "fp32",
    winograd: bool = False,
    signature: str | None = None,
    debug: bool = False,
    all_variants: bool = False,
    single_file: bool = False,
    observe: Observe | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compiles a model for any target and writes the bundle; arguments as for `compile`.

    Args:
        all_variants: the bundle holds the kernel libraries of all variants that the target names; the runtime picks.
        single_file: a bundle of one file, with graph and weights in the kernel library (WebAssembly only).
        observe: called with (stage, text) after every stage of the compiler.
        progress: called with a few words at the start of every longer step.

    Returns:
        The bundle's directory.
    """
    compiled = compile_model(
        model,
        target,
        shapes,
        dims,
        generator,
        threads,
        compiler=compiler,
        weights=weights,
        winograd=winograd,
        signature=signature,
        debug=debug,
        all_variants=all_variants,
        single_file=single_file,
        observe=observe,
        progress=progress,
    )
    return write_bundle(compiled, output)


def compile_model(
    model: Model,
    target: str | Target = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    compiler: str = "zig",
    weights: str = "fp32",
    winograd: bool = False,
    signature: str | None = None,
    debug: bool = False,
    all_variants: bool = False,
    single_file: bool = False,
    observe: Observe | None = None,
    progress: Progress | None = None,
) -> Compiled:
    """Compiles a model without writing anything; arguments as for `compile_to`."""
    if threads < 1:
        raise error("E0203", f"threads is {threads}", fix="a number of at least 1")
    machine = target if isinstance(target, Target) else load_target(target)
    if progress is not None:
        progress("reading the model")
    graph = read_model(model, shapes, dims, static=machine.static, signature=signature)
    name = model_name(os.fspath(model) if isinstance(model, (str, os.PathLike)) else graph.name)
    options = Options(
        machine, generator, compiler, threads, debug, single_file=single_file, weights=weights, winograd=winograd
    )
    if all_variants:
        if not machine.variants:
            raise error("E0203", f"the target {machine.name} has no variants", fix="--target browser")
        options = replace(options, variants=tuple(load_target(v) for v in machine.variants))
    return compile_graph(graph, name, options, observe, progress)
