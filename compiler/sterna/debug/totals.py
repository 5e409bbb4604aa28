"""What a model takes when it is compiled, without compiling its kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sterna.debug.describe import ModelFacts, Totals
from sterna.driver import Options, outline_of
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.targets.target import load_target


def with_totals(facts: ModelFacts, path: Path, signature: str | None = None) -> ModelFacts:
    """The facts with what a run takes on this machine, at size 1 of named dimensions that the model leaves open.

    Nothing is added where sizes without names are open, or where the model cannot be compiled.
    """
    facts = replace(facts, file_bytes=path.stat().st_size if path.is_file() else 0)
    if facts.problems:
        return facts
    sizes = dict.fromkeys(facts.open_dims, 1) if facts.format == "ONNX" else {}
    try:
        graph = read_model(path, None, sizes, signature=signature)
        outline = outline_of(graph, Options(load_target("host")))
    except SternaError:
        return facts
    plan, count = outline.plan, outline.multiply_adds.bounds()[1]
    made = Totals(len(outline.sequence.calls), plan.arena_bytes, plan.live_bytes, count or 0, sizes)
    return replace(facts, totals=made)
