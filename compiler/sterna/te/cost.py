"""What a kernel computes, counted: the multiply-adds of its sums of products.

A matrix product of (M, K) by (K, N) has M * K * N of them, whatever the schedule does; a convolution those of its
windows, a recurrence those of all steps, for time is an axis of its stages. Nothing else counts: no activations, no
means, no norms, no trees.
"""

from __future__ import annotations

from sterna.ir.integer import ONE, ZERO, Int
from sterna.te import expr as E
from sterna.te.expr import Expr, Load
from sterna.te.tensor import Kernel, Tensor


def multiply_adds(kernel: Kernel) -> Int:
    """Those of a kernel; over symbols where sizes are open."""
    total = ZERO
    for stage in kernel.stages:
        total = total + _of(stage)
    return total


def _of(stage: Tensor) -> Int:
    reduction = stage.reduction
    if reduction is None or reduction.combiner != "sum" or not any(map(_multiplies, E.walk(reduction.a))):
        return ZERO
    count = ONE
    for axis in stage.all_axes:
        count = count * axis.extent
    return count


def _multiplies(expr: Expr) -> bool:
    """Whether an expression is a product of elements of two tensors; a square is none."""
    if not isinstance(expr, E.Binary) or expr.op != "mul":
        return False
    left, right = (_read(side) for side in (expr.a, expr.b))
    return bool(left and right) and left != right


def _read(expr: Expr) -> set[str]:
    return {node.tensor.name for node in E.walk(expr) if isinstance(node, Load)}
