"""Complex numbers, pairs of floats in the last dimension: what operators of numbers do with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.translation import Complex, Item, Result, Translation, Translator
from sterna.ir.graph import Value

#: Operators that do with both parts what they do with one number: they move elements, or add them up.
OF_PARTS = frozenset({
    "Add", "AddN", "AddV2", "BroadcastTo", "Concat", "ConcatV2", "Cumsum", "EnsureShape", "ExpandDims", "Fill",
    "Gather", "GatherNd", "GatherV2", "Identity", "MatrixBandPart", "MatrixDiag", "MatrixDiagPart", "Mean", "Neg",
    "Pack", "Pad", "Reshape", "Reverse", "ReverseV2", "Roll", "Select", "SelectV2", "Slice", "Split", "SplitV",
    "Squeeze", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "Unpack", "ZerosLike",
})  # fmt: skip
Parts = tuple[Value, Value]


def parts_of(t: Translation, item: Item) -> Parts:
    """The real and the imaginary part; of a real number the latter is 0."""
    if isinstance(item, Complex):
        x, last = item.value, item.value.type.rank - 1
        starts = ((0,) * last + (n,) for n in (0, 1))
        cut = [t.op("slice", x, starts=s, sizes=(*x.shape[:-1], 1), steps=(1,) * (last + 1)) for s in starts]
        return t.reshape(cut[0], x.shape[:-1]), t.reshape(cut[1], x.shape[:-1])
    if not isinstance(item, Value):
        raise error("E0108", f"{t.kind} takes complex numbers")
    real = t.cast(item, "float32")
    return real, _filled(t, 0, real)


def _filled(t: Translation, number: float, like: Value) -> Value:
    """One number everywhere; not by a product with 0, which is none of what is infinite."""
    one = t.scalar(number, like.dtype)
    return t.op("expand", one, shape=like.shape) if like.type.rank else one


def joined(t: Translation, real: Value, imaginary: Value) -> Complex:
    parts = [t.reshape(x, (*x.shape, 1)) for x in (real, imaginary)]
    return Complex(t.op("concat", *parts, axis=parts[0].type.rank - 1))


def _part_by_part(translate: Translator) -> Translator:
    def both(t: Translation) -> Result:
        made: list[tuple[Item, ...]] = []
        for n in (0, 1):
            items = [parts_of(t, item)[n] if isinstance(item, Complex) else item for item in t.items]
            found = translate(t.again(*items))
            made.append(found if isinstance(found, tuple) else (found,))
        results: list[Item] = []
        for real, imaginary in zip(*made, strict=True):
            if not isinstance(real, Value) or not isinstance(imaginary, Value):
                raise t.unsupported("of complex numbers")
            results.append(joined(t, real, imaginary))
        return tuple(results)

    return both


def _times(t: Translation, a: Parts, b: Parts, operator: str = "mul") -> Parts:
    def product(x: Value, y: Value) -> Value:
        return t.op(operator, x, y)

    real = t.op("sub", product(a[0], b[0]), product(a[1], b[1]))
    return real, t.op("add", product(a[0], b[1]), product(a[1], b[0]))


def _multiplied(t: Translation) -> Complex:
    return joined(t, *_times(t, parts_of(t, t.item(0)), parts_of(t, t.item(1))))


def _divided(t: Translation) -> Complex:
    return joined(t, *_over(t, parts_of(t, t.item(0)), parts_of(t, t.item(1))))


def _over(t: Translation, a: Parts, b: Parts) -> Parts:
    size = t.op("add", t.op("mul", b[0], b[0]), t.op("mul", b[1], b[1]))
    real, imaginary = _times(t, a, (b[0], t.op("neg", b[1])))
    return t.op("div", real, size), t.op("div", imaginary, size)


def _inverted(t: Translation) -> Complex:
    real, imaginary = parts_of(t, t.item(0))
    return joined(t, *_over(t, (_filled(t, 1, real), _filled(t, 0, real)), (real, imaginary)))


def _squared(t: Translation) -> Complex:
    a = parts_of(t, t.item(0))
    return joined(t, *_times(t, a, a))


def _exponential(t: Translation) -> Complex:
    real, imaginary = parts_of(t, t.item(0))
    size = t.op("exp", real)
    return joined(t, t.op("mul", size, t.op("cos", imaginary)), t.op("mul", size, t.op("sin", imaginary)))


def _matrices(t: Translation) -> Complex:
    sides = []
    for position, names in ((0, ("transpose_a", "adj_x")), (1, ("transpose_b", "adj_y"))):
        real, imaginary = parts_of(t, t.item(position))
        if any(t.option(name, False) for name in names):
            rank = real.type.rank
            order = (*range(rank - 2), rank - 1, rank - 2)
            real, imaginary = t.transpose(real, order), t.transpose(imaginary, order)
            imaginary = t.op("neg", imaginary) if t.option(names[1], False) else imaginary
        sides.append((real, imaginary))
    return joined(t, *_times(t, sides[0], sides[1], "matmul"))


def _equal(t: Translation) -> Value:
    a, b = (parts_of(t, t.item(n)) for n in (0, 1))
    same = t.op("logical_and", *(t.op("equal", x, y) for x, y in zip(a, b, strict=True)))
    return t.op("logical_not", same) if t.kind == "NotEqual" else same


def _cast(t: Translation) -> Value | Complex:
    """To real numbers without the imaginary part; complex numbers have one precision here."""
    kind = t.attributes.get("DstT")
    if getattr(kind, "number", 0) in (8, 18):
        return Complex(t.items[0].value) if isinstance(t.items[0], Complex) else joined(t, *parts_of(t, t.item(0)))
    return t.cast(parts_of(t, t.item(0))[0], t.dtype("DstT"))


def _ones(t: Translation) -> Complex:
    real, _ = parts_of(t, t.item(0))
    return joined(t, _filled(t, 1, real), _filled(t, 0, real))


_OWN: dict[str, Callable[[Translation], Result]] = {
    "BatchMatMul": _matrices, "BatchMatMulV2": _matrices, "BatchMatMulV3": _matrices, "Cast": _cast, "Div": _divided,
    "Equal": _equal, "Exp": _exponential, "Inv": _inverted, "MatMul": _matrices, "Mul": _multiplied,
    "NotEqual": _equal, "OnesLike": _ones, "RealDiv": _divided, "Reciprocal": _inverted, "Square": _squared,
}  # fmt: skip


def of_complex(op: str, items: tuple[Item, ...], kind: object, translate: Translator) -> Translator:
    """What translates an operator: of complex operands, or one that makes complex numbers of real ones (Cast)."""
    if not any(isinstance(item, Complex) for item in items):
        return _cast if op == "Cast" and getattr(kind, "number", 0) in (8, 18) else translate
    if op in _OWN:
        return _OWN[op]
    return _part_by_part(translate) if op in OF_PARTS else translate


def constant_pairs(given: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs of floats of single precision."""
    made: np.ndarray = np.stack([given.real, given.imag], -1).astype(np.float32)
    return made
