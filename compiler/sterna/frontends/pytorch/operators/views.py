"""Which operators give a view of their operand's memory, and how what is written to the view gets back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sterna.frontends.pytorch.aliases import Backward, Forward
from sterna.frontends.pytorch.layouts import layout_of, stand_ins
from sterna.frontends.pytorch.operators.movement import bounds_of, place_in, split_sizes
from sterna.frontends.pytorch.operators.scattering import diagonal_replaced, replaced
from sterna.frontends.pytorch.translation import Translation
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

#: From a translation, the base's value, the new value of the view and which result it is, to the base's new value.
_Back = Callable[[Translation, Value, Value, int], Value]


def _reshaped(t: Translation, base: Value, new: Value, n: int) -> Value:
    return t.reshape(new, base.shape)


def _same(t: Translation, base: Value, new: Value, n: int) -> Value:
    return new


def _turned(t: Translation, base: Value, new: Value, n: int) -> Value:
    """The inverse of a permutation, found by permuting the axes' numbers."""
    rank = base.type.rank
    if "dims" in t.arguments:
        order = [t.axis(int(each), rank) for each in t.ints("dims")]
    elif "dim0" in t.arguments or "axis0" in t.arguments:
        first = "dim0" if "dim0" in t.arguments else "axis0"
        a, b = (t.axis(t.integer(name), rank) for name in (first, first.replace("0", "1")))
        order = list(range(rank))
        order[a], order[b] = order[b], order[a]
    else:
        order = list(range(rank))[::-1]
    return t.transpose(new, [order.index(axis) for axis in range(rank)])


def _selected(t: Translation, base: Value, new: Value, n: int) -> Value:
    axis = t.axis(t.integer("dim"), base.type.rank)
    place = place_in(base.shape[axis], t.size_from(t.arg("index", 0)))
    return replaced(t, base, t.unsqueeze(new, axis), axis, place)


def _sliced(t: Translation, base: Value, new: Value, n: int) -> Value:
    axis = t.axis(t.integer("dim", 0), base.type.rank)
    start, _, step = bounds_of(t, base.shape[axis])
    return replaced(t, base, new, axis, start, step)


def _narrowed(t: Translation, base: Value, new: Value, n: int) -> Value:
    axis = t.axis(t.integer("dim"), base.type.rank)
    return replaced(t, base, new, axis, place_in(base.shape[axis] + 1, t.size_from(t.arg("start", 0))))


def _part(t: Translation, base: Value, new: Value, n: int) -> Value:
    axis = t.axis(t.integer("dim", 0), base.type.rank)
    start = as_int(0)
    for length in split_sizes(t, base.shape[axis])[:n]:
        start = start + length
    return replaced(t, base, new, axis, start)


def _unbound(t: Translation, base: Value, new: Value, n: int) -> Value:
    axis = t.axis(t.integer("dim", 0), base.type.rank)
    return replaced(t, base, t.unsqueeze(new, axis), axis, n)


def _diagonal(t: Translation, base: Value, new: Value, n: int) -> Value:
    rank = base.type.rank
    a, b = (t.axis(t.integer(name, default), rank) for name, default in (("dim1", 0), ("dim2", 1)))
    return diagonal_replaced(t, base, new, a, b, t.integer("offset", 0))


def _scattered(t: Translation, base: Value, new: Value, places: Value) -> Value:
    """By the places of the view's elements in the order of the base's: what any view can do."""
    count = new.type.elements
    flat, index = t.reshape(base, (base.type.elements,)), t.reshape(places, (count, 1))
    return t.reshape(t.op("scatter_nd", flat, index, t.reshape(new, (count,))), base.shape)


