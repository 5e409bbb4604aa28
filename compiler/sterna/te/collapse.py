"""Merges dimensions that a kernel never tells apart, so that schedules see long contiguous axes.

Dimensions of size one are dropped; neighbouring dimensions are merged where every stage walks them together (rows and
columns of a 1x1 convolution, all dimensions of an element-wise chain). Equal computations on differently shaped tensors
then become equal kernels. The columns of a window and its channels are one where bytes have so few channels that a dot
product would add up less than it can: they lie side by side. The time axis of a recurrence stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import ONE, ZERO, Atom, Int, Symbol, as_int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.position import IndexAtom, rewrite_index
from sterna.te.scan import parts
from sterna.te.tensor import Carry, Kernel, Scan, Tensor

#: Bytes that dot products add up.
_GROUP = 4


@dataclass(frozen=True)
class Collapsed:
    """The new kernel, and for every tensor name the groups of old dimensions that its new dimensions are made of."""

    kernel: Kernel
    groups: Mapping[str, tuple[tuple[int, ...], ...]]


def collapse(kernel: Kernel, strides: Mapping[str, Sequence[Int]]) -> Collapsed:
    """The kernel with fewer dimensions.

    Args:
        strides: of inputs and outputs that do not lie densely in memory, by tensor name.
    """
    timed = _timed(kernel)
    squeezed = _rebuild(
        kernel,
        {
            t.name: tuple((d,) for d, n in enumerate(t.shape) if n != 1 or (d == 0 and t.name in timed))
            for t in _tensors(kernel)
        },
    )
    first = squeezed.groups
    left = {name: [strides[name][d] for (d,) in first[name]] for name in strides}
    pairs = _mergeable(squeezed.kernel, left, timed)
    groups: dict[str, tuple[tuple[int, ...], ...]] = {}
    for t in _tensors(squeezed.kernel):
        current: list[tuple[int, ...]] = []
        for d in range(len(t.shape)):
            if d and (t.name, d - 1) in pairs:
                current[-1] = (*current[-1], d)
            else:
                current.append((d,))
        groups[t.name] = tuple(current)
    merged = _rebuild(squeezed.kernel, groups)
    composed = {
        name: tuple(tuple(first[name][d][0] for d in g) for g in gs) if first[name] else ()
        for name, gs in groups.items()
    }
    return Collapsed(merged.kernel, composed)


def _tensors(kernel: Kernel) -> tuple[Tensor, ...]:
    before = () if kernel.scan is None else tuple(carry.previous for carry in kernel.scan.carries)
    return (*kernel.inputs, *kernel.params, *before, *kernel.stages)


def _timed(kernel: Kernel) -> set[str]:
    """Tensors whose first dimension is the time of a recurrence."""
    if kernel.scan is None:
        return set()
    _, steps, _ = parts(kernel.scan, [(t, t.body) for t in kernel.stages if t.body is not None])
    return {t.name for t in (*steps, *(carry.previous for carry in kernel.scan.carries))}


def _mergeable(kernel: Kernel, strides: Mapping[str, Sequence[Int]], timed: set[str]) -> set[tuple[str, int]]:
    """(tensor, d) where dimensions d and d + 1 can be one; for stages, axes likewise, those reduced counted on."""
    pairs: set[tuple[str, int]] = set()
    for t in _tensors(kernel):
        for d in range(len(t.shape) - 1):
            s = strides.get(t.name)
            if t.shape[d + 1].is_const and (s is None or s[d] == t.shape[d + 1] * s[d + 1]):
                pairs.add((t.name, d))
    inner = {t.name: len(t.axes) for t in kernel.stages}
    for t in kernel.stages:
        for n in range(len(t.all_axes) - len(t.axes) - 1):
            if t.all_axes[inner[t.name] + n + 1].extent.is_const:
                pairs.add((t.name, inner[t.name] + n))
    pairs -= {(name, 0) for name in timed}
    changed = True
    while changed:
        changed = False
        for stage in kernel.stages:
            for dead in _conflicts(stage, pairs):
                if dead in pairs:
                    pairs.discard(dead)
                    changed = True
        for alike in _states(kernel):
            if any(pair in pairs for pair in alike) and not all(pair in pairs for pair in alike):
                pairs -= alike
                changed = True
    return pairs


def _states(kernel: Kernel) -> list[set[tuple[str, int]]]:
    """Pairs of dimensions of the tensors of one state, which merge in all of them or in none."""
    carries = () if kernel.scan is None else kernel.scan.carries
    return [
        {(carry.previous.name, d + 1), (carry.next.name, d + 1), (carry.start.name, d)}
        for carry in carries
        for d in range(len(carry.previous.shape) - 2)
    ]


def _conflicts(stage: Tensor, pairs: set[tuple[str, int]]) -> list[tuple[str, int]]:
    """Pairs that some access of this stage rules out."""
    dead: list[tuple[str, int]] = []
    axes = stage.all_axes
    assert stage.body is not None
    for node, computed in _accesses(stage.body):
        if isinstance(node, E.IndexValue):
            dead += _touching(stage, _own_symbols(node.index), pairs)
        if not isinstance(node, Load):
            continue
        tensor, indices = node.tensor, node.indices
        assert isinstance(tensor, Tensor)
        for d in range(len(indices) - 1):
            if (tensor.name, d) not in pairs:
                continue
            at = _consecutive(tensor, indices[d], indices[d + 1], axes)
            if at is None or (stage.name, at) not in pairs or axes[at + 1].extent != tensor.shape[d + 1]:
                dead.append((tensor.name, d))
            elif computed and not all(n.is_const for n in tensor.shape[d : d + 2]):
                dead.append((tensor.name, d))  # where a row of them ends is not proved of positions
        for d, index in enumerate(indices):
            for a in _own_symbols(index):
                n = next((i for i, axis in enumerate(axes) if axis is a), None)
                if n is None:
                    continue
                # Both neighbours of an axis in a merged pair must stand beside it in this access.
                for first in (n - 1, n):
                    if (stage.name, first) not in pairs or not 0 <= first < len(axes) - 1:
                        continue
                    spot = d if first == n else d - 1
                    fits = (
                        0 <= spot < len(indices) - 1
                        and (tensor.name, spot) in pairs
                        and _consecutive(tensor, indices[spot], indices[spot + 1], axes) == first
                    )
                    if not fits:
                        dead.append((stage.name, first))
    return dead


def _accesses(body: Expr, computed: bool = False) -> Iterator[tuple[Expr, bool]]:
    """Every node of a body, and whether it is one that a computed position is made of."""
    for node in E.walk(body):
        yield node, computed
        for index in E.positions(node):
            for value in index.expressions():
                yield from _accesses(value, computed=True)


def _own_symbols(index: Int) -> set[Symbol]:
    """The axes that stand in an index itself; computed positions have accesses of their own."""
    own: set[Symbol] = set()
    for monomial in index.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                own.add(atom)
            elif not isinstance(atom, IndexAtom):
                own.update(*(_own_symbols(part) for part in atom.parts()))
    return own


def _touching(stage: Tensor, symbols: set[Symbol], pairs: set[tuple[str, int]]) -> list[tuple[str, int]]:
    return [
        (stage.name, f)
        for n, a in enumerate(stage.all_axes)
        if a in symbols
        for f in (n - 1, n)
        if (stage.name, f) in pairs
    ]


def _consecutive(tensor: Tensor, a: Int, b: Int, axes: Sequence[Axis]) -> int | None:
    """n if the two indices are just axes n and n + 1 of the stage, the first maybe shifted, or those of a narrow
    window."""
    for n in range(len(axes) - 1):
        if b == of(axes[n + 1]) and ((a - of(axes[n])).is_const or _narrow_window(tensor, a, axes[n], axes[n + 1])):
            return n if axes[n].reduction == axes[n + 1].reduction else None
    return None


def _narrow_window(tensor: Tensor, index: Int, columns: Axis, channels: Axis) -> bool:
    """Whether an index walks the neighbouring columns of a window whose channels are few bytes."""
    few = channels.extent.is_const and int(channels.extent) < _GROUP and dtypes.bits(tensor.dtype) == 8
    walks = columns.reduction and channels.reduction and index.coefficient(columns) == 1
    return bool(few and walks and channels not in index.symbols())


def _rebuild(kernel: Kernel, groups: Mapping[str, tuple[tuple[int, ...], ...]]) -> Collapsed:
    """The kernel with the dimensions of every tensor merged as told (dimensions that are in no group are of size one).
    A stage's reduction axes are merged where its first access says so."""
    new: dict[str, Tensor] = {}
    scan = None if kernel.scan is None else Scan(kernel.scan.length, kernel.scan.reverse)
    for t in _tensors(kernel):
        if t.body is None:
            new[t.name] = Tensor(
                t.name, _merge_shape(t.shape, groups[t.name]), t.dtype, scan=None if t.scan is None else scan
            )
        else:
            new[t.name] = _rebuild_stage(t, groups, new)
    if kernel.scan is not None:
        carries = (Carry(*(new[t.name] for t in (c.previous, c.start, c.next))) for c in kernel.scan.carries)
        object.__setattr__(scan, "carries", tuple(carries))
    made = Kernel(
        kernel.name,
        tuple(new[t.name] for t in kernel.inputs),
        tuple(new[t.name] for t in kernel.params),
        tuple(new[t.name] for t in kernel.outputs),
    )
    return Collapsed(made, groups)


