"""Which graphs of a file stand in which, and how much that makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from sterna.errors import error
from sterna.frontends.tflite.schema import ModelInfo, OperatorInfo

DEEPEST = 16  # graphs inside each other
MOST_OPERATORS = 1 << 17  # of a graph with those that it names written out

#: Options that name a graph, and how often its operators are written out.
_NAMING = {
    "IF": {"then_subgraph_index": 1, "else_subgraph_index": 1},
    "WHILE": {"cond_subgraph_index": 2, "body_subgraph_index": 1},
    "CALL_ONCE": {"init_subgraph_index": 1},
    "STABLEHLO_COMPOSITE": {"decomposition_subgraph_index": 1},
    "STABLEHLO_WHILE": {"cond_subgraph_index": 2, "body_subgraph_index": 1},
}


def check_calls(info: ModelInfo, first: int) -> None:
    """Refuses a graph that contains itself, or becomes too much.

    Raises:
        SternaError: E0103, a graph stands in itself, or graphs are nested too deep; E0112, too many operators.
    """
    sizes: dict[int, int] = {}
    path: list[tuple[int, Iterator[int]]] = []
    inside: set[int] = set()

    def enter(graph: int) -> None:
        path.append((graph, iter(sorted({n for node in info.subgraphs[graph].operators for n in _named(node, info)}))))
        inside.add(graph)

    enter(first)
    while path:
        graph, following = path[-1]
        inner = next(following, None)
        if inner is None:
            path.pop()
            inside.discard(graph)
            operators = info.subgraphs[graph].operators
            sizes[graph] = sum(
                1 + sum(times * sizes[n] for n, times in _named(node, info).items()) for node in operators
            )
        elif inner in inside:
            raise error("E0103", f"graph {inner} contains itself", fix="export the model again")
        elif len(path) > DEEPEST:
            raise error("E0103", f"graphs inside each other, {DEEPEST} and more")
        elif inner not in sizes:
            enter(inner)
    if sizes[first] > MOST_OPERATORS:
        title = f"the model has {sizes[first]} operators when its graphs are written out, more than {MOST_OPERATORS}"
        raise error("E0112", title)


def _named(node: OperatorInfo, info: ModelInfo) -> dict[int, int]:
    """The graphs that an operator names, and how often each is written out; what is no graph is found later."""
    named: dict[int, int] = {}
    for option, times in ({} if node.is_custom else _NAMING.get(node.op, {})).items():
        number = node.options.get(option, 0)
        if 0 <= number < len(info.subgraphs):
            named[number] = named.get(number, 0) + times
    return named
