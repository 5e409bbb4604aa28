"""The last step of every front end: a graph of what the outputs need, its values named as the model's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sterna.ir.graph import Graph, Node, Value, captured, has_regions, replace_values, with_unique_names
from sterna.ir.sizes import needed_nodes


def named_graph(
    title: str,
    made: Sequence[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    output_names: Sequence[str],
    wanted: Mapping[Value, str],
) -> Graph:
    """The graph of those nodes that the outputs need.

    Args:
        made: nodes, producers first; `inputs` keep their names.
        wanted: the source model's name of a value; it is given where no other value has it.
    """
    nodes = needed_nodes(made, outputs)
    needed = {*outputs, *(value for node in nodes for value in (*node.operands, *node.outputs))}
    fixed = set(inputs)
    taken = {value.name for value in fixed}
    new: dict[Value, Value] = {value: value for value in fixed}
    for value, name in wanted.items():
        if value in needed and value not in new and name not in taken:
            taken.add(name)
            new[value] = replace(value, name=name)
    count: dict[str, int] = {}

    def final(value: Value) -> Value:
        known = new.get(value)
        if known is None:
            name = value.name
            while name in taken:
                count[value.name] = count.get(value.name, 0) + 1
                name = f"{value.name}.{count[value.name]}"
            taken.add(name)
            known = new[value] = value if name == value.name else replace(value, name=name)
        return known

    def changed(values: Iterable[Value]) -> dict[Value, Value]:
        return {value: named for value in values if (named := final(value)) is not value}

    kept = tuple(
        replace(
            node,
            inputs=tuple(None if v is None else final(v) for v in node.inputs),
            outputs=tuple(map(final, node.outputs)),
            regions=tuple(replace_values(r, changed(captured(node))) for r in node.regions),
        )
        for node in nodes
    )
    graph = Graph(title, tuple(inputs), tuple(map(final, outputs)), kept, tuple(output_names))
    return with_unique_names(graph) if has_regions(graph) else graph
