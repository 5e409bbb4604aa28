"""TensorFlow Lite models with labels and normalization, and the metadata that say so."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import flatbuffers
import numpy as np

from support.tflite_builder import ModelWriter, Scale

LABELS = ("cat", "dog", "tern")


class Writer:
    """Tables of a flatbuffer by their fields' numbers."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(256)

    def table(self, fields: dict[int, Any]) -> int:
        """Numbers are bytes, strings are strings, (position,) another table, lists vectors of floats or tables."""
        places = {field: self.place(value) for field, value in fields.items()}
        self.builder.StartObject(max(fields, default=0) + 1)
        for field, (place, is_byte) in places.items():
            if is_byte:
                self.builder.PrependUint8Slot(field, place, 0)
            else:
                self.builder.PrependUOffsetTRelativeSlot(field, place, 0)
        return int(self.builder.EndObject())

    def place(self, value: Any) -> tuple[int, bool]:
        if isinstance(value, int):
            return value, True
        if isinstance(value, str):
            return int(self.builder.CreateString(value)), False
        if isinstance(value, tuple):
            return value[0], False
        self.builder.StartVector(4, len(value), 4)
        for item in reversed(value):
            if isinstance(item, float):
                self.builder.PrependFloat32(item)
            else:
                self.builder.PrependUOffsetTRelative(item)
        return int(self.builder.EndVector()), False

    def finish(self, root: int) -> bytes:
        self.builder.Finish(root, b"M001")
        return bytes(self.builder.Output())


def described(mean: list[float], std: list[float], file: str = "labels.txt") -> bytes:
    w = Writer()
    unit = w.table({0: 1, 1: (w.table({0: mean, 1: std}),)})
    image = w.table({0: "image", 4: [unit]})
    scores = w.table({0: "scores", 6: [w.table({0: file, 2: 2})]})
    graph = w.table({2: [image], 3: [scores]})
    return w.finish(w.table({0: "net", 3: [graph]}))


def with_labels(content: bytes, name: str = "labels.txt") -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, "\n".join(LABELS) + "\n")
    return content + archive.getvalue()


def means_of_channels(dtype: str, scale: Scale | None, rows: int = 5, columns: int = 6) -> ModelWriter:
    """The mean of each of three channels, named after what the channel shows."""
    model = ModelWriter()
    g = model.main
    x = g.input(np.zeros((1, rows, columns, 3), dtype), scale)
    y = g.output(dtype, (1, 3), scale)
    g.op("MEAN", [x, g.constant(np.array([1, 2], np.int32))], [y], "ReducerOptions", keepDims=False)
    return model
