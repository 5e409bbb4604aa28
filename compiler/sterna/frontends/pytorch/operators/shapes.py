"""The same elements in another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.division import divide_exactly
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int


def completed(t: Translation, x: Value, sizes: Sequence[Int]) -> list[Int]:
    """A shape with its -1 replaced by what is left.

    Raises:
        SternaError: E0108, the elements do not fit.
    """
    wanted = list(sizes)
    open_at = [n for n, size in enumerate(wanted) if size == -1]
    if len(open_at) > 1:
        raise error("E0108", f"{t.kind} with {len(open_at)} sizes left open")
    if open_at:
        rest = math.prod((size for size in wanted if size != -1), start=as_int(1))
        left = as_int(0) if rest == 0 else divide_exactly(x.type.elements, rest)
        if left is None:
            raise error("E0108", f"{x.type} does not fit into the shape [{', '.join(map(str, wanted))}]")
        wanted[open_at[0]] = left
    return wanted


def view(name: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        return t.reshape(x, completed(t, x, t.sizes_of(name)))

    return translate


def view_as(t: Translation) -> Value:
    return t.reshape(t.tensor(), t.tensor("other").shape)


def view_dtype(t: Translation) -> Value:
    return t.op("bit_cast", t.tensor(), to=t.scalar_type("float32"))


def flatten(t: Translation) -> Value:
    x = t.tensor()
    if not x.type.rank or t.kind.startswith("aten.ravel"):
        return t.reshape(x, (x.type.elements,))
    first, last = t.dim("start_dim", default=0), t.dim("end_dim", default=-1)
    joined = math.prod(x.shape[first : last + 1], start=as_int(1))
    return t.reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def unflatten(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim()
    sizes = t.sizes_of("sizes")
    part = [size for size in sizes if size != -1]
    rest = divide_exactly(x.shape[axis], math.prod(part, start=as_int(1)))
    if rest is None:
        raise error("E0108", f"dimension {axis} of {x.type} does not fit into the sizes")
    inner = [rest if size == -1 else size for size in sizes]
    return t.reshape(x, (*x.shape[:axis], *inner, *x.shape[axis + 1 :]))


def squeeze(t: Translation) -> Value:
    x = t.tensor()
    is_none = "dim" in t.arguments and t.arg("dim", 0) in ([], ())  # an empty list is none of them, no list is all
    axes = () if is_none else t.axes("dim", x.type.rank)
    gone = {axis for axis in axes if x.shape[axis] == 1}
    return t.reshape(x, [size for n, size in enumerate(x.shape) if n not in gone])


def unsqueeze(t: Translation) -> Value:
    x = t.tensor()
    return t.unsqueeze(x, t.axis(t.integer("dim"), x.type.rank + 1))


def permute(t: Translation) -> Value:
    x = t.tensor()
    order = tuple(t.axis(int(n), x.type.rank) for n in t.ints("dims"))
    return t.transpose(x, order)


def transpose(t: Translation) -> Value:
    x = t.tensor()
    if not x.type.rank:
        return x
    first = t.given("dim0", "axis0")
    a, b = t.dim(first), t.dim(first.replace("0", "1"))
    order = list(range(x.type.rank))
    order[a], order[b] = order[b], order[a]
    return t.transpose(x, order)


def reversed_axes(t: Translation) -> Value:
    """t, numpy_T, mT: the last two dimensions swapped, or all turned around."""
    x = t.tensor()
    if t.kind.startswith(("aten.mT", "aten.mH", "aten.matrix_H", "aten.adjoint")):
        return t.transpose(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))
    return t.transpose(x, tuple(range(x.type.rank))[::-1])


def move(t: Translation) -> Value:
    x = t.tensor()
    sources = [t.axis(n, x.type.rank) for n in t.ints("source")]
    places = [t.axis(n, x.type.rank) for n in t.ints("destination")]
    order = [-1] * x.type.rank
    for source, place in zip(sources, places, strict=True):
        order[place] = source
    rest = iter(n for n in range(x.type.rank) if n not in sources)
    return t.transpose(x, [next(rest) if n < 0 else n for n in order])


def expand(t: Translation) -> Value:
    x = t.tensor()
    sizes = t.sizes_of("size")
    before = len(sizes) - x.type.rank
    if before < 0:
        raise error("E0108", f"{x.type} has more dimensions than [{', '.join(map(str, sizes))}]")
    shape = [x.shape[n - before] if size == -1 and n >= before else size for n, size in enumerate(sizes)]
    return t.expand(x, shape)


def expand_as(t: Translation) -> Value:
    return t.expand(t.tensor(), t.tensor("other").shape)


def at_least(rank: int) -> Translator:
    """Of a tensor, or of each of some."""

    def widened(t: Translation, x: Value) -> Value:
        shape = list(x.shape)
        while len(shape) < rank:
            if rank == 3 and len(shape) == 2:
                shape.append(as_int(1))
            else:
                shape.insert(0, as_int(1))
        return t.reshape(x, shape)

    return lambda t: [widened(t, x) for x in t.tensors("tensors")] if "tensors" in t.arguments else widened(
        t, t.tensor())  # fmt: skip


def broadcast_tensors(t: Translation) -> list[Value]:
    values = t.tensors("tensors")
    shape = t.broadcast(*values)
    return [t.expand(value, shape) for value in values]


def unfold(t: Translation) -> Value:
    """Windows along one dimension, their elements last."""
    x = t.tensor()
    if not x.type.rank:
        return t.reshape(x, (t.integer("size"),))
    axis, size, step = t.dim("dimension"), t.integer("size"), t.integer("step")
    count = (x.shape[axis] - size) // step + 1
    found = t.op("strided", x, axis=axis, start=0, sizes=(count, size), steps=(step, 1))
    order = [n for n in range(found.type.rank) if n != axis + 1]
    return t.transpose(found, (*order, axis + 1))


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(view("size"), "view.default", "_unsafe_view.default", "view_copy.default", "_reshape_alias.default"),
    **_named(view("shape"), "reshape.default", "_reshape_copy.default"),
    **_named(view_as, "view_as.default", "reshape_as.default"),
    **_named(view_dtype, "view.dtype", "view_copy.dtype"),
    **_named(flatten, "flatten.using_ints", "ravel.default"), **_named(unflatten, "unflatten.int"),
    **_named(squeeze, "squeeze.default", "squeeze.dim", "squeeze.dims", "squeeze_copy.default", "squeeze_copy.dim",
             "squeeze_copy.dims"),
    **_named(unsqueeze, "unsqueeze.default", "unsqueeze_copy.default"),
    **_named(permute, "permute.default", "permute_copy.default"),
    **_named(transpose, "transpose.int", "transpose_copy.int", "swapaxes.default", "swapdims.default"),
    **_named(reversed_axes, "t.default", "numpy_T.default", "mT.default", "mH.default", "matrix_H.default",
             "t_copy.default", "adjoint.default"),
    **_named(move, "movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist"),
    **_named(expand, "expand.default", "broadcast_to.default", "expand_copy.default"),
    **_named(expand_as, "expand_as.default"),
    **_named(at_least(1), "atleast_1d.default", "atleast_1d.Sequence"),
    **_named(at_least(2), "atleast_2d.default", "atleast_2d.Sequence"),
    **_named(at_least(3), "atleast_3d.default", "atleast_3d.Sequence"),
    **_named(broadcast_tensors, "broadcast_tensors.default"),
    **_named(unfold, "unfold.default", "unfold_copy.default"),
}  # fmt: skip
