"""A whole model by the rules and as tuned: what kernels gain alone may be lost between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.driver import compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.scratch import temporary_directory
from sterna.tuning.measure import Measurer


@dataclass(frozen=True)
class Whole:
    """A model measured as a whole, in turns.

    Args:
        before, after: a run's cost by the rules and as tuned, in the device's unit; why: it could not be measured, ""
            where it was.
    """

    before: float = 0.0
    after: float = 0.0
    why: str = ""

    @property
    def is_slower(self) -> bool:
        """Whether the model was measured and is no faster as tuned."""
        return not self.why and self.after >= self.before


def measured(graph: Graph, rules: Options, tuned: Options, measurer: Measurer) -> Whole | None:
    """Compiles the model both ways and measures it; None where it takes no choice.

    Args:
        rules, tuned: with algorithms and `tuning`, if there are any.
    """
    with temporary_directory("whole") as folder:
        try:
            bundles = [_built(graph, each.alone, Path(folder) / str(n)) for n, each in enumerate((rules, tuned))]
        except SternaError as problem:
            return Whole(why=str(problem).split("\n", 1)[0])
        algorithms = (rules.tiles, rules.halves, rules.narrow) != (tuned.tiles, tuned.halves, tuned.narrow)
        tuning = tuned.tuning
        if not algorithms and (tuning is None or not (tuning.kernels or tuning.parts)):
            return None
        found = measurer.turns(bundles)
    if isinstance(found, str):
        return Whole(why=found)
    # Others on the machine make runs slower, never faster.
    before, after = (min(each) for each in found)
    return Whole(before, after)


def _built(graph: Graph, options: Options, folder: Path) -> Path:
    return write_bundle(compile_graph(graph, "model", options), folder)
