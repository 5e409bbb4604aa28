"""The classes that a classifier knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.frontends.emitter import Emitter
from sterna.ir import dtypes
from sterna.ir.graph import Value


def picked(t: Emitter, labels: Sequence[Any], winner: Value) -> Value:
    """The labels of class numbers."""
    if list(labels) == list(range(len(labels))):
        return t.cast(winner, "int64")
    dtype = dtypes.STRING if isinstance(labels[0], str) else "int64"
    return t.op("gather", t.constant(list(labels), dtype), winner, axis=0)


def labels_of(model: Any) -> list[Any]:
    """The labels that a classifier's message holds, texts or numbers; none where it has none."""
    fields = {field.name for field in model.DESCRIPTOR.fields}
    if "ClassLabels" not in {oneof.name for oneof in model.DESCRIPTOR.oneofs} or "stringClassLabels" not in fields:
        return []
    which = model.WhichOneof("ClassLabels")
    return list(getattr(model, which).vector) if which else []
