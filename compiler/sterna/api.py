"""The Python interface: compile a model, load a bundle.

bundle = sterna.compile("mobilenet.onnx", target="host")
outputs = bundle.run({"image": x})
"""

from __future__ import annotations

import hashlib
import inspect
import math as math_
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Union

from sterna.budgets import within_budgets
from sterna.bundle.writer import write_bundle
from sterna.codegen.generators import GENERATORS
from sterna.collector import collecting_seldom
from sterna.driver import Compiled, Observe, Options, Origin, Progress, reading
from sterna.errors import Diagnostic, SternaError, error
from sterna.fast import decide
from sterna.frontends.formats import (
    Model,
    accepted,
    format_of,
    instead_of_bytes,
    instead_of_stream,
    read_model,
    reads_object,
)
from sterna.frontends.source import Source
from sterna.ir.limits import memory_for
from sterna.options import WEIGHTS, math_bound
from sterna.records import default_place
from sterna.runtime.here import why_not_here
from sterna.scratch import temporary_directory
from sterna.targets.description import beside, load_target
from sterna.targets.memories import pools as memories_of
from sterna.targets.target import Flash, Target
from sterna.timing import timed
from sterna.toolchain.processor import check_processor
from sterna.tuned import best_of
from sterna_runtime import Bundle, load
from sterna_runtime.abi import MAX_THREADS, aligned
from sterna_runtime.advice import Advice, Compile, Option
from sterna_runtime.arguments import Arguments, Dims, Shapes
from sterna_runtime.names import model_name

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: A target by its name or the path of its .toml file, or the description itself.
TargetName = Union[str, "os.PathLike[str]", Target]

F = TypeVar("F", bound=Callable[..., Any])


_LAST_ADDRESS = (1 << 32) - 1
#: A section of a program. Start-up code zeroes `.bss` and skips `.noinit`: weights would be lost there.
_SECTION = re.compile(r"(?!\.(bss|noinit)\b)[\w.]{1,64}", re.ASCII)


class Settings(TypedDict, total=False):
    """Further arguments of `compile`; what they mean, and what they are without being given, `options_of` says."""

    compiler: str
    weights: str
    math: str
    values: Mapping[str, Any] | None
    signature: str | None
    weights_file: str | os.PathLike[str] | None
    example_inputs: Any
    dynamic_shapes: Any
    name: str | None
    debug: bool
    tuning: bool
    max_constant_bytes: int | None
    host: TargetName | None
    device_for: Mapping[str, str] | None


class BundleSettings(Settings, total=False):
    """Further arguments of what does not load the bundle."""

    all_variants: bool
    single_file: bool
    pools: Mapping[str, int] | None
    weights_section: str | None
    weights_array: int | None
    weights_address: int | None
    weights_speed: float | None
    weights_dma: bool
    max_flash: int | None
    max_ram: int | None
    max_stack: int | None


def _shows(settings: type) -> Callable[[F], F]:
    """Lets `help`, editors and the documentation see the settings of a function one by one."""

    def show(function: F) -> F:
        own = inspect.signature(function)
        given = inspect.signature(options_of).parameters
        further = [given[name] for name in (*Settings.__annotations__, *settings.__annotations__) if name in given]
        named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*named, *dict.fromkeys(further)])  # type: ignore[attr-defined]
        return function

    return show


