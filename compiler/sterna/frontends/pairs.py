"""Models in two files: a description, and weights that lie beside it or where the user says."""

from __future__ import annotations

from pathlib import Path

from sterna.errors import SternaError, error
from sterna.frontends.source import Source
from sterna_runtime.advice import Advice, Option


def holds_pair(source: Source, description: str, weights: str) -> bool:
    """Whether a folder has one file of either ending."""
    found = [Path(name).suffix.lower() for name in source.names]
    return source.is_folder and found.count(description) == 1 and found.count(weights) == 1


def pair_of(source: Source, description: str, weights: str) -> tuple[Path, Path]:
    """The description and the weights, of which either is given, or the folder of both.

    Args:
        description, weights: the endings of the two files.

    Raises:
        SternaError: E0101, the other one is not there.
    """
    if source.is_folder:
        both = [source.file() / name for name in source.names]
        first, second = (next(p for p in both if p.suffix.lower() == end) for end in (description, weights))
        return first, source.weights or second
    given = source.file()
    if source.suffix == weights:
        other = source.beside(description)
        if other is None:
            missing = given.with_suffix(description).name
            title = f"the description of {given.name} is not here"
            fix = f"put {missing} beside it, or compile that with {given.name} as its weights"
            raise error("E0101", title, f"{missing} was looked for", fix=fix)
        return other, given
    other = source.weights or source.beside(weights)
    if other is None:
        raise without_weights(given, given.with_suffix(weights).name)
    return given, other


def without_weights(given: Path, missing: str) -> SternaError:
    """The error (E0101) of a description whose weights are not there."""
    fix = Advice(f"put {missing} beside it, or say where they are: ", Option("weights_file", missing))
    return error("E0101", f"the weights of {given.name} are not here", f"{missing} was looked for", fix=fix)
