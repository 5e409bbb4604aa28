"""The pipeline is a list: stages in order, each verified, and views and groups made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sterna import pipeline
from sterna.errors import SternaError
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes import fuse, views
from sterna.passes.context import PassContext, context_of
from sterna.passes.fuse import Group
from sterna.passes.linearize import Repeat
from sterna.passes.stages import Grouped, Lowered, Outline, Packed, Scheduled, Sequenced, Viewed
from sterna.pipeline import PIPELINE, STAGES, VERIFY, graph_passes, walk
from sterna.targets.description import load_target
from support.planted import plant
from support.tools import ROOT


def context(target: str = "x86-64-v3", **settings: Any) -> PassContext:
    return context_of(Options(load_target(target), **settings))


def block(size: int = 8) -> Graph:
    """A depthwise separable convolution behind a padding, and attention: everything that groups can be joined for."""
    b = Builder()

    def weights(*shape: int) -> Any:
        return b.constant(np.random.default_rng(len(b.nodes)).standard_normal(shape).astype(np.float32))

    x = Value(b.name("x"), tensor_type("float32", (1, size, size, 16)))
    y = b.add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0)
    plain = {"strides": (1, 1), "dilations": (1, 1)}
    y = b.add("relu", b.add("conv", y, weights(3, 3, 1, 16), **plain, groups=16))
    y = b.add("relu", b.add("conv", y, weights(1, 1, 16, 8), **plain, groups=1))
    rows = b.add("reshape", y, shape=(1, size * size, 8))
    scores = b.add("softmax", b.add("matmul", rows, b.add("transpose", rows, order=(0, 2, 1))), axis=-1)
    return Graph("block", (x,), (b.add("matmul", scores, rows),), tuple(b.nodes))


def test_stages_are_those_of_the_list() -> None:
    assert len({each.name for each in PIPELINE}) == len(PIPELINE)
    assert len(set(STAGES)) == len(STAGES)
    assert STAGES[0] == "import"
    assert list(STAGES[1:]) == [name for each in PIPELINE for name, _ in each.dumps]
    seen: list[str] = []
    walk(block(), context(), "pack", watch=lambda each, state: seen.append(each.name))
    assert seen == [each.name for each in PIPELINE[: len(seen)]]
    assert seen[-1] == "pack"
    over_graphs = [each.over_graphs for each in PIPELINE]
    assert over_graphs == sorted(over_graphs, reverse=True), "passes over graphs come first"


def test_the_documentation_names_every_stage() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    listed = text[text.index("`--dump-after STAGE`") :].partition("\n- ")[0]
    assert [stage for stage in STAGES if f"`{stage}`" not in listed] == []


def test_passes_ask_the_context() -> None:
    def names(**settings: Any) -> set[str]:
        return {each.name for each in graph_passes(context(**settings))}

    assert names(tiles=(("y", (2, 2)),)) - names() == {"winograd"}
    assert names(target="x86-64-v4-vnni") - names() == {"byte-signs"}
    assert "byte-signs" in names(target="arm64-dotprod")
    assert "byte-signs" not in names(target="arm64-i8mm")
    assert names() - names(target="x86-64-v4-vnni", debug=True) == {"drop-channels", "tabulate"}


def test_views_and_groups_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def count(*given: Any) -> Any:
            counts[name] += 1
            return real(*given)

        monkeypatch.setattr(module, name, count)

    counted(views, "_plan")
    counted(fuse, "fuse")
    target = replace(load_target("x86-64-v3"), l2_bytes=1 << 17)
    outline = walk(block(16), context_of(Options(target)), "memory")
    assert "matmul_softmax" in [call.kernel.name for call in outline.sequence.calls], "attention is one kernel"
    assert counts == {"_plan": 1, "fuse": 1}


# ---------------------------------------------------------------- verification
def moved(outline: Outline) -> Outline:
    (one, other), plan = list(outline.plan.offsets)[:2], outline.plan
    offsets = {**plan.offsets, other: plan.offsets[one] + 64}
    return replace(outline, plan=replace(plan, offsets=offsets))


def outside(outline: Outline) -> Outline:
    first, plan = next(iter(outline.plan.offsets)), outline.plan
    return replace(outline, plan=replace(plan, offsets={**plan.offsets, first: 1 << 30}))


def with_groups(change: Callable[[tuple[Group, ...]], tuple[Group, ...]]) -> Callable[[Grouped], Grouped]:
    return lambda grouped: replace(grouped, groups={graph: change(groups) for graph, groups in grouped.groups.items()})


def with_calls(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[[Sequenced], Sequenced]:
    return lambda s: replace(s, sequence=replace(s.sequence, calls=change(s.sequence.calls)))


def circular(viewed: Viewed) -> Viewed:
    value, view = next(iter(viewed.views.parents.items()))
    parents = {**viewed.views.parents, value: replace(view, parent=value)}
    return replace(viewed, views=replace(viewed.views, parents=parents))


def overlapping(sequenced: Sequenced) -> Sequenced:
    loops = (Repeat("a", 0, 2, 1, None, None, None, 9), Repeat("b", 1, 3, 1, None, None, None, 9))
    return replace(sequenced, sequence=replace(sequenced.sequence, control=loops))


def unscheduled(scheduled: Scheduled) -> Scheduled:
    return replace(scheduled, schedules=tuple(None for _ in scheduled.schedules))


def of_others(lowered: Lowered) -> Lowered:
    return replace(lowered, lowered=(*lowered.lowered[1:], lowered.lowered[0]))


def unaligned(packed: Packed) -> Packed:
    return replace(packed, params_at=tuple((at + 4 if size else at, size) for at, size in packed.params_at))


FAULTS: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
    ("fold-constants", lambda graph: replace(graph, nodes=graph.nodes[1:]), "is read before it is defined"),
    ("views", circular, "lies within itself"),
    ("fuse", with_groups(lambda groups: groups[1:]), "no kernel computes"),
    ("fuse", with_groups(lambda groups: (*groups, groups[0])), "is in two kernels"),
    ("join", with_groups(lambda groups: groups[::-1]), "before it is computed"),
    ("linearize", with_calls(lambda calls: calls[::-1]), "which nothing has written"),
    ("linearize", with_calls(lambda calls: calls[:-1]), "nothing writes the output"),
    ("linearize", overlapping, "overlap"),
    ("memory", moved, "overlap"),
    ("memory", outside, "leaves the arena"),
    ("schedule", unscheduled, "has no schedule"),
    ("lower", of_others, "has other operands than"),
    ("pack", unaligned, "the weights of"),
)


@pytest.mark.parametrize(("name", "spoil", "says"), FAULTS, ids=[f"{name}-{says}" for name, _, says in FAULTS])
def test_what_is_malformed_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[[Any], Any], says: str
) -> None:
    plant(monkeypatch, name, spoil)
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(SternaError, match=says) as caught:
        walk(block(), context(), "pack")
    assert caught.value.codes == ("E0901",)
    assert name in str(caught.value)


def test_verification_is_off_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it was verified")

    entries = tuple(replace(each, verify=refuse) for each in PIPELINE)
    monkeypatch.setattr(pipeline, "PIPELINE", entries)
    for value in ("", "0"):
        monkeypatch.setenv(VERIFY, value)
        walk(block(), context(), "pack")
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(AssertionError, match="it was verified"):
        walk(block(), context(), "pack")