def options_of(
    target: TargetName = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    compiler: str = "zig",
    weights: str = "fp32",
    math: str = "exact",
    values: Mapping[str, Any] | None = None,
    signature: str | None = None,
    weights_file: str | os.PathLike[str] | None = None,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    name: str | None = None,
    debug: bool = False,
    tuning: bool = True,
    max_constant_bytes: int | None = None,
    host: TargetName | None = None,
    device_for: Mapping[str, str] | None = None,
    all_variants: bool = False,
    single_file: bool = False,
    pools: Mapping[str, int] | None = None,
    weights_section: str | None = None,
    weights_array: int | None = None,
    weights_address: int | None = None,
    weights_speed: float | None = None,
    weights_dma: bool = False,
    max_flash: int | None = None,
    max_ram: int | None = None,
    max_stack: int | None = None,
    arguments: Arguments | None = None,
) -> Options:
    """The options of a compilation, of what a user asks for. The arguments are those of `compile` and `compile_to`.

    Args:
        arguments: others, in which mistakes may have been found already.

    Raises:
        SternaError: E0203, all arguments that are not what they must be; E0201 or E0202, there is no such target.
    """
    arguments = arguments or Arguments("E0203")
    arguments.target(target, Target)
    shapes, dims = arguments.shapes(shapes), arguments.dims(dims)
    arguments.choice("generator", generator, GENERATORS)
    threads = arguments.integer("threads", threads, 1, MAX_THREADS)
    arguments.text("compiler", compiler)
    arguments.choice("weights", weights, WEIGHTS)
    bound = _math(arguments, math)
    values = arguments.values(values)
    arguments.text("signature", signature, optional=True)
    if not isinstance(weights_file, (str, os.PathLike)):
        arguments.text("weights_file", weights_file, optional=True)
    if not isinstance(name, str):
        arguments.text("name", name, optional=True)
    elif model_name(name) != name:
        wanted = "lower-case letters, digits and _ are needed, and no word of C"
        arguments.wrong("name", name, wanted, Option("name", model_name(name)))
    debug, tuning = arguments.flag("debug", debug), arguments.flag("tuning", tuning)
    all_variants = arguments.flag("all_variants", all_variants)
    single_file = arguments.flag("single_file", single_file)
    if max_constant_bytes is not None:
        max_constant_bytes = arguments.integer("max_constant_bytes", max_constant_bytes, 1)
    if host is not None:
        arguments.target(host, Target)
    places = _device_for(arguments, device_for)
    pools = arguments.sizes("pools", pools)
    if not isinstance(weights_section, str):
        arguments.text("weights_section", weights_section, optional=True)
    elif not _SECTION.fullmatch(weights_section):
        needs = "1 to 64 letters, digits, _ and . are needed, and a section that keeps what is written to flash"
        arguments.wrong("weights_section", weights_section, needs, Option("weights_section", ".xip"))
    if weights_array is not None:
        arguments.integer("weights_array", weights_array, 0)
    if weights_address is not None:
        arguments.integer("weights_address", weights_address, 0, _LAST_ADDRESS)
    weights_dma = arguments.flag("weights_dma", weights_dma)
    if weights_speed is not None and not _is_speed(weights_speed):
        arguments.wrong("weights_speed", weights_speed, "bytes in a cycle of the core are needed, more than 0")
    budgets = {"max_flash": max_flash, "max_ram": max_ram, "max_stack": max_stack}
    for key, most in budgets.items():
        if most is not None:
            arguments.integer(key, most, 1)
    arguments.done()
    machine = target if isinstance(target, Target) else load_target(os.fspath(target))
    check_processor(machine)
    if all_variants and not machine.variants:
        raise error("E0203", f"the target {machine.name} has no variants", fix=Option("target", "browser"))
    placed = {"weights_section": weights_section, "weights_array": weights_array, "weights_address": weights_address}
    read = {"weights_speed": weights_speed, "weights_dma": weights_dma or None}
    firmware = {**budgets, "pools": pools or None, **placed, **read}
    if not machine.static and (asked := [key for key, given in firmware.items() if given is not None]):
        title = f"the target {machine.name} is no firmware, whose memories and sections are chosen"
        raise error("E0203", title, fix=Advice("leave out ", Option(asked[0])))
    if weights_address is not None and weights_address % machine.alignment:
        needs = f"a multiple of {machine.alignment} is needed"
        fix = Option("weights_address", f"{aligned(weights_address, machine.alignment):#x}")
        raise error("E0203", f"weights_address is {weights_address:#x}; {needs}", fix=Advice(fix))
    if pools:
        named = memories_of(pools, machine.alignment)
        machine = replace(machine, memories=(*(m for m in machine.memories if not m.holds_tensors), *named))
    if weights_dma and weights_speed is None and machine.flash is None:
        title = "weights_dma says that weights are fetched while the core computes, which pays where they are slow"
        raise error("E0203", title, fix=Advice(Option("weights_speed", 0.25), " says how slow, in bytes per cycle"))
    if weights_speed is not None or weights_dma:
        known = machine.flash or Flash(1.0)
        speed = known.bytes_per_cycle if weights_speed is None else float(weights_speed)
        machine = replace(machine, flash=replace(known, bytes_per_cycle=speed, dma=weights_dma or known.dma))
    beside = _host_of(machine, host, places)
    variants = variants_of(machine) if all_variants else ()
    return Options(
        machine, generator, compiler, threads, debug,
        variants=() if machine.own_graphs else variants,
        alternatives=variants if machine.own_graphs else (),
        single_file=single_file,
        weights=weights,
        math=bound,
        shapes=tuple((name, None if sizes is None else tuple(sizes)) for name, sizes in (shapes or {}).items()),
        dims=tuple((dims or {}).items()),
        values=tuple(values.items()),
        signature=signature,
        weights_file=None if weights_file is None else os.fspath(weights_file),
        example_inputs=example_inputs,
        dynamic_shapes=dynamic_shapes,
        name=name,
        max_constant_bytes=max_constant_bytes,
        weights_section=weights_section,
        weights_array=weights_array,
        weights_address=weights_address,
        max_flash=max_flash,
        max_ram=max_ram,
        max_stack=max_stack,
        tuning=best_of(default_place(), machine) if tuning else None,
        host=beside,
        device_for=places,
    )  # fmt: skip


