"""PyTorch as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph


class PytorchFrontend(Frontend):
    """Exported programs: `.pt2` files, and modules and programs in Python."""

    name = "pytorch"
    title = "PyTorch"
    suffixes = (".pt2", ".pt")
    named_classes = True
    takes = frozenset(("signature", "example_inputs", "dynamic_shapes"))
    runtime = Runtime("torch", ("torch",))
    objects = "a torch.nn.Module"

    def detect(self, source: Source) -> Confidence:
        """By what lies in the archive, and by the class of an object."""
        from sterna.frontends.pytorch.archive import is_program, is_torchscript

        if source.path is None:
            return Confidence.CERTAIN if _is_torch(source.model) else Confidence.NO
        if source.is_folder:
            return Confidence.NO
        if is_program(source.names) or is_torchscript(source.names):
            return Confidence.CERTAIN
        return Confidence.NAMED if source.suffix == ".pt2" else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.pytorch.models import graph

        return graph(source, options)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.pytorch.description import describe

        return describe(source, options)

    def reference(self, source: Source, options: ReadOptions) -> Reference | None:
        from sterna.frontends.pytorch.reference import run_torch

        def run(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return run_torch(source, options, inputs)

        return Reference(run)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.pytorch.coverage import coverage

        return coverage()


def _is_torch(model: object) -> bool:
    """Whether an object is a module or an exported program; nothing is imported to find out."""
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(model).__mro__}
    return bool(names & {"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"})


FRONTENDS = (PytorchFrontend(),)
