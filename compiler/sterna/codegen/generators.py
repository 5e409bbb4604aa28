"""The registry of code generators: what the driver, the command line and the documentation know of them.

A generator is a module of this package, imported when it is first used. `GENERATORS` make object files for the linker:
`makes(target)` says whether for that target, a `Builder` takes kernels one by one and makes them. `SOURCES` write the
source that a bundle keeps, in its target's dialect: `source(kernels, target)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from sterna.errors import error
from sterna_runtime.advice import Advice, Fix, Option

if TYPE_CHECKING:
    from types import TracebackType

    from sterna.codegen.dialect import Dialect
    from sterna.codegen.source import Printed
    from sterna.loops.program import Function
    from sterna.loops.wide import Widths
    from sterna.targets.target import Target


@dataclass(frozen=True)
class KernelSet:
    """The distinct kernels of a model, and for each the lines to stand above it: nodes of the source model.

    Args:
        exchanging: further ones, for devices whose subgroups have so many threads at least, in texts of which devices
            without take no notice.
    """

    model: str
    functions: Sequence[Function]
    comments: Sequence[Sequence[str]]
    exchanging: Sequence[tuple[int, Function]] = ()


class Builder(Protocol):
    """Kernels on their way into object files; it begins with the first ones before the last ones are there."""

    #: The text of the kernels so far, if it is that of the target's dialect.
    printed: Sequence[Printed]

    def __init__(self, model: str, target: Target, compiler: str, kernels: int) -> None: ...

    def __enter__(self) -> Builder: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def add(self, function: Function, comments: Sequence[str]) -> None:
        """The next kernel."""

    def objects(self) -> list[bytes]:
        """The object files of all kernels."""


class GeneratorModule(Protocol):
    """What the module of a generator defines."""

    Builder: type[Builder]

    def makes(self, target: Target) -> bool: ...


class SourceModule(Protocol):
    """What a module that writes source defines."""

    def source(self, kernels: KernelSet, target: Target, printed: Sequence[Printed]) -> str: ...


class ModuleWriter(Protocol):
    """What a module that writes the kernels of a device defines."""

    def source(self, kernels: KernelSet, target: Target) -> str: ...

    def widths(self, target: Target) -> Widths: ...


class DialectsModule(Protocol):
    """The package of languages that kernels are printed in."""

    def dialect(self, target: Target) -> Dialect: ...


@dataclass(frozen=True)
class Generator:
    """A code generator.

    Args:
        name: by which it is asked for; title: its name in prose; about: what it does, in one line.
        module: where it is implemented.
    """

    name: str
    title: str
    about: str
    module: str

    def load(self) -> GeneratorModule:
        """The module, imported."""
        return cast(GeneratorModule, import_module(self.module))


GENERATORS: dict[str, Generator] = {
    each.name: each
    for each in (
        Generator("c", "C", "writes C and calls a compiler", "sterna.codegen.c"),
        Generator("llvm", "LLVM", "generates code in this process", "sterna.codegen.llvm"),
    )
}
DEFAULT = "c"
#: The modules that write a target's source, by its dialect.
SOURCES = {
    "plain": "sterna.codegen.c",
    "packed": "sterna.codegen.c",
    "vector": "sterna.codegen.c",
    "opencl": "sterna.codegen.devices",
    "cuda": "sterna.codegen.devices",
    "metal": "sterna.codegen.devices",
    "wgsl": "sterna.codegen.wgsl",
}
#: Those that write a device's module in another language than the dialect, by what the file's name ends in.
MODULES = {"ptx": "sterna.codegen.ptx"}


def source(kernels: KernelSet, target: Target, printed: Sequence[Printed] = ()) -> str:
    """The kernels as one file of source, in the target's dialect.

    Args:
        printed: their text in that dialect, if they have been printed already.
    """
    return cast(SourceModule, import_module(SOURCES[target.dialect])).source(kernels, target, printed)


def module(kernels: KernelSet, target: Target) -> str:
    """The kernels of a target's device, as its driver takes them.

    Raises:
        SternaError: E0205, the language has no words for a kernel.
    """
    writer = _module_writer(target)
    return source(kernels, target) if writer is None else writer.source(kernels, target)


def widths(target: Target) -> Widths:
    """How wide the accesses of a thread are in the kernels of a target's device."""
    if (writer := _module_writer(target)) is not None:
        return writer.widths(target)
    return cast(DialectsModule, import_module("sterna.codegen.dialects")).dialect(target).widths


def _module_writer(target: Target) -> ModuleWriter | None:
    """What writes the kernels of its device in another language than the target's dialect."""
    found = None if target.device is None else MODULES.get(target.device.module.rpartition(".")[2])
    return None if found is None else cast(ModuleWriter, import_module(found))


def objects(kernels: KernelSet, target: Target, generator: str, compiler: str) -> list[bytes]:
    """The object files of kernels, by the generator of that name. Errors: as `generator_for`, and its own."""
    module = generator_for(generator, target)
    with module.Builder(kernels.model, target, compiler, len(kernels.functions)) as builder:
        for n, function in enumerate(kernels.functions):
            builder.add(function, kernels.comments[n] if kernels.comments else ())
        return builder.objects()


def check_generator(name: str) -> None:
    """Refuses a name that no generator has.

    Raises:
        SternaError: E0203.
    """
    if name not in GENERATORS:
        raise error("E0203", f'there is no generator "{name}"', fix=f"one of {', '.join(GENERATORS)}")


def generator_for(name: str, target: Target) -> GeneratorModule:
    """The generator of that name.

    Raises:
        SternaError: E0203, there is none, or it does not generate for that target.
    """
    check_generator(name)
    module = GENERATORS[name].load()
    if not module.makes(target):
        able = [g.name for g in GENERATORS.values() if g.load().makes(target)]
        fix: Fix = Advice(Option("generator", able[0])) if able else "name another target"
        raise error("E0203", f"the generator {name} does not generate for the target {target.name}", fix=fix)
    return module