def _merge_shape(shape: Sequence[Int], groups: Sequence[tuple[int, ...]]) -> tuple[Int, ...]:
    sizes = []
    for group in groups:
        size = as_int(1)
        for d in group:
            size = size * shape[d]
        sizes.append(size)
    return tuple(sizes)


def _rebuild_stage(t: Tensor, groups: Mapping[str, tuple[tuple[int, ...], ...]], new: Mapping[str, Tensor]) -> Tensor:
    assert t.body is not None
    values: dict[Atom, Int] = {}

    def merged(members: Sequence[Axis], reduction: bool) -> Axis:
        if len(members) == 1:
            axis = Axis(members[0].name, members[0].extent, reduction)
        else:
            extent = as_int(1)
            for m in members:
                extent = extent * m.extent
            axis = Axis("_".join(m.name for m in members), extent, reduction)
        rest = of(axis)
        for m in reversed(members[1:]):
            values[m] = rest % m.extent
            rest = rest // m.extent
        values[members[0]] = rest
        return axis

    axes = tuple(merged([t.axes[d] for d in g], False) for g in groups[t.name])
    body: Expr = t.body
    inner: tuple[Axis, ...] = ()
    if isinstance(body, Reduce):
        runs: list[list[Axis]] = []
        joined = _reduction_runs(t, groups)
        for axis in body.axes:
            if axis.extent == 1:
                values[axis] = ZERO
            elif runs and (runs[-1][-1], axis) in joined:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        inner = tuple(merged(r, True) for r in runs)

    def rule(node: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
        if isinstance(node, E.IndexValue):
            index = node.index.substitute(values)
            return E.const(index.const, node.dtype) if index.is_const else node.changed(index=index)
        if not isinstance(node, Load):
            return None
        source = node.tensor
        assert isinstance(source, Tensor)
        indices = tuple(rewrite_index(i.substitute(values), again) for i in node.indices)
        flat = []
        for group in groups[source.name]:
            total = ZERO
            for d in group:
                total = total * source.shape[d] + indices[d]
            flat.append(total)
        if len(new[source.name].shape) > len(flat):
            flat.append(ZERO)
        return node.changed(tensor=new[source.name], indices=tuple(flat))

    if isinstance(body, Reduce):
        a = E.rewrite_within(body.a, rule)
        index = None if body.index is None else E.rewrite_within(body.index, rule)
        # Of a single value it is that value, and its position.
        only = a if index is None else index
        body = Reduce(body.dtype, combiner=body.combiner, a=a, axes=inner, index=index) if inner else only
    else:
        body = E.rewrite_within(body, rule)
    if not axes:
        # A single element keeps one axis, so that a schedule has a place to compute its reductions at.
        return Tensor(t.name, (ONE,), t.dtype, (Axis("i", 1),), body, t.must_hold)
    return Tensor(t.name, _merge_shape(t.shape, groups[t.name]), t.dtype, axes, body, t.must_hold)


def _reduction_runs(t: Tensor, groups: Mapping[str, tuple[tuple[int, ...], ...]]) -> set[tuple[Axis, Axis]]:
    """Neighbouring reduction axes that every access walks together in dimensions that are merged."""
    reduction = t.reduction
    assert reduction is not None
    good: set[tuple[Axis, Axis]] = set()
    for first, second in zip(reduction.axes, reduction.axes[1:], strict=False):
        fits = any(True for _ in t.reads())
        for load in t.reads():
            assert isinstance(load.tensor, Tensor)
            uses = [d for d, i in enumerate(load.indices) if {first, second} & i.symbols()]
            if not uses:
                continue
            whole = (
                len(uses) == 2
                and uses[1] == uses[0] + 1
                and _consecutive(load.tensor, load.indices[uses[0]], load.indices[uses[1]], (first, second)) == 0
            )
            same = whole and any(uses[0] in g and uses[1] in g for g in groups[load.tensor.name])
            fits = fits and bool(same) and second.extent == load.tensor.shape[uses[1]]
        extra = {s for e in E.walk(reduction) if isinstance(e, E.IndexValue) for s in e.index.symbols()}
        if fits and first not in extra and second not in extra and first.extent != 1 and second.extent != 1:
            good.add((first, second))
    return good
