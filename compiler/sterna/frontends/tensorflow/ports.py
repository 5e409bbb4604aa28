"""Inputs and outputs of a model: those of a signature, or the placeholders and the nodes that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.errors import error
from sterna.frontends.inputs import InputInfo, fixed_value
from sterna.frontends.tensorflow.model import Model, Port, Signature, Type, dtype_of, tensor_of
from sterna.ir.graph import Array
from sterna_runtime.advice import shapes as shapes_given

USUAL = "serving_default"
#: Nodes that are no results, though nothing reads them.
_SIDE = (
    "NoOp",
    "Const",
    "Assert",
    "Placeholder",
    "PlaceholderV2",
    "SaveV2",
    "RestoreV2",
    "Assign",
    "AssignVariableOp",
    "Print",
    "PrintV2",
    "VariableV2",
    "VarHandleOp",
    "ControlTrigger",
    "Switch",
    "Enter",
    "LoopCond",
    "NextIteration",
    "CheckNumerics",
    "ScalarSummary",
    "HistogramSummary",
    "MergeSummary",
    "ImageSummary",
)
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def signature_of(model: Model, name: str | None) -> Signature:
    """The signature that is meant.

    Raises:
        SternaError: E0106, there is none of that name; E0103, the model gives nothing.
    """
    if model.signatures:
        if name is None:
            return _with_inputs(model, model.signatures.get(USUAL) or next(iter(model.signatures.values())))
        if name in model.signatures:
            return _with_inputs(model, model.signatures[name])
        raise error("E0106", f'the model has no signature "{name}"', f"its signatures: {', '.join(model.signatures)}")
    outputs = last_nodes(model) if name is None else [part.strip() for part in name.split(",")]
    for output in outputs:
        if tensor_of(output)[0] not in model.nodes:
            some = ", ".join(last_nodes(model)[:8])
            raise error("E0106", f'the model has no signature or node "{output}"', f"nodes that nothing reads: {some}")
    if not outputs:
        raise error("E0103", f"{model.where} has no outputs")
    ports = tuple(Port(output.removesuffix(":0"), output, 0, None) for output in outputs)
    return Signature(_placeholders(model, ports), ports)


def _with_inputs(model: Model, signature: Signature) -> Signature:
    """A signature with the placeholders that it needs, if it names no inputs: early converters to TensorFlow.js wrote
    the outputs alone."""
    found = () if signature.inputs else _placeholders(model, signature.outputs)
    return Signature(found, signature.outputs) if found else signature


def _placeholders(model: Model, outputs: Sequence[Port]) -> tuple[Port, ...]:
    """The placeholders that outputs need."""
    needed = reachable(model, [tensor_of(port.tensor)[0] for port in outputs])
    return tuple(placeholder(model, n.name) for n in model.nodes.values() if n.op in PLACEHOLDERS and n.name in needed)


def placeholder(model: Model, name: str) -> Port:
    """A placeholder as an input."""
    attributes = model.nodes[name].attributes
    kind, dims = attributes.get("dtype"), attributes.get("shape")
    if not isinstance(dims, tuple):
        listed = attributes.get("_output_shapes")
        dims = listed[0] if isinstance(listed, tuple) and listed and isinstance(listed[0], tuple) else None
    return Port(name, name, kind.number if isinstance(kind, Type) else 1, dims)


def last_nodes(model: Model) -> list[str]:
    """The nodes that nothing reads, in the order of the file."""
    read = {tensor_of(text)[0] for node in model.nodes.values() for text in (*node.inputs, *node.control)}
    return [node.name for node in model.nodes.values() if node.name not in read and node.op not in _SIDE]


def reachable(model: Model, names: Sequence[str]) -> set[str]:
    """The nodes that others need."""
    found, stack = set[str](), list(names)
    while stack:
        name = stack.pop()
        node = model.nodes.get(name)
        if node is not None and name not in found:
            found.add(name)
            stack += [tensor_of(text)[0] for text in node.inputs]
    return found


def declared(port: Port) -> tuple[int | str, ...] | None:
    """Sizes, and names of open dimensions; None where not even their number is known."""
    if port.dims is None:
        return None
    return tuple(size if size >= 0 else "batch" if n == 0 else f"dim{n}" for n, size in enumerate(port.dims))


def input_infos(
    ports: Sequence[Port], shapes: Mapping[str, Sequence[int]], dims: Mapping[str, object]
) -> list[InputInfo]:
    """What is known of the inputs, an open batch standing ready with 1.

    Raises:
        SternaError: E0105, sizes are missing; E0111, of their types.
    """
    made = []
    for port in ports:
        dtype = dtype_of(port.dtype)
        sizes = declared(port)
        given = shapes.get(port.name)
        if sizes is None:
            if given is None:
                title = f'the input "{port.name}" has an unknown number of dimensions'
                raise error("E0105", title, fix=shapes_given({port.name: ("<size>", "<size>", "...")}))
            sizes = tuple(given)
        missing = [d for d in sizes if isinstance(d, str) and d != "batch" and d not in dims]
        if missing and given is None:
            text = [d if isinstance(d, int) else 1 if d == "batch" else "<size>" for d in sizes]
            title = f'the input "{port.name}" has dimensions of unknown size: [{", ".join(map(str, sizes))}]'
            raise error("E0105", title, fix=shapes_given({port.name: text}))
        made.append(InputInfo(port.name, dtype, sizes, tuple(1 if isinstance(d, str) else d for d in sizes)))
    return made


def fixed_values(ports: Sequence[Port], values: Mapping[str, Any]) -> dict[str, Array]:
    """What the user says that inputs always are, as tensors of their types: input -> array.

    Raises:
        SternaError: E0106, there is no such input, or it has other sizes.
    """
    by_name = {port.name: port for port in ports}
    found: dict[str, Array] = {}
    for given, value in values.items():
        port = by_name.get(given.removesuffix(":0"))
        if port is None:
            raise error("E0106", f'the model has no input "{given}"', fix=f"its inputs: {', '.join(by_name)}")
        found[port.name] = fixed_value(port.name, dtype_of(port.dtype), port.dims, value)
    return found


def distinct(names: Sequence[str]) -> list[str]:
    """Names of outputs, of which no two are the same: a number is added to those that come again."""
    taken: dict[str, int] = {}
    made = []
    for name in names:
        count = taken.get(name, 0)
        taken[name] = count + 1
        made.append(f"{name}.{count}" if count else name)
    return made
