"""The Python interface: compile a model, load a bundle.

bundle = sterna.compile("mobilenet.onnx", target="host")
outputs = bundle.run({"image": x})
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Union

from sterna.advice import Compile, Option
from sterna.arguments import MOST_THREADS, Arguments, Dims, Shapes
from sterna.bundle.writer import write_bundle
from sterna.codegen.generators import GENERATORS
from sterna.driver import Compiled, Observe, Options, Origin, Progress, compile_graph
from sterna.errors import SternaError, error
from sterna.frontends.formats import (
    Model,
    accepted,
    format_of,
    instead_of_bytes,
    instead_of_stream,
    read_model,
    reads_object,
)
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.source import Source
from sterna.ir.limits import memory_for
from sterna.names import model_name
from sterna.options import WEIGHTS
from sterna.runtime import Bundle, load
from sterna.runtime.here import why_not_here
from sterna.targets.target import Target, load_target
from sterna.toolchain.processor import check_processor

#: A target by its name or the path of its .toml file, or the description itself.
TargetName = Union[str, "os.PathLike[str]", Target]


def compile(
    model: Model,
    target: TargetName = "host",
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
    max_constant_bytes: int | None = None,
) -> Bundle:
    """Compiles a model for this machine and loads it.

    Args:
        model: path of a model file of any format that is read, or a loaded ONNX model.
        target: name of a target that this machine can run, path of a .toml file, or a `Target`. For other machines use
            `compile_to`.
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
        signature: which of the model's signatures to compile, where its format (TensorFlow Lite) has some, with its
            names of inputs and outputs; None: the first graph, with the tensors' own names.
        debug: every tensor between kernels can be read after a run, at the price of memory.
        max_constant_bytes: what constants that are computed may take while the model is compiled, 1 GiB unless it is
            said otherwise; a model that asks for more is refused.

    Returns:
        The loaded bundle.

    Raises:
        SternaError: everything that is wrong, at once.
    """
    request = _request(
        model, target, shapes, dims, generator, threads, compiler=compiler, weights=weights, winograd=winograd,
        signature=signature, debug=debug, max_constant_bytes=max_constant_bytes, output=output,
        writes=output is not None,
    )  # fmt: skip
    if (reason := why_not_here(request.options.target)) is not None:
        raise _elsewhere(request, target, reason, output)
    temporary = None
    if output is None:
        temporary = tempfile.TemporaryDirectory(prefix="sterna-bundle-")
        output = Path(temporary.name) / "bundle"
    bundle = load(write_bundle(_compiled(request), output), request.options.threads)
    return bundle if temporary is None else bundle.keep(temporary)


def compile_to(
    output: str | os.PathLike[str],
    model: Model,
    target: TargetName = "host",
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
    max_constant_bytes: int | None = None,
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
    request = _request(
        model, target, shapes, dims, generator, threads, compiler=compiler, weights=weights, winograd=winograd,
        signature=signature, debug=debug, max_constant_bytes=max_constant_bytes, all_variants=all_variants,
        single_file=single_file, output=output,
        writes=True, observe=observe, progress=progress,
    )  # fmt: skip
    return write_bundle(_compiled(request, observe, progress), output)


def compile_model(
    model: Model,
    target: TargetName = "host",
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
    max_constant_bytes: int | None = None,
    all_variants: bool = False,
    single_file: bool = False,
    observe: Observe | None = None,
    progress: Progress | None = None,
) -> Compiled:
    """Compiles a model without writing anything; arguments as for `compile_to`."""
    request = _request(
        model, target, shapes, dims, generator, threads, compiler=compiler, weights=weights, winograd=winograd,
        signature=signature, debug=debug, max_constant_bytes=max_constant_bytes, all_variants=all_variants,
        single_file=single_file, observe=observe,
        progress=progress,
    )  # fmt: skip
    return _compiled(request, observe, progress)


@dataclass(frozen=True)
class _Request:
    """What to compile and how: arguments that have been checked."""

    model: Model
    shapes: Shapes | None
    dims: Dims | None
    signature: str | None
    options: Options
    max_constant_bytes: int | None


def _request(
    model: Model,
    target: TargetName,
    shapes: Shapes | None,
    dims: Dims | None,
    generator: str,
    threads: int,
    *,
    compiler: str,
    weights: str,
    winograd: bool,
    signature: str | None,
    debug: bool,
    max_constant_bytes: int | None,
    all_variants: bool = False,
    single_file: bool = False,
    output: str | os.PathLike[str] | None = None,
    writes: bool = False,
    observe: Observe | None = None,
    progress: Progress | None = None,
) -> _Request:
    """The arguments of all functions here, checked.

    Raises:
        SternaError: E0203, all arguments that are not what they must be; E0201 or E0202, there is no such target.
    """
    arguments = Arguments("E0203")
    arguments.model(model, reads_object, accepted, instead_of_bytes, instead_of_stream)
    arguments.target(target, Target)
    shapes, dims = arguments.shapes(shapes), arguments.dims(dims)
    arguments.choice("generator", generator, GENERATORS)
    threads = arguments.integer("threads", threads, 1, MOST_THREADS)
    if writes:
        arguments.path("output", output)
    arguments.text("compiler", compiler)
    arguments.choice("weights", weights, WEIGHTS)
    winograd = arguments.flag("winograd", winograd)
    arguments.text("signature", signature, optional=True)
    debug = arguments.flag("debug", debug)
    all_variants = arguments.flag("all_variants", all_variants)
    single_file = arguments.flag("single_file", single_file)
    if max_constant_bytes is not None:
        max_constant_bytes = arguments.integer("max_constant_bytes", max_constant_bytes, 1)
    arguments.function("observe", observe)
    arguments.function("progress", progress)
    arguments.done()
    machine = target if isinstance(target, Target) else load_target(os.fspath(target))
    check_processor(machine)
    if all_variants and not machine.variants:
        raise error("E0203", f"the target {machine.name} has no variants", fix=Option("target", "browser"))
    variants = tuple(load_target(v) for v in machine.variants) if all_variants else ()
    options = Options(machine, generator, compiler, threads, debug, variants, single_file, weights, winograd)
    return _Request(model, shapes, dims, signature, options, max_constant_bytes)


def _compiled(request: _Request, observe: Observe | None = None, progress: Progress | None = None) -> Compiled:
    """What a request asks for."""
    model, options = request.model, request.options
    if progress is not None:
        progress("reading the model")
    static, signature = options.target.static, request.signature
    with memory_for(request.max_constant_bytes):
        source = Source.of(model)
        graph = read_model(source, ReadOptions(request.shapes or {}, request.dims or {}, static, signature))
        name = model_name(graph.name if source.path is None else str(source.path))
        compiled = compile_graph(graph, name, options, observe, progress)
    return replace(compiled, origin=_origin(source))


def _origin(source: Source) -> Origin | None:
    """What a bundle says of the file that it was made from, or of the files of a folder, one after the other."""
    if source.path is None:
        return None
    digest = hashlib.sha256()
    for path in source.files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return Origin(format_of(source), digest.hexdigest())


def _elsewhere(
    request: _Request, target: TargetName, reason: str, output: str | os.PathLike[str] | None
) -> SternaError:
    """The refusal to compile for another machine what is to be loaded here."""
    machine = request.options.target
    path = os.fspath(request.model) if isinstance(request.model, (str, os.PathLike)) else None
    place = f"{Path(path or 'model').stem}-{machine.name}" if output is None else os.fspath(output)
    option = Option("target", machine.name if isinstance(target, Target) else os.fspath(target))
    return error(
        "E0507",
        f"a bundle for the target {machine.name} cannot be loaded here: {reason}",
        "sterna.compile loads what it has compiled; sterna.compile_to only writes it",
        fix=Compile(path or "MODEL", place, (option,)),
    )
