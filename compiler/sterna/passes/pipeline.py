"""The passes over graphs, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sterna.ir.graph import Graph, has_regions, with_regions, with_unique_names
from sterna.ir.verifier import verify
from sterna.ops import infer
from sterna.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.eliminate_identities import eliminate_identities
from sterna.passes.fold_batch_norm import fold_batch_norm
from sterna.passes.fold_constants import fold_constants
from sterna.passes.hoist_elementwise import hoist_elementwise
from sterna.passes.layout import layout
from sterna.passes.materialize_outputs import materialize_outputs
from sterna.passes.multiply_by_reciprocals import multiply_by_reciprocals
from sterna.passes.remove_empty_tensors import remove_empty_tensors
from sterna.passes.unsigned_activations import unsigned_activations
from sterna.passes.winograd import winograd

Pass = Callable[[Graph], Graph]

#: (stage name, pass). `--dump-after` takes these names.
PASSES: tuple[tuple[str, Pass], ...] = (
    ("remove-empty-tensors", remove_empty_tensors),
    ("fold-constants", fold_constants),
    ("eliminate-identities", eliminate_identities),
    ("layout", layout),
    ("fold-batch-norm", fold_batch_norm),
    ("hoist-elementwise", hoist_elementwise),
    ("simplify", eliminate_identities),
    ("multiply-by-reciprocals", multiply_by_reciprocals),
    ("eliminate-common-subexpressions", eliminate_common_subexpressions),
    ("eliminate-dead-code", eliminate_dead_code),
    ("materialize-outputs", materialize_outputs),
)


def optimize(
    graph: Graph,
    observe: Callable[[str, Graph], None] | None = None,
    check: bool = False,
    minimal_filtering: bool = False,
    unsigned_bytes: bool = False,
) -> Graph:
    """Runs every pass.

    Args:
        minimal_filtering: also `winograd`, once equal nodes have become one: its sums are not worth keeping.
        unsigned_bytes: also `unsigned_activations`, for machines whose dot products take unsigned bytes by signed ones.
        observe: called with the stage's name and the graph after each pass.
        check: verify the graph after each pass.

    Raises:
        SternaError: E0901, a pass left a malformed graph (only with `check`).
    """
    for stage, run in PASSES:
        if minimal_filtering and stage == "eliminate-dead-code":
            graph = everywhere(winograd, graph)
        if unsigned_bytes and stage == "eliminate-dead-code":
            graph = everywhere(unsigned_activations, graph)
        graph = run(graph) if run is materialize_outputs else everywhere(run, graph)
        if check:
            verify(graph, infer, stage)
        if observe is not None:
            observe(stage, graph)
    return graph


def everywhere(run: Pass, graph: Graph) -> Graph:
    """A pass over a graph and every region in it, each as a graph of its own whose captured values are given."""
    if not has_regions(graph):
        return run(graph)
    return with_unique_names(run(_inside(run, graph)))


def _inside(run: Pass, graph: Graph) -> Graph:
    nodes = tuple(
        with_regions(node, tuple(run(_inside(run, region)) for region in node.regions)) for node in graph.nodes
    )
    return replace(graph, nodes=nodes)
