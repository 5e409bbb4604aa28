"""Kernels evaluated with NumPy: slow, obvious, and the reference that every code generator is tested against.

Each stage is computed whole. The axes of a stage, spatial ones first, are the dimensions of a *grid*; every
sub-expression becomes an array that broadcasts against the grid and has extent 1 along the axes it does not depend on.
A load with affine indices is a strided view of its tensor, any other load is fancy indexing, and both are checked to
be in bounds. A sum of a product of factors, which is what convolutions and matrix products are, is contracted factor by
factor, so that it reaches BLAS and the full grid never exists.

What single operations compute is said in `te.operations`. Sums of float32 are accumulated in float64, except
contractions, which BLAS does in float32; sums of narrower floats are accumulated in float32 or better and rounded once.
`argmin` and `argmax` take the first NaN for the extreme, as NumPy does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr
from sterna.te.operations import Array, cast, constant, operation
from sterna.te.position import IndexAtom
from sterna.te.scan import parts
from sterna.te.tensor import Kernel, Scan, Tensor, identity

Ranges = dict[Axis, tuple[int, int]]

#: Elements of a grid above which a stage is computed in parts.
MAX_GRID = 1 << 22


def run_kernel(kernel: Kernel, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Computes the kernel's outputs.

    Args:
        kernel: of static shapes.
        arrays: one for each of `kernel.inputs` and `kernel.params`, by tensor name, of exactly its shape and type.

    Returns:
        One new array for each of `kernel.outputs`, by tensor name.

    Raises:
        SternaError: E0901, an array is missing or does not fit, or a load is out of bounds.
    """
    values: dict[str, Array] = {}
    for tensor in (*kernel.inputs, *kernel.params):
        array = arrays.get(tensor.name)
        shape, dtype = tuple(map(int, tensor.shape)), dtypes.to_numpy(tensor.dtype)
        if array is None or array.shape != shape or array.dtype != dtype:
            given = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise internal_error(f"{tensor!r} of kernel {kernel.name} was given {given}")
        values[tensor.name] = array
    before, steps, after = (kernel.stages, (), ()) if kernel.scan is None else _in_time(kernel, kernel.scan)
    for stage in before:
        values[stage.name] = evaluate_stage(stage, values)
    if kernel.scan is not None:
        _run_scan(kernel.scan, steps, values)
    for stage in after:
        values[stage.name] = evaluate_stage(stage, values)
    return {output.name: values[output.name] for output in kernel.outputs}


def _in_time(kernel: Kernel, scan: Scan) -> tuple[Sequence[Tensor], ...]:
    return parts(scan, [(stage, stage.body) for stage in kernel.stages if stage.body is not None])


def _run_scan(scan: Scan, steps: Sequence[Tensor], values: dict[str, Array]) -> None:
    """Computes a recurrence step by step; `values` gets the whole sequences."""
    for tensor in (*steps, *(carry.previous for carry in scan.carries)):
        values[tensor.name] = np.empty([int(n) for n in tensor.shape], dtypes.to_numpy(tensor.dtype))
    order = range(int(scan.length))
    last: int | None = None
    for time in reversed(order) if scan.reverse else order:
        for carry in scan.carries:
            start = values[carry.start.name].reshape([int(n) for n in carry.previous.shape[1:]])
            values[carry.previous.name][time] = start if last is None else values[carry.next.name][last]
        for stage in steps:
            ranges = {axis: (0, int(axis.extent)) for axis in stage.all_axes}
            ranges[stage.axes[0]] = (time, time + 1)
            with np.errstate(all="ignore"):
                values[stage.name][time] = _evaluate(stage, values, ranges)[0]
        last = time


def evaluate_stage(stage: Tensor, arrays: Mapping[str, Array]) -> Array:
    """The elements of one stage, from those of the tensors it reads (by name)."""
    ranges = {axis: (0, int(axis.extent)) for axis in stage.all_axes}
    with np.errstate(all="ignore"):
        return _evaluate(stage, arrays, ranges)


