"""What models of classical machine learning need beside products and element-wise operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import ProgramBuilder, equal, integer
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, opaque, unfit
from sterna.ops.types import check_dtype, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce_axis, total

Attributes = Mapping[str, Any]


# ---------------------------------------------------------------- squared_distance
def _distance_type(types: Types, attributes: Attributes) -> TensorType:
    a, b = present(types, 0, 1)
    dtype = same_dtype((a, b))
    check_dtype(dtype, ("float32", "float64"))
    if a.rank != 2 or b.rank != 2 or a.shape[1] != b.shape[1]:
        raise unfit(f"the rows of {a} and {b} have no distance")
    return TensorType(dtype, (a.shape[0], b.shape[0]))


def _distance(applied: Application) -> Tensor:
    a, b = applied.input(0), applied.input(1)
    k = reduce_axis("k", a.shape[1])

    def body(i: Int, j: Int) -> Expr:
        apart = a[i, k] - b[j, k]
        return total(apart * apart, k)

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- pairwise_probabilities
def _pairwise_type(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32", "float64"))
    n = attributes["classes"]
    if x.rank != 2 or n < 2 or x.shape[1] != n * (n - 1) // 2:
        raise unfit(f"{x} are not the pairs of {n} classes")
    return (TensorType(x.dtype, (x.shape[0], as_int(n))),)


def _pairwise(p: ProgramBuilder, attributes: Attributes) -> None:
    x, result = p.input(0), p.output
    n, dtype = attributes["classes"], x.dtype
    tolerance = 0.005 / n
    with p.tasks(x.shape[0], "row") as row:
        q = p.array("q", dtype, (n, n))
        share = p.array("share", dtype, (n,))
        qp = p.array("qp", dtype, (n,))
        p.fill(q, 0)
        pair = p.variable("pair", 0, "int32")
        with p.loop(n, "i") as i, p.loop(n, "j", start=i + 1) as j:
            wins = x[row, pair]
            loses = p.let(1.0 - wins)
            q[i, i] = q[i, i] + loses * loses
            q[j, j] = q[j, j] + wins * wins
            q[i, j] = -(loses * wins)
            q[j, i] = q[i, j]
            pair.add(1)
        p.fill(share, 1.0 / n)
        with p.loop(100, "step"):
            whole = p.variable("whole", 0.0, dtype)
            with p.loop(n, "i") as i:
                sums = p.variable("sums", 0.0, dtype)
                with p.loop(n, "j") as j:
                    sums.add(q[i, j] * share[j])
                qp[i] = sums.value
                whole.add(share[i] * sums.value)
            worst = p.variable("worst", 0.0, dtype)
            with p.loop(n, "i") as i:
                worst.set(E.maximum(worst.value, E.unary("abs", qp[i] - whole.value)))
            p.leave_if(worst.value < tolerance)
            with p.loop(n, "i") as i:
                mine, diagonal = qp[i], q[i, i]
                step = p.let((whole.value - mine) / diagonal, "change")
                grown = p.let(1.0 + step)
                share[i] = share[i] + step
                whole.set((whole.value + step * (step * diagonal + 2.0 * mine)) / grown / grown)
                with p.loop(n, "j") as j:
                    qp[j] = (qp[j] + step * q[i, j]) / grown
                    share[j] = share[j] / grown
        with p.loop(n, "i") as i:
            result[row, i] = share[i]


# ---------------------------------------------------------------- look_up
def _look_up_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, keys, values, otherwise = present(types, 0, 1, 2, 3)
    same_dtype((x, keys))
    if keys.rank != 1 or keys.shape != values.shape or keys.shape[0] == 0:
        raise unfit(f"keys {keys} and values {values} do not fit")
    return (TensorType(same_dtype((values, otherwise)), x.shape),)


def _look_up(p: ProgramBuilder, attributes: Attributes) -> None:
    x, keys, values, result = p.input(0), p.input(1), p.input(2), p.output
    otherwise = p.input(3)
    size = int(keys.shape[0])
    kind = integer(size)
    with p.nest(x.shape) as i:
        wanted = x[i]
        # The first key that is not less, by halves: it lies in first ... first + left.
        first = p.variable("first", 0, kind)
        left = p.variable("left", size, kind)
        with p.loop(size.bit_length(), "step"):
            p.leave_if(equal(left.value, 0))
            half = p.let(E.binary("shift_right", left.value, E.const(1, kind)))
            less = p.let(keys[first.value + half] < wanted)
            with p.when(less):
                first.add(half + 1)
                left.set(left.value - half - 1)
            with p.otherwise():
                left.set(half)
        found = p.let(equal(keys[first], wanted))
        if wanted.dtype.startswith("float"):
            # NaN stands after all other keys.
            nan = E.unary("isnan", wanted)
            with p.when(nan):
                first.set(size - 1)
            found = E.select(nan, E.unary("isnan", keys[first]), found)
        result[i] = E.select(found, values[first], otherwise[(0,) * len(otherwise.shape)])


F = "float32"
_KEYS = np.array([-1.5, 0, 2, 7, np.nan], np.float32)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "squared_distance",
        "The squared Euclidean distance of every row of one matrix from every row of another.",
        single(_distance_type),
        _distance,
        Fusion.REDUCTION,
        cases=(case((F, (3, 5)), (F, (4, 5))), case(("float64", (1, 3)), ("float64", (2, 3)))),
    ),
    opaque(
        "pairwise_probabilities",
        "Probabilities of classes from those of each against each other (the pairs in the order 0-1, 0-2 ... 1-2 ...): "
        "the second method of Wu, Lin and Weng, Probability Estimates for Multi-class Classification by Pairwise "
        "Coupling, 2004.",
        _pairwise_type,
        _pairwise,
        (Attribute("classes", "int", "how many"),),
        cases=(
            case((F, (4, 6)), low=0.05, high=0.95, classes=4),
            case(("float64", (2, 1)), low=0.05, high=0.95, classes=2),
        ),
    ),
    opaque(
        "look_up",
        "For every element of the first operand the value of its key; where there is none, the fourth operand. Keys "
        "are in rising order, NaN last, and each stands there once.",
        _look_up_types,
        _look_up,
        cases=(
            case(np.array([[0, 7, 1], [np.nan, -1.5, 9]], np.float32), _KEYS, ("int64", (5,)), np.array(-1, np.int64)),
            case(np.array([3, 4, 5], np.int64), np.array([4, 5], np.int64), (F, (2,)), np.array([0.5], np.float32)),
        ),
    ),
)
