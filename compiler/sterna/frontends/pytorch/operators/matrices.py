"""Products of matrices."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.pytorch.operators.pointwise import times
from sterna.frontends.pytorch.operators.quantized import integer_linear
from sterna.frontends.pytorch.operators.reductions import norm_of
from sterna.frontends.pytorch.promotion import float_type, result_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


def product(t: Translation, a: Value, b: Value) -> Value:
    """a @ b as torch.matmul says, of any ranks."""
    dtype = result_type((a, b))
    return standard(t, "MatMul", t.cast(a, dtype), t.cast(b, dtype))


def _matmul(first: str, second: str) -> Translator:
    """Of two tensors, in the type of the result where the call names one."""

    def translate(t: Translation) -> Value:
        a, b = t.tensor(first), t.tensor(second)
        dtype = t.scalar_type("", "out_dtype")
        return product(t, t.cast(a, dtype), t.cast(b, dtype)) if dtype else product(t, a, b)

    return translate


def linear(t: Translation) -> Value:
    x, weight, bias = t.tensor("input"), t.tensor("weight"), t.maybe("bias")
    found = integer_linear(t, x, weight, bias)
    if found is not None:
        return found
    if weight.type.rank == 1:
        y = product(t, x, weight)
    else:
        y = product(t, x, t.transpose(weight, (1, 0)))
    return y if bias is None else t.op("add", y, bias)


def factored(t: Translation, x: Value, name: str) -> Value:
    """A tensor times a number among the arguments."""
    factor = t.arg(name, 1)
    return x if factor == 1 else times(t, x, t.as_value(factor, x.dtype))


def added_product(first: str, second: str, summed: bool = False) -> Translator:
    """beta * self + alpha * (a @ b); `summed`: over the batch."""

    def translate(t: Translation) -> Value:
        own, a, b = t.tensor("self"), t.tensor(first), t.tensor(second)
        dtype = t.scalar_type("", "out_dtype")
        a, b = (t.cast(a, dtype), t.cast(b, dtype)) if dtype else (a, b)
        quantized = None if summed else integer_linear(t, a, b, None, transposed=True)
        y = product(t, a, b) if quantized is None else quantized
        y = t.op("reduce_sum", y, axes=(0,), keep_dims=False) if summed else y
        y = factored(t, y, "alpha")
        if t.arg("beta", 1) == 0:
            return y
        return t.op("add", factored(t, t.cast(own, y.dtype), "beta"), y)

    return translate


def integer_product(t: Translation) -> Value:
    """A product of int8 in int32."""
    return standard(t, "MatMulInteger", t.tensor("self"), t.tensor("mat2"))


def inner(t: Translation) -> Value:
    """Sums over the last dimensions of both, of which either may have none."""
    a, b = t.together(t.tensor(), t.tensor("other"))
    if not a.type.rank or not b.type.rank:
        return t.op("mul", a, b)
    k = a.shape[-1]
    rows, columns = (t.reshape(x, (math.prod(x.shape[:-1], start=as_int(1)), k)) for x in (a, b))
    return t.reshape(product(t, rows, t.transpose(columns, (1, 0))), (*a.shape[:-1], *b.shape[:-1]))


def outer(t: Translation) -> Value:
    a, b = t.together(t.tensor("self"), t.tensor("vec2"))
    return times(t, t.reshape(a, (a.shape[0], 1)), t.reshape(b, (1, b.shape[0])))


def _spelled_out(terms: str, values: list[Value]) -> str:
    """Terms with letters for their dots, of which the result has none: these dimensions are summed."""
    free = [letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if letter not in terms]
    spelled = []
    for term, value in zip(terms.split(","), values, strict=False):
        count = value.type.rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", "".join(reversed(free[: max(count, 0)]))))
    return ",".join(spelled)


def einsum(t: Translation) -> Value:
    equation = str(t.arg("equation", "")).replace(" ", "")
    values = t.tensors("tensors")
    terms, arrow, result = equation.partition("->")
    if arrow and "..." in terms and "..." not in result:
        equation = f"{_spelled_out(terms, values)}->{result}"
    dtype = result_type(values)
    return standard(t, "Einsum", *(t.cast(value, dtype) for value in values), equation=equation)


def bilinear(t: Translation) -> Value:
    """x1 W x2 + b for each output."""
    a, b, weight, bias = t.tensor("input1"), t.tensor("input2"), t.tensor("weight"), t.maybe("bias")
    y = standard(t, "Einsum", a, weight, b, equation="...i,oij,...j->...o")
    return y if bias is None else t.op("add", y, bias)


def trilinear(t: Translation) -> Value:
    """Three tensors, each given dimensions of one element, multiplied and summed over some dimensions."""
    values = [t.tensor(name) for name in ("i1", "i2", "i3")]
    given = [t.ints(f"expand{n}") for n in (1, 2, 3)]
    rank = values[0].type.rank + len(given[0])
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    parts = ["".join(letter for n, letter in enumerate(letters) if n not in own) for own in given]
    summed = t.ints("sumdim")
    rest = "".join(letter for n, letter in enumerate(letters) if n not in summed)
    return standard(t, "Einsum", *values, equation=f"{','.join(parts)}->{rest}")


def cross(t: Translation) -> Value:
    a, b = t.together(t.tensor("self"), t.tensor("other"))
    shape = t.broadcast(a, b)
    a, b = t.expand(a, shape), t.expand(b, shape)
    axis = t.axis(t.integer("dim", -1), len(shape)) if t.arg("dim") is not None or "linalg" in t.kind else next(
        (n for n, size in enumerate(shape) if size == 3), -1
    )  # fmt: skip
    if axis < 0 or shape[axis] != 3:
        raise error("E0108", f"{t.kind} of {a.type} needs a dimension of 3")
    order = t.constant([1, 2, 0], "int64")
    other = t.constant([2, 0, 1], "int64")

    def turned(x: Value, places: Value) -> Value:
        return t.op("gather", x, places, axis=axis)

    return t.op("sub", t.op("mul", turned(a, order), turned(b, other)), t.op("mul", turned(a, other), turned(b, order)))


def distances(t: Translation) -> Value:
    """The distance of every row of one tensor to every row of another (cdist)."""
    a, b = t.tensor("x1"), t.tensor("x2")
    gap = t.op("sub", t.unsqueeze(a, a.type.rank - 1), t.unsqueeze(b, b.type.rank - 2))
    return norm_of(t, gap, t.number("p", 2.0), (gap.type.rank - 1,), False)


def cosine_similarity(t: Translation) -> Value:
    a, b = t.together(t.tensor("x1"), t.tensor("x2"), floats=True)
    shape = t.broadcast(a, b) or (as_int(1),)  # numbers count as vectors of one
    axis = t.axis(t.integer("dim", 1), len(shape))
    least = t.scalar(t.number("eps", 1e-8), a.dtype)

    def dot(u: Value, v: Value) -> Value:
        return t.op("reduce_sum", t.expand(t.op("mul", u, v), shape), axes=(axis,), keep_dims=False)

    lengths = [t.op("maximum", t.op("sqrt", dot(x, x)), least) for x in (a, b)]
    return t.op("div", dot(a, b), t.op("mul", *lengths))


def pairwise_distance(t: Translation) -> Value:
    a, b = t.together(t.tensor("x1"), t.tensor("x2"))
    gap = t.op("sub", a, b)  # of unsigned integers, it wraps
    gap = t.cast(gap, float_type(gap.dtype))
    gap = t.op("add", gap, t.scalar(t.number("eps", 1e-6), gap.dtype))
    return norm_of(t, gap, t.number("p", 2.0), (gap.type.rank - 1,), t.flag("keepdim"))


def kron(t: Translation) -> Value:
    a, b = t.together(t.tensor("self"), t.tensor("other"))
    rank = max(a.type.rank, b.type.rank)
    wide = [t.reshape(x, (*([as_int(1)] * (rank - x.type.rank)), *x.shape)) for x in (a, b)]
    left = t.reshape(wide[0], [size for n in wide[0].shape for size in (n, as_int(1))])
    right = t.reshape(wide[1], [size for n in wide[1].shape for size in (as_int(1), n)])
    return t.reshape(times(t, left, right), [m * n for m, n in zip(wide[0].shape, wide[1].shape, strict=True)])


def tensordot(t: Translation) -> Value:
    """Products summed over pairs of dimensions."""
    a, b = t.together(t.tensor("self"), t.tensor("other"))
    first = [t.axis(n, a.type.rank) for n in t.ints("dims_self")]
    second = [t.axis(n, b.type.rank) for n in t.ints("dims_other")]
    for m, n in zip(first, second, strict=True):  # one element stands for as many as the other tensor has
        if a.shape[m] == 1 and b.shape[n] != 1:
            b = t.op("reduce_sum", b, axes=(n,), keep_dims=True)
        elif b.shape[n] == 1 and a.shape[m] != 1:
            a = t.op("reduce_sum", a, axes=(m,), keep_dims=True)
    rest = [n for n in range(a.type.rank) if n not in first], [n for n in range(b.type.rank) if n not in second]
    inner = math.prod((a.shape[n] for n in first), start=as_int(1))
    rows, columns = ([x.shape[n] for n in left] for x, left in zip((a, b), rest, strict=True))
    left = t.reshape(t.transpose(a, (*rest[0], *first)), (math.prod(rows, start=as_int(1)), inner))
    right = t.reshape(t.transpose(b, (*second, *rest[1])), (inner, math.prod(columns, start=as_int(1))))
    return t.reshape(product(t, left, right), (*rows, *columns))


def trace(t: Translation) -> Value:
    x = t.tensor()
    rows, columns = t.sizes(x, 2)
    flat = t.reshape(x, (rows * columns,))
    on_it = t.cut(flat, 0, 0, min(rows, columns), columns + 1)
    on_it = on_it if on_it.dtype.startswith(("float", "bfloat")) else t.cast(on_it, "int64")
    return t.op("reduce_sum", on_it, axes=(0,), keep_dims=False)


def chained(t: Translation) -> Value:
    found, *others = t.tensors("tensors")
    for other in others:
        found = product(t, found, other)
    return found


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(_matmul("self", "mat2"), "mm.default", "bmm.default", "mm.dtype", "bmm.dtype"),
    **_named(_matmul("self", "other"), "matmul.default", "linalg_matmul.default"),
    **_named(inner, "inner.default"),
    **_named(_matmul("self", "tensor"), "dot.default"), **_named(_matmul("self", "vec"), "mv.default"),
    **_named(_matmul("self", "other"), "vdot.default"),
    **_named(linear, "linear.default"), **_named(integer_product, "_int_mm.default"),
    **_named(added_product("mat1", "mat2"), "addmm.default", "addmm.dtype"),
    **_named(added_product("mat", "vec"), "addmv.default"),
    **_named(added_product("batch1", "batch2"), "baddbmm.default", "baddbmm.dtype"),
    **_named(added_product("batch1", "batch2", True), "addbmm.default"),
    **_named(outer, "outer.default", "ger.default"), **_named(einsum, "einsum.default"),
    **_named(bilinear, "bilinear.default"), **_named(trilinear, "_trilinear.default"),
    **_named(cross, "linalg_cross.default", "cross.default"),
    **_named(tensordot, "tensordot.default"), **_named(trace, "trace.default"),
    **_named(chained, "linalg_multi_dot.default", "chain_matmul.default"),
    **_named(distances, "cdist.default", "_cdist_forward.default"),
    **_named(cosine_similarity, "cosine_similarity.default"),
    **_named(pairwise_distance, "pairwise_distance.default"), **_named(kron, "kron.default"),
}  # fmt: skip

__all__ = ["TRANSLATORS", "factored", "product"]
