"""Models that look values up: nearest neighbours, maps of categories, and suppression of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.labels import labels_of
from sterna.frontends.coreml.suppression import suppressed
from sterna.frontends.emitter import Emitter
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def nearest(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    """The label that most of the nearest samples have, by squared distance; of several the first in the file."""
    x = values[model.description.input[0].name]
    t: Emitter = reader.emitter("kNearestNeighborsClassifier", x)
    index, given = p.nearestNeighborsIndex, labels_of(p)
    width, count = int(index.numberOfDimensions), len(index.floatSamples)
    if p.WhichOneof("WeightingScheme") == "inverseDistanceWeighting":
        raise error(
            "E0113", "kNearestNeighborsClassifier that weighs by distance is not supported",
            "the specification does not say what a sample at the distance 0 weighs",
            fix="train it with uniform weights",
        )  # fmt: skip
    if len(given) != count or any(len(row.vector) != width for row in index.floatSamples):
        raise error("E0109", f"{count} samples of {width} numbers with {len(given)} labels")
    if not count:  # what it gives before it has learned anything
        default = getattr(p, p.WhichOneof("DefaultClassLabel") or "defaultStringLabel")
        reader.classified(t, model.description, t.constant([1.0], "float64"), [default], values)
        return
    classes = list(dict.fromkeys(given))
    check_table(count, len(classes))
    samples = np.array([list(row.vector) for row in index.floatSamples], np.float32)
    hot = np.array([[label == each for each in classes] for label in given], np.float32)
    apart = t.op("sub", t.reshape(t.cast(x, "float32"), (1, width)), t.constant(samples))
    distance = t.op("reduce_sum", t.op("mul", apart, apart), axes=(1,), keep_dims=False)
    near = max(1, min(int(p.numberOfNeighbors.defaultValue), count))
    _, places = t.builder.add_all(
        "top_k", distance, k=(near,), axis=0, largest=False, sources=t.sources, name=f"{t.name}/nearest"
    )
    votes = t.op("reduce_sum", t.op("gather", t.constant(hot), places, axis=0), axes=(0,), keep_dims=False)
    odds = t.cast(t.op("mul", votes, t.scalar(1 / near, "float32")), "float64")
    reader.classified(t, model.description, odds, classes, values)


def mapped(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    """A text for a number, or a number for a text; others have a value of their own, or end the run with an error."""
    x = values[model.description.input[0].name]
    t: Emitter = reader.emitter("categoricalMapping", x)
    which, other = p.WhichOneof("MappingType"), p.WhichOneof("ValueOnUnknown")
    table = dict(getattr(p, which).map) if which else {}
    if not table:
        raise error("E0103", "a map of categories without entries")
    of, to = (dtypes.STRING, "int64") if which == "stringToInt64Map" else ("int64", dtypes.STRING)
    keys = sorted(table)
    held: list[Any] = [table[key] for key in keys]
    x = t.reshape(x if of == dtypes.STRING else t.cast(x, "int64"), (x.type.elements, 1))
    hits = t.cast(standard(t, "Equal", x, t.constant(keys, of)), "int32")
    found = t.cast(standard(t, "ReduceMax", hits, t.constant(np.array([1]), "int64"), keepdims=0), "bool")
    place = standard(t, "ArgMax", hits, axis=1, keepdims=0)
    if other is None:
        place = t.agree(place, found)
    else:
        held.append(getattr(p, other))
        if isinstance(held[-1], str) != (to == dtypes.STRING):
            raise error("E0109", f"a map to {to} has a {other}")
        place = t.op("where", found, place, t.scalar(len(keys), place.dtype))
    values[str(model.description.output[0].name)] = t.op("gather", t.constant(held, to), place, axis=0)


def limits_of(model: Any) -> tuple[str, ...]:
    """Inputs that stand in place of settings of a model that suppresses boxes."""
    p = model.nonMaximumSuppression
    names = (p.iouThresholdInputFeatureName, p.confidenceThresholdInputFeatureName)
    return tuple(str(name) for name in names if name)


def boxes(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    """Boxes and scores of those that are left. How many there are is fixed, or bounded, by the description of either
    output, or by how many there were."""
    t: Emitter = reader.emitter("nonMaximumSuppression")
    given = t.cast(values[p.coordinatesInputFeatureName], "float32")
    scores = t.cast(values[p.confidenceInputFeatureName], "float32")
    count = int(given.type.elements) // 4
    if not count or int(scores.type.elements) % count:
        raise error("E0108", f"boxes {given.type} with scores {scores.type}")
    given, scores = t.reshape(given, (1, count, 4)), t.reshape(scores, (1, count, int(scores.type.elements) // count))

    def limit(name: str, value: float) -> Value:
        found = values.get(name) if name else None
        return t.scalar(value, "float32") if found is None else t.reshape(t.cast(found, "float32"), ())

    low, high = _rows(model)
    most = count if high is None else max(low, min(high, count))
    found = suppressed(
        t, given, scores, limit(p.iouThresholdInputFeatureName, p.iouThreshold),
        limit(p.confidenceThresholdInputFeatureName, p.confidenceThreshold), max(most, 1), bool(p.pickTop.perClass),
        never_empty=False,
    )  # fmt: skip
    rows: Any = most
    if low != high:
        total = t.reshape(t.cast(found.counts, "int64"), ())
        total = t.op("maximum", total, t.scalar(low, "int64")) if low else total
        rows = t.builder.bind_size(total, t.builder.name("boxes"), low, most, sources=t.sources)
    for name, held in (
        (p.coordinatesOutputFeatureName, found.boxes),
        (p.confidenceOutputFeatureName, found.scores),
    ):
        width = held.shape[2]
        kept = t.op("slice", t.reshape(held, (held.shape[1], width)), starts=(0, 0), sizes=(rows, width), steps=(1, 1))
        values[name] = kept


def _rows(model: Any) -> tuple[int, int | None]:
    """The fewest and the most rows of the results; None where nothing bounds them."""
    for each in model.description.output:
        array = each.type.multiArrayType
        if array.WhichOneof("ShapeFlexibility") == "shapeRange" and array.shapeRange.sizeRanges:
            bounds = array.shapeRange.sizeRanges[0]
            return max(int(bounds.lowerBound), 0), int(bounds.upperBound) if bounds.upperBound > 0 else None
        if len(array.shape) == 2 and array.shape[0] > 0:
            return int(array.shape[0]), int(array.shape[0])
    return 0, None
