"""Which steps of a sequence count, and what layers make of it (`compute_mask` of Keras).

A mask goes with a tensor. A layer that is not named here and sets no mask itself ends it, as functions of keras.ops
do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sterna.frontends.keras.translation import Context, Translation
from sterna.ir.graph import Value

#: Layers whose result has the mask of the operand.
_KEEPING = frozenset((
    "Activation", "ActivityRegularization", "AlphaDropout", "BatchNormalization", "Dense", "Dropout", "ELU",
    "GaussianDropout", "GaussianNoise", "GroupNormalization", "Identity", "LayerNormalization", "LeakyReLU",
    "Normalization", "PReLU", "ReLU", "Rescaling", "Softmax", "SpatialDropout1D", "SpatialDropout2D",
    "SpatialDropout3D", "ThresholdedReLU", "UnitNormalization",
))  # fmt: skip
#: Layers that give what layers within them do.
WRAPPING = frozenset(("Bidirectional", "Pipeline", "SpectralNormalization", "TimeDistributed"))
#: From this version on merged steps count where any of the operands' do, and only if all of them are masked; before,
#: where those of all that are masked do.
ANY = (3, 4)
#: From this version on attention of several heads takes the masks of its operands away from them.
_TAKING = (3, 8)


def kept(kind: str, given: Sequence[Value], mask: Value | None, context: Context) -> Value | None:
    """The mask of the result of a layer that sets none itself.

    Args:
        given: the operands; mask: as the call names it.
    """
    if kind not in _KEEPING or not given:
        return None
    return mask if mask is not None else context.masks.get(given[0])


def is_taking(context: Context) -> bool:
    """Whether attention of several heads leaves its operands without masks, so that the order of calls matters."""
    return context.version >= _TAKING


def merged(t: Translation, values: Sequence[Value]) -> Value | None:
    """The mask of a sum, a product and the like."""
    masks = [t.context.masks[v] for v in values if v in t.context.masks]
    if t.context.version < ANY:
        return _joined(t, "logical_and", masks)
    return _joined(t, "logical_or", masks) if len(masks) == len(values) else None


def concatenated(t: Translation, values: Sequence[Value], axis: int) -> Value | None:
    """The mask of tensors one after the other: of a dimension before the last, their masks one after the other."""
    rank = values[0].type.rank
    if not any(v in t.context.masks for v in values) or rank < 2:
        return None
    masks = []
    for value in values:
        mask = t.context.masks.get(value)
        whole = t.scalar(True, "bool") if mask is None else mask
        masks.append(t.op("expand", whole, shape=value.shape[: rank - 1]))
    if axis == rank - 1:
        return _joined(t, "logical_and" if t.context.version < ANY else "logical_or", masks)
    return t.op("concat", *masks, axis=axis)


def _joined(t: Translation, operator: str, masks: Iterable[Value]) -> Value | None:
    found: Value | None = None
    for mask in masks:
        found = mask if found is None else t.op(operator, found, mask)
    return found
