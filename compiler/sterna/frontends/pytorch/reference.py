"""Exported programs run by PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.archive import is_torchscript
from sterna.frontends.pytorch.exporting import as_array, exported, torch_or_error
from sterna.frontends.pytorch.inputs import fed
from sterna.frontends.pytorch.models import load
from sterna.frontends.runtimes import cannot_run
from sterna.frontends.source import Source
from sterna.ir.graph import Array


def run_torch(source: Source, options: ReadOptions, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The program's outputs, by the names that the graph gives them.

    Raises:
        SternaError: E0004 PyTorch is not installed, E0009 it cannot run the model.
    """
    torch = torch_or_error("the model")
    model = load(source, options)
    try:
        program = _program(torch, source, options)
        names = model.input_names or tuple(name for _, name in fed(model.program))
        flat = [torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in names]
        module = program if is_torchscript(source.names) else program.module()
        with torch.no_grad():
            if hasattr(program, "call_spec"):
                args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
                made = module(*args, **kwargs)
            else:
                made = module(*flat)
        leaves = [each for each in torch.utils._pytree.tree_leaves(made) if isinstance(each, torch.Tensor)]
    except Exception as problem:  # its errors have no common type
        raise cannot_run("torch", problem) from None
    return dict(zip(_names(source, options), map(as_array, leaves), strict=False))


def _program(torch: Any, source: Source, options: ReadOptions) -> Any:
    if source.path is None:
        if isinstance(source.model, torch.export.ExportedProgram):
            return source.model
        return exported(torch, source.model, options.example_inputs, options.dynamic_shapes)
    if is_torchscript(source.names):
        return torch.jit.load(str(source.file()), map_location="cpu").eval()
    return torch.export.load(str(source.file()))


def _names(source: Source, options: ReadOptions) -> tuple[str, ...]:
    from sterna.frontends.pytorch.models import graph  # noqa: PLC0415 (with all translators)

    return graph(source, options).result_names
