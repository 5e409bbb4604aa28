"""IF and WHILE: graphs of the file as regions of ours. A composite is what its decomposition is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.errors import error
from sterna.frontends.tflite.translation import Translation
from sterna.ir.graph import Graph, Value
from sterna.ops.control import CONDITION, MOST_ITERATIONS, NUMBER, branches, loop

#: A graph of the file for given arguments; None for results that cannot be made.
Inner = Callable[[Sequence[Value]], Sequence[Value | None]]
Results = tuple[Value | None, ...]

CONTROL_OPERATORS = ("IF", "WHILE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE")
#: Operator -> the graphs that it names.
PARTS = {
    "IF": ("then", "else"), "WHILE": ("cond", "body"), "STABLEHLO_COMPOSITE": ("decomposition",),
    "STABLEHLO_WHILE": ("cond", "body"),
}  # fmt: skip


def choice(t: Translation, then: Inner, otherwise: Inner, arguments: Sequence[Value]) -> Results:
    """One of two graphs, by a condition that is computed or constant."""
    condition = t.input(0)
    if condition.dtype != "bool" or condition.type.elements != 1:
        raise error("E0108", f"the condition of {t.kind} is {condition.type}, not one bool")
    if condition.data is not None:
        return tuple((then if condition.data.reshape(-1)[0] else otherwise)(arguments))
    regions = []
    for name, inner in (("then", then), ("else", otherwise)):
        with t.builder.region() as nodes:
            made = inner(arguments)
        outputs = tuple(value for value in made if value is not None)
        if len(outputs) != len(made):
            return (None,) * len(made)
        names = tuple(str(n) for n in range(len(outputs)))
        regions.append(Graph(f"{t.name}/{name}", (), outputs, tuple(nodes), names))
    first, second = regions
    if [v.type for v in first.outputs] != [v.type for v in second.outputs]:
        raise t.unsupported("whose graphs give tensors of different types")
    results = tuple(Value(t.builder.name(f"{t.name}/result"), value.type) for value in first.outputs)
    t.builder.keep(branches(t.reshape(condition, ()), (first, second), results, t.sources, t.name))
    return results


def repetition(
    t: Translation, condition: Inner, body: Inner, arguments: Sequence[Value], is_kept: Sequence[bool]
) -> Results:
    """A graph that runs as long as another one, of the same arguments, gives true.

    Args:
        is_kept: for each argument, whether the body gives it back as it is: then nothing carries it.
    """
    start = _test(t, condition(arguments))
    if start is None:
        return (None,) * len(arguments)
    if start.data is not None and not start.data.reshape(-1)[0]:
        return tuple(arguments)
    carried = [n for n, kept in enumerate(is_kept) if not kept]
    number = Value(t.builder.name(f"{t.name}/number"), NUMBER)
    inside = {n: Value(t.builder.name(f"{t.name}/state"), arguments[n].type) for n in carried}
    with t.builder.region() as nodes:
        made = body([inside.get(n, value) for n, value in enumerate(arguments)])
        following = [made[n] for n in carried]
        known = [value for value in following if value is not None]
        if len(known) != len(following):
            return (None,) * len(arguments)
        for n, value in zip(carried, known, strict=True):
            if value.type != arguments[n].type:
                raise t.unsupported(f"that makes {value.type} of {arguments[n].type}")
        after = dict(zip(carried, known, strict=True))
        going = _test(t, condition([after.get(n, value) for n, value in enumerate(arguments)]))
        if going is None:
            return (None,) * len(arguments)
        going = t.reshape(going, ())
    region = Graph(f"{t.name}/body", (number, *inside.values()), (going, *known), tuple(nodes))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in known]
    node = loop(
        region, [arguments[n] for n in carried], results, sources=t.sources, name=t.name, limit=MOST_ITERATIONS,
        condition=None if start.data is not None else t.reshape(start, ()), conditional=True,
    )  # fmt: skip
    t.builder.keep(node)
    last = dict(zip(carried, results, strict=True))
    return tuple(last.get(n, value) for n, value in enumerate(arguments))


def _test(t: Translation, made: Sequence[Value | None]) -> Value | None:
    """The condition that a graph gives."""
    if len(made) != 1:
        raise error("E0103", f"the condition of {t.kind} gives {len(made)} results")
    value = made[0]
    if value is not None and (value.dtype != CONDITION.dtype or value.type.elements != 1):
        raise error("E0108", f"the condition of {t.kind} is {value.type}, not one bool")
    return value