#: Views whose elements are found by their places.
_PLACED = frozenset((
    "adjoint.default", "as_strided.default", "broadcast_to.default", "dsplit.array", "dsplit.int", "expand.default",
    "expand_as.default", "hsplit.array", "hsplit.int", "linalg_diagonal.default", "mH.default", "mT.default",
    "moveaxis.int", "moveaxis.intlist", "movedim.int", "movedim.intlist", "swapdims.default", "tensor_split.indices",
    "tensor_split.sections", "tensor_split.tensor_indices_or_sections", "unfold.default", "vsplit.array", "vsplit.int",
))  # fmt: skip
_VIEWS: dict[str, _Back] = {
    **dict.fromkeys(
        ("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int",
         "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "view_as.default", "ravel.default",
         "reshape_as.default", "_reshape_alias.default"),
        _reshaped,
    ),
    **dict.fromkeys(
        ("detach.default", "alias.default", "contiguous.default", "dropout.default", "to.dtype", "to.dtype_layout",
         "to.device", "type_as.default", "lift_fresh.default", "feature_dropout.default",
         "positive.default", "to.other", "to.prim_Device", "cpu.default", "resolve_conj.default",
         "resolve_neg.default"),
        _same,
    ),
    **dict.fromkeys(("permute.default", "transpose.int", "t.default", "numpy_T.default", "swapaxes.default"), _turned),
    "select.int": _selected, "slice.Tensor": _sliced, "narrow.default": _narrowed, "unbind.int": _unbound,
    **dict.fromkeys(
        ("split.Tensor", "split.default", "split.sizes", "split_with_sizes.default", "chunk.default"), _part
    ),
    "diagonal.default": _diagonal,
}  # fmt: skip


def is_view(target: str) -> bool:
    """Whether an operator's results share memory with its first operand."""
    name = target.removeprefix("aten.")
    return (name in _VIEWS or name in _PLACED) and target.startswith("aten.")


#: Views where the operand's memory allows it, and copies elsewhere.
_EITHER = frozenset((
    "reshape.default", "flatten.using_ints", "reshape_as.default", "ravel.default", "contiguous.default", "to.dtype",
    "to.dtype_layout", "to.device", "to.other", "to.prim_Device", "type_as.default",
))  # fmt: skip


def _copied(name: str, t: Translation) -> bool:
    """Whether a call gives a tensor of its own: converted, or with strides that a view of the operand cannot have."""
    before, after = next(iter(t.operands), None), next(iter(t.results), None)
    if before is None or after is None:
        return False
    if before.dtype != after.dtype or t.flag("copy"):
        return True
    if name not in _EITHER:
        return False
    known = stand_ins(t.shared.symbols, t.shared.limits, before, after)
    old, new = (layout_of(tensor, known) for tensor in (before, after))
    if old is None or new is None:
        return False
    if name in ("reshape.default", "flatten.using_ints", "reshape_as.default", "ravel.default"):
        # A copy is dense. A view is so only where the operand is.
        return not old.is_dense and new.is_dense
    return old.steps != new.steps


def view_of(
    target: str, t: Translation, n: int, translate: Callable[[Translation], Any]
) -> tuple[Forward, Backward] | None:
    """How result `n` of a call follows its operand, and the other way round; None where it has memory of its own.

    Args:
        translate: the call's translator.
    """
    if not is_view(target):
        return None
    back = _VIEWS.get(target.removeprefix("aten."))
    if _copied(target.removeprefix("aten."), t):
        return None
    name = t.given(*(key for key, value in t.arguments.items() if isinstance(value, Value)))

    def forward(base: Value) -> Value:
        again = Translation(
            t.node, t.name, {**t.arguments, name: base}, (base, *t.inputs[1:]), t.builder, t.origin, t.shared,
            t.results, t.operands,
        )  # fmt: skip
        made = translate(again)
        found = made[n] if isinstance(made, (list, tuple)) else made
        assert isinstance(found, Value)
        return found

    def backward(base: Value, new: Value) -> Value:
        if back is not None:
            return back(t, base, new, n)
        return _scattered(t, base, new, forward(t.reshape(t.counting(base.type.elements), base.shape)))

    return forward, backward
