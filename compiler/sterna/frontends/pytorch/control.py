"""Control flow of exported programs: graphs inside operators as regions of ours (torch.ops.higher_order)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.program import GraphInfo
from sterna.frontends.pytorch.translation import Translation
from sterna.ir.graph import Graph, Value
from sterna.ir.integer import Int
from sterna.ops.control import MOST_ITERATIONS, NUMBER, branches, loop

#: A graph of the program for given arguments; None for results that cannot be made.
Region = Callable[[GraphInfo, Sequence[Any]], list[Any]]


class _FailedError(Exception):
    """A graph inside could not be made; why is noted already."""


def _graph(t: Translation, position: int) -> GraphInfo:
    found = _argument(t, position)
    if not isinstance(found, GraphInfo):
        raise error("E0103", f"argument {position} of {t.kind} is no graph")
    return found


def _argument(t: Translation, position: int) -> Any:
    found = list(t.arguments.values())
    if position >= len(found):
        raise error("E0103", f"{t.kind} lacks its argument {position}")
    return found[position]


def _list(t: Translation, position: int, default: Any = None) -> list[Any]:
    found = _argument(t, position) if position < len(t.arguments) else default
    return list(found) if isinstance(found, (list, tuple)) else [] if found is None else [found]


def _made(t: Translation, region: Region, graph: GraphInfo, arguments: Sequence[Any]) -> list[Value]:
    """The results of a graph as tensors."""
    found = region(graph, arguments)
    if any(item is None for item in found):
        raise _FailedError
    flat = [each for item in found for each in (item if isinstance(item, list) else [item])]
    return [t.as_value(item) for item in flat]


def _guarded(function: Callable[[Translation, Region], Any]) -> Callable[[Translation, Region], Any]:
    """Where a graph inside failed there are no results, and nothing more to say."""

    def guarded(t: Translation, region: Region) -> Any:
        try:
            return function(t, region)
        except _FailedError:
            return [None] * sum(len(v) if k == "as_tensors" else 1 for k, v in t.node.outputs)

    return guarded


def condition(t: Translation, region: Region) -> Any:
    """cond(predicate, true graph, false graph, operands)."""
    predicate = _argument(t, 0)
    graphs, operands = (_graph(t, 1), _graph(t, 2)), _list(t, 3)
    if isinstance(predicate, Int) and predicate.is_const:
        predicate = bool(int(predicate))
    if isinstance(predicate, (bool, int)):
        return _made(t, region, graphs[0 if predicate else 1], operands)
    value = t.cast(t.as_value(predicate), "bool")
    if value.type.elements != 1:
        raise error("E0108", f"the predicate of {t.kind} is {value.type}, not one bool")
    if value.data is not None:
        return _made(t, region, graphs[0 if value.data.reshape(-1)[0] else 1], operands)
    regions = []
    for name, graph in zip(("true", "false"), graphs, strict=True):
        with t.builder.region() as nodes:
            outputs = tuple(_made(t, region, graph, operands))
        regions.append(Graph(f"{t.name}/{name}", (), outputs, tuple(nodes), tuple(map(str, range(len(outputs))))))
    first, second = regions
    if [v.type for v in first.outputs] != [v.type for v in second.outputs]:
        raise t.unsupported("whose graphs give tensors of different types")
    results = tuple(Value(t.builder.name(f"{t.name}/result"), value.type) for value in first.outputs)
    t.builder.keep(branches(t.reshape(value, ()), (first, second), results, t.sources, t.name))
    return list(results)


def while_loop(t: Translation, region: Region) -> Any:
    """while_loop(condition graph, body graph, carried, additional)."""
    test, body = _graph(t, 0), _graph(t, 1)
    carried, rest = [t.as_value(item) for item in _list(t, 2)], _list(t, 3, [])
    (start,) = _made(t, region, test, [*carried, *rest])
    number = Value(t.builder.name(f"{t.name}/number"), NUMBER)
    inside = [Value(t.builder.name(f"{t.name}/carried"), value.type) for value in carried]
    with t.builder.region() as nodes:
        following = _made(t, region, body, [*inside, *rest])
        following = _same(t, following, carried)
        (going,) = _made(t, region, test, [*following, *rest])
        going = t.reshape(t.cast(going, "bool"), ())
    graph = Graph(f"{t.name}/body", (number, *inside), (going, *following), tuple(nodes))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in carried]
    t.builder.keep(
        loop(
            graph, carried, results, sources=t.sources, name=t.name, limit=MOST_ITERATIONS,
            condition=t.reshape(t.cast(start, "bool"), ()), conditional=True,
        )
    )  # fmt: skip
    return results


def _same(t: Translation, values: Sequence[Value], like: Sequence[Value]) -> list[Value]:
    """Values that a body gives, of the types that it is given."""
    if len(values) != len(like):
        raise error("E0103", f"the body of {t.kind} carries {len(like)} tensors and gives {len(values)}")
    found = []
    for given, old in zip(values, like, strict=True):
        value = t.cast(given, old.dtype)
        if value.type != old.type:
            raise t.unsupported(f"that makes {value.type} of {old.type}")
        found.append(value)
    return found


def _repeated(
    t: Translation, count: int, initial: Sequence[Value], step: Callable[[Value, list[Value]], tuple[Any, Any]]
) -> tuple[list[Value], list[Value]]:
    return t.repeat(count, initial, step)


def _length(t: Translation, xs: Sequence[Value]) -> int:
    """The number of slices, which must be known."""
    if not xs or not xs[0].type.rank:
        raise t.unsupported("without a tensor to go along")
    return t.extent(xs[0], 0)


def _slice(t: Translation, x: Value, number: Value) -> Value:
    """The slice of that number along the first dimension."""
    return t.reshape(t.op("gather", x, t.reshape(number, (1,)), axis=0), x.shape[1:])


def scan(t: Translation, region: Region) -> Any:
    """scan(combine graph, initial, xs, additional): results carried, then each iteration's, one after the other."""
    graph, initial = _graph(t, 0), [t.as_value(item) for item in _list(t, 1)]
    xs = [t.as_value(item) for item in _list(t, 2)]
    others = [item for item in list(t.arguments.values())[3:] if isinstance(item, (list, tuple))]
    plain = [item for item in list(t.arguments.values())[3:] if isinstance(item, (int, bool)) and item]
    if plain:
        raise t.unsupported("along another dimension than the first, or in reverse")
    rest = list(others[-1]) if others else []
    length = _length(t, xs)

    def step(number: Value, inside: list[Value]) -> tuple[list[Value], list[Value]]:
        made = _made(t, region, graph, [*inside, *(_slice(t, x, number) for x in xs), *rest])
        return _same(t, made[: len(initial)], initial), made[len(initial) :]

    carried, rows = _repeated(t, length, initial, step)
    return [*carried, *rows]


