"""Calls of grouped convolutions as batches of products, where a group is worth vectors of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sterna.passes.decisions import Decide, by_rule
from sterna.passes.kernels import Call
from sterna.targets.target import Target
from sterna.te.groups import groups_of, split_groups
from sterna.te.layout import Layout
from sterna.te.tensor import Kernel


def group_channels(call: Call, target: Target, decide: Decide = by_rule) -> Call:
    """The call with the groups of its channels as a dimension; itself if there are none, or if they are so small that
    several share a vector."""
    kernel = call.kernel
    if not isinstance(kernel, Kernel) or kernel.scan is not None:
        return call
    found = [(stage, groups_of(stage)) for stage in kernel.stages if stage.reduction is not None]
    if len(found) != 1:
        return call
    ((stage, groups),) = found
    # Channels that lie side by side fill vectors; several groups share one where that is worth it.
    if groups is None:
        return call
    shared = groups.place == len(stage.axes) - 1 and 4 * groups.size <= target.lanes(32)
    if not decide("groups", call.key, (True, False), not shared):
        return call
    size = groups.size
    grouped = split_groups(kernel, stage, groups)
    layouts = {name: _split(layout, grouped.split.get(name), size) for name, layout in call.layouts.items()}
    constants = tuple(
        np.reshape(array, [int(n) for n in p.shape])
        for array, p in zip(call.constants, grouped.kernel.params, strict=True)
    )
    return replace(
        call, kernel=grouped.kernel, layouts=layouts, constants=constants, key=f"{call.key}\ngroups of {size}"
    )


def _split(layout: Layout, dimension: int | None, size: int) -> Layout:
    if dimension is None:
        return layout
    stride = layout.strides[dimension]
    strides = (*layout.strides[:dimension], stride * size, stride, *layout.strides[dimension + 1 :])
    return replace(layout, strides=strides)
