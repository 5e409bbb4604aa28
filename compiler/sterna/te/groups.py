"""Groups of channels as a dimension of their own.

Every output channel of a grouped convolution reads the input channels of its group, x[..., co // d * n + ci]. With the
output channels split into (group, channel of the group) the indices are linear, and the kernel is a batch of products
over the groups, which strategies know. The split dimension lies in memory as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sterna.ir.integer import Atom, FloorDiv, Int
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.position import rewrite_index
from sterna.te.tensor import Kernel, Tensor


@dataclass(frozen=True)
class SplitKernel:
    """A kernel with groups as a dimension, and of every tensor that was split which one."""

    kernel: Kernel
    split: Mapping[str, int]


def sizes_of_groups(loads: Iterable[Load], axis: Axis) -> set[int]:
    """By how many neighbours along an axis loads read the same place: n for each `axis // n` in their indices."""
    atoms = {atom for load in loads for index in load.indices for atom in index.atoms()}
    return {a.divisor for a in atoms if isinstance(a, FloorDiv) and a.value == axis.var}


@dataclass(frozen=True)
class Groups:
    """Neighbours along an axis of a stage, at `place` among its axes, that read one operand at the same place."""

    place: int
    size: int


def groups_of(stage: Tensor) -> Groups | None:
    """The groups of a sum's elements, each of several that read one operand at the same place; None where neighbours
    read different ones, or all of them the same."""
    if stage.reduction is None or stage.reduction.combiner != "sum":
        return None
    loads = stage.reads()
    for place, axis in enumerate(stage.axes):
        sizes = sizes_of_groups(loads, axis)
        (size,) = sizes if len(sizes) == 1 else (1,)
        if axis.extent.is_const and 1 < size < int(axis.extent) and int(axis.extent) % size == 0:
            return Groups(place, size)
    return None


def split_groups(kernel: Kernel, stage: Tensor, groups: Groups) -> SplitKernel:
    """The kernel with an axis of a stage split into groups, and with it the axes of the stages that read it and the
    dimensions of what only they read."""
    size, extent = groups.size, stage.axes[groups.place].extent
    split: dict[str, int] = {stage.name: groups.place}
    for t in kernel.stages:
        read = [load for load in t.reads() if load.tensor.name in split]
        along = {load.indices[split[load.tensor.name]] for load in read}
        places = [n for n, axis in enumerate(t.axes) if axis.var in along]
        if t is not stage and len(places) == 1 and t.axes[places[0]].extent == extent:
            split[t.name] = places[0]
    for t in (*kernel.inputs, *kernel.params):
        if (found := _walked(kernel, t, split)) is not None:
            split[t.name] = found
    new: dict[str, Tensor] = {}
    for t in (*kernel.inputs, *kernel.params, *kernel.stages):
        new[t.name] = _rebuilt(t, split, size, new)
    made = Kernel(
        kernel.name,
        tuple(new[t.name] for t in kernel.inputs),
        tuple(new[t.name] for t in kernel.params),
        tuple(new[t.name] for t in kernel.outputs),
    )
    return SplitKernel(made, split)


def _walked(kernel: Kernel, given: Tensor, split: Mapping[str, int]) -> int | None:
    """The dimension of an operand that every read of it walks by an axis that is split, and by nothing else."""
    found = set()
    for t in kernel.stages:
        for load in t.reads():
            if load.tensor is given:
                axis = t.axes[split[t.name]] if t.name in split else None
                found.add(next((n for n, i in enumerate(load.indices) if axis is not None and i == axis.var), None))
    (dimension,) = found if len(found) == 1 else (None,)
    return dimension


def _rebuilt(t: Tensor, split: Mapping[str, int], size: int, new: Mapping[str, Tensor]) -> Tensor:
    at = split.get(t.name)
    shape = t.shape if at is None else (*t.shape[:at], t.shape[at] // size, Int({}, size), *t.shape[at + 1 :])
    if t.body is None:
        return replace(t, shape=shape)
    values: dict[Atom, Int] = {}
    axes = t.axes
    if at is not None:
        old = t.axes[at]
        group, member = Axis(f"{old.name}_group", shape[at]), Axis(old.name, size)
        axes = (*t.axes[:at], group, member, *t.axes[at + 1 :])
        values[old] = group.var * size + member.var

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, E.IndexValue):
            return replace(node, index=node.index.substitute(values))
        if not isinstance(node, Load):
            return None
        indices = [rewrite_index(i.substitute(values), lambda e: E.rewrite(e, rule)) for i in node.indices]
        k = split.get(node.tensor.name)
        if k is not None:
            indices[k : k + 1] = [indices[k] // size, indices[k] % size]
        return replace(node, tensor=new[node.tensor.name], indices=tuple(indices))

    if isinstance(t.body, Reduce):
        index = None if t.body.index is None else E.rewrite(t.body.index, rule)
        body: Expr = replace(t.body, a=E.rewrite(t.body.a, rule), index=index)
    else:
        body = E.rewrite(t.body, rule)
    return Tensor(t.name, shape, t.dtype, axes, body)
