"""Types of the model's inputs, with the shapes and dimensions that the user gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.expressions import solved, symbols_of
from sterna.frontends.inputs import SYMBOL, add_expressions, fixed_value, of_known, open_size, size_text
from sterna.frontends.onnx.file import element_type
from sterna.ir.graph import Array, TensorType, tensor_type
from sterna.ir.integer import Int, as_int
from sterna.ops.builder import is_too_large
from sterna_runtime.advice import Advice, Fix
from sterna_runtime.advice import dims as dims_given
from sterna_runtime.advice import shapes as shapes_given
from sterna_runtime.arguments import Dims

Shapes = Mapping[str, Sequence[int]]

_TIMES = re.compile(r"\d+\*[A-Za-z_]\w*")  # an expression of which a size says what the name is
_HYPHEN = re.compile(r"\w-\w")


def input_types(
    inputs: Iterable[onnx.ValueInfoProto], shapes: Shapes, dims: Dims, where: str
) -> tuple[dict[str, TensorType], list[Diagnostic]]:
    """The type of every input, and what is unknown or contradictory: E0105, E0106, E0111, E0112."""
    inputs = list(inputs)
    problems = [
        Diagnostic("E0106", f'the model has no input "{name}"', (), f"its inputs: {', '.join(v.name for v in inputs)}")
        for name in shapes
        if name not in {value.name for value in inputs}
    ]
    declared: dict[str, list[int | str]] = {}
    dtypes: dict[str, str] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "nothing"
            problems.append(
                Diagnostic("E0111", f'{where}, input "{value.name}" is a {kind.removesuffix("_type")}, not a tensor')
            )
            continue
        try:
            dtypes[value.name] = element_type(value.type.tensor_type.elem_type)
        except SternaError as mistake:
            problems.append(Diagnostic("E0111", mistake.diagnostics[0].title, (f'{where}, input "{value.name}"',)))
            continue
        if value.type.tensor_type.HasField("shape"):
            declared[value.name] = [_dimension(d) for d in value.type.tensor_type.shape.dim]
        elif value.name not in shapes:
            text = f'the input "{value.name}" has an unknown number of dimensions'
            wanted = shapes_given({value.name: ("<size>", "<size>", "...")})
            problems.append(Diagnostic("E0105", text, (where,), wanted))
    named = {d for row in declared.values() for d in row if isinstance(d, str)}
    expressions = _expressions(named)
    used = named | {name for names in expressions.values() for name in names}
    symbols = _bindings(declared, shapes, of_known(dims, used, problems), problems)
    for text, names in expressions.items():
        if text not in symbols and symbols.keys() >= {*names}:
            add_expressions({text: text}, symbols, problems)
    types: dict[str, TensorType] = {}
    for name, dtype in dtypes.items():
        row = (
            list(shapes[name])
            if name in shapes
            else [symbols.get(d, d) if isinstance(d, str) else d for d in declared.get(name, [])]
        )
        if any(isinstance(size, str) for size in row):
            problems.append(_unknown(name, declared[name], row, expressions, where))
        elif name in declared or name in shapes:
            types[name] = tensor_type(dtype, [size for size in row if not isinstance(size, str)])
            if is_too_large(types[name]):
                problems.append(Diagnostic("E0112", f'the input "{name}" of {types[name]} is too large'))
    return types, problems


def fixed_values(inputs: Iterable[onnx.ValueInfoProto], values: Mapping[str, Any]) -> dict[str, Array]:
    """What the user says that inputs always are, as tensors of their types: input -> array.

    Raises:
        SternaError: E0106, there is no such input, or it has other sizes; E0111, it is no tensor.
    """
    by_name = {value.name: value for value in inputs}
    found = {}
    for name, value in values.items():
        if name not in by_name:
            raise error("E0106", f'the model has no input "{name}"', fix=f"its inputs: {', '.join(by_name)}")
        kind = by_name[name].type.tensor_type
        sizes = [d if isinstance(d := _dimension(dim), int) else -1 for dim in kind.shape.dim]
        known = sizes if kind.HasField("shape") else None
        found[name] = fixed_value(name, element_type(kind.elem_type), known, value)
    return found


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """A size, a name, or "" for an unknown one; -1 and the like mean unknown too."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else ""
    return str(dim.dim_param)


def _expressions(named: Iterable[str]) -> dict[str, list[str]]:
    """The names that exporters write as an expression of others (`past + 1`), with these: each has to be one that the
    model has by itself or times a number, so that a size says what it is. A hyphen may be part of a name."""
    texts = {text: symbols_of(text) for text in named if not SYMBOL.fullmatch(text) and not _HYPHEN.search(text)}
    own = {*named, *(names[0] for text, names in texts.items() if names and _TIMES.fullmatch(text))}
    return {text: names for text, names in texts.items() if names and own >= {*names}}


def _bindings(
    declared: Mapping[str, Sequence[int | str]], shapes: Shapes, dims: Dims, problems: list[Diagnostic]
) -> dict[str, Int]:
    """Sizes of named dimensions: those given, and those that given shapes imply."""
    symbols: dict[str, Int] = {}
    for name, size in dims.items():
        if isinstance(size, str):
            continue
        if (found := open_size(name, size)) is None:
            problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {size_text(size)}"))
        else:
            symbols[name] = found
    for name, shape in shapes.items():
        if any(size < 0 for size in shape):
            problems.append(Diagnostic("E0106", f'the shape {list(shape)} given for "{name}" is not one'))
        row = declared.get(name)
        if row is None:
            continue
        text = "[" + ", ".join(str(d) if d != "" else "?" for d in row) + "]"
        if len(row) != len(shape):
            problems.append(
                Diagnostic("E0106", f'the input "{name}" has {len(row)} dimensions {text}, not {len(shape)}')
            )
            continue
        for dim, size in zip(row, shape, strict=True):
            if isinstance(dim, int):
                if dim != size:
                    problems.append(
                        Diagnostic("E0106", f'the input "{name}" is {text}, which {list(shape)} does not fit')
                    )
                    break
            elif SYMBOL.fullmatch(dim) and symbols.setdefault(dim, as_int(size)) != size:
                problems.append(Diagnostic("E0106", f"the dimension {dim} is given as {symbols[dim]} and as {size}"))
            elif _TIMES.fullmatch(dim) and (implied := solved(dim, size)) is not None:
                symbols.setdefault(implied[0], as_int(implied[1]))
    add_expressions(dims, symbols, problems)
    return symbols


def _unknown(
    name: str,
    declared: Sequence[int | str],
    row: Sequence[int | str | Int],
    expressions: Mapping[str, Sequence[str]],
    where: str,
) -> Diagnostic:
    text = "[" + ", ".join(str(d) if d != "" else "?" for d in declared) + "]"
    example = [d if not isinstance(d, str) else "1" if n == 0 else "<size>" for n, d in enumerate(row)]
    fix: Fix = shapes_given({name: example})
    missing = [name for d in row if isinstance(d, str) for name in expressions.get(d, (d,))]
    if all(SYMBOL.fullmatch(d) for d in missing):
        first = row[0]
        fix = Advice(dims_given({d: "1" if d == first else "<size>" for d in missing}), "  or  ", fix)
    return Diagnostic("E0105", f'the input "{name}" has dimensions of unknown size: {text}', (where,), fix)
