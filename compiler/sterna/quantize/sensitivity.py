"""Mixed precision: which layers must stay float for a bound on the error to hold.

Every layer is rounded alone, which says how much of the error comes from it; then as few of the most sensitive as will
do are left float. All of that runs in one compiled model whose rounding is switched on and off tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx

from sterna.ir.graph import Array
from sterna.quantize.numbers import Scale
from sterna.quantize.plan import WEIGHTED, Plan
from sterna.quantize.rewrite import SWITCHES, switch_positions, switchable
from sterna.quantize.running import Comparison, Runner, compared
from sterna.quantize.samples import Samples

#: Samples that each layer is judged by; a choice of layers is judged by all.
JUDGED_BY = 16


@dataclass(frozen=True)
class Search:
    """What was found.

    Args:
        error_of: the root mean square error of the outputs where only this layer computes with integers.
        kept: the layers that stay float, most sensitive first.
    """

    error_of: Mapping[str, float]
    kept: tuple[str, ...]


class Trial:
    """The error of any choice of layers."""

    def __init__(
        self,
        model: onnx.ModelProto,
        plan: Plan,
        scales: Mapping[str, Scale],
        means: Mapping[str, Array],
        samples: Samples,
        wanted: Sequence[Mapping[str, Array]],
        threads: int,
    ):
        rewritten, self.switches = switchable(model, plan, scales, means)
        self.runner = Runner(rewritten, threads=threads)
        self.plan, self.samples, self.wanted = plan, samples, wanted

    def __call__(self, chosen: Collection[str], most: int | None = None) -> Comparison:
        """The outputs where these layers compute with integers, beside the float ones; of `most` samples."""
        on = {*self.plan.rounded(chosen), *(layer.name for layer in self.plan.active(chosen))}
        positions = switch_positions(self.switches, on)
        feeds, labels = self.samples.feeds, self.samples.labels
        places = range(len(feeds))
        if most is not None and most < len(feeds):
            places, labels = range(0, len(feeds), -(-len(feeds) // most)), None
        got = (self.runner.run({**feeds[n], SWITCHES: positions}) for n in places)
        return compared(got, [self.wanted[n] for n in places], labels)


def search(plan: Plan, trial: Callable[..., Comparison], holds: Callable[[Comparison], bool]) -> Search | None:
    """The layers to leave float so that the bound holds, as few as are found; None if it never does.

    The most sensitive ones are taken until it holds, by bisection, which supposes that more of them never hurt; then
    those that turn out not to be needed are given back.
    """
    names = [layer.name for layer in plan.layers]
    products = [layer.name for layer in plan.layers if layer.op in WEIGHTED]
    following = [name for name in names if name not in set(products)]
    error_of = {name: trial([name], most=JUDGED_BY).rms for name in products}
    ranked = sorted(products, key=lambda name: (-error_of[name], name))

    def fine(kept: Collection[str]) -> bool:
        return holds(trial([*(name for name in products if name not in kept), *following]))

    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high) // 2
        if fine(ranked[:middle]):
            high = middle
        else:
            low = middle + 1
    kept = ranked[:low]
    if len(kept) == len(products):
        return None
    for name in reversed(kept[:-1]):  # without the last it did not hold
        fewer = [other for other in kept if other != name]
        if fine(fewer):
            kept = fewer
    return Search(error_of, tuple(kept))
