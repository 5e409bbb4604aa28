"""Modules and programs in Python, and TorchScript: exported by PyTorch, which must be installed for them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.archive import Archive
from sterna.frontends.pytorch.model import Model
from sterna.frontends.source import Source
from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna_runtime.advice import shapes as shapes_given


def torch_or_error(what: str) -> ModuleType:
    """PyTorch.

    Raises:
        SternaError: E0004, it is not installed.
    """
    try:
        import torch  # noqa: PLC0415 (optional)
    except ImportError:
        raise error(
            "E0004", f"{what} is exported by PyTorch, which is not installed",
            fix="pip install torch, or give a .pt2 file, as torch.export.save writes it",
        ) from None  # fmt: skip
    module: ModuleType = torch
    return module


def of_object(model: Any, options: ReadOptions) -> Model:
    """A module or an exported program.

    Raises:
        SternaError: E0106, example inputs are needed, or not taken; E0113, the module is in training, or PyTorch cannot
            export it.
    """
    torch = torch_or_error("a module")
    name = type(model).__name__
    if isinstance(model, torch.export.ExportedProgram):
        if options.example_inputs is not None or options.dynamic_shapes is not None:
            raise error("E0106", "example_inputs and dynamic_shapes go with a module, not with an exported program")
        return of_program(torch, model, "model")
    if model.training:
        title = f"the module {name} is in training"
        raise error(
            "E0113", title, "dropout and batch normalization compute other things there", fix="call model.eval()"
        )
    if options.example_inputs is None:
        title = f"the module {name} needs inputs to be exported with"
        raise error("E0106", title, fix="sterna.compile(module, example_inputs=(x,)), with tensors of the right shapes")
    return of_program(torch, exported(torch, model, options.example_inputs, options.dynamic_shapes), name)


def exported(torch: ModuleType, model: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    """The module as PyTorch exports it.

    Args:
        example_inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments; arrays count as tensors.
    """

    def tensors(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(tensors(item) for item in value)
        if isinstance(value, dict):
            return {key: tensors(item) for key, item in value.items()}
        return torch.from_numpy(value) if type(value).__module__ == "numpy" and hasattr(value, "shape") else value

    given = tensors(example_inputs)
    args, kwargs = (
        ((), given)
        if isinstance(given, dict)
        else (tuple(given), {})
        if isinstance(given, (list, tuple))
        else ((given,), {})
    )
    try:
        with torch.no_grad():
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as problem:  # its errors have no common type
        text = str(problem).strip().splitlines() or [type(problem).__name__]
        title = f"PyTorch cannot export the module {type(model).__name__}"
        raise error(
            "E0113", title, text[0][:400], fix="torch.export.export(module, example_inputs) says more"
        ) from None


def of_program(torch: ModuleType, program: Any, name: str) -> Model:
    """An exported program, by way of its file form."""
    with tempfile.TemporaryDirectory(prefix="sterna-") as folder:
        path = Path(folder) / "model.pt2"
        try:
            torch.export.save(program, path)
        except Exception as problem:  # its errors have no common type
            text = str(problem).strip().splitlines() or [type(problem).__name__]
            raise error("E0113", "PyTorch cannot save the exported program", text[0][:400]) from None
        try:
            archive = Archive(path)
            return Model(archive.program(), archive.tensors(), name, "the program")
        except SternaError as mistake:
            raise mistake.within("the program") from None


def of_torchscript(source: Source, options: ReadOptions) -> Model:
    """A TorchScript file: loaded and converted by PyTorch.

    Raises:
        SternaError: E0004, it is not installed; E0105, the shapes of the inputs are not given; E0113, it cannot convert
            the model.
    """
    torch = torch_or_error(f"{source.name}, a TorchScript model,")
    try:
        script = torch.jit.load(str(source.file()), map_location="cpu").eval()
    except Exception as problem:  # its errors have no common type
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise error("E0101", f"{source.name} cannot be loaded by PyTorch", lines[-1][:400]) from None
    names = [value.debugName().partition(".")[0] for value in list(script.graph.inputs())[1:]]
    inputs = options.example_inputs
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if inputs is None:
        missing = [name for name in names if name not in options.sizes]
        if missing:
            text = f"{source.name}: TorchScript does not say the shapes of its inputs: {', '.join(missing)}"
            raise error("E0105", text, fix=shapes_given(dict.fromkeys(missing, ("<size>", "..."))))
        inputs = tuple(torch.zeros(tuple(options.sizes[name])) for name in names)
    try:
        from torch._export.converter import TS2EPConverter  # noqa: PLC0415 (where this version of PyTorch has it)

        with torch.no_grad():
            converted = TS2EPConverter(script, tuple(inputs)).convert().module()
            program = torch.export.export(converted, tuple(inputs))
    except Exception as problem:  # its errors have no common type
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:400]
        fix = "export the Python module with torch.export.export and torch.export.save"
        raise error("E0113", f"PyTorch cannot convert {source.name} to an exported program", first, fix=fix) from None
    return replace(of_program(torch, program, source.file().stem), input_names=tuple(names))


def as_array(tensor: Any) -> Array:
    """A tensor as an array."""
    import torch  # noqa: PLC0415 (optional; whoever has a tensor has it)

    plain = tensor.detach().cpu().resolve_conj().contiguous()
    if plain.dtype == torch.bfloat16:
        bits: Array = plain.view(torch.int16).numpy()
        return bits.view(dtypes.to_numpy("bfloat16"))
    found: Array = plain.numpy()
    return found


__all__ = ["as_array", "exported", "of_object", "of_program", "of_torchscript", "torch_or_error"]