def _device_for(arguments: Arguments, given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The argument `device_for`; what is wrong with it goes into the arguments."""
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(isinstance(x, str) for pair in given.items() for x in pair):
        fix = Option("device_for", {"softmax": "cpu"})
        arguments.wrong("device_for", given, 'a mapping of names to "cpu" is needed', fix)
        return ()
    return tuple(given.items())


def _is_speed(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math_.isfinite(value) and value > 0


def _host_of(machine: Target, host: TargetName | None, places: Sequence[tuple[str, str]]) -> Target | None:
    """What kernels on the CPU are compiled for, beside the device of a target.

    Raises:
        SternaError: E0203, the target has no device, or the other has no library.
    """
    if machine.device is None:
        if host is not None or places:
            title = f"the target {machine.name} has no device beside the CPU"
            fix = Advice("leave out ", Option("host" if host is not None else "device_for"))
            raise error("E0203", title, fix=fix)
        return None
    own = beside(machine.device)
    wanted = own if host is None else host if isinstance(host, Target) else load_target(os.fspath(host))
    check_processor(wanted)
    fits = wanted.library == own.library if machine.device.host else not wanted.is_wasm
    if not wanted.library or wanted.static or not fits or wanted.device is not None:
        title = f"the target {wanted.name} gives no library that runs beside the device of {machine.name}"
        raise error("E0203", title, fix=Option("host", machine.device.host or "arm64"))
    return wanted


def variants_of(target: Target) -> tuple[Target, ...]:
    """Those of a target, for its system whatever theirs is. One that no machine would choose is refused: of another
    processor, or without a library."""
    variants = tuple(load_target(name) for name in target.variants)
    machine = target.llvm_triple.partition("-")[0]
    strange = [v for v in variants if not v.library or v.static or v.llvm_triple.partition("-")[0] != machine]
    titles = [f"{v.name} is no variant of {target.name}: it has no library for {machine}" for v in strange]
    if titles:
        where = (target.file or target.name,)
        raise SternaError(Diagnostic("E0202", title, where, "leave it out of variants") for title in titles)
    system = {key: getattr(target, key) for key in ("triple", "llvm_triple", "library")}
    return tuple(replace(variant, **system) for variant in variants)


@_shows(Settings)
def compile(
    model: Model,
    target: TargetName = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    output: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Bundle:
    """Compiles a model for this machine and loads it.

    Args:
        model: path of a model file of any format that is read, or a loaded ONNX model.
        target: name of a target that this machine can run, path of a .toml file, or a `Target`. For other machines use
            `compile_to`.
        shapes: input name -> sizes, where the model leaves them open. Tensors of a sequence `x` are `x[0]`, `x[1]`...;
            None stands for a sequence or an optional that holds nothing.
        dims: dimension name -> its size, or (least, greatest) of one that stays open until the model runs; of one that
            is a multiple of some number, (least, greatest, number).
        generator: "c" (through a C compiler) or "llvm" (in this process).
        threads: how many threads it will run on; a cost hint and what the returned bundle is loaded with, never a
            limit of the bundle.
        output: a directory to keep the bundle in; without one it lives as long as the returned object.
        compiler: for the C generator: "zig", "clang", "gcc" or a path.
        weights: "fp32", as they are, or "fp16" or "bf16": rounded to 16 bits and widened where they are read.
        math: "exact", as the model says, or "fast" or "fast=BOUND": what is faster otherwise, as long as no output
            differs by more than the bound (1e-3), relative to its largest magnitude; that is measured while compiling.
        values: input name -> a number, or a row of numbers, that the input always has: it is no input of the bundle
            then, and sizes and loops may depend on it (TensorFlow).
        signature: which of the model's signatures to compile, where its format (TensorFlow Lite) has some, with its
            names of inputs and outputs; None: the first graph, with the tensors' own names.
        weights_file: where the weights of a model in two files are (Caffe, DarkNet, Keras, MXNet); None: beside it.
        example_inputs: what a torch.nn.Module is exported with: a tensor, a sequence of arguments, or a mapping of
            keyword arguments; dynamic_shapes: its open dimensions, as torch.export.export takes them.
        name: of the model: the symbols of its library and of its C begin with it; None: its file's. Programs that hold
            two models of firmware give them different names.
        debug: every tensor between kernels can be read after a run, at the price of memory.
        tuning: kernels are compiled as `tune` has found them to be faster, where it has; False: as the rules say.
        host: for a target with a device, what kernels that stay on the CPU are compiled for; None: this machine, and of
            webgpu WebAssembly.
        device_for: for such a target, names of nodes or kernels (* stands for any text) -> "cpu", which is to run them.
        max_constant_bytes: what constants that are computed may take while the model is compiled, 1 GiB unless it is
            said otherwise; a model that asks for more is refused.

    Returns:
        The loaded bundle.

    Raises:
        SternaError: everything that is wrong, at once.
    """
    arguments = _arguments(model)
    if output is not None:
        arguments.path("output", output)
    options = options_of(target, shapes, dims, generator, threads, **settings, arguments=arguments)
    if (reason := why_not_here(options.host or options.target)) is not None:
        raise _elsewhere(model, options.target, target, reason, output)
    temporary = None
    if output is None:
        temporary = temporary_directory("bundle")
        output = Path(temporary.name) / "bundle"
    bundle = load(write_bundle(compile_with(model, options), output), options.threads)
    return bundle if temporary is None else bundle.keep(temporary)


@_shows(BundleSettings)
def compile_to(
    output: str | os.PathLike[str],
    model: Model,
    target: TargetName = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    observe: Observe | None = None,
    progress: Progress | None = None,
    **settings: Unpack[BundleSettings],
) -> Path:
    """Compiles a model for any target and writes the bundle; arguments as for `compile`.

    Args:
        all_variants: the bundle holds the kernel libraries of all variants that the target names; the runtime picks.
        single_file: a bundle of one file, with graph and weights around the kernel library (WebAssembly only).
        pools: firmware's memories, bytes by name, the fastest first: what is touched most lies in the first that has
            room for it, and the program gives a block for each.
        weights_section: of the program, where firmware's weights are put, as flash that is read in place.
        weights_array: up to how many bytes they are an array in params.c; more are params.bin, which params.S takes
            into the program. None: 1 MiB, and all where the target names no processor.
        weights_address: at which they lie: params.ld tells the linker. With a section the program has them and puts
            them there; without, params.bin is written to that place apart.
        weights_speed: bytes of them that loads get in a cycle of the core, where that is less than of other memory:
            kernels then fetch panels of weights into fast memory, where that pays (`passes.stream_weights`).
        weights_dma: such fetches go on while the core computes, as the program has DMA for them (`sterna_fetch_start`).
        max_flash, max_ram, max_stack: bytes that firmware may take: of code and weights, of arena and stack, of stack.
            Where a model takes more, its code becomes smaller and its leading layers are computed in patches, no more
            than that needs (`Compiled.fitted`); if that is not enough, it is refused (E0207).
        observe: called with (stage, text) after every stage of the compiler.
        progress: called with a few words at the start of every longer step.

    Returns:
        The bundle's directory.
    """
    arguments = _arguments(model, observe, progress)
    arguments.path("output", output)
    options = options_of(target, shapes, dims, generator, threads, **settings, arguments=arguments)
    return write_bundle(compile_with(model, options, observe, progress), output)


@_shows(BundleSettings)
def compile_model(
    model: Model,
    target: TargetName = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    observe: Observe | None = None,
    progress: Progress | None = None,
    **settings: Unpack[BundleSettings],
) -> Compiled:
    """Compiles a model without writing anything; arguments as for `compile_to`."""
    arguments = _arguments(model, observe, progress)
    options = options_of(target, shapes, dims, generator, threads, **settings, arguments=arguments)
    return compile_with(model, options, observe, progress)


def compile_with(
    model: Model, options: Options, observe: Observe | None = None, progress: Progress | None = None
) -> Compiled:
    """The same, of options that have been made."""
    if progress is not None:
        progress("reading the model")
    with memory_for(options.max_constant_bytes), collecting_seldom():
        source = Source.of(model)
        with timed("import"):
            graph = read_model(source, reading(options))
        own = options.name or model_name(graph.name if source.path is None else str(source.path))
        decided = decide(graph, own, options, progress) if options.math else None
        compiled = within_budgets(graph, own, options if decided is None else decided.options, observe, progress)
    return replace(compiled, origin=_origin(source), math=None if decided is None else decided.measured)


def _math(arguments: Arguments, value: object) -> float:
    """The bound that `math` stands for."""
    bound = math_bound(value) if isinstance(value, str) else None
    if bound is None:
        needs = '"exact", "fast" or "fast=BOUND" is needed, with a bound between 0 and 1'
        arguments.wrong("math", value, needs, 'math="fast=1e-3"')
    return bound or 0.0


def _arguments(model: Model, observe: Observe | None = None, progress: Progress | None = None) -> Arguments:
    """The arguments that are no options, checked."""
    arguments = Arguments("E0203")
    arguments.model(model, reads_object, accepted, instead_of_bytes, instead_of_stream)
    arguments.function("observe", observe)
    arguments.function("progress", progress)
    return arguments


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
    model: Model, machine: Target, target: TargetName, reason: str, output: str | os.PathLike[str] | None
) -> SternaError:
    """The refusal to compile for another machine what is to be loaded here."""
    path = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
    place = f"{Path(path or 'model').stem}-{machine.name}" if output is None else os.fspath(output)
    option = Option("target", machine.name if isinstance(target, Target) else os.fspath(target))
    return error(
        "E0507",
        f"a bundle for the target {machine.name} cannot be loaded here: {reason}",
        "sterna.compile loads what it has compiled; sterna.compile_to only writes it",
        fix=Compile(path or "MODEL", place, (option,)),
    )
