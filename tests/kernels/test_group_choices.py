"""What strategies for groups of threads choose otherwise than by their rules: the same results, whatever is chosen, by
the interpreter with the threads in random orders. A choice may be refused, by the codes of schedules and loops."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from sterna.choices import Knob, Trace, Value
from sterna.errors import SternaError
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel
from sterna.tuning.features import features_of
from support.bound_axes import results
from support.fragment_products import convolution, feeds, product
from support.opencl_host import opencl_target
from support.small_kernels import arrays, attention, matmul, pointwise, row_sums, times_vector, transposed, window

#: `ci/tune` has more examples, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
PLAIN = opencl_target(groups=True)
SUBGROUPS = replace(load_target("cuda-sm80"), device=None)
#: What a schedule, or loops that are not proved, are refused by.
REFUSED = {"E0302", "E0303", "E0304", "E0305", "E0306"}
#: Kernels of every form, the target, and knobs that they have.
KERNELS: dict[str, tuple[Kernel, Target, set[str]]] = {
    "product": (matmul(20, 100, 12), PLAIN, {"form", "own", "tile", "depth", "panel"}),
    "window": (window(60, 3, 16), PLAIN, {"form", "threads"}),
    "elements": (pointwise(6, 40), PLAIN, {"neighbours", "threads"}),
    "transpose": (transposed((40, 36), (1, 0)), PLAIN, {"tile"}),
    "rows": (row_sums(12, 300), PLAIN, {"form", "lanes", "rows"}),
    "exchanges": (row_sums(12, 300), SUBGROUPS, {"form", "lanes", "rows", "exchanged"}),
    "vector": (times_vector(40, 96), SUBGROUPS, {"form", "lanes", "rows"}),
    "attention": (attention(1, 20, 24, 8, 16), PLAIN, {"tile", "depth"}),
    "fragments": (product(20, 40, 128), SUBGROUPS, {"form", "tile", "subgroups", "depth", "buffers", "panel"}),
    "convolution": (convolution(3, 16, 16, 2, 1), SUBGROUPS, {"form", "tile", "subgroups", "buffers"}),
}


def drawn(seed: int) -> Trace:
    """Decides at random, as often as not by the rule."""
    draw = random.Random(seed)

    def pick(knob: Knob) -> Value:
        if knob.name in ("family", "vector_bits"):
            return knob.default
        return draw.choice(knob.values) if draw.random() < 0.6 else knob.default

    return Trace(pick)


@pytest.mark.parametrize("name", KERNELS)
def test_every_choice_computes_the_same(name: str) -> None:
    kernel, target, _ = KERNELS[name]
    given = feeds(kernel) if kernel.inputs[0].dtype == "float16" else arrays(kernel)
    (wanted,) = run_kernel(kernel, dict(given)).values()
    different: dict[str, None] = {}
    refused: list[SternaError] = []
    for seed in range(6 * MORE):
        trace = drawn(seed)
        try:
            schedule = propose(kernel, Context(target, chooser=trace))
            if str(schedule.steps) in different:
                continue
            found = [*results(schedule, None, orders=1 + (MORE > 1), feeds=given)]
        except SternaError as problem:
            if not set(problem.codes) <= REFUSED:
                raise
            refused.append(problem)
            continue
        different[str(schedule.steps)] = None
        assert all(np.isfinite(features_of(schedule, target)))
        for way, outputs in found:
            (result,) = outputs.values()
            np.testing.assert_allclose(
                result.reshape(wanted.shape), wanted, 1e-4, 1e-4, err_msg=f"{way}: {dict(trace.choice)}"
            )
    assert len(different) > 1
    assert len(refused) <= len(different), refused[0]


@pytest.mark.parametrize("name", KERNELS)
def test_what_may_be_chosen(name: str) -> None:
    """A space contains what the rules say, and the decisions of its form."""
    kernel, target, knobs = KERNELS[name]
    trace = Trace()
    by_rule = propose(kernel, Context(target))
    assert propose(kernel, Context(target, chooser=trace)).steps == by_rule.steps
    assert knobs <= {knob.name for knob in trace.knobs}
