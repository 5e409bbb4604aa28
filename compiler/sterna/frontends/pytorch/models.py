"""What a user gives as a PyTorch model, as an exported program and its tensors: a file, a program, a module."""

from __future__ import annotations

from dataclasses import replace

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.archive import Archive, is_program, is_torchscript
from sterna.frontends.pytorch.model import Model
from sterna.frontends.source import Source, looks_like
from sterna.ir.graph import Graph, replace_values


def load(source: Source, options: ReadOptions) -> Model:
    """The exported program that a source stands for; a module is exported first.

    Raises:
        SternaError: E0004, PyTorch is needed and not installed; E0101 to E0103, E0106, E0111, E0113.
    """
    given = options.example_inputs is not None or options.dynamic_shapes is not None
    if source.path is None:
        from sterna.frontends.pytorch.exporting import of_object  # noqa: PLC0415 (it imports PyTorch)

        return of_object(source.model, options)
    if is_torchscript(source.names) and not is_program(source.names):
        from sterna.frontends.pytorch.exporting import of_torchscript  # noqa: PLC0415 (as above)

        return of_torchscript(source, options)
    if given:
        title = "example_inputs and dynamic_shapes go with a module, not with a program that is exported already"
        raise SternaError([Diagnostic("E0106", title, (), "leave them out")])
    if not is_program(source.names):
        fix = "torch.export.save(torch.export.export(model.eval(), inputs), path) writes one"
        raise error("E0101", f"{source.name} is no exported program of PyTorch", looks_like(source), fix=fix)
    archive = Archive(source.file(), options.signature)
    return Model(archive.program(), archive.tensors(), source.file().stem, source.name, tuple(sorted(archive.models)))


def graph(source: Source, options: ReadOptions) -> Graph:
    """A source as a graph of core operators."""
    from sterna.frontends.pytorch.reader import graph_of  # noqa: PLC0415 (with all translators)

    model = load(source, options)
    if not model.input_names:
        return graph_of(model.program, model.tensors, model.where, options.sizes, options.dims, model.name)
    # It was exported for the sizes that were given, by the names that it has here.
    made = graph_of(model.program, model.tensors, model.where, {}, options.dims, model.name)
    renamed = {value: replace(value, name=name) for value, name in zip(made.arguments, model.input_names, strict=False)}
    inputs = tuple(renamed.get(value, value) for value in made.inputs)
    return replace(replace_values(made, renamed), inputs=inputs)
