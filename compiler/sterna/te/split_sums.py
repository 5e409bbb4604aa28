"""A kernel as two: the first computes a long reduction in parts, the second combines them (split-K).

`rfactor` shares a reduction among the threads of a task. Tasks cannot wait for one another, so what they share has to
end one kernel and begin another, or, where tasks can be counted, is combined by the last one of those that share it: a
kernel whose outputs are the parts, too, and the counters. The parts are added up in their order: a result is the same
in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from sterna.ir.integer import as_int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import Kernel, Tensor, compute, placeholder


def split_sum(kernel: Kernel, stage: Tensor, axis: Axis, parts: int) -> tuple[Kernel, Kernel]:
    """The kernel that reduces each part of an axis, whose output has the parts as its first dimension, and the one that
    combines them, whose last input that is, and computes all else.

    Args:
        stage: a plain reduction of the kernel.
        axis: reduced by it, of a constant extent that the parts divide.
    """
    partial = _partial(kernel, stage, axis, parts)
    first = _kernel(kernel, f"{kernel.name}_parts", (partial,))
    given = placeholder(partial.name, partial.shape, partial.dtype)
    second = _kernel(kernel, f"{kernel.name}_total", _with(kernel, stage, _total(stage, given)), (given,))
    return first, second


def shared_sum(kernel: Kernel, stage: Tensor, axis: Axis, parts: int, results: int) -> Kernel:
    """The two as one, whose last outputs are the parts and zeros, by which the tasks of so many results are counted.
    Arguments as of `split_sum`."""
    partial = _partial(kernel, stage, axis, parts)
    arrivals = compute(_new_name(kernel, "arrivals"), (results,), lambda _: 0, dtype="uint32")
    outputs = (*_with(kernel, stage, _total(stage, partial)), partial, arrivals)
    return _kernel(kernel, f"{kernel.name}_parts_total", outputs)


@dataclass(frozen=True)
class SharedSum:
    """How a kernel is a sum in parts and its total: `alone` computes nothing but the parts."""

    total: Tensor
    parts: Tensor
    arrivals: Tensor
    alone: Kernel


def shared_sum_of(kernel: Kernel) -> SharedSum | None:
    """What `shared_sum` has made of a kernel with one result; None of others."""
    if len(kernel.outputs) != 3:
        return None
    _, parts, arrivals = kernel.outputs
    zeros = isinstance(arrivals.body, E.Const) and arrivals.body.value == 0 and arrivals.dtype == "uint32"
    readers = [stage for stage in kernel.stages for load in stage.reads() if load.tensor is parts]
    if not zeros or len(readers) != 1 or parts.reduction is None or readers[0].reduction is None:
        return None
    (total,) = readers
    (load,) = total.reads()
    if load.indices != tuple(of(a) for a in (*readers[0].reduction.axes, *total.axes)):
        return None
    return SharedSum(total, parts, arrivals, _kernel(kernel, kernel.name, (parts,)))


def _total(stage: Tensor, partial: Tensor) -> Tensor:
    """A reduction by its parts."""
    assert stage.reduction is not None
    part = Axis("part", partial.shape[0], reduction=True)
    at = (of(part), *(of(a) for a in stage.axes))
    body = Reduce(stage.reduction.dtype, combiner=stage.reduction.combiner, a=partial[at], axes=(part,))
    return replace(stage, body=body)


def _partial(kernel: Kernel, stage: Tensor, axis: Axis, parts: int) -> Tensor:
    """A reduction over each part of an axis: neighbouring positions are of one part."""
    reduction = stage.reduction
    if reduction is None or reduction.index is not None or axis not in reduction.axes or kernel.scan is not None:
        raise ValueError(f"{stage.name} of {kernel.name} is no plain reduction over {axis.name}")
    if not axis.extent.is_const or int(axis.extent) % parts:
        raise ValueError(f"{parts} parts of {axis.name} are not alike")
    length = int(axis.extent) // parts
    part = Axis("part", parts)
    own = {a: Axis(a.name, a.extent) for a in stage.axes}
    inner = {a: Axis(a.name, length if a is axis else a.extent, reduction=True) for a in reduction.axes}
    values = {a: of(b) for a, b in {**own, **inner}.items()}
    values[axis] = of(part) * length + of(inner[axis])
    element = E.substitute_index(reduction.a, values)
    body = replace(reduction, a=element, axes=tuple(inner.values()))
    shape = (as_int(parts), *stage.shape)
    return Tensor(_new_name(kernel, "parts"), shape, stage.dtype, (part, *own.values()), body)


def _with(kernel: Kernel, stage: Tensor, total: Tensor) -> tuple[Tensor, ...]:
    """The outputs of a kernel in which a stage is another one."""
    new: dict[Tensor, Tensor] = {stage: total}

    def rule(node: Expr) -> Expr | None:
        return replace(node, tensor=new[node.tensor]) if isinstance(node, Load) and node.tensor in new else None

    for each in kernel.stages:
        if each is not stage and each.body is not None and any(load.tensor in new for load in each.reads()):
            new[each] = replace(each, body=E.rewrite(each.body, rule))
    return tuple(new.get(out, out) for out in kernel.outputs)


def _kernel(kernel: Kernel, name: str, outputs: tuple[Tensor, ...], more: tuple[Tensor, ...] = ()) -> Kernel:
    """A kernel that computes some stages, with those inputs and constants of another that they read."""
    read = {load.tensor for stage in Kernel(name, (), (), outputs).stages for load in stage.reads()}

    def kept(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(t for t in tensors if t in read)

    return Kernel(name, (*kept(kernel.inputs), *more), kept(kernel.params), outputs)


def _new_name(kernel: Kernel, wanted: str) -> str:
    known = {t.name for t in (*kernel.stages, *kernel.inputs, *kernel.params)}
    return next(name for n in count() if (name := f"{wanted}{n or ''}") not in known)
