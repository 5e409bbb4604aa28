"""Decisions above kernels, as data: which nodes are one kernel, and how tensors lie.

A pass asks where its rule chooses between graphs that compute the same, as strategies ask for schedules
(`sterna.choices`), and the rule's answer is always one of the candidates:

    if decide("joined", nodes, (True, False), gain > 0): ...

A decision is about a *part* of the graph: the nodes that it concerns. Parts that look alike, by their operators,
attributes, types and wiring, have one fingerprint and one answer, wherever they occur, in this model or another one.

| decision | asked by | what is chosen |
| --- | --- | --- |
| `joined` | the recognizers of `passes.join`, and `passes.chains` | whether these nodes are one kernel |
| `end` | `passes.fuse` | how many nodes of a chain its kernel computes |
| `again` | `passes.recompute` | whether each kernel that reads a value computes it for itself |
| `planes` | `passes.planes` | whether a convolution works channels first |
| `groups` | `passes.group_channels` | whether groups of channels are a dimension of their own |
| `parts` | `passes.split_sums` | into how many parts a sum is cut, which are added up |
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from sterna.choices import Tuning, V
from sterna.ir.graph import Node, Value
from sterna.targets.target import Target


class Decide(Protocol):
    """Who decides about a part of a graph."""

    def __call__(self, name: str, part: Sequence[Node] | str, candidates: Sequence[V], default: V) -> V:
        """The value of a decision.

        Args:
            part: the nodes that it is about, in order; or a text that is the same for parts that are alike.
            candidates: the values that it may have; default: what the rule says.
        """
        ...


def by_rule(name: str, part: Sequence[Node] | str, candidates: Sequence[V], default: V) -> V:
    """Every decision is as the rule says."""
    return default


def decider(tuning: Tuning | None, target: Target) -> Decide:
    """Who decides in a compilation: its tuning, where it has one."""
    if tuning is None:
        return by_rule

    def decide(name: str, part: Sequence[Node] | str, candidates: Sequence[V], default: V) -> V:
        chooser = tuning.part(fingerprint(name, part), target)
        return chooser.choose(name, lambda: candidates, default)

    return decide


def fingerprint(name: str, part: Sequence[Node] | str) -> str:
    """What records know a decision about a part by."""
    text = part if isinstance(part, str) else "\n".join(_lines(part))
    return hashlib.sha256(f"{name}\0{text}".encode()).hexdigest()[:32]


def _lines(nodes: Sequence[Node]) -> list[str]:
    """The nodes as text in which names of values do not matter, nor numbers in constants."""
    number: dict[Value, int] = {}
    return [
        f"{node.op}({', '.join('-' if v is None else _named(v, number) for v in node.inputs)}; "
        f"{', '.join(f'{key}={value}' for key, value in sorted(node.attributes.items()))}) -> "
        f"{', '.join(_named(v, number) for v in node.outputs)}"
        for node in nodes
    ]


def _named(value: Value, number: dict[Value, int]) -> str:
    own = number.setdefault(value, len(number))
    return f"{'c' if value.is_constant else 'v'}{own} {value.type}"
