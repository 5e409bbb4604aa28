"""Modules and programs in Python, and TorchScript: exported by PyTorch, which must be installed for them."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.archive import Archive
from sterna.frontends.pytorch.model import Model
from sterna.frontends.pytorch.support import PREDISPATCH
from sterna.frontends.source import Source
from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna.scratch import temporary_directory
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
    _check_arguments(model, args, kwargs)
    try:
        with torch.no_grad():
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as problem:  # its errors have no common type
        why, fix = _explained(str(problem) or type(problem).__name__)
        title = f"PyTorch cannot export the module {type(model).__name__}"
        raise error("E0113", title, why, fix=fix) from None


def _check_arguments(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses example inputs that are not the arguments of the module's `forward` (E0106)."""
    try:
        signature = inspect.signature(model.forward)
    except (AttributeError, TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as problem:
        title = f"example_inputs are not the arguments of the module {type(model).__name__}"
        fix = f"a tuple, or a mapping by name, of the arguments {signature}"[:400]
        raise error("E0106", title, str(problem), fix=fix) from None


#: What is in PyTorch's message -> the line that says why (None: its first), and how it is mended.
_CAUSES: tuple[tuple[str, str | None, str], ...] = (
    ("data-dependent expression", None,
     "choose between values by torch.where, between branches by torch.cond, and repeat by while_loop"),
    ("Constraints violated", "  - ",
     "leave that dimension out of dynamic_shapes, or give example_inputs in which it is 2 or more"),
    ("`dynamic_shapes`", None, 'dynamic_shapes as example_inputs are: ({0: torch.export.Dim("batch", max=16)},)'),
    ("dynamic_shapes to be", None, 'dynamic_shapes as example_inputs are: ({0: torch.export.Dim("batch", max=16)},)'),
    (".numpy() is not supported", None, "compute with tensors in place of NumPy's arrays"),
    ("ScriptModule", None, "give the module that it was made of, or save it and give the .pt file"),
    ("PackedParams", None, "quantize the module by pt2e or torchao, or give it before it is quantized"),
    ("but found at least two devices", None, "give a module and example_inputs that are on the CPU: module.cpu()"),
)  # fmt: skip


def _explained(message: str) -> tuple[str, str]:
    """Why PyTorch cannot export a module, and what helps."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    for sign, start, fix in _CAUSES:
        if sign in message:
            said = next((line.removeprefix(start) for line in lines if line.startswith(start)), None) if start else None
            return (said or lines[0])[:400], fix
    return lines[0][:400], "torch.export.export(module, example_inputs) says more"


def of_program(torch: ModuleType, program: Any, name: str) -> Model:
    """An exported program, by way of its file form. What PyTorch itself resolves (`vmap`, autocast) is resolved."""
    if is_to_resolve(program):
        program = program.run_decompositions({})
    with temporary_directory("program") as folder:
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


def is_to_resolve(program: Any) -> bool:
    """Whether a graph of a program has calls that only its decompositions are without."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            name = getattr(node.target, "__name__", "")
            if name == "wrap_with_autocast" and len(node.args) > 2 and node.args[2] is True:
                return True
            if f"{getattr(node.target, '__module__', '')}.".startswith(PREDISPATCH):
                return True
    return False


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


__all__ = ["as_array", "exported", "is_to_resolve", "of_object", "of_program", "of_torchscript", "torch_or_error"]