def map_(t: Translation, region: Region) -> Any:
    """map_impl(graph, xs, additional): the graph's results for each slice, one after the other."""
    graph, xs, rest = _graph(t, 0), [t.as_value(item) for item in _list(t, 1)], _list(t, 2, [])

    def step(number: Value, inside: list[Value]) -> tuple[list[Value], list[Value]]:
        return [], _made(t, region, graph, [*(_slice(t, x, number) for x in xs), *rest])

    return _repeated(t, _length(t, xs), [], step)[1]


def associative_scan(t: Translation, region: Region) -> Any:
    """associative_scan(combine graph, xs, additional): what the first slices combine to, for each number of them."""
    graph, xs, rest = _graph(t, 0), [t.as_value(item) for item in _list(t, 1)], _list(t, 2, [])
    length = _length(t, xs)
    first = [t.take(x, 0, 0) for x in xs]
    if length == 1:
        return xs
    others = [t.cut(x, 0, 1, length - 1) for x in xs]

    def step(number: Value, inside: list[Value]) -> tuple[list[Value], list[Value]]:
        made = _same(t, _made(t, region, graph, [*inside, *(_slice(t, x, number) for x in others), *rest]), inside)
        return made, made

    rows = _repeated(t, length - 1, first, step)[1]
    return [t.op("concat", t.unsqueeze(a, 0), b, axis=0) for a, b in zip(first, rows, strict=True)]


def inlined(first: int) -> Callable[[Translation, Region], Any]:
    """An operator that runs a graph as it stands; its operands follow the graph."""

    def run(t: Translation, region: Region) -> Any:
        arguments = list(t.arguments.values())
        place = next((n for n, item in enumerate(arguments) if isinstance(item, GraphInfo)), None)
        if place is None:
            raise error("E0103", f"{t.kind} holds no graph")
        operands: list[Any] = []
        for item in arguments[place + 1 :]:
            operands += item if isinstance(item, list) else [] if isinstance(item, str) else [item]
        graph = arguments[place]
        return _made(t, region, graph, operands[max(len(operands) - len(graph.inputs), 0) :])

    return run


def autocast(t: Translation, region: Region) -> Any:
    """wrap_with_autocast(device, type, enabled, cached, graph, operands)."""
    plain = list(t.arguments.values())
    if len(plain) > 2 and plain[2] is True:
        fix = "save program.run_decompositions(), in which types are converted, or export the model without autocast"
        raise t.unsupported("that computes in another type", fix)
    return inlined(4)(t, region)


_INLINED = {
    "wrap_with_set_grad_enabled": inlined(1),
    "invoke_subgraph": inlined(1),
    "strict_mode": inlined(0),
    "wrap": inlined(0),
    "tag_activation_checkpoint": inlined(0),
}
OPERATORS: dict[str, Callable[[Translation, Region], Any]] = {
    f"higher_order.{name}": _guarded(function)
    for name, function in {
        "cond": condition,
        "while_loop": while_loop,
        "scan": scan,
        "map_impl": map_,
        "associative_scan": associative_scan,
        "wrap_with_autocast": autocast,
        **_INLINED,
    }.items()
}
#: Those whose graph runs wherever they stand, once.
INLINED = frozenset(f"higher_order.{name}" for name in (*_INLINED, "wrap_with_autocast"))

__all__ = ["INLINED", "OPERATORS", "Region"]
