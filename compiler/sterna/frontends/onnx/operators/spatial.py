"""Sampling, deformable convolution, folding, and other operators on images and matrices."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from itertools import product

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.elimination import determinant as determinant_of
from sterna.frontends.onnx.operators import runtime
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # names until operator set 20
WRITTEN_OUT = 8  # rows of a determinant whose steps are written out


def grid_sample(t: Translation) -> Value:
    mode = t.attribute("mode", "linear")
    x = t.input(0)
    if x.type.rank < 3:
        raise error("E0108", f"GridSample takes images with channels, not {x.type}")
    y = t.op(
        "grid_sample",
        t.channels_last(x),
        t.input(1),
        mode=_MODES.get(mode, mode),
        padding=t.attribute("padding_mode", "zeros"),
        align_corners=bool(t.attribute("align_corners", 0)),
    )
    return t.channels_first(y)


def affine_grid(t: Translation) -> Value:
    """The positions of an image's elements, as shares from -1 to 1, moved by a matrix: x, y (and z) and 1 times each of
    its columns."""
    theta = t.input(0)
    spatial = t.extent(theta, 1) if theta.type.rank == 3 else 0
    if spatial not in (2, 3) or t.extent(theta, 2) != spatial + 1:
        raise error("E0108", f"AffineGrid takes matrices of 2 x 3 or 3 x 4, not {theta.type}")
    if t.known(1):
        sizes = t.dims(1, "an image's shape")
    else:
        n, *extents, _ = map(as_int, t.wanted(1, "an image's shape"))
        sizes = [n, as_int(1), *extents]
        number = runtime.Numbers(t)
        given = number.flat(t.input(1))
        kept = [0, *range(2, len(sizes))]
        found = t.op("gather", given, t.constant(np.array(kept)), axis=0)
        theta = t.agree(theta, number.do("equal", found, [int(sizes[k]) for k in kept]))
    (rows, *_), several = theta.shape, sizes[0]
    if len(sizes) != spatial + 2 or (rows.is_const and several.is_const and rows != several):
        raise error("E0108", f"matrices of {theta.type} for an image of {', '.join(map(str, sizes))}")
    if rows != several:
        theta = t.agree(theta, t.op("equal", t.dimensions((rows,)), t.dimensions((several,))))
    rank = spatial + 2
    terms = [_column(t, theta, spatial)]
    for d, size in enumerate(sizes[2:]):
        along = [size if n == d + 2 else 1 for n in range(rank)]
        places = t.reshape(_shares(t, size, theta.dtype), along)
        terms.append(t.op("mul", _column(t, theta, spatial - 1 - d), places))
    total = terms[0]
    for term in terms[1:]:
        total = t.op("add", total, term)
    return t.channels_last(total)


def _column(t: Translation, theta: Value, k: int) -> Value:
    """A column of every matrix, as values of the channels of an image."""
    n, rows = theta.shape[:2]
    part = t.op("slice", theta, starts=(0, 0, k), sizes=(n, rows, 1), steps=(1, 1, 1))
    return t.reshape(part, (n, rows, *[1] * t.extent(theta, 1)))


def _shares(t: Translation, size: Int, dtype: str) -> Value:
    """The positions of a dimension's elements from -1 to 1: the outer ones, or their outer edges, lie at both ends."""
    corners = bool(t.attribute("align_corners", 0))
    one, two = t.scalar(1, dtype), t.scalar(2, dtype)
    count = t.cast(t.dimensions((size,)), dtype)
    numbers = t.counting(size, dtype)
    if corners:
        # A single element lies at -1.
        steps = t.op("maximum", t.op("sub", count, one), one)
        return t.op("sub", t.op("div", t.op("mul", numbers, two), steps), one)
    middle = t.op("add", t.op("mul", numbers, two), one)
    return t.op("sub", t.op("div", middle, count), one)


def deform_conv(t: Translation) -> Value:
    """Samples of every window, then the product with the weight, group by group."""
    x, w, offset = t.input(0), t.input(1), t.input(2)
    if x.type.rank != 4:
        raise error("E0108", f"DeformConv takes tensors of 4 dimensions, not {x.type}")
    c = t.extent(x, 1)
    outputs, per_group, *kernel = t.sizes(w, 4)
    groups = t.attribute("group", 1)
    if groups < 1 or c != per_group * groups or outputs % groups:
        raise error("E0108", f"the weight {w.type} does not fit {x.type} in {groups} groups")
    pads = t.attribute("pads") or (0,) * 4
    patches = t.op(
        "deform_patches",
        t.channels_last(x),
        t.channels_last(offset),
        *([t.channels_last(t.input(4))] if t.has(4) else []),
        kernel=tuple(kernel),
        strides=t.attribute("strides") or (1, 1),
        dilations=t.attribute("dilations") or (1, 1),
        pads=tuple(pads[:2]),
        offset_groups=t.attribute("offset_group", 1),
    )
    n, rows, columns = patches.shape[:3]
    # Each position is a row of its own, with the elements of its window side by side.
    taps = math.prod(kernel)
    image = t.reshape(patches, (n, rows * columns, taps, c))
    weight = t.reshape(t.transpose(w, (2, 3, 1, 0)), (1, taps, per_group, outputs))
    y = t.op("conv", image, weight, strides=(1, 1), dilations=(1, 1), groups=groups)
    y = t.reshape(y, (n, rows, columns, outputs))
    return t.channels_first(t.op("add", y, t.input(3)) if t.has(3) else y)


