"""Tensors of Python's and NumPy's forms: stacked, joined and split in other ways, and numbers in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_PARTS, is_float
from sterna.frontends.pytorch.layouts import layout_of
from sterna.frontends.pytorch.operators.matrices import factored
from sterna.frontends.pytorch.operators.movement import diagonal_matrices, split, split_at
from sterna.frontends.pytorch.operators.pointwise import floor_quotient, plus, times
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table, counting


def _split_along(axis: int) -> Translator:
    """hsplit, vsplit, dsplit: into so many parts, or at given places."""

    def translate(t: Translation) -> list[Value]:
        own = 0 if axis == 1 and t.tensor().type.rank == 1 else axis
        if "sections" not in t.arguments:
            return split_at(t.having(dim=own))
        size, parts = t.extent(t.tensor(), own), t.integer("sections")
        if parts < 1 or size % parts:
            raise error("E0109", f"{t.kind} of {size} into {parts} parts")
        return split(t.having(dim=own))

    return translate


def split_by_tensor(t: Translation) -> list[Value]:
    """tensor_split by a tensor, which must be known: of no dimensions a number of parts, else places."""
    given = t.tensor("tensor_indices_or_sections")
    if given.data is None:
        raise error("E0107", f"{t.kind} needs its places to be constant")
    if given.type.rank:
        return split_at(t.having(indices=[int(n) for n in given.data.reshape(-1)]))
    size, parts = t.extent(t.tensor(), t.dim(default=0)), int(given.data)
    if not 1 <= parts <= MOST_PARTS:
        raise error("E0109", f"{t.kind} of {size} into {parts} parts")
    return split(t.having(split_sizes=[size // parts + (n < size % parts) for n in range(parts)]))


def combined(t: Translation) -> Value:
    """All choices of `r` elements, one a row (combinations)."""
    x, r = t.tensor(), t.integer("r", 2)
    count = t.extent(x, 0)
    choices = combinations_with_replacement if t.flag("with_replacement") else combinations
    check_table(math.comb(count + r, r), max(r, 1))
    places = np.array(list(choices(range(count), r)), np.int64).reshape(-1, r)
    return t.op("gather", x, t.constant(places, "int64"), axis=0)


def cartesian(t: Translation) -> Value:
    """All choices of one element of each, one a row (cartesian_prod)."""
    values = t.tensors("tensors")
    if len(values) == 1:
        return values[0]
    shape = [value.shape[0] for value in values]
    columns = []
    for n, value in enumerate(values):
        wide = t.expand(t.reshape(value, [size if m == n else 1 for m, size in enumerate(shape)]), shape)
        columns.append(t.reshape(wide, (wide.type.elements, 1)))
    return t.op("concat", *columns, axis=1)


def diagonal_of_all(t: Translation) -> Value:
    """A matrix with the elements on a diagonal (diagflat)."""
    x = t.tensor()
    return diagonal_matrices(t.having(self=t.reshape(x, (x.type.elements,))))


def powers(t: Translation) -> Value:
    """Columns of powers, from 0 up, or down to 0 (vander)."""
    x = t.tensor("x")
    x = x if x.type.rank else t.reshape(x, (1,))
    if "linalg" in t.kind and dtypes.is_integer(x.dtype):
        x = t.cast(x, "int64")
    count = t.integer("N", t.extent(x, -1))
    exponents = counting(count)
    is_rising = t.flag("increasing") or "linalg" in t.kind
    exponents = exponents if is_rising else exponents[::-1].copy()
    wide = t.unsqueeze(x, x.type.rank)
    return t.op("pow", wide, t.constant(exponents, x.dtype))


def _places_in_memory(sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Of every element, how far from the first one it lies."""
    places = np.zeros(sizes, np.int64)
    for n, (size, step) in enumerate(zip(sizes, strides, strict=True)):
        places = places + np.arange(size).reshape([-1 if m == n else 1 for m in range(len(sizes))]) * step
    return places


