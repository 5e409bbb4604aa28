"""The order in which Keras makes the calls of a functional model: those furthest from the outputs first."""

from __future__ import annotations

from sterna.frontends.keras.config import Network, refs_in

Key = tuple[str, int]


def calls_in_order(network: Network) -> list[Key]:
    """The calls (layer, which of its calls) that the outputs need, as `keras.src.ops.function.map_graph` orders them.

    A call's depth is how many calls there are at most between it and the outputs; calls of one layer have the greatest
    depth of them that is known then. What is wrong with the model is left to who makes the calls.
    """
    found = _visited(network)
    reachable = set(found)
    depths: dict[Key, int] = {}
    of_layers: dict[str, int] = {}
    for key in reversed(found):
        depth = max(depths.setdefault(key, 0), of_layers.get(key[0], 0))
        depths[key] = of_layers[key[0]] = depth
        for before in _needed(network, key):
            if before in reachable:
                depths[before] = max(depth + 1, depths.get(before, 0))
    given = {(ref.layer, ref.call) for ref in network.inputs}
    return [key for key in sorted(depths, key=lambda key: -depths[key]) if key not in given]


def _visited(network: Network) -> list[Key]:
    """Calls from the inputs to the outputs, each after those that it needs."""
    order: list[Key] = []
    done: set[Key] = set()
    inputs = {(ref.layer, ref.call) for ref in network.inputs}
    for _, output in network.outputs:
        waiting, entered = [(output.layer, output.call)], set[Key]()
        while waiting:
            key = waiting[-1]
            if key in done:
                waiting.pop()
            elif key in entered or key in inputs:
                done.add(key)
                order.append(key)
                waiting.pop()
            else:
                entered.add(key)
                waiting += [each for each in reversed(_needed(network, key)) if each not in entered]
    return order


def _needed(network: Network, key: Key) -> list[Key]:
    """The calls whose results a call takes."""
    layer = network.by_name.get(key[0])
    if layer is None or key[1] >= len(layer.calls):
        return []
    call = layer.calls[key[1]]
    return [(ref.layer, ref.call) for ref in refs_in((call.args, call.kwargs))]
