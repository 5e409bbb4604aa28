"""Choices and loops. Their networks read and set the values of the network around them, and have no results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sterna.errors import error
from sterna.frontends.coreml.layers.translation import Layer, Translator
from sterna.frontends.tflite.control import choice, repetition
from sterna.ir.graph import Value
from sterna.ops.control import MOST_ITERATIONS


def inner_networks(layer: Any) -> tuple[Any, ...]:
    """The networks within a layer."""
    which = layer.WhichOneof("layer")
    if which == "branch":
        return layer.branch.ifBranch, layer.branch.elseBranch
    return (layer.loop.conditionNetwork, layer.loop.bodyNetwork) if which == "loop" else ()


def names_set(layers: Sequence[Any]) -> dict[str, None]:
    """What layers set, those of networks within them too, in their order."""
    found: dict[str, None] = {}
    for layer in layers:
        found |= dict.fromkeys(layer.output)
        for network in inner_networks(layer):
            found |= names_set(network.layers)
    return found


def _truth(t: Layer, x: Value) -> Value:
    return t.reshape(t.cast(x, "bool"), (1,))


def _branch(t: Layer) -> Mapping[str, Value]:
    """What either network sets that is read later, or that was set before: the other network leaves it as it was."""
    p = t.params
    either = names_set(p.ifBranch.layers) | names_set(p.elseBranch.layers)
    both = names_set(p.ifBranch.layers).keys() & names_set(p.elseBranch.layers).keys()
    names = [name for name in either if name in t.values or (name in both and name in t.wanted)]

    def inner(network: Any) -> Callable[[Any], list[Value | None]]:
        def run(_: Any) -> list[Value | None]:
            values = t.inner(network, dict(t.values))
            return [values.get(name) for name in names]

        return run

    if not names:
        return {}
    t.inputs = (_truth(t, t.input(0)),)
    made = choice(t, inner(p.ifBranch), inner(p.elseBranch), ())  # type: ignore[arg-type]
    return {name: value for name, value in zip(names, made, strict=True) if value is not None}


def _loop(t: Layer) -> Mapping[str, Value]:
    """A network, as long as the value that another one sets is not 0, or a number of times."""
    p = t.params
    limit = int(p.maxLoopIterations)
    if t.has(0):
        limit_of: Value | None = t.reshape(t.cast(t.input(0), "int32"), (1,))
    else:
        limit_of = t.constant([min(limit, MOST_ITERATIONS)], "int32") if limit else None
    if not p.conditionVar and limit_of is None:
        raise error("E0103", "the loop has neither a condition nor a number of iterations")
    carried = [name for name in names_set([t.message]) if name in t.values]
    first = [t.constant([0], "int32"), *(t.values[name] for name in carried)]

    def before(given: Sequence[Value]) -> dict[str, Value]:
        """The values after the network of the condition, which may set some that the body reads."""
        values = {**t.values, **dict(zip(carried, given[1:], strict=True))}
        return t.inner(p.conditionNetwork, values) if p.conditionVar else values

    def condition(given: Sequence[Value]) -> list[Value | None]:
        going = None if limit_of is None else t.op("less", given[0], limit_of)
        if p.conditionVar:
            found = before(given).get(p.conditionVar)
            if found is None:
                return [None]
            more = _truth(t, found)
            going = more if going is None else t.op("logical_and", going, more)
        return [going]

    def body(given: Sequence[Value]) -> list[Value | None]:
        values = t.inner(p.bodyNetwork, before(given))
        return [t.op("add", given[0], t.scalar(1, "int32")), *(values.get(name) for name in carried)]

    last = repetition(t, condition, body, first, [False] * len(first))  # type: ignore[arg-type]
    if any(value is None for value in last):
        return {}
    after = before([value for value in last if value is not None])
    return {name: after[name] for name in carried}


TRANSLATORS: dict[str, Translator] = {"branch": _branch, "loop": _loop}
