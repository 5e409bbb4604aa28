"""Types of a model's inputs, with the shapes and dimensions that the user gives, where a file stands ready with sizes.

An open dimension that the user says nothing of has the size that the file stands ready with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.expressions import parse, symbols_of
from sterna.ir import dtypes
from sterna.ir.graph import Array, TensorType, tensor_type
from sterna.ir.integer import Int, as_int, symbol
from sterna.ops.builder import is_too_large
from sterna_runtime.advice import Advice, Option
from sterna_runtime.advice import dims as dims_given
from sterna_runtime.advice import shapes as shapes_given
from sterna_runtime.arguments import Dims, DimSize, OwnSize
from sterna_runtime.dims import given_dimension

Shapes = Mapping[str, Sequence[int]]

#: A name of a dimension that `--dim` can spell; exporters write "?" and "" too.
SYMBOL = re.compile(r"[A-Za-z_][\w.]*")


def open_size(name: str, size: OwnSize) -> Int | None:
    """The size of a named dimension that the user gives: a number, a symbol, or a multiple of one, whose symbol is
    called after both; None where there is no such size."""
    low, high, step = limits_of(size)
    least, most = (-(-low // step), high // step) if step > 0 else (0, -1)
    if not 0 <= least <= most:
        return None
    if least == most:
        return as_int(least * step)
    return symbol(name if step == 1 else f"{name}/{step}", least, most) * step


def multiples_given(dims: Dims) -> dict[str, DimSize]:
    """Sizes with `height=160` for `height/32=5`: so a bundle calls a dimension of multiples, which `dims` has too."""
    found: dict[str, DimSize] = {}
    for name, size in dims.items():
        whole, divisor = given_dimension(name)
        if divisor == 1 or whole not in dims or isinstance(size, str):
            found[name] = size
        elif isinstance(size, tuple):
            low, high, step = limits_of(size)
            found[whole] = (low * divisor, high * divisor, step * divisor)
        else:
            found[whole] = size * divisor
    return found


def of_known(dims: Dims, known: Collection[str], problems: list[Diagnostic]) -> Dims:
    """The sizes that the user gives of dimensions that the model has, and by those.

    Args:
        problems: E0106 is added for all other names, with those that there are: what is spelled most alike first.
    """
    named = {name: (name, *(symbols_of(size) if isinstance(size, str) else ())) for name, size in dims.items()}
    for unknown in dict.fromkeys(each for names in named.values() for each in names if each not in known):
        there = sorted((-SequenceMatcher(None, unknown, n).ratio(), n) for n in known if SYMBOL.fullmatch(n))
        fix = f"its named dimensions: {', '.join(n for _, n in there) or 'none'}"
        problems.append(Diagnostic("E0106", f'the model has no dimension "{unknown}"', (), fix))
    return {name: size for name, size in dims.items() if all(each in known for each in named[name])}


def add_expressions(dims: Dims, sizes: dict[str, Int], problems: list[Diagnostic]) -> None:
    """Adds to the sizes of dimensions those that the user gives by others, as `total=past+1`.

    Args:
        problems: what is wrong is added (E0106).
    """
    left = {name: text for name, text in dims.items() if isinstance(text, str)}
    while ready := [name for name, text in left.items() if sizes.keys() >= {*symbols_of(text)}]:
        for name in ready:
            text = left.pop(name)
            try:
                size = parse(text, sizes)
            except SternaError as mistake:
                reasons = tuple(where for each in mistake.diagnostics for where in each.where)
                problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {text}", reasons))
                continue
            least, greatest = size.bounds()
            if least is None or least < 0:
                problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {text}: {least} to {greatest}"))
            elif sizes.setdefault(name, size) != size:
                problems.append(Diagnostic("E0106", f"the dimension {name} is given as {sizes[name]} and as {text}"))
    for name, text in left.items():
        missing = [each for each in symbols_of(text) if each not in sizes]
        title = f"the dimension {name} is given as {text}, and {', '.join(missing)} is not given"
        problems.append(Diagnostic("E0106", title, (), Advice(dims_given(dict.fromkeys(missing, (1, 8))))))


def limits_of(size: OwnSize) -> tuple[int, int, int]:
    """The least size, the greatest, and what divides all of them."""
    if not isinstance(size, tuple):
        return size, size, 1
    return size if len(size) == 3 else (*size, 1)


def size_text(size: DimSize) -> str:
    """A size as `--dim` takes it."""
    if isinstance(size, str | int):
        return str(size)
    low, high, step = limits_of(size)
    return f"{low}..{high}" + (f":{step}" if step != 1 else "")


def fixed_value(name: str, dtype: str, sizes: Sequence[int] | None, value: Any) -> Array:
    """What the user says that an input always is, as a tensor.

    Args:
        sizes: of the input, -1 for those that are open; None if the model says nothing of them.
        value: a number also fits a tensor of one element.

    Raises:
        SternaError: E0106, the value has other sizes.
    """
    array = np.asarray(value, dtypes.to_numpy(dtype))
    if array.ndim == 0 and sizes and all(n in (1, -1) for n in sizes):
        array = array.reshape((1,) * len(sizes))
    if sizes is not None and (
        len(sizes) != array.ndim or any(n not in (-1, have) for n, have in zip(sizes, array.shape, strict=True))
    ):
        raise error("E0106", f'the input "{name}" is {list(sizes)}, which {value} does not fit')
    return array


def advised(problems: Sequence[Diagnostic], small: Sequence[str]) -> list[Diagnostic]:
    """Errors of operands that are no constants (E0107), with the advice to give inputs of one number their values."""
    if not small:
        return list(problems)
    fix = Advice("say what inputs are that sizes depend on: ", Option("values", dict.fromkeys(small, "<number>")))
    return [replace(p, fix=fix) if p.code == "E0107" and p.fix is None else p for p in problems]


@dataclass(frozen=True)
class InputInfo:
    """An input as a file declares it.

    Args:
        declared: sizes, and the names of open dimensions.
        ready: the sizes that the file stands ready with.
    """

    name: str
    dtype: str
    declared: tuple[int | str, ...]
    ready: tuple[int, ...]


def input_types(inputs: Sequence[InputInfo], shapes: Shapes, dims: Dims) -> tuple[list[TensorType], list[Diagnostic]]:
    """The type of every input, and what is wrong with what the user gives: E0105, E0106, E0112."""
    symbols, problems = _symbols(inputs, dims)
    names = [info.name for info in inputs]
    problems += [
        Diagnostic("E0106", f'the model has no input "{name}"', (), f"its inputs: {', '.join(names)}")
        for name in shapes
        if name not in names
    ]
    types = []
    for info in inputs:
        given = shapes.get(info.name)
        # Sizes that are not open may be changed as well, as `resize_tensor_input` of TensorFlow Lite does.
        if given is not None and (len(given) != len(info.declared) or any(size < 1 for size in given)):
            text = f'the input "{info.name}" is {list(info.declared)}, which {list(given)} does not fit'
            problems.append(Diagnostic("E0106", text))
            continue
        kind = tensor_type(
            info.dtype,
            [
                symbols.get(d, as_int(size)) if isinstance(d, str) and given is None else as_int(size)
                for d, size in zip(info.declared, info.ready if given is None else given, strict=True)
            ],
        )
        if kind.is_static and any(size < 1 for size in kind.sizes):
            shown = ", ".join(map(str, info.declared))
            fix = shapes_given({info.name: [size or "<size>" for size in kind.sizes]})
            problems.append(Diagnostic("E0105", f'the input "{info.name}" has unknown sizes: [{shown}]', (), fix))
        elif is_too_large(kind):
            problems.append(Diagnostic("E0112", f'the input "{info.name}" of {kind} is too large'))
        types.append(kind)
    return types, problems


def _symbols(inputs: Sequence[InputInfo], dims: Dims) -> tuple[dict[str, Int], list[Diagnostic]]:
    """The sizes of the open dimensions that the user gives."""
    symbols: dict[str, Int] = {}
    problems: list[Diagnostic] = []
    given = of_known(dims, {d for info in inputs for d in info.declared if isinstance(d, str)}, problems)
    for name, size in given.items():
        found = None if isinstance(size, str) else open_size(name, size)
        if isinstance(size, str):
            continue
        if found is None or limits_of(size)[0] == 0:
            problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {size_text(size)}"))
        else:
            symbols[name] = found
    add_expressions(given, symbols, problems)
    return symbols, problems
