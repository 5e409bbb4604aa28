"""What a detector found: boxes with a class and a score, out of the outputs that `metadata.detections` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna_runtime.inputs import Array

CORNERS = ("left", "top", "right", "bottom")


def detections(metadata: Mapping[str, Any], results: Mapping[str, Array], count: int) -> list[dict[str, Any]] | None:
    """The detections of the greatest scores, the best one first; None if the bundle is no detector.

    Args:
        metadata: of the bundle.
        results: outputs by name.
        count: how many at most.

    Returns:
        for each "class" (its number), "label" (where there is a name), "score" and "box": left, top, right and bottom,
        in the model's own unit.
    """
    said = metadata.get("detections")
    if said is None:
        return None
    columns = said["columns"]
    if "table" in said:
        table = np.asarray(results[said["table"]])
        rows = table.reshape(-1, table.shape[-1])
        classes, scores, boxes = rows[:, columns["class"]], rows[:, columns["score"]], rows
    else:
        classes, scores = (np.asarray(results[said[key]]).reshape(-1) for key in ("classes", "scores"))
        boxes = np.asarray(results[said["boxes"]]).reshape(-1, 4)
        if "count" in said:  # what follows is no detection
            most = max(int(np.asarray(results[said["count"]]).reshape(-1)[0]), 0)
            classes, scores, boxes = classes[:most], scores[:most], boxes[:most]
    labels = said["labels"]
    kept = [int(n) for n in np.argsort(-scores.astype(np.float64), kind="stable") if scores[n] > 0 and classes[n] >= 0]
    return [
        {
            "class": int(classes[n]),
            **({"label": labels[int(classes[n])]} if classes[n] < len(labels) else {}),
            "score": scores[n].item(),
            "box": [boxes[n, columns[corner]].item() for corner in CORNERS],
        }
        for n in kept[:count]
    ]


def detecting_outputs(metadata: Mapping[str, Any]) -> set[str]:
    """The outputs that detections are made of."""
    said = metadata.get("detections", {})
    return {said[key] for key in ("table", "boxes", "classes", "scores", "count") if key in said}