def _evaluate(stage: Tensor, arrays: Mapping[str, Array], ranges: Ranges) -> Array:
    """The part of a stage inside `ranges`; parts that would need too large a grid are split and joined."""
    shape = tuple(stop - start for axis, (start, stop) in ranges.items() if not axis.reduction)
    dtype = dtypes.to_numpy(stage.dtype)
    assert stage.body is not None
    if 0 in shape:
        return np.empty(shape, dtype)

    def extent(axis: Axis) -> int:
        return ranges[axis][1] - ranges[axis][0]

    reduction = stage.reduction
    if reduction is not None and any(extent(axis) == 0 for axis in reduction.axes):
        empty = 0 if reduction.index is not None else constant(identity(reduction.combiner, stage.dtype))
        return np.full(shape, empty, dtype)

    largest, size = _largest_grid(stage, ranges)
    if size > MAX_GRID:
        splittable = [(extent(a), -n, a) for n, a in enumerate(stage.axes) if a in largest and extent(a) > 1]
        if splittable:
            _, position, axis = max(splittable)
            start, stop = ranges[axis]
            step = max(1, (stop - start) * MAX_GRID // size)
            parts = [
                _evaluate(stage, arrays, {**ranges, axis: (begin, min(begin + step, stop))})
                for begin in range(start, stop, step)
            ]
            return np.concatenate(parts, axis=-position)

    grid = _Grid(stage, arrays, ranges)
    if reduction is None:
        result = grid.value(stage.body)
    else:
        result = _reduce(grid, reduction, len(stage.axes))
    # A scalar has no dimensions, a reduction has lost those of its axes; what is left broadcasts.
    return np.array(np.broadcast_to(result, shape), dtype=dtype)


def _largest_grid(stage: Tensor, ranges: Ranges) -> tuple[set[Axis], int]:
    """The axes of the largest array that has to exist to compute the stage, and its number of elements."""
    reduction = stage.reduction
    if reduction is not None and _contractible(reduction):
        factors = [_axes_of(f, ranges) for f in _factors(reduction.a)]
    else:
        factors = []
    spatial = {axis for axis in ranges if reduction is None or not axis.reduction}
    candidates = [*factors, spatial] if factors else [set(ranges)]
    sized = [(math.prod(ranges[a][1] - ranges[a][0] for a in axes), n) for n, axes in enumerate(candidates)]
    size, which = max(sized)
    return candidates[which], size


def _axes_of(expr: Expr, ranges: Ranges) -> set[Axis]:
    """The axes a value depends on."""
    axes: set[Axis] = set()
    seen: set[int] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        pending.extend(node.children())
        for index in E.positions(node):
            axes.update(s for s in index.symbols() if isinstance(s, Axis) and s in ranges)
    return axes


class _Grid:
    """Evaluates expressions over a box of a stage's axes."""

    def __init__(self, stage: Tensor, arrays: Mapping[str, Array], ranges: Ranges):
        self.stage, self.arrays, self.ranges = stage, arrays, ranges
        self.rank = len(ranges)
        self.dimension: dict[Atom, int] = {axis: n for n, axis in enumerate(ranges)}
        self.coordinates: dict[Atom, Array] = {}
        for n, (axis, (start, stop)) in enumerate(ranges.items()):
            shape = [1] * self.rank
            shape[n] = stop - start
            self.coordinates[axis] = np.arange(start, stop, dtype=np.int64).reshape(shape)
        # By identity; the expression is kept so that its id stays taken.
        self.memo: dict[int, tuple[Expr, Array]] = {}

    def value(self, expr: Expr) -> Array:
        """The value over the grid: of the grid's rank, with extent 1 along axes that do not matter, or of rank 0."""
        if (known := self.memo.get(id(expr))) is not None:
            return known[1]
        result = np.asarray(self._compute(expr)).astype(dtypes.to_numpy(expr.dtype), copy=False)
        self.memo[id(expr)] = (expr, result)
        return result

    def _compute(self, expr: Expr) -> Any:
        if expr.lanes != 1:
            raise internal_error(f"stage {self.stage.name} holds a vector")
        if isinstance(expr, E.Const):
            return constant(expr)
        if isinstance(expr, E.IndexValue):
            return self.position(expr.index)
        if isinstance(expr, E.Load):
            return self.load(expr)
        return operation(expr, [self.value(child) for child in expr.children()])

    def position(self, index: Int) -> Array:
        """An index expression over the grid."""

        def atom_value(atom: Atom) -> Array:
            if (known := self.coordinates.get(atom)) is not None:
                return known
            if isinstance(atom, IndexAtom):
                return self.value(atom.value).astype(np.int64)
            raise internal_error(f"stage {self.stage.name} uses {atom}, which is none of its axes")

        return np.asarray(index.evaluate(atom_value), dtype=np.int64)

    def load(self, load: E.Load) -> Array:
        array = self.arrays.get(load.tensor.name)
        if array is None:
            raise internal_error(f"stage {self.stage.name} reads {load.tensor.name}, which has no value")
        view = self._affine_load(load, array)
        if view is not None:
            return view
        positions = [self.position(index) for index in load.indices]
        for dimension, position in enumerate(positions):
            self._check(load, array, dimension, int(position.min()), int(position.max()))
        result: Array = array[tuple(positions)]
        return result

    def _affine_load(self, load: E.Load, array: Array) -> Array | None:
        """A view, where every index is a sum of multiples of axes."""
        strides = [0] * self.rank
        shape = [1] * self.rank
        start: list[slice] = []
        bounds = []
        for dimension, index in enumerate(load.indices):
            first, low, high = index.const, 0, 0
            for monomial, coefficient in index.terms.items():
                n = self.dimension.get(monomial[0])
                if n is None or len(monomial) != 1:
                    return None
                begin, end = self.ranges[monomial[0]]  # type: ignore[index]
                shape[n] = end - begin
                strides[n] += coefficient * array.strides[dimension]
                first += coefficient * begin
                low += min(0, coefficient * (shape[n] - 1))
                high += max(0, coefficient * (shape[n] - 1))
            start.append(slice(first, None))
            bounds.append((first + low, first + high))
        for dimension, (low, high) in enumerate(bounds):
            self._check(load, array, dimension, low, high)
        return as_strided(array[tuple(start)], tuple(shape), tuple(strides), writeable=False)

    def _check(self, load: E.Load, array: Array, dimension: int, low: int, high: int) -> None:
        if low < 0 or high >= array.shape[dimension]:
            raise internal_error(
                f"stage {self.stage.name} reads {load.tensor.name} out of bounds",
                f"index {dimension}: {load.indices[dimension]}, {low} to {high}, of {array.shape[dimension]} elements",
            )


# ---------------------------------------------------------------- reductions
def _factors(expr: Expr) -> list[Expr]:
    """The factors of a product."""
    if isinstance(expr, E.Binary) and expr.op == "mul":
        return [*_factors(expr.a), *_factors(expr.b)]
    return [expr]


def _contractible(reduction: E.Reduce) -> bool:
    """Whether it is a sum of products in a type where the products need no rounding of their own."""
    wide = reduction.dtype in ("float32", "float64") or dtypes.is_integer(reduction.dtype)
    return reduction.combiner == "sum" and wide


def _reduce(grid: _Grid, reduction: E.Reduce, spatial: int) -> Array:
    """The reduction of the grid's trailing axes; the result has the `spatial` leading ones, some of extent 1."""
    if _contractible(reduction):
        return _contract(grid, [grid.value(f) for f in _factors(reduction.a)], reduction.dtype, spatial)
    extents = [stop - start for start, stop in grid.ranges.values()]
    # Extents of the reduced axes are made true, so that each repetition counts.
    value = _aligned(grid.value(reduction.a), grid.rank)
    value = np.broadcast_to(value, (*value.shape[:spatial], *extents[spatial:]))
    axes = tuple(range(spatial, grid.rank))
    if reduction.index is not None:
        index = _aligned(grid.value(reduction.index), grid.rank)
        lead = np.broadcast_shapes(value.shape[:spatial], index.shape[:spatial])
        full = (*lead, *extents[spatial:])
        flat = np.broadcast_to(value, full).reshape(*lead, -1)
        if reduction.combiner == "rescaled":
            greatest = flat.max(axis=-1, keepdims=True)
            powers = np.exp(flat - np.where(np.isneginf(greatest), 0, greatest), dtype=np.float64)
            terms = np.broadcast_to(index, full).reshape(*lead, -1)
            return np.asarray((powers * terms).sum(axis=-1).astype(dtypes.to_numpy(reduction.dtype)))
        if flat.dtype.kind not in "fiub":
            flat = flat.astype(np.float32)
        best = (np.argmax if reduction.combiner == "argmax" else np.argmin)(flat, axis=-1)
        chosen = np.take_along_axis(np.broadcast_to(index, full).reshape(*lead, -1), best[..., None], axis=-1)
        return np.asarray(chosen[..., 0])
    if reduction.dtype == "bfloat16":
        value = value.astype(np.float32)
    if reduction.combiner in ("sum", "prod"):
        wide = np.float64 if dtypes.is_float(reduction.dtype) else value.dtype
        combined = (np.sum if reduction.combiner == "sum" else np.prod)(value, axis=axes, dtype=wide)
    elif reduction.combiner in ("min", "max"):
        combined = (np.min if reduction.combiner == "min" else np.max)(value, axis=axes)
    else:
        combined = (np.all if reduction.combiner == "all" else np.any)(value, axis=axes)
    return np.asarray(combined).astype(dtypes.to_numpy(reduction.dtype), copy=False)


def _contract(grid: _Grid, factors: list[Array], dtype: str, spatial: int) -> Array:
    """Sum over the trailing axes of the product of factors, each of which only has the axes it depends on."""
    factors = [_aligned(f, grid.rank) for f in factors]
    extents = [stop - start for start, stop in grid.ranges.values()]
    used = [max(f.shape[n] for f in factors) for n in range(grid.rank)]
    repeats = math.prod(extents[n] for n in range(spatial, grid.rank) if used[n] == 1)
    exact = dtypes.to_numpy(dtype)
    if dtypes.is_integer(dtype):
        # Integers that float64 holds exactly, however they are added up, are left to BLAS.
        limit = repeats * math.prod(used[spatial:])
        for factor in factors:
            limit *= max(abs(int(factor.min())), abs(int(factor.max())))
        kind = np.dtype(np.float64) if limit < 2**53 else exact
        factors = [f.astype(kind) for f in factors] if len(factors) > 1 else factors
    if len(factors) == 1:
        wide = np.float64 if dtypes.is_float(dtype) else exact
        result = np.sum(factors[0], axis=tuple(range(spatial, grid.rank)), dtype=wide)
    elif len(factors) == 2:
        result = _contract_two(factors[0], factors[1], spatial)
    else:
        names = [tuple(n for n in range(grid.rank) if f.shape[n] > 1) for f in factors]
        squeezed = [f.reshape([f.shape[n] for n in name]) for f, name in zip(factors, names, strict=True)]
        kept = [n for n in range(spatial) if used[n] > 1]
        operands = [part for pair in zip(squeezed, names, strict=True) for part in pair]
        result = np.einsum(*operands, kept, optimize=True).reshape(used[:spatial])
    total: Array = np.asarray(result)
    if total.dtype != exact:
        # From float64 to an integer by way of int64, which holds it: the last step wraps.
        total = (cast(total, "int64") if total.dtype.kind == "f" and dtypes.is_integer(dtype) else total).astype(exact)
    return total if repeats == 1 else np.asarray(total * np.asarray(repeats).astype(exact))


def _contract_two(a: Array, b: Array, spatial: int) -> Array:
    """The same for two factors, as a batched matrix product."""
    rank = a.ndim

    def alone(x: Array, other: Array) -> tuple[int, ...]:
        return tuple(n for n in range(spatial, rank) if x.shape[n] > 1 and other.shape[n] == 1)

    a, b = (
        x.sum(axis=axes, keepdims=True, dtype=x.dtype) if (axes := alone(x, other)) else x
        for x, other in ((a, b), (b, a))
    )
    in_a, in_b = ({n for n in range(rank) if x.shape[n] > 1} for x in (a, b))
    summed = [n for n in range(spatial, rank) if n in in_a]
    shared = [n for n in range(spatial) if n in in_a and n in in_b]
    rows = [n for n in range(spatial) if n in in_a and n not in in_b]
    columns = [n for n in range(spatial) if n in in_b and n not in in_a]

    def matrices(x: Array, first: list[int], second: list[int]) -> Array:
        present = [*shared, *first, *second]
        x = np.moveaxis(x, present, range(len(present)))
        batch = x.shape[: len(shared)]
        return x.reshape(*batch, math.prod(x.shape[len(shared) : len(shared) + len(first)]), -1)

    product = np.matmul(matrices(a, rows, summed), matrices(b, summed, columns))
    order = [*shared, *rows, *columns]
    sizes = {n: max(a.shape[n], b.shape[n]) for n in range(spatial)}
    product = product.reshape([sizes[n] for n in order])
    product = product.transpose([order.index(n) for n in sorted(order)])
    return np.asarray(product.reshape([sizes[n] for n in range(spatial)]))


def _aligned(value: Array, rank: int) -> Array:
    return value if value.ndim == rank else value.reshape((1,) * rank)