def col2im(t: Translation) -> Value:
    x = t.input(0)
    if t.known(1):
        sizes = t.integers(1, "an image's shape")
    else:
        sizes = list(t.wanted(1, "an image's shape")[2:])
        x = runtime.equal_to(t, x, 1, sizes)
    rank = len(sizes)

    def folded(kernel: tuple[int, ...]) -> Value:
        return t.op(
            "fold",
            x,
            sizes=tuple(sizes),
            kernel=kernel,
            strides=t.attribute("strides") or (1,) * rank,
            dilations=t.attribute("dilations") or (1,) * rank,
            pads=t.attribute("pads") or (0,) * (2 * rank),
        )

    if t.known(2):
        return folded(tuple(t.integers(2, "a block's shape")))
    wanted = t.wanted(2, "a block's shape")
    count = t.extent(x, 1) // max(wanted[1], 1)
    n = runtime.Numbers(t)
    given, variants = n.flat(t.input(2)), []
    for kernel in product([k for k in range(1, count + 1) if count % k == 0], repeat=rank):
        if math.prod(kernel) != count:
            continue
        try:
            y = folded(kernel)
        except SternaError:
            continue
        variants.append((n.everywhere(n.do("equal", given, kernel)), y))
    if not 0 < len(variants) <= runtime.MOST_VARIANTS:
        raise t.unknown(2, "a block's shape")
    return runtime.choose(t, variants)


def reverse_sequence(t: Translation) -> Value:
    axes = {"time_axis": t.attribute("time_axis", 0), "batch_axis": t.attribute("batch_axis", 1)}
    return t.op("reverse_sequence", t.input(0), t.input(1), **axes)


def determinant(t: Translation) -> Value:
    """Gaussian elimination with partial pivoting, the steps of small matrices written out."""
    x = t.input(0)
    if x.type.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise error("E0108", f"Det of {x.type}, which is not a square matrix")
    m = t.extent(x, -1)
    if m > WRITTEN_OUT or m == 0:
        return determinant_of(t, x)
    count = math.prod(x.shape[:-2], start=as_int(1))
    a = t.reshape(x, (count, m, m))
    one, zero = t.scalar(1, x.dtype), t.scalar(0, x.dtype)
    result = t.op("expand", one, shape=(count,))

    def part(value: Value, rows: slice, columns: slice) -> Value:
        size = t.extent(value, 1)
        ranges = [r.indices(size) for r in (rows, columns)]
        starts, sizes = (0, *(r[0] for r in ranges)), (count, *(r[1] - r[0] for r in ranges))
        return t.op("slice", value, starts=starts, sizes=sizes, steps=(1, 1, 1))

    while m > 1:
        column = t.reshape(part(a, slice(0, m), slice(0, 1)), (count, m))
        best = t.op("arg_max", t.op("abs", column), axis=1, keep_dims=True)
        # The pivot's row and the first change places.
        rows = t.constant(np.arange(m)[None, :], "int64")
        first = t.op("equal", rows, t.scalar(0, "int64"))
        order = t.op("where", first, best, t.op("where", t.op("equal", rows, best), t.scalar(0, "int64"), rows))
        a = t.op("gather_elements", a, t.op("expand", t.reshape(order, (count, m, 1)), shape=(count, m, m)), axis=1)
        moved = t.op("equal", t.reshape(best, (count,)), t.scalar(0, "int64"))
        pivot = part(a, slice(0, 1), slice(0, 1))
        result = t.op("mul", result, t.reshape(pivot, (count,)))
        result = t.op("where", moved, result, t.op("neg", result))
        safe = t.op("where", t.op("equal", pivot, zero), one, pivot)
        factor = t.op("div", part(a, slice(1, m), slice(0, 1)), safe)
        rest, top = part(a, slice(1, m), slice(1, m)), part(a, slice(0, 1), slice(1, m))
        a = t.op("sub", rest, t.op("mul", factor, top))
        m -= 1
    return t.reshape(t.op("mul", result, t.reshape(a, (count,))), x.shape[:-2])


# ---------------------------------------------------------------- einsum
def einsum(t: Translation) -> Value:
    text = t.attribute("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    operands = [t.input(n) for n in range(len(t.inputs))]
    if len(terms) != len(operands):
        raise error("E0109", f'the equation "{text}" has {len(terms)} terms for {len(operands)} operands')
    ranks = [
        x.type.rank - len(term.replace("...", "")) for term, x in zip(terms, operands, strict=True) if "..." in term
    ]
    hidden = max(ranks, default=0)
    if any(rank < 0 for rank in ranks):
        raise error("E0108", f'an operand has too few dimensions for "{text}"')
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        right = ("..." if hidden else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    labels = [_labels(term, x.type.rank, hidden, text) for term, x in zip(terms, operands, strict=True)]
    result = _labels(right, hidden + len(right.replace("...", "")), hidden, text)
    return t.op("einsum", *operands, labels=tuple(labels), to=result)


def _labels(term: str, rank: int, hidden: int, text: str) -> tuple[int, ...]:
    """A number per dimension; those that "..." stands for are the first `hidden`, aligned at the end."""
    before, dots, after = term.partition("...")
    if any(c not in string.ascii_letters for c in before + after):
        raise error("E0109", f'"{text}" is not an equation')
    covered = rank - len(before) - len(after) if dots else 0
    named = [[hidden + string.ascii_letters.index(c) for c in part] for part in (before, after)]
    if len(before) + len(after) + covered != rank:
        raise error("E0108", f'a term of "{text}" names {len(before) + len(after)} dimensions of {rank}')
    middle: Sequence[int] = range(hidden - covered, hidden)
    return (*named[0], *middle, *named[1])


TRANSLATORS: dict[str, Translator] = {
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "DeformConv": deform_conv,
    "Det": determinant,
    "Einsum": einsum,
    "GridSample": grid_sample,
    "ReverseSequence": reverse_sequence,
}
