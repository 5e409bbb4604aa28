"""Operations between layers: keras.ops in models of version 3, TFOpLambda in models of version 2.

Version 3 names the class of the operation (`Add`, `GetItem`, `Mean`), version 2 TensorFlow's function (`math.add`,
`__operators__.getitem`). Arguments beside tensors stand in the call, or in the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.angles import arc_tangent
from sterna.frontends.emitter import MOST_PARTS, axes_of
from sterna.frontends.keras.layers import (
    alignments,
    complexes,
    found,
    functions,
    matrices,
    networks,
    rearranging,
    statistics,
    warps,
    windows,
)
from sterna.frontends.keras.layers.activations import FUNCTIONS
from sterna.frontends.keras.layers.arguments import axes_in, option, tensor, two_operands
from sterna.frontends.keras.stores import snake_case
from sterna.frontends.keras.translation import Result, Translation, Translator, values_in
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table, counting


def _binary(operator: str) -> Translator:
    return lambda t: t.op(operator, *two_operands(t))


def _unary(operator: str, floats: bool = True) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.x
        return t.op(operator, t.cast(x, "float32") if floats and not dtypes.is_float(x.dtype) else x)

    return translate


def _keep(t: Translation, position: int = 2) -> bool:
    return bool(option(t, position, "keepdims", False, "keep_dims"))


def _reduce(operator: str, floats: bool = False) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.x if not floats or dtypes.is_float(t.x.dtype) else t.cast(t.x, "float32")
        return t.reduced(operator, x, axes_in(t, x), _keep(t))

    return translate


def _variance(root: bool) -> Translator:
    def translate(t: Translation) -> Value:
        x, axes = t.x, axes_in(t, t.x)
        centered = t.op("sub", x, t.reduced("reduce_mean", x, axes, keep=True))
        y = t.reduced("reduce_mean", t.op("mul", centered, centered), axes, _keep(t))
        return t.op("sqrt", y) if root else y

    return translate


def _arg(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        axis = option(t, 1, "axis", None)
        x = t.x if axis is not None else _flat(t, t.x)
        kept = bool(option(t, 2, "keepdims", False))
        y = t.op(operator, x, axis=0 if axis is None else axis % x.type.rank, keep_dims=kept, last=False)
        return t.cast(y, "int32")

    return translate


def _flat(t: Translation, x: Value) -> Value:
    sizes: Any = 1
    for size in x.shape:
        sizes = size * sizes
    return t.reshape(x, (sizes,))


def _sizes(t: Translation, value: Any, what: str) -> list[Any]:
    """A list of sizes: integers, and sizes of tensors that are computed from them."""
    if isinstance(value, Value):
        if value.contents is not None:
            return list(value.contents.reshape(-1))
        if value.data is not None:
            return [int(v) for v in value.data.reshape(-1)]
        raise error("E0107", f"{t.kind} needs {what} to be constant")
    items = [value] if isinstance(value, (int, np.integer)) else list(value)
    found: list[Any] = []
    for item in items:
        found += _sizes(t, item, what) if isinstance(item, Value) else [item if item is None else int(item)]
    return found


def _reshape(t: Translation) -> Value:
    x = t.x
    wanted = _sizes(t, option(t, 1, "newshape", None, "shape", "new_shape"), "a shape")
    if t.layer.kind == "Reshape" and wanted and wanted[0] is None:
        wanted[0] = x.shape[0]
    missing = [n for n, size in enumerate(wanted) if size is None or (isinstance(size, int) and size == -1)]
    if len(missing) > 1:
        # The batch stands for the first of them.
        wanted[missing.pop(0)] = x.shape[0]
    if missing:
        total: Any = 1
        for size in x.shape:
            total = size * total
        known: Any = 1
        for n, size in enumerate(wanted):
            known = known if n in missing else size * known
        if not isinstance(known, int) and not known.is_const:
            rest: Any = 1
            ours = [s for n, s in enumerate(wanted) if n not in missing]
            for size in x.shape:
                if any(not isinstance(o, int) and o == size for o in ours) and not size.is_const:
                    continue
                rest = size * rest
            fixed = math.prod(int(o) for o in ours if isinstance(o, int) or o.is_const)
            wanted[missing[0]] = rest // fixed
        else:
            wanted[missing[0]] = total // int(known) if int(known) else 0
    return t.reshape(x, wanted)


def _transpose(t: Translation) -> Value:
    order = option(t, 1, "axes", None, "perm")
    order = list(range(t.x.type.rank))[::-1] if order is None else list(order)
    if sorted(axes_of(order, t.x.type.rank)) != list(range(t.x.type.rank)):
        raise error("E0109", f"the axes {order} of {t.x.type}")
    return t.transpose(t.x, axes_of(order, t.x.type.rank))


def _concat(t: Translation) -> Value:
    values, axis = (
        values_in(t.args[0] if t.args else t.kwargs.get("xs", t.kwargs.get("values"))),
        option(t, 1, "axis", 0),
    )
    return t.op("concat", *values, axis=int(axis) % values[0].type.rank) if len(values) > 1 else values[0]


def _stack(t: Translation) -> Value:
    values, axis = (
        values_in(t.args[0] if t.args else t.kwargs.get("x", t.kwargs.get("values"))),
        int(option(t, 1, "axis", 0)),
    )
    at = axis % (values[0].type.rank + 1)
    wide = [t.reshape(v, (*v.shape[:at], 1, *v.shape[at:])) for v in values]
    return t.op("concat", *wide, axis=at) if len(wide) > 1 else wide[0]


def _split(t: Translation) -> Result:
    x = t.x
    axis = int(option(t, 2, "axis", 0)) % x.type.rank
    given = option(t, 1, "indices_or_sections", None, "num_or_size_splits")
    size = t.extent(x, axis)
    if isinstance(given, int):
        if not 1 <= given <= min(size, MOST_PARTS) or size % given:
            raise error("E0108", f"{size} elements do not fall into {given} parts")
        starts = list(range(0, size, size // given))
    elif "num_or_size_splits" in t.kwargs:
        starts = [0, *np.cumsum(_sizes(t, given, "parts"))[:-1].tolist()]
    else:
        starts = [0, *_sizes(t, given, "parts")]
    ends = [*starts[1:], size]
    return [t.part(x, axis, start, end - start) for start, end in zip(starts, ends, strict=True)]


def _expand_dims(t: Translation) -> Value:
    x, axis = t.x, option(t, 1, "axis", 0)
    for each in sorted([axis] if isinstance(axis, int) else axis):
        at = each % (x.type.rank + 1)
        x = t.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    return x


def _squeeze(t: Translation) -> Value:
    x, axis = t.x, option(t, 1, "axis", None)
    if axis is None:
        axes = [n for n, size in enumerate(x.shape) if size.is_const and int(size) == 1]
    else:
        axes = list(axes_of([axis] if isinstance(axis, int) else axis, x.type.rank))
    return t.reshape(x, [size for n, size in enumerate(x.shape) if n not in axes])


def _get_item(t: Translation) -> Value:
    """x[key] of integers, slices, None and ...; a list of integers gathers."""
    x, key = t.x, option(t, 1, "key", None, "slice_spec")
    key = list(key) if isinstance(key, (list, tuple)) else [key]
    parts = [slice(*(p.get(k) for k in ("start", "stop", "step"))) if isinstance(p, dict) else p for p in key]
    taken = sum(1 for p in parts if p is not None and p is not ... and p != "...")
    out: list[Any] = []
    at, shape = 0, list(x.shape)
    sizes: list[Any] = list(x.shape)
    starts, steps = [0] * x.type.rank, [1] * x.type.rank
    for part in parts:
        if part is None:
            out.append(1)
        elif part is ... or part == "...":
            for _ in range(x.type.rank - taken):
                out.append(shape[at])
                at += 1
        elif isinstance(part, slice):
            if part.start is None and part.stop is None and part.step in (None, 1):
                out.append(shape[at])
            else:
                size = t.extent(x, at)
                bounds = slice(
                    *(None if v is None else _sizes(t, v, "a position")[0] for v in (part.start, part.stop, part.step))
                )
                begin, _, step = bounds.indices(size)
                count = len(range(*bounds.indices(size)))
                starts[at], sizes[at], steps[at] = begin, count, step
                out.append(count)
            at += 1
        elif isinstance(part, (int, np.integer)):
            starts[at] = int(part) + (t.extent(x, at) if part < 0 else 0)
            sizes[at] = 1
            at += 1
        else:
            raise t.unsupported(f"with the index {part!r}"[:120])
    y = t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    return t.reshape(y, [*out, *shape[at:]])


def _cast(t: Translation) -> Value:
    dtype = option(t, 1, "dtype", "float32")
    return t.cast(t.x, str(dtype).removeprefix("tf.").removesuffix("_ref"))


def _clip(t: Translation) -> Value:
    low, high = option(t, 1, "x_min", None, "clip_value_min"), option(t, 2, "x_max", None, "clip_value_max")
    x = t.x
    return t.op("minimum", t.op("maximum", x, tensor(t, low, x)), tensor(t, high, x))


def _where(t: Translation) -> Value:
    given = [*t.args, *(t.kwargs[k] for k in ("condition", "x1", "x2", "x", "y") if k in t.kwargs)]
    if len(given) != 3 or not isinstance(given[0], Value):
        raise t.unsupported("without both alternatives")
    like = next((v for v in given[1:] if isinstance(v, Value)), None)
    one, other = (tensor(t, v, like) for v in given[1:])
    return t.op("where", t.cast(given[0], "bool"), one, other)


def _matmul(t: Translation) -> Value:
    first, second = two_operands(t)
    if t.kwargs.get("transpose_a"):
        first = t.transpose(first, (*range(first.type.rank - 2), first.type.rank - 1, first.type.rank - 2))
    if t.kwargs.get("transpose_b"):
        second = t.transpose(second, (*range(second.type.rank - 2), second.type.rank - 1, second.type.rank - 2))
    return t.op("matmul", first, second)


def _einsum(t: Translation) -> Value:
    equation = option(t, 0, "subscripts", None, "equation")
    equation = t.layer.config.get("subscripts", equation)
    operands = [v for each in t.args for v in values_in(each)]
    return t.standard("Einsum", *operands, equation=str(equation))


def _pad(t: Translation) -> Value:
    widths = option(t, 1, "pad_width", None, "paddings")
    rank = t.x.type.rank
    pairs = np.broadcast_to(np.asarray(widths, np.int64), (rank, 2)).tolist()
    mode = str(option(t, 2, "mode", "constant")).lower()
    value = option(t, 3, "constant_values", 0) or 0
    before, after = [p[0] for p in pairs], [p[1] for p in pairs]
    if mode == "constant":
        return t.pad(t.x, before, after, value)
    if mode == "symmetric":
        return _mirrored(t, t.x, pairs)
    named = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(mode)
    if named is None:
        raise t.unsupported(f"with the mode {mode}")
    return t.standard("Pad", t.x, t.constant([*before, *after], "int64"), mode=named)


def _mirrored(t: Translation, x: Value, pairs: Sequence[Sequence[int]]) -> Value:
    """Padded by its mirror image, edges included."""
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            check_table(t.extent(x, axis) + before + after)
            places = np.pad(np.arange(t.extent(x, axis)), (before, after), mode="symmetric")
            x = t.op("gather", x, t.constant(places, "int64"), axis=axis)
    return x


def _remainder(t: Translation) -> Value:
    """With the sign of the divisor."""
    a, b = two_operands(t)
    return t.op("fmod" if dtypes.is_float(a.dtype) else "mod", a, b)


def _log_sum(t: Translation) -> Value:
    x = t.x if dtypes.is_float(t.x.dtype) else t.cast(t.x, "float32")
    axes, keep = axes_in(t, x), bool(option(t, 2, "keepdims", False))
    high = t.reduced("reduce_max", x, axes, keep=True)
    total = t.reduced("reduce_sum", t.op("exp", t.op("sub", x, high)), axes, keep=True)
    y = t.op("add", t.op("log", total), high)
    return y if keep else t.reshape(y, [size for n, size in enumerate(y.shape) if n not in axes])


def _take(t: Translation) -> Value:
    x, ids = t.x, option(t, 1, "indices", None)
    axis = option(t, 2, "axis", None)
    values = tensor(t, ids, None)
    wide = t.cast(values, "int64") if values.dtype not in ("int32", "int64") else values
    table = x if axis is not None else _flat(t, x)
    return t.op("gather", table, wide, axis=0 if axis is None else axis % x.type.rank)


def _shape(t: Translation) -> Value:
    return t.cast(t.dimensions(t.x.shape), "int32")


def _repeat(t: Translation) -> Value:
    axis, count = option(t, 2, "axis", None), option(t, 1, "repeats", 1)
    x = t.x if axis is not None else _flat(t, t.x)
    at = 0 if axis is None else int(axis) % x.type.rank
    wide = t.reshape(x, (*x.shape[: at + 1], 1, *x.shape[at + 1 :]))
    wide = t.op("expand", wide, shape=(*x.shape[: at + 1], int(count), *x.shape[at + 1 :]))
    return t.reshape(wide, (*x.shape[:at], x.shape[at] * int(count), *x.shape[at + 1 :]))


def _tile(t: Translation) -> Value:
    repeats = _sizes(t, option(t, 1, "repeats", None, "multiples"), "repeats")
    x, missing = t.x, len(repeats) - t.x.type.rank
    x = t.reshape(x, (*(1,) * missing, *x.shape)) if missing > 0 else x
    return t.op("tile", x, repeats=tuple([1] * -min(missing, 0) + repeats))


def _broadcast(t: Translation) -> Value:
    x, sizes = t.x, _sizes(t, option(t, 1, "shape", None), "a shape")
    x = t.reshape(x, (*(1,) * (len(sizes) - x.type.rank), *x.shape))
    return t.op("expand", x, shape=tuple(sizes))


def _l2_normalized(t: Translation) -> Value:
    x = t.x
    axes = axes_in(t, x)
    square = t.reduced("reduce_sum", t.op("mul", x, x), axes, keep=True)
    floor = float(option(t, 2, "epsilon", 1e-12))
    return t.op("div", x, t.op("sqrt", t.op("maximum", square, t.scalar(floor, x.dtype))))


def _top_k(t: Translation) -> Result:
    count = int(option(t, 1, "k", 1))
    values, places = t.standard_results("TopK", t.x, t.constant([count], "int64"), results=2, axis=-1)
    return [values, t.cast(places, "int32")]


def _activation(name: str) -> Translator:
    def translate(t: Translation) -> Value:
        axis = option(t, 1, "axis", None)
        if name in ("softmax", "log_softmax") and isinstance(axis, int):
            return t.op(name, t.x, axis=axis)
        if name == "gelu":
            return t.op("gelu", t.x, approximate="tanh" if option(t, 1, "approximate", False) else "none")
        if name == "leaky_relu":
            return t.op("leaky_relu", t.x, alpha=float(option(t, 1, "negative_slope", 0.2, "alpha")))
        return FUNCTIONS[name](t, t.x)

    return translate


def _power(exponent: float) -> Translator:
    return lambda t: t.op("pow", t.x, t.scalar(exponent, t.x.dtype))


def _square(t: Translation) -> Value:
    return t.op("mul", t.x, t.x)


def _one_hot(t: Translation) -> Value:
    count = int(option(t, 1, "num_classes", None, "depth"))
    ids, axis = t.x, int(option(t, 2, "axis", -1))
    if axis not in (-1, ids.type.rank):
        raise t.unsupported(f"along the axis {axis}")
    wide = t.reshape(ids, (*ids.shape, 1))
    return t.cast(t.op("equal", wide, t.constant(counting(count), ids.dtype)), str(option(t, 3, "dtype", "float32")))


def _not_equal(t: Translation) -> Value:
    return t.op("logical_not", t.op("equal", *two_operands(t)))


def _squared_difference(t: Translation) -> Value:
    difference = t.op("sub", *two_operands(t))
    return t.op("mul", difference, difference)


def _flip(t: Translation) -> Value:
    x, axes = t.x, axes_in(t, t.x)
    starts = tuple(t.extent(x, n) - 1 if n in axes else 0 for n in range(x.type.rank))
    steps = tuple(-1 if n in axes else 1 for n in range(x.type.rank))
    return t.op("slice", x, starts=starts, sizes=x.shape, steps=steps)


_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "maximum": "maximum",
    "minimum": "minimum", "power": "pow", "greater": "greater", "greater_equal": "greater_equal", "less": "less",
    "less_equal": "less_equal", "equal": "equal", "logical_and": "logical_and", "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "truediv": "div", "sub": "sub", "mul": "mul", "pow": "pow",
    "add_v2": "add", "realdiv": "div",
}  # fmt: skip
_UNARY = (
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sqrt",
    "floor", "ceil", "round", "reciprocal", "erf",
)  # fmt: skip
_OTHER: dict[str, Translator] = {
    **functions.OPERATIONS, **rearranging.OPERATIONS, **statistics.OPERATIONS, **matrices.OPERATIONS,
    **networks.OPERATIONS, **windows.OPERATIONS, **warps.OPERATIONS, **found.OPERATIONS,
    **alignments.OPERATIONS, **complexes.OPERATIONS,
    **{name: _binary(operator) for name, operator in _BINARY.items()},
    **{name: _unary(name) for name in _UNARY}, "mod": _remainder, "floormod": _remainder, "logsumexp": _log_sum,
    **{name: _activation(name) for name in FUNCTIONS if name not in ("linear", "threshold")},
    "arcsin": _unary("asin"), "arccos": _unary("acos"), "arctan": _unary("atan"), "arcsinh": _unary("asinh"),
    "arccosh": _unary("acosh"), "arctanh": _unary("atanh"),
    "negative": _unary("neg", False), "neg": _unary("neg", False), "abs": _unary("abs", False),
    "absolute": _unary("abs", False), "sign": _unary("sign", False),
    "isnan": _unary("is_nan"), "rsqrt": lambda t: t.op("reciprocal", t.op("sqrt", t.x)),
    "square": _square, "expm1": lambda t: t.op("expm1", t.x),
    "log1p": lambda t: t.op("log1p", t.x), "log2": lambda t: t.scaled(t.op("log", t.x), 1 / math.log(2)),
    "log10": lambda t: t.scaled(t.op("log", t.x), 1 / math.log(10)), "not_equal": _not_equal,
    "squared_difference": _squared_difference,
    "arctan2": lambda t: arc_tangent(t, *two_operands(t)), "atan2": lambda t: arc_tangent(t, *two_operands(t)),
    "sum": _reduce("reduce_sum"), "reduce_sum": _reduce("reduce_sum"), "mean": _reduce("reduce_mean", True),
    "reduce_mean": _reduce("reduce_mean", True), "max": _reduce("reduce_max"), "reduce_max": _reduce("reduce_max"),
    "amax": _reduce("reduce_max"), "amin": _reduce("reduce_min"), "min": _reduce("reduce_min"),
    "reduce_min": _reduce("reduce_min"), "prod": _reduce("reduce_prod"), "reduce_prod": _reduce("reduce_prod"),
    "any": _reduce("reduce_any"), "all": _reduce("reduce_all"), "reduce_any": _reduce("reduce_any"),
    "reduce_all": _reduce("reduce_all"), "var": _variance(False), "reduce_variance": _variance(False),
    "std": _variance(True), "reduce_std": _variance(True), "argmax": _arg("arg_max"),
    "argmin": _arg("arg_min"), "arg_max": _arg("arg_max"), "arg_min": _arg("arg_min"),
    "reshape": _reshape, "transpose": _transpose, "concatenate": _concat, "concat": _concat, "stack": _stack,
    "split": _split, "expand_dims": _expand_dims, "squeeze": _squeeze, "get_item": _get_item, "getitem": _get_item,
    "cast": _cast, "clip": _clip, "clip_by_value": _clip, "where": _where, "matmul": _matmul, "dot": _matmul,
    "einsum": _einsum, "pad": _pad, "take": _take, "gather": _take, "shape": _shape, "repeat": _repeat, "tile": _tile,
    "broadcast_to": _broadcast, "l2_normalize": _l2_normalized, "normalize": _l2_normalized, "top_k": _top_k,
    "one_hot": _one_hot, "flip": _flip, "identity": lambda t: t.x, "stop_gradient": lambda t: t.x,
    "convert_to_tensor": lambda t: t.x, "ravel": lambda t: _flat(t, t.x),
}  # fmt: skip


#: Functions of TensorFlow that are called like those of Keras have other arguments, but for a few.
_NOT_OF_TENSORFLOW = {
    name
    for each in (functions, rearranging, statistics, matrices, networks, windows, warps, found)
    for name in each.OPERATIONS
    if name not in ("norm", "logical_not", "floor_divide")
}


#: Settings that layers have and operations of the same name do not.
_OF_LAYERS = ("trainable", "batch_input_shape", "target_shape")


def operation(kind: str, module: str, config: dict[str, Any]) -> Callable[[Translation], Result] | None:
    """The translator of an operation that stands among the layers; None if it is none, or not known."""
    if kind in ("TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer"):
        name = snake_case(str(config.get("function", "")).rsplit(".", maxsplit=1)[-1])
        return None if name in _NOT_OF_TENSORFLOW else _OTHER.get(name)
    # HDF5 files do not say modules; there layers say what they are of, and operations do not.
    unsaid = not module and not any(key in config for key in _OF_LAYERS)
    if (module.startswith("keras.") and ".ops" in module) or unsaid:
        return _OTHER.get(snake_case(kind)) or _OTHER.get(kind.lower())
    return None


def known_operations() -> tuple[str, ...]:
    """The names of all operations that are translated."""
    return tuple(sorted(_OTHER))
