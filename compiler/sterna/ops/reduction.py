"""Reductions over dimensions, and what is made of them: softmax, layer normalization, arg max."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import ONE, ZERO, Int
from sterna.loops.build import ProgramBuilder, product
from sterna.loops.group_scan import Scan, shared_scan
from sterna.loops.groups import GroupBuilder, State
from sterna.ops.formulas import HALF, at, rounded, wide, widened
from sterna.ops.operator import Application, Attribute, Fusion, GroupRule, Onnx, Operator, Types, case, opaque
from sterna.ops.types import NUMBERS, axis_of, check_dtype, normalized_axes, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, combine, compute, identity, reduce, reduce_axis

AXES = Attribute("axes", "ints", "the dimensions that disappear, rising")
KEEP = Attribute("keep_dims", "bool", "whether they stay, with size 1", True)
LONG_ROW = 16  # elements, from which on two passes in vectors are faster than one without
BESIDE = 4  # rows that lie side by side, the same
AXIS = Attribute("axis", "int", "the dimension; negative counts from the end", -1)


def reduced_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    """The rule of every reduction over `axes`."""
    (x,) = present(types, 0)
    axes = normalized_axes(attributes["axes"], x.rank)
    return TensorType(x.dtype, reduced_shape(x.shape, axes, attributes["keep_dims"]))


def reduced_shape(shape: tuple[Int, ...], axes: tuple[int, ...], keep: bool) -> tuple[Int, ...]:
    if keep:
        return tuple(ONE if n in axes else size for n, size in enumerate(shape))
    return tuple(size for n, size in enumerate(shape) if n not in axes)


def over(
    name: str,
    x: Tensor,
    axes: tuple[int, ...],
    keep: bool,
    combiner: str,
    *,
    element: Callable[[Expr, tuple[Int, ...]], Expr] = lambda value, index: value,
) -> Tensor:
    """A stage that reduces `element(x[i], i)` over some dimensions; half floats are combined in float32."""
    inner = [reduce_axis(f"r{n}", x.shape[n]) for n in axes]
    shape = reduced_shape(x.shape, axes, keep)

    def body(*outer: Int) -> Expr:
        rest = iter(outer if not keep else [i for n, i in enumerate(outer) if n not in axes])
        position = {n: axis.var for n, axis in zip(axes, inner, strict=True)}
        index = tuple(position[n] if n in position else next(rest) for n in range(len(x.shape)))
        value = element(widened(at(x, index)), index)
        varying = [axis for axis in inner if axis.extent != 1]
        return reduce(combiner, value, *varying) if varying else value

    return compute(name, shape, body)


def _reduction(combiner: str) -> Callable[[Application], Tensor]:
    def formula(applied: Application) -> Tensor:
        x = applied.input(0)
        axes = normalized_axes(applied["axes"], len(x.shape))
        if x.dtype == wide(x.dtype):
            return over(applied.name, x, axes, applied["keep_dims"], combiner)
        return rounded(applied.name, over(applied.stage("wide"), x, axes, applied["keep_dims"], combiner), x.dtype)

    return formula


def _mean(applied: Application) -> Tensor:
    x = applied.input(0)
    axes = normalized_axes(applied["axes"], len(x.shape))
    total = over(applied.stage("sum"), x, axes, applied["keep_dims"], "sum")
    count = ONE
    for axis in axes:
        count = count * x.shape[axis]
    divisor = E.cast(E.index_value(count), total.dtype)
    return compute(applied.name, total.shape, lambda *i: E.cast(at(total, i) / divisor, x.dtype))


def _along(axis: int, index: tuple[Int, ...]) -> tuple[Int, ...]:
    """The position in a tensor whose size along `axis` is 1."""
    return (*index[:axis], ZERO, *index[axis + 1 :])


def _softmax(applied: Application) -> Tensor:
    return _normalized(applied, logarithm=False)


def _log_softmax(applied: Application) -> Tensor:
    return _normalized(applied, logarithm=True)


def _normalized(applied: Application, logarithm: bool) -> Tensor:
    """Maximum, shifted exponentials, their sum, quotient: each stage is computed once.

    The sum is between 1 and the number of elements: one division for all and a multiplication each, right to 1.5 ulp.
    """
    x = applied.input(0)
    axis = axis_of(applied["axis"], len(x.shape))
    peak = over(applied.stage("max"), x, (axis,), True, "max")

    def step(value: Expr) -> Expr:
        # ONNX defines softmax as a chain of operators: half floats are rounded after each of them.
        return widened(E.cast(value, x.dtype))

    def shifted(index: tuple[Int, ...]) -> Expr:
        return step(widened(at(x, index)) - at(peak, _along(axis, index)))

    powers = compute(applied.stage("exp"), x.shape, lambda *i: step(E.unary("exp", shifted(i))))
    total = over(applied.stage("sum"), powers, (axis,), True, "sum")
    if not logarithm and x.dtype not in HALF:
        share = compute(applied.stage("share"), total.shape, lambda *i: 1.0 / at(total, i))
        return compute(applied.name, x.shape, lambda *i: at(powers, i) * at(share, _along(axis, i)))

    def final(*index: Int) -> Expr:
        divisor = step(at(total, _along(axis, index)))
        if logarithm:
            return E.cast(shifted(index) - step(E.unary("log", divisor)), x.dtype)
        return E.cast(at(powers, index) / divisor, x.dtype)

    return compute(applied.name, x.shape, final)


def _float_unchanged(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, dtypes.FLOATS)
    axis_of(attributes["axis"], x.rank)
    return x


def _arg_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, NUMBERS)
    axis = axis_of(attributes["axis"], x.rank)
    return TensorType("int64", reduced_shape(x.shape, (axis,), attributes["keep_dims"]))


def _arg(combiner: str) -> Callable[[Application], Tensor]:
    def formula(applied: Application) -> Tensor:
        x = applied.input(0)
        axis = axis_of(applied["axis"], len(x.shape))
        size = x.shape[axis]
        beside = product(x.shape[axis + 1 :])
        least = LONG_ROW if beside == 1 else 1
        if size.is_const and least <= int(size) < 2**31 and (beside == 1 or (beside.bounds()[0] or 0) >= BESIDE):
            return _found(applied, x, axis, combiner[len("arg") :])
        inner = reduce_axis("r", size)

        def body(*outer: Int) -> Expr:
            rest = outer[:axis] + (outer[axis + 1 :] if applied["keep_dims"] else outer[axis:])
            # The last of equal values is the first when counted from the end.
            position = size - 1 - inner.var if applied["last"] else inner.var
            element = widened(at(x, (*rest[:axis], position, *rest[axis:])))
            return reduce(combiner, element, inner, index=E.index_value(position))

        return compute(applied.name, applied.output.shape, body)

    return formula


def _found(applied: Application, x: Tensor, axis: int, combiner: str) -> Tensor:
    """The extreme value of a row, then the first (or last) position where it stands: both are reductions of vectors,
    where pairs of values and positions are compared one after the other."""
    size, last = x.shape[axis], applied["last"]
    peak = over(applied.stage("peak"), x, (axis,), True, combiner)
    nowhere = E.const(-1 if last else int(size), "int32")

    def position(value: Expr, index: tuple[Int, ...]) -> Expr:
        extreme = at(peak, _along(axis, index))
        same = E.compare("eq", value, extreme)
        if dtypes.is_float(value.dtype):
            same = E.binary("or", same, E.unary("isnan", value))  # which the extreme is then too
        return E.select(same, E.index_value(index[axis], "int32"), nowhere)

    place = over(applied.stage("place"), x, (axis,), applied["keep_dims"], "max" if last else "min", element=position)
    return compute(applied.name, applied.output.shape, lambda *i: E.cast(at(place, i), "int64"))


def _ordered_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32", "float64"))
    return TensorType(x.dtype, reduced_shape(x.shape, (axis_of(attributes["axis"], x.rank),), True))


def _sum_in_order(p: ProgramBuilder, attributes: Mapping[str, Any]) -> None:
    x, y = p.input(0), p.output
    axis = axis_of(attributes["axis"], len(x.shape))
    with p.places(y.shape) as place:
        total = p.variable("total", 0.0, x.dtype)
        with p.loop(x.shape[axis], "r") as r:
            index = (*place[:axis], r, *place[axis + 1 :])
            total.add(x[index])
        y[place] = total.value


def _cumulative_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, NUMBERS)
    axis_of(attributes["axis"], x.rank)
    return x


def _log_sum_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, dtypes.FLOATS)
    axis_of(attributes["axis"], x.rank)
    return x


def _plain_scan(combiner: str) -> Callable[[str], Scan]:
    """Running sums, products or extremes of elements of a type."""

    def of(dtype: str) -> Scan:
        return Scan(
            (E.as_expr(identity(combiner, wide(dtype)), wide(dtype)),),
            lambda element: (widened(element),),
            lambda first, second: (combine(combiner, first[0], second[0]),),
            lambda state: state[0],
        )

    return of


def _log_sum_scan(dtype: str) -> Scan:
    """The greatest element so far, and the sum of exp of all of them less that: one exp for two runs, as one of the two
    that are added is exp(0)."""
    kind = wide(dtype)
    zero, one = E.const(0, kind), E.const(1, kind)

    def joined(first: State, second: State) -> State:
        (most, sum_of), (new, sum_of_new) = first, second
        # Two infinities have no difference.
        gap = E.select(E.compare("eq", new, most), zero, -E.unary("abs", new - most))
        share, above = E.unary("exp", gap), E.compare("lt", most, new)
        total = E.select(above, sum_of * share + sum_of_new, sum_of + sum_of_new * share)
        return E.select(above, new, most), total

    nothing = E.as_expr(identity("max", kind), kind), zero
    return Scan(
        nothing, lambda element: (widened(element), one), joined, lambda state: state[0] + E.unary("log", state[1])
    )


def _running(scan_of: Callable[[str], Scan]) -> Callable[[ProgramBuilder, Mapping[str, Any]], None]:
    """One walk along the axis, every row behind it side by side."""

    def write(p: ProgramBuilder, attributes: Mapping[str, Any]) -> None:
        x, y = p.input(0), p.output
        scan = scan_of(x.dtype)
        axis = axis_of(attributes["axis"], len(x.shape))
        extent, rows = x.shape[axis], x.shape[axis + 1 :]
        with p.places(x.shape[:axis], "block") as block:
            if rows:
                totals = [p.array("total", each.dtype, rows) for each in scan.identity]
                for total, each in zip(totals, scan.identity, strict=True):
                    p.fill(total, each)
            else:
                running = [p.variable("running", each) for each in scan.identity]
            with p.loop(extent, "n") as n:
                at = extent - 1 - n if attributes["reverse"] else n
                with p.nest(rows, "row") as row:
                    here = (*block, at, *row)
                    before = tuple(t[row] for t in totals) if rows else tuple(p.let(v.value) for v in running)
                    after = tuple(p.let(each) for each in scan.combine(before, scan.lift(x[here])))
                    y[here] = E.cast(scan.result(before if attributes["exclusive"] else after), x.dtype)
                    for number, each in enumerate(after):
                        if rows:
                            totals[number][row] = each
                        else:
                            running[number].set(each)

    return write


def _shared_running(scan_of: Callable[[str], Scan]) -> GroupRule:
    """The same by a group of threads."""

    def write(p: GroupBuilder, attributes: Mapping[str, Any]) -> bool:
        x = p.input(0)
        axis = axis_of(attributes["axis"], len(x.shape))
        return shared_scan(p, x, p.output, axis, attributes["exclusive"], attributes["reverse"], scan_of(x.dtype))

    return write


def _layer_norm_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x = present(types, 0)[0]
    check_dtype(x.dtype, dtypes.FLOATS)
    axis_of(attributes["axis"], x.rank)
    return x


def _layer_norm(applied: Application) -> Tensor:
    """Two passes, mean then variance, which keeps the digits that E[x^2] - E[x]^2 loses."""
    x = applied.input(0)
    rank = len(x.shape)
    first = axis_of(applied["axis"], rank)
    axes = tuple(range(first, rank))
    count = ONE
    for axis in axes:
        count = count * x.shape[axis]
    divisor = E.cast(E.index_value(count), wide(x.dtype))

    def row(index: tuple[Int, ...]) -> tuple[Int, ...]:
        return tuple(ZERO if n >= first else i for n, i in enumerate(index))

    total = over(applied.stage("sum"), x, axes, True, "sum")
    mean = compute(applied.stage("mean"), total.shape, lambda *i: at(total, i) / divisor)

    def squared(value: Expr, index: tuple[Int, ...]) -> Expr:
        return (value - at(mean, row(index))) * (value - at(mean, row(index)))

    spread = over(applied.stage("squares"), x, axes, True, "sum", element=squared)
    scale = compute(
        applied.stage("scale"),
        spread.shape,
        lambda *i: 1.0 / E.unary("sqrt", at(spread, i) / divisor + applied["epsilon"]),
    )
    return compute(
        applied.name,
        x.shape,
        lambda *i: E.cast((widened(at(x, i)) - at(mean, row(i))) * at(scale, row(i)), x.dtype),
    )


def _reducer(name: str, doc: str, combiner: str, low: float = -3.0, dtype: str = "float32") -> Operator:
    shapes = ((2, 3, 5), (2,)), ((4, 3), (0, 1)), ((2, 3, 4, 5), (1, 2)), ((6,), (0,))
    return Operator(
        name,
        doc,
        single(reduced_type),
        _reduction(combiner),
        Fusion.REDUCTION,
        (AXES, KEEP),
        cases=tuple(
            case((kind, shape), axes=axes, keep_dims=n % 2 == 0, low=low)
            for kind in ((dtype, "int32") if dtype == "float32" else (dtype,))
            for n, (shape, axes) in enumerate(shapes)
        ),
        tags=frozenset({"reduction"}),
    )


LAST = Attribute("last", "bool", "whether the last of equal values counts instead of the first", False)
_NORMALIZED = (case(("float32", (3, 7)), axis=1), case(("float32", (2, 5, 3)), axis=1), case(("float32", (4,)), axis=0))
_ARGS = (
    case(("float32", (3, 7)), axis=1, keep_dims=False),
    case(("int32", (3, 7, 2)), axis=1, keep_dims=True),
    case(("int32", (30,)), axis=0, keep_dims=False, last=True),
    case(("float32", (3, 150)), axis=1, keep_dims=False),
    case(np.array([[1, 2, 2, 0] * 20, [3, 1, 3, 0] * 20], np.float32), axis=1, keep_dims=True, last=True),
    case(("int32", (2, 70)), axis=-1, keep_dims=True),
    case(("int32", (5, 4, 9)), axis=1, keep_dims=False, low=0, high=3),
    case(("int32", (5, 30)), axis=0, keep_dims=True, last=True, low=0, high=3),
    case(np.array([[1, np.nan, np.inf, -np.inf, 2]] * 2 + [[1, 2, 0, 5, 1]] * 2, np.float32), axis=0, keep_dims=True),
)

OPERATORS: tuple[Operator, ...] = (
    _reducer("reduce_sum", "The sum over dimensions; half floats add up in float32.", "sum"),
    _reducer("reduce_prod", "The product over dimensions.", "prod"),
    _reducer("reduce_max", "The greatest element over dimensions; NaN if there is one.", "max"),
    _reducer("reduce_min", "The least element over dimensions; NaN if there is one.", "min"),
    _reducer("reduce_all", "Whether all elements over dimensions hold.", "all", dtype="bool"),
    _reducer("reduce_any", "Whether any element over dimensions holds.", "any", dtype="bool"),
    opaque(
        "sum_in_order",
        "The sum along an axis, which stays with size 1, of one element after the other: to the bit what a runtime "
        "gives that adds them up so.",
        single(_ordered_type),
        _sum_in_order,
        (AXIS,),
        cases=(
            case(("float32", (3, 40)), axis=1),
            case(("float32", (2, 5, 3)), axis=1),
            case(("float64", (7,)), axis=0),
        ),
    ),
    Operator(
        "reduce_mean",
        "The mean over dimensions.",
        single(reduced_type),
        _mean,
        Fusion.REDUCTION,
        (AXES, KEEP),
        cases=(
            case(("float32", (2, 3, 5)), axes=(1, 2)),
            case(("float32", (2, 4, 4, 3)), axes=(1, 2)),
            case(("float16", (4, 9)), axes=(1,), keep_dims=False),
        ),
        tags=frozenset({"reduction"}),
    ),
    Operator(
        "softmax",
        "exp(x) over its sum along an axis, shifted by the maximum.",
        single(_float_unchanged),
        _softmax,
        Fusion.REDUCTION,
        (AXIS,),
        cases=(*_NORMALIZED, case(("float16", (3, 9)), axis=1)),
    ),
    Operator(
        "log_softmax",
        "The logarithm of softmax, without its underflow.",
        single(_float_unchanged),
        _log_softmax,
        Fusion.REDUCTION,
        (AXIS,),
        cases=_NORMALIZED,
    ),
    Operator(
        "arg_max",
        "The position of the greatest element along an axis.",
        single(_arg_type),
        _arg("argmax"),
        Fusion.REDUCTION,
        (AXIS, KEEP, LAST),
        (Onnx("ArgMax", attributes={"keepdims": "keep_dims", "select_last_index": "last"}),),
        _ARGS,
    ),
    Operator(
        "arg_min",
        "The position of the least element along an axis.",
        single(_arg_type),
        _arg("argmin"),
        Fusion.REDUCTION,
        (AXIS, KEEP, LAST),
        (Onnx("ArgMin", attributes={"keepdims": "keep_dims", "select_last_index": "last"}),),
        _ARGS,
    ),
    *(
        opaque(
            name,
            f"The {word} of all elements up to each one along an axis.",
            single(_cumulative_type),
            _running(_plain_scan(combiner)),
            (
                AXIS,
                Attribute("exclusive", "bool", "leave the element itself out", False),
                Attribute("reverse", "bool", "count from the end", False),
            ),
            shared=_shared_running(_plain_scan(combiner)),
            cases=(
                case(("float32", (3, 5)), axis=1),
                case(("float32", (3, 5)), axis=0, exclusive=True),
                case(("int32", (6,)), axis=0, reverse=True),
            ),
        )
        for name, word, combiner in (
            ("cumulative_sum", "sum", "sum"),
            ("cumulative_product", "product", "prod"),
            ("cumulative_max", "greatest", "max"),
        )
    ),
    opaque(
        "cumulative_log_sum",
        "The log of the sum of exp of all elements up to each one along an axis.",
        single(_log_sum_type),
        _running(_log_sum_scan),
        (
            AXIS,
            Attribute("exclusive", "bool", "leave the element itself out", False),
            Attribute("reverse", "bool", "count from the end", False),
        ),
        shared=_shared_running(_log_sum_scan),
        cases=(
            case(("float32", (3, 5)), axis=1),
            case(("float32", (6, 5)), axis=0, exclusive=True),
            case(("float32", (6,)), axis=0, reverse=True),
        ),
    ),
    Operator(
        "layer_norm",
        "Elements of all dimensions from `axis` on, shifted to mean 0 and scaled to variance 1.",
        single(_layer_norm_type),
        _layer_norm,
        Fusion.REDUCTION,
        (AXIS, Attribute("epsilon", "float", "added to the variance", 1e-5)),
        cases=(case(("float32", (3, 8)), axis=1), case(("float32", (2, 3, 8)), axis=1)),
    ),
)
