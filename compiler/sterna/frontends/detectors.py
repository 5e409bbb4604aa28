"""Which outputs of a detector are boxes, classes and scores, and what its classes are called.

Detectors give either three outputs (boxes of four numbers, a class and a score for each) or one table whose rows have
all of it. Names of outputs tell the three apart; shapes tell tables: seven columns of Caffe's DetectionOutput, six of
MXNet's MultiBoxDetection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sterna.ir.graph import Graph, Value

_CLASSES = re.compile(r"class|label|categor|(^|[._/])ids?($|[._/:])", re.IGNORECASE)
_SCORES = re.compile(r"score|conf|prob", re.IGNORECASE)
_BOXES = re.compile(r"box|loc|coord|rect", re.IGNORECASE)
_COUNT = re.compile(r"num|count", re.IGNORECASE)
#: How lists call what is no object; TensorFlow Lite's have `???`.
_BACKGROUND = ("background", "__background__", "none_of_the_above", "bg", "???")
#: Columns of the tables that operators make: Caffe's, whose first is the picture's number, and MXNet's.
_CORNERS = ("left", "top", "right", "bottom")
_COLUMNS = {7: ("", "class", "score", *_CORNERS), 6: ("class", "score", *_CORNERS)}


def with_detections(graph: Graph, names: Sequence[str], front_end: str) -> Graph | None:
    """The graph with what it says of its detections; None if it has none, or cannot be a detector of that many classes.

    Args:
        names: of the classes, as a list has them; it may begin with one for the background.
        front_end: by its name; it decides how classes are counted.
    """
    found = _table(graph, front_end) or _separate(graph, front_end)
    if found is None:
        return None
    others = {key: value for key, value in graph.metadata.items() if key != "labels"}
    kept = {key: value for key, value in graph.metadata.get("labels", {}).items() if key != found.get("classes")}
    labelled = {**found, "labels": _by_number(names, front_end)}
    more = {"labels": kept} if kept else {}
    return replace(graph, metadata={**others, **more, "detections": labelled})


def with_value_labels(graph: Graph, front_end: str) -> Graph:
    """The graph with its detections, if labels of one of its outputs are those of its values, not of its elements."""
    for name, labels in graph.metadata.get("labels", {}).items():
        made = with_detections(graph, labels, front_end)
        if made is not None and made.metadata["detections"].get("classes") == name:
            return made
    return graph


def _by_number(names: Sequence[str], front_end: str) -> list[str]:
    """The names by the numbers that the model gives: TensorFlow Lite and MXNet leave the background out, others count
    from 1 on."""
    listed = bool(names) and names[0].strip().lower() in (*_BACKGROUND, "")
    if front_end in ("tflite", "mxnet"):
        return list(names[1:] if listed else names)
    return list(names) if listed else ["background", *names]


def _results(graph: Graph) -> list[tuple[str, Value]]:
    return list(zip(graph.output_names, graph.results, strict=False))


def _table(graph: Graph, front_end: str) -> dict[str, Any] | None:
    """One output that is a table of detections."""
    width = {"caffe": 7, "mxnet": 6}.get(front_end)
    fitting = [
        name
        for name, value in _results(graph)
        if value.type.rank >= 3
        and value.shape[-1] == width
        # Rows of MXNet that suppress each other do so in a loop: its tables are told by being alone.
        and (len(graph.output_names) == 1 if front_end == "mxnet" else _is_suppressed(graph, value))
    ]
    if len(fitting) != 1 or width is None:
        return None
    columns = {word: n for n, word in enumerate(_COLUMNS[width]) if word}
    return {"table": fitting[0], "columns": columns}


def _is_suppressed(graph: Graph, value: Value) -> bool:
    """Whether suppression of boxes is on the way to a result."""
    makers = {output: node for node in graph.nodes for output in node.outputs}
    waiting, seen = [value], set()
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if "suppression" in node.op:
            return True
        waiting += [each for each in node.inputs if each is not None]
    return False


def _separate(graph: Graph, front_end: str) -> dict[str, Any] | None:
    """Three outputs, of as many rows each."""
    results = _results(graph)
    boxes = [(name, value) for name, value in results if value.type.rank >= 2 and value.shape[-1] == 4]
    named = [each for each in boxes if _BOXES.search(each[0])]
    boxes = named if len(boxes) > 1 else boxes
    if len(boxes) != 1:
        return None
    name, value = boxes[0]
    others = [(n, v) for n, v in results if n != name and _goes_with(v, value)]
    classes = [n for n, _ in others if _CLASSES.search(n) and not _SCORES.search(n)]
    scores = [n for n, _ in others if _SCORES.search(n)]
    if front_end == "tflite" and not (classes and scores) and len(others) == 2 and _is_suppressed(graph, value):
        classes, scores = [others[0][0]], [others[1][0]]  # names of TFLite_Detection_PostProcess's results say nothing
    if len(classes) != 1 or len(scores) != 1:
        return None
    counts = [n for n, v in results if _is_one(v) and (_COUNT.search(n) or front_end == "tflite")]
    order = ("top", "left", "bottom", "right") if front_end in ("tflite", "tensorflow") else _CORNERS
    made = {"boxes": name, "classes": classes[0], "scores": scores[0], "columns": {w: n for n, w in enumerate(order)}}
    return {**made, "count": counts[0]} if len(counts) == 1 else made


def _is_one(value: Value) -> bool:
    return bool(value.type.is_static) and int(value.type.elements) == 1


def _goes_with(value: Value, boxes: Value) -> bool:
    """Whether there is a number for every box. Sizes that data decide may have different names."""
    shape = value.shape[:-1] if value.type.rank == boxes.type.rank and value.shape[-1] == 1 else value.shape
    if len(shape) != boxes.type.rank - 1:
        return False
    known = value.type.is_static and boxes.type.is_static
    return not known or all(a == b for a, b in zip(shape, boxes.shape, strict=False))
