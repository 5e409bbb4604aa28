"""What a package for Android has of a model for a device: a second bundle beside that for the CPU; a phone opens one.

Its kernels are text that the phone's driver compiles; what stays on the CPU is compiled for every ABI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sterna.api import compile_with
from sterna.bundle.graph_json import graph_json
from sterna.bundle.writer import strings_files
from sterna.compiled import Compiled, Library
from sterna.errors import error
from sterna.options import Options
from sterna.package import wrappers
from sterna.package.abis import Abi, abis
from sterna.passes.kernels import CPU
from sterna.passes.stages import Planned
from sterna_runtime.advice import Advice, Option

#: Kinds of devices that phones have -> the library of Android's that an app asks for in its manifest.
SYSTEM_LIBRARIES = {"opencl": "libOpenCL.so"}


@dataclass(frozen=True)
class OnDevice:
    """A model for devices of a kind.

    Args:
        assets: files by name: kernels, and a graph for each ABI.
        libraries: of what stays on the CPU: ABI, name, contents.
    """

    kind: str
    params: bytes = field(repr=False)
    assets: Mapping[str, bytes] = field(repr=False)
    libraries: tuple[tuple[str, str, bytes], ...] = field(repr=False)


def driver_name(kind: str) -> str:
    """The artifact with what drives devices of a kind."""
    return f"sterna-{kind}-android"


def check_device(options: Options | None) -> None:
    """Raises E0507: no phone has devices of this kind."""
    if options is None:
        return
    device = options.target.device
    if device is None or device.kind not in SYSTEM_LIBRARIES:
        kinds = f"devices of {device.kind}" if device is not None else f"a target {options.target.name} beside the CPU"
        names = Advice.join(", ", (Option("target", name) for name in ("opencl", "opencl-adreno", "opencl-mali")))
        fix = Advice(names, " for the GPU; without it the package is for the CPU of every phone")
        raise error("E0507", f"phones with Android have no {kinds}", fix=fix)


def compile_device(model: str | os.PathLike[str], options: Options) -> OnDevice:
    """The model for the device of a target.

    Raises:
        SternaError: what compiling the model raises; E0507 nothing of it runs on the device.
    """
    assert options.target.device is not None
    kind, name = options.target.device.kind, wrappers.name_of(model, options, None)
    made = [Abi(abi.name, replace(abi.target, library=f"lib{name}.{kind}.so")) for abi in abis()]
    first, *rest = (abi.target for abi in made)
    compiled = compile_with(model, replace(options, host=first, variants=tuple(rest)))
    if not compiled.module:
        fix = Advice("leave out ", Option("target"), ": the package is then for the CPU")
        raise error("E0507", "nothing of the model runs on a GPU", os.fspath(model), fix=fix)
    module = {options.target.device.module: compiled.module.encode()}
    graphs = {f"graph-{abi.name}.json": _graph(compiled, abi, n, module) for n, abi in enumerate(made)}
    libraries = zip(made, compiled.libraries, strict=False)  # none, where nothing is on the CPU
    built = tuple((abi.name, abi.target.library, library.data) for abi, library in libraries)
    return OnDevice(kind, compiled.params, {**module, **graphs}, built)


def _graph(compiled: Compiled, abi: Abi, number: int, module: Mapping[str, bytes]) -> bytes:
    """graph.json for an ABI."""
    files = {"params.bin": compiled.params, **module, **strings_files(compiled.graph)}
    options = replace(compiled.options.alone, host=abi.target)
    if not compiled.libraries:  # then it says the pointers of the target, which are those of no processor
        target = replace(options.target, pointer_bits=abi.target.pointer_bits)
        return graph_json(replace(compiled, options=replace(options, target=target)), files)
    library = replace(compiled.libraries[number], name=abi.target.library)
    kernels = tuple(_kernels(compiled, library))
    alone = replace(compiled, options=options, kernels=kernels, libraries=(library,))
    return graph_json(alone, {**files, library.name: library.data})


def _kernels(compiled: Compiled, library: Library) -> Iterator[Planned]:
    """All kernels, those of the CPU as a library has them."""
    own = iter(library.kernels)
    for kernel in compiled.kernels:
        yield next(own) if kernel.place == CPU else kernel
