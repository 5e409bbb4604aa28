"""Options that trade accuracy, judged by what they announce.

Weights of 16 bits are rounded: what has to agree is the same model with the same weights rounded before and stored
in float32. Faster arithmetic (`sterna.fast`) sums and rounds otherwise: that has to stay within the bound that was
asked for. A model with both is compared step by step, down to the plain model, which the reference judges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.debug.comparison import Checks, Difference, Inputs, TensorCheck, compare, with_spread, worst
from sterna.debug.scratch import folder_for
from sterna.driver import Compiled, Options, compile_graph
from sterna.emulate.machines import load_for
from sterna.ir.graph import Graph
from sterna_runtime import Bundle
from sterna_runtime.inputs import Array


@dataclass(frozen=True)
class Trade:
    """An option that trades accuracy, and what it did.

    Args:
        option: what was asked for, in words.
        compared_with: what has to give the same within `bound`.
        bound: largest error allowed, relative to the output's largest magnitude.
        outputs: the outputs beside those of `compared_with`.
        cost: the largest difference of an output from that without the option, relative to its largest magnitude.
        first: the first tensor that is out of bounds, if an output is.
    """

    option: str
    compared_with: str
    bound: float
    outputs: Checks
    cost: float
    first: Difference | None = None

    @property
    def ok(self) -> bool:
        """Whether every output is within the bound."""
        return all(check.within(self.bound) for check in self.outputs)

    @property
    def error(self) -> float:
        """The largest relative error of all outputs."""
        return max((check.error for check in self.outputs), default=0.0)


def judge_trades(
    graph: Graph, name: str, options: Options, feeds: Sequence[Inputs], tolerance: float
) -> tuple[Trade, ...]:
    """The trades of these options, each judged alone.

    Args:
        options: as `sterna.fast.decide` gives them.
        feeds: inputs of the runs, of several sizes where dimensions are open.
    """
    plain = options.exact
    trades = []
    if options.math:
        made = replace(plain, math=options.math, tiles=options.tiles, halves=options.halves, narrow=options.narrow)
        words = ("results of fast arithmetic", "those of exact arithmetic")
        trades.append(_judged(graph, name, (made, plain, plain), words, feeds, max(tolerance, options.math)))
    if options.weights != plain.weights:
        wide = replace(options, widened=True)
        unrounded = replace(options, weights=plain.weights)
        words = (f"weights in {options.weights}", f"the same weights rounded to {options.weights} and stored in fp32")
        trades.append(_judged(graph, name, (options, wide, unrounded), words, feeds, tolerance))
    return tuple(trades)


def _judged(
    graph: Graph,
    name: str,
    options: Sequence[Options],
    words: tuple[str, str],
    feeds: Sequence[Inputs],
    bound: float,
) -> Trade:
    """What was asked for beside what it has to equal; `options` of these two, and of the model without the option."""
    checks: list[Checks] = []
    costs: list[Checks] = []
    with folder_for(name) as directory:
        runs = {each: _Runs(graph, name, each, directory / str(n)) for n, each in enumerate(dict.fromkeys(options))}
        made, equal, without = (runs[each] for each in options)
        with made.bundle, equal.bundle, without.bundle:
            for inputs in feeds:
                got, wanted, before = made(inputs), equal(inputs), without(inputs)
                found = _compared(got, wanted)
                if not all(check.within(bound) for check in found):
                    found = with_spread(found, equal, inputs, wanted)
                checks.append(found)
                costs.append(_compared(got, before))
    cost = max((check.error for check in worst(costs, bound)), default=0.0)
    trade = Trade(*words, bound, worst(checks, bound), cost)
    return trade if trade.ok else replace(trade, first=_first(graph, name, options[:2], feeds, bound))


class _Runs:
    """A model, compiled and loaded; a call runs it from its first state."""

    def __init__(self, graph: Graph, name: str, options: Options, directory: Path):
        self.compiled: Compiled = compile_graph(graph, name, options)
        self.bundle: Bundle = load_for(write_bundle(self.compiled, directory), options.target, options.threads)

    def __call__(self, inputs: Inputs) -> dict[str, Array]:
        self.bundle.reset_state()
        return self.bundle.run(inputs)


def _compared(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> Checks:
    return tuple(compare(name, array, wanted[name]) for name, array in got.items())


def _first(
    graph: Graph, name: str, options: Sequence[Options], feeds: Sequence[Inputs], bound: float
) -> Difference | None:
    """The first tensor that is out of bounds, of those that both forms of the model have."""
    with folder_for(name) as directory:
        made, equal = (
            _Runs(graph, name, replace(each, debug=True), directory / str(n)) for n, each in enumerate(options)
        )
        with made.bundle, equal.bundle:
            for inputs in feeds:
                made(inputs)
                equal(inputs)
                for call, kernel in zip(made.compiled.calls, made.compiled.kernel_of, strict=True):
                    for value in call.outputs:
                        check = _intermediate(value.name, made.bundle, equal.bundle)
                        if check is not None and not check.error <= bound:
                            function = made.compiled.kernels[kernel].function.name
                            return Difference(check, "kernels", call.name, function, call.sources)
    return None


def _intermediate(name: str, made: Bundle, equal: Bundle) -> TensorCheck | None:
    """A tensor of both bundles; None where one of them has none of that name and shape."""
    held = {spec.name for spec in made.values} & {spec.name for spec in equal.values}
    if name not in held:
        return None
    got, wanted = made.intermediate(name), equal.intermediate(name)
    check = compare(name, got, wanted) if got.shape == wanted.shape else None
    return check if check is not None and math.isfinite(check.largest) else None
