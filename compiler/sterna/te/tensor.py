"""Tensors as index formulas, and kernels as small graphs of them.

x = placeholder("x", (64, 256))
w = placeholder("w", (256, 128))
k = reduce_axis("k", 256)
y = compute("y", (64, 128), lambda i, j: total(x[i, k] * w[k, j], k))
z = compute("z", (64, 128), lambda i, j: expr.maximum(y[i, j], 0))
kernel = Kernel("dense_relu", inputs=(x,), params=(w,), outputs=(z,))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sterna.ir import dtypes
from sterna.ir.integer import Int, IntLike, Symbol, as_int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: given (`body` is None), or computed element by element (a *stage*).

    Args:
        name: unique within a kernel; a C identifier.
        shape: sizes, channels last where there are channels.
        dtype: element type.
        axes: one `Axis` per dimension of a stage.
        body: the element at `axes`; a `Reduce` may only stand at its root.
        must_hold: a bool without dimensions; the kernel fails where it is false.
        scan: the recurrence one of whose states, as it was before each step, this tensor is; then `body` is None.
    """

    name: str
    shape: tuple[Int, ...]
    dtype: str
    axes: tuple[Axis, ...] = ()
    body: Expr | None = None
    must_hold: bool = False
    scan: Scan | None = None

    def __getitem__(self, index: Any) -> Load:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise IndexError(f"{self.name} has {len(self.shape)} dimensions, {len(indices)} indices given")
        return Load(
            self.dtype, tensor=self, indices=tuple(of(i) if isinstance(i, Symbol) else as_int(i) for i in indices)
        )

    @property
    def reduction(self) -> Reduce | None:
        return self.body if isinstance(self.body, Reduce) else None

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        """Spatial axes, then those of the reduction."""
        return self.axes + (self.reduction.axes if self.reduction else ())

    def reads(self) -> tuple[Load, ...]:
        return E.loads(self.body) if self.body is not None else ()

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"


@dataclass(frozen=True, eq=False)
class Carry:
    """What a recurrence carries from step to step: one of its states.

    Args:
        previous: the state before each step; no stage, so that kernels stay acyclic. Its first axis is time.
        start: the stage that gives the state before the first step; it has no time axis and no other reader.
        next: the stage that gives the state after each step.
    """

    previous: Tensor
    start: Tensor
    next: Tensor


@dataclass(frozen=True, eq=False)
class Scan:
    """A recurrence; made by `te.scan.scan`.

    Args:
        length: steps; reverse: whether the last one is the first in time.
        carries: filled in once, when the step's stages exist.
    """

    length: Int
    reverse: bool
    carries: tuple[Carry, ...] = ()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A DAG of stages that becomes one function, and at most one recurrence through some of them.

    Args:
        name: a C identifier.
        inputs: tensors that other kernels or the caller produce.
        params: constants; a schedule may repack them at compile time.
        outputs: stages written to memory, in the order of the node's results.
    """

    name: str
    inputs: tuple[Tensor, ...]
    params: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    stages: tuple[Tensor, ...] = field(init=False)
    scan: Scan | None = field(init=False)

    def __post_init__(self) -> None:
        stages, scans = _in_order(self.outputs)
        if len(scans) > 1:
            raise ValueError(f"kernel {self.name} has {len(scans)} recurrences")
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "scan", scans[0] if scans else None)

    def tensor(self, name: str) -> Tensor:
        for t in (*self.stages, *self.inputs, *self.params):
            if t.name == name:
                return t
        raise KeyError(name)


def placeholder(name: str, shape: Sequence[IntLike], dtype: str = "float32") -> Tensor:
    return Tensor(name, tuple(as_int(s) for s in shape), dtype)


def reduce_axis(name: str, extent: IntLike) -> Axis:
    return Axis(name, extent, reduction=True)


def compute(
    name: str,
    shape: Sequence[IntLike],
    body: Callable[..., Expr | float | int],
    axes: Sequence[str] = (),
    dtype: str | None = None,
    must_hold: bool = False,
) -> Tensor:
    """A stage. `body` takes one `Int` per dimension and returns the element.

    Args:
        axes: names of the axes; by default those of the function's parameters, or i0, i1 ... for `*indices`.
        dtype: needed only when the body is a Python number.
    """
    if not axes:
        parameters = list(inspect.signature(body).parameters.values())
        named = len(parameters) == len(shape) and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        axes = [p.name for p in parameters] if named else [f"i{n}" for n in range(len(shape))]
    variables = tuple(Axis(a, s) for a, s in zip(axes, shape, strict=True))
    element = body(*(of(v) if v.lo != v.hi else as_int(0) for v in variables))
    if not isinstance(element, Expr):
        if dtype is None:
            raise TypeError(f"stage {name}: a constant body needs a dtype")
        element = E.const(element, dtype)
    return Tensor(name, tuple(as_int(s) for s in shape), element.dtype, variables, element, must_hold)


def reduce(combiner: str, a: Expr, *axes: Axis, index: Expr | None = None) -> Reduce:
    """A reduction over axes made by `reduce_axis`; see `expr.Reduce`."""
    dtype = index.dtype if index is not None else a.dtype
    return Reduce(dtype, combiner=combiner, a=a, axes=axes, index=index)


def total(a: Expr, *axes: Axis) -> Reduce:
    """The sum over axes."""
    return reduce("sum", a, *axes)


#: The operation of two values by combiner; not of argmin and argmax, which carry an index.
COMBINING = {"sum": "add", "prod": "mul", "min": "minimum", "max": "maximum", "all": "and", "any": "or"}


def identity(combiner: str, dtype: str) -> Expr:
    """The neutral element of a combiner."""
    if combiner in ("sum", "any", "rescaled"):
        return E.const(0, dtype)
    if combiner in ("prod", "all"):
        return E.const(1, dtype)
    low = combiner in ("max", "argmax")
    if dtypes.is_float(dtype):
        return E.const(float("-inf") if low else float("inf"), dtype)
    return E.const(dtypes.limits(dtype)[0 if low else 1], dtype)


def combine(combiner: str, a: Expr, b: Expr) -> Expr:
    """One step of a combiner on values (not for argmin and argmax, which carry an index)."""
    return E.binary(COMBINING[combiner], a, b)


def _in_order(outputs: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], list[Scan]]:
    """Stages, producers first, and recurrences. What a state starts as comes before the stages that read the state."""
    order: list[Tensor] = []
    scans: list[Scan] = []
    seen: set[int] = set()
    for output in outputs:
        _add_in_order(output, order, scans, seen)
    for scan in scans:
        for carry in scan.carries:
            _add_in_order(carry.next, order, scans, seen)
    return tuple(order), scans


def _add_in_order(t: Tensor, order: list[Tensor], scans: list[Scan], seen: set[int]) -> None:
    """Adds a stage after those that it needs; `seen`: those that are added, or are about to be."""
    if t.scan is not None and t.scan not in scans:
        scans.append(t.scan)
        for carry in t.scan.carries:
            _add_in_order(carry.start, order, scans, seen)
    if id(t) in seen or t.body is None:
        return
    seen.add(id(t))
    for load in t.reads():
        assert isinstance(load.tensor, Tensor)
        _add_in_order(load.tensor, order, scans, seen)
    order.append(t)


def constant_of(value: Expr) -> E.Const | None:
    """The constant that a value is, also as an element of a stage that is one everywhere; None if it is none."""
    stage = value.tensor if isinstance(value, E.Load) else None
    found = stage.body if isinstance(stage, Tensor) else value
    return found if isinstance(found, E.Const) else None