def strided(t: Translation) -> Value:
    """Elements of a tensor's memory, as far as it is that of its elements, by sizes and strides (as_strided)."""
    x = t.tensor()
    said = next(iter(t.operands), None)
    shape, count = t.static(x), math.prod(t.static(x))
    in_order = [math.prod(shape[n + 1 :]) for n in range(x.type.rank)]
    layout = None if said is None else layout_of(said, t.shared.symbols)
    own = in_order if layout is None else [int(step) for step in layout.strides]
    is_turned = count > 0 and any(
        size != 1 and step != wanted for size, step, wanted in zip(shape, own, in_order, strict=True)
    )
    # The offset counts from where the memory begins, not from where the operand does; without one both begin there.
    first = as_int(0) if layout is None else layout.offset
    offset = int(t.size_from(t.arg("storage_offset", first)) - first)
    sizes, strides = t.ints("size"), t.ints("stride")
    check_table(math.prod(sizes), 1)
    places = _places_in_memory(sizes, strides) + offset
    if is_turned:
        check_table(count, 1)
        memory = _places_in_memory(shape, own).reshape(-1)
        order = np.argsort(memory, kind="stable")
        found = np.minimum(np.searchsorted(memory[order], places), count - 1)
        places = np.where(memory[order][found] == places, order[found], -1)
    if places.size and (places.min() < 0 or places.max() >= count):
        raise t.unsupported("beyond the elements of its operand")
    return t.op("gather", t.reshape(x, (count,)), t.constant(places, "int64"), axis=0)


def frequencies(t: Translation) -> Value:
    """Those of a transform, (half of) the positive ones first (fft_fftfreq, fft_rfftfreq)."""
    n, d = t.integer("n"), t.number("d", 1.0)
    found = np.fft.rfftfreq(n, d) if "rfft" in t.kind else np.fft.fftfreq(n, d)
    return t.constant(found, t.scalar_type("float32"))


def _shifted(back: bool) -> Translator:
    """The first half of dimensions and the second one change places (fft_fftshift, fft_ifftshift)."""

    def translate(t: Translation) -> Value:
        x = t.tensor()
        for axis in t.axes("dim", x.type.rank):
            size = t.extent(x, axis)
            first = size // 2 if back else (size + 1) // 2
            if 0 < first < size:
                ends = t.cut(x, axis, first, size - first), t.cut(x, axis, 0, first)
                x = t.op("concat", *ends, axis=axis)
        return x

    return translate


def kaiser(t: Translation) -> Value:
    size = t.integer("window_length")
    check_table(size)
    whole = size + 1 if t.flag("periodic", True) and size > 1 else size
    return t.constant(np.kaiser(whole, t.number("beta", 12.0))[:size], t.scalar_type("float32"))


def ranged(t: Translation) -> Value:
    """Numbers up to `end`, which counts (range)."""
    start, end, step = t.number("start"), t.number("end"), t.number("step", 1.0)
    count = math.floor((end - start) / step) + 1
    check_table(count, 1)
    return t.constant(start + step * np.arange(count), t.scalar_type("float32"))


def outer_sum(t: Translation) -> Value:
    """beta * self + alpha * a b^T (addr)."""
    own, a, b = t.together(t.tensor("self"), t.tensor("vec1"), t.tensor("vec2"))
    y = factored(t, times(t, t.reshape(a, (a.shape[0], 1)), t.reshape(b, (1, b.shape[0]))), "alpha")
    # What is no number does not count where beta is 0.
    return y if t.arg("beta", 1) == 0 else plus(t, factored(t, own, "beta"), y)


def power_of_floats(t: Translation) -> Value:
    """In float64 (float_power)."""
    a, b = (t.as_value(t.operand(name), "float64") for name in ("self", "exponent"))
    return t.op("pow", a, b)


