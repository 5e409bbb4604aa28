"""What a model of TensorFlow holds, however it was stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sterna.errors import error
from sterna.ir.graph import Array

#: DataType -> Sterna's name; those that begin with q are read as the integers they are.
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool", 11: "int8",
    12: "uint8", 13: "int32", 14: "bfloat16", 15: "int16", 16: "uint16", 17: "uint16", 19: "float16", 22: "uint32",
    23: "uint64",
}  # fmt: skip
STRING, RESOURCE, VARIANT = 7, 20, 21
#: The kind of models of TensorFlow.js.
PAGE = "TensorFlow.js graph model"
OTHERS = {STRING: "string", 8: "complex64", 18: "complex128", RESOURCE: "resource", VARIANT: "variant"}


def dtype_of(number: int) -> str:
    """The element type of a DataType.

    Raises:
        SternaError: E0111, we have none.
    """
    number = number - 100 if number > 100 else number  # a reference to a variable
    if number not in DTYPES:
        raise error("E0111", f"tensors of {OTHERS.get(number, f'the type {number}')} are not supported")
    return DTYPES[number]


@dataclass(frozen=True)
class Type:
    """An attribute that is an element type."""

    number: int


@dataclass(frozen=True)
class Node:
    """An operation.

    Args:
        inputs: tensors as the file writes them: `name`, `name:2`, of functions `name:output:0`.
        control: nodes that must have run; they compute nothing that is read.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    control: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Function:
    """A function of the library; `arguments` and `results` are tensors of its nodes."""

    name: str
    nodes: Mapping[str, Node]
    arguments: tuple[str, ...]
    argument_types: tuple[int, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Port:
    """An input or output: what it is called, and the tensor of the graph that it is; dims None: of unknown rank."""

    name: str
    tensor: str
    dtype: int
    dims: tuple[int, ...] | None


@dataclass(frozen=True)
class Signature:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Model:
    """A whole model.

    Args:
        kind: the format, in words.
        weight: the value of a variable by its name in the checkpoint; None where there is none.
        restored: variable of the main graph -> its name in the checkpoint.
    """

    where: str
    kind: str
    producer: str
    nodes: Mapping[str, Node]
    functions: Mapping[str, Function]
    signatures: Mapping[str, Signature]
    weight: Callable[[str], Array | None] = lambda _: None
    restored: Mapping[str, str] = field(default_factory=dict)


def tensor_of(text: str) -> tuple[str, int]:
    """(node, position) of a tensor's name in the main graph."""
    name, _, position = text.partition(":")
    last = position.rpartition(":")[2]
    return name, int(last) if last.isdigit() else 0
