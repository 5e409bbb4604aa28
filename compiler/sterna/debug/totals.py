"""Facts about a model from its front end, and what it takes when it is compiled, without compiling its kernels."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from sterna.driver import Options, outline_of
from sterna.errors import SternaError
from sterna.frontends.description import Description
from sterna.frontends.formats import Model, describe_model, read_model, source_of
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.source import Source
from sterna.targets.description import load_target
from sterna_runtime.describe import Totals


@dataclass(frozen=True)
class ModelFacts(Description):
    """What a model file holds.

    Args:
        file_bytes: of the file, or of all files of a folder, without external data.
        totals: what it becomes when it is compiled for this machine; None where that cannot be said.
    """

    file_bytes: int = 0
    totals: Totals | None = None


def model_facts(model: Model, signature: str | None = None, weights_file: Path | None = None) -> ModelFacts:
    """What a model holds, and what a run takes on this machine, at size 1 of named dimensions that must be given.

    No totals are added where sizes without names are open, or where the model cannot be compiled.

    Raises:
        SternaError: it cannot be read.
    """
    asked, source = ReadOptions(signature=signature, weights_file=weights_file), source_of(model)
    if weights_file is not None:
        source = source.with_weights(weights_file)
    described = describe_model(source, asked)
    facts = {each.name: getattr(described, each.name) for each in fields(described)}
    size = sum(path.stat().st_size for path in source.files)
    return ModelFacts(**facts, file_bytes=size, totals=_totals(source, described, asked))


def _totals(source: Source, described: Description, asked: ReadOptions) -> Totals | None:
    if described.problems:
        return None
    sizes = {} if described.sizes_ready else dict.fromkeys(described.open_dims, 1)
    try:
        graph = read_model(source, replace(asked, dims=sizes))
        outline = outline_of(graph, Options(load_target("host")))
    except SternaError:
        return None
    plan, count = outline.plan, outline.multiply_adds.bounds()[1]
    return Totals(len(outline.sequence.calls), plan.arena_bytes, plan.live_bytes, count or 0, sizes)