def summed_to(t: Translation) -> Value:
    """Sums over the dimensions that broadcasting to the operand's shape would repeat (sum_to_size)."""
    x, shape = t.tensor(), t.sizes_of("size")
    x = x if is_float(x) else t.cast(x, "int64")
    extra = x.type.rank - len(shape)
    axes = tuple(n for n in range(x.type.rank) if n < extra or (shape[n - extra] == 1 and x.shape[n] != 1))
    return t.reshape(t.op("reduce_sum", x, axes=axes, keep_dims=False), shape) if axes else x


def _common_divisor(t: Translation) -> tuple[Value, Value, Value]:
    """Two integers, and their greatest common divisor by Euclid's steps: at most 1.44 times as many as bits."""
    a, b = (t.op("abs", value) for value in t.together(t.operand("self"), t.operand("other")))
    shape = t.broadcast(a, b)
    a, b = t.expand(a, shape), t.expand(b, shape)
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        x, y = carried
        done = t.op("equal", y, zero)
        rest = t.op("mod", x, t.op("where", done, one, y))
        return [t.op("where", done, x, y), t.op("where", done, zero, rest)], []

    (found, _), _ = t.repeat(math.ceil(1.45 * dtypes.bits(a.dtype)), [a, b], step)
    return a, b, found


def greatest_divisor(t: Translation) -> Value:
    return _common_divisor(t)[2]


def least_multiple(t: Translation) -> Value:
    a, b, divisor = _common_divisor(t)
    zero = t.op("equal", divisor, t.scalar(0, a.dtype))
    whole = floor_quotient(t, a, t.op("where", zero, t.scalar(1, a.dtype), divisor))
    return t.op("mul", whole, b)


def _same_everywhere(t: Translation) -> Value:
    """Whether two tensors are of one shape with equal elements (equal)."""
    a, b = t.tensor(), t.tensor("other")
    if a.shape != b.shape:
        return t.scalar(False, "bool")
    alike = t.op("equal", *t.together(a, b))
    return t.op("reduce_all", alike, axes=tuple(range(a.type.rank)), keep_dims=False) if a.type.rank else alike


def put(t: Translation) -> Value:
    """Elements replaced, or added to, by their places in the order of elements."""
    x, source = t.tensor(), t.tensor("source")
    many = t.tensor("index").type.elements
    index = t.clamp_index(t.reshape(t.tensor("index"), (many,)), x.type.elements)
    reduction = "add" if t.flag("accumulate") else "none"
    flat, rows = t.reshape(x, (x.type.elements,)), t.reshape(t.cast(source, x.dtype), (many,))
    return t.reshape(t.op("scatter_nd", flat, t.reshape(index, (many, 1)), rows, reduction=reduction), x.shape)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **{f"aten.{name}.{form}": _split_along(axis) for name, axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2))
       for form in ("int", "array")},
    **_named(split_by_tensor, "tensor_split.tensor_indices_or_sections"),
    **_named(combined, "combinations.default"), **_named(cartesian, "cartesian_prod.default"),
    **_named(diagonal_of_all, "diagflat.default"), **_named(powers, "vander.default", "linalg_vander.default"),
    **_named(strided, "as_strided.default", "as_strided_copy.default"),
    **_named(frequencies, "fft_fftfreq.default", "fft_rfftfreq.default"),
    **_named(_shifted(False), "fft_fftshift.default"), **_named(_shifted(True), "fft_ifftshift.default"),
    **_named(kaiser, "kaiser_window.default", "kaiser_window.periodic", "kaiser_window.beta"),
    **_named(ranged, "range.default", "range.step"), **_named(outer_sum, "addr.default"),
    **_named(power_of_floats, *(f"float_power.{form}" for form in ("Scalar", "Tensor_Scalar", "Tensor_Tensor"))),
    **_named(summed_to, "sum_to_size.default"),
    **_named(greatest_divisor, "gcd.default"), **_named(least_multiple, "lcm.default"),
    **_named(_same_everywhere, "equal.default"), **_named(put, "put.default"),
}  # fmt: skip
