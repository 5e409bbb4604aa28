"""What classes of a model's signature are made of, in whatever language: names, and what inputs and outputs are."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.errors import error
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna_runtime.advice import Advice, Option
from sterna_runtime.names import model_name

#: Rows and columns of a picture: less is something else that has three of a kind.
_LEAST = 8
_SCORES = ("float32", "float64", "int8", "int16", "int32", "int64")


@dataclass(frozen=True)
class Image:
    """An input that takes a picture; `last`: colours vary fastest.

    Of bytes the elements are the colours themselves. Of floats, and of integers that stand for such (`quantized`), a
    colour is (byte - mean) / std; where the model does not say these, `mean` is empty, and who gives the picture does.
    """

    width: int
    height: int
    last: bool
    bytes: bool
    quantized: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Tensor:
    """An input or output as the template of the class names it; `scores`: its elements are one row of numbers."""

    side: str
    number: int
    name: str
    method: str
    dtype: str
    dims: tuple[str, ...]
    image: Image | None
    scores: bool


def class_name(model: str, used: Collection[str]) -> str:
    """`mobilenet_v2` -> `MobilenetV2`; a name that the class itself uses for something else gets `Model` in front."""
    name = "".join(part[:1].upper() + part[1:] for part in model.split("_") if part)
    return name if name and name[0].isalpha() and name not in used else f"Model{name}"


def name_of(model: str | os.PathLike[str], options: Options, package: str | None) -> str:
    """What a model, its class and library are called in a package: as the options say, else as the package was named,
    else as its file."""
    return options.name or model_name(os.fspath(model) if package is None else f"{package}.")


def keep_apart(kind: str, others: Mapping[str, str], place: Path) -> None:
    """Refuses a class that another package in the same place has too: no app could hold both.

    Args:
        kind: the class; names that differ in upper and lower case alone are one to many file systems.
        others: of every other package its class.

    Raises:
        SternaError: E0204.
    """
    for package, other in others.items():
        if other.lower() == kind.lower():
            title = f"no app can hold both models: the class of {package}, which is there, is called {other} too"
            raise error("E0204", title, str(place), fix=Advice(Option("name", "another-model")))


def tensors(graph: Graph, ends: Collection[str]) -> list[Tensor]:
    """The signature; `ends`: what a method's name ends in where there are several of a tensor."""
    signature = [("input", n, v.name, v) for n, v in enumerate(graph.arguments)]
    signature += [("output", n, graph.result_names[n], v) for n, v in enumerate(graph.results)]
    made: list[Tensor] = []
    used: set[str] = set()
    for side, number, name, value in signature:
        method = method_name(side, name, used, ends)
        used.add(method)
        made.append(_tensor(side, number, name, method, value, graph))
    return made


def method_name(side: str, name: str, used: Collection[str], ends: Collection[str]) -> str:
    """`input`, `image_0:tensor` -> `inputImage0Tensor`; another one where that or what ends in `ends` is taken."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    method = side + "".join(word[:1].upper() + word[1:] for word in words)
    number = 2
    candidate = method if words else f"{method}1"
    taken = {name + end for name in used for end in ends}
    while not taken.isdisjoint(candidate + end for end in ends):
        candidate, number = f"{method}{number}", number + 1
    return candidate


def _tensor(side: str, number: int, name: str, method: str, value: Any, graph: Graph) -> Tensor:
    sizes = tuple(str(n) for n in value.shape)
    fixed = [int(n) for n in sizes] if all(n.isdigit() for n in sizes) else []
    image = _image(fixed, value.dtype, name, graph) if side == "input" else None
    row = [n for n in fixed if n != 1]
    scores = side == "output" and value.dtype in _SCORES and len(row) == 1
    return Tensor(side, number, name, method, value.dtype, sizes, image, scores)


def _image(sizes: list[int], dtype: str, name: str, graph: Graph) -> Image | None:
    """Pictures are one by height, width and three colours, in either order."""
    if len(sizes) != 4 or sizes[0] != 1 or 3 not in (sizes[1], sizes[3]):
        return None
    last = sizes[3] == 3
    height, width = sizes[1:3] if last else sizes[2:4]
    known = graph.quantization.get(name)
    quantized = dtype == "int8" and known is not None and len(known.scales) == 1
    if dtype == "uint8":
        return Image(width, height, last, True, False, (), ())
    if min(height, width) < _LEAST or not (dtype == "float32" or quantized):
        return None
    said = graph.metadata.get("normalization", {}).get(name, {"mean": (), "std": ()})
    mean, std = (tuple(said[key]) * (3 if len(said[key]) == 1 else 1) for key in ("mean", "std"))
    good = len(mean) == len(std) == 3
    return Image(width, height, last, False, quantized, mean if good else (), std if good else ())
