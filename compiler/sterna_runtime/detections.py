"""What a detector found: boxes with a class and a score, out of the outputs that `metadata.detections` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna_runtime.inputs import Array

CORNERS = ("left", "top", "right", "bottom")
#: NumPy's kinds of numbers; bfloat16 is a "V".
_NUMBERS = "fiuV"


def detections(metadata: Mapping[str, Any], results: Mapping[str, Array], count: int) -> list[dict[str, Any]] | None:
    """The detections of the greatest scores, the best one first; None if the bundle is no detector, or its outputs
    are not what it says of them.

    Args:
        metadata: of the bundle.
        results: outputs by name.
        count: how many at most.

    Returns:
        for each "class" (its number), "label" (where there is a name), "score" and "box": left, top, right and bottom,
        in the model's own unit.
    """
    said = metadata.get("detections")
    found = None if said is None else _found(said, results)
    if said is None or found is None:
        return None
    classes, scores, boxes = found
    columns, labels = said["columns"], said["labels"]
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    kept = [int(n) for n in order if scores[n] > 0 and 0 <= classes[n] < np.inf]
    return [
        {
            "class": int(classes[n]),
            **({"label": labels[int(classes[n])]} if classes[n] < len(labels) else {}),
            "score": scores[n].item(),
            "box": [boxes[n, columns[corner]].item() for corner in CORNERS],
        }
        for n in kept[:count]
    ]


def _found(said: Mapping[str, Any], results: Mapping[str, Array]) -> tuple[Array, Array, Array] | None:
    """Classes, scores and boxes, one of each for every row; None where the outputs are no such tables, whatever the
    bundle says."""
    named = detecting_outputs({"detections": said})
    if not all(name in results and results[name].dtype.kind in _NUMBERS for name in named):
        return None
    columns = said["columns"]
    boxes = np.asarray(results[said["table" if "table" in said else "boxes"]])
    if boxes.ndim == 0 or max(columns.values()) >= boxes.shape[-1]:
        return None
    boxes = boxes.reshape(-1, boxes.shape[-1])
    if "table" in said:
        return boxes[:, columns["class"]], boxes[:, columns["score"]], boxes
    classes, scores = (np.asarray(results[said[key]]).reshape(-1) for key in ("classes", "scores"))
    if not len(classes) == len(scores) == len(boxes):
        return None
    if "count" in said:  # what follows is no detection
        most = max(int(np.nan_to_num(results[said["count"]]).sum()), 0)
        classes, scores, boxes = classes[:most], scores[:most], boxes[:most]
    return classes, scores, boxes


def detecting_outputs(metadata: Mapping[str, Any]) -> set[str]:
    """The outputs that detections are made of."""
    said = metadata.get("detections", {})
    return {said[key] for key in ("table", "boxes", "classes", "scores", "count") if key in said}
