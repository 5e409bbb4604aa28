"""Inputs and outputs as a model's description declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sterna.errors import error
from sterna.frontends.inputs import InputInfo
from sterna.ir import dtypes

_ARRAYS = {65568: "float32", 65600: "float64", 65552: "float16", 131104: "int32", 131080: "int8"}
_GRAY, _GRAY_16, _BGR = 10, 40, 30


@dataclass(frozen=True)
class Feature:
    """An input or output.

    Args:
        kind: "array", "image", "double", "int64", "string", "dictionary", "sequence".
        dtype: of its elements; empty where the description does not say.
        sizes: as declared, names for those that are open; ready: those that it stands ready with.
    """

    name: str
    kind: str
    dtype: str
    sizes: tuple[int | str, ...]
    ready: tuple[int, ...]
    is_bgr: bool = False

    @property
    def info(self) -> InputInfo:
        return InputInfo(self.name, self.dtype or "float32", self.sizes, self.ready)


def feature(described: Any) -> Feature:
    """A description of an input or output.

    Raises:
        SternaError: E0111, a kind that is not supported.
    """
    kind, name = described.type, described.name
    which = kind.WhichOneof("Type")
    if which == "multiArrayType":
        return _array(kind.multiArrayType, name)
    if which == "imageType":
        image = kind.imageType
        gray = image.colorSpace in (_GRAY, _GRAY_16)
        ready = (1, 1 if gray else 3, int(image.height), int(image.width))
        sizes: list[int | str] = list(ready)
        if image.WhichOneof("SizeFlexibility") == "imageSizeRange":
            for n, bounds in ((2, image.imageSizeRange.heightRange), (3, image.imageSizeRange.widthRange)):
                if bounds.lowerBound != bounds.upperBound:
                    sizes[n] = f"{name}_{n}"
        dtype = "float16" if image.colorSpace == _GRAY_16 else "float32"
        return Feature(name, "image", dtype, tuple(sizes), ready, image.colorSpace == _BGR)
    if which in ("doubleType", "int64Type", "stringType"):
        dtype = {"doubleType": "float64", "int64Type": "int64", "stringType": dtypes.STRING}[which]
        return Feature(name, which.removesuffix("Type"), dtype, (1,), (1,))
    if which in ("dictionaryType", "sequenceType"):
        return Feature(name, which.removesuffix("Type"), "", (), ())
    raise error("E0111", f'the feature "{name}" of the type {which} is not supported')


def _array(array: Any, name: str) -> Feature:
    ready = [int(n) for n in array.shape]
    which = array.WhichOneof("ShapeFlexibility")
    sizes: list[int | str] = list(ready)
    if which == "enumeratedShapes" and array.enumeratedShapes.shapes:
        ready = ready or [int(n) for n in array.enumeratedShapes.shapes[0].shape]
        sizes = list(ready)
    elif which == "shapeRange":
        bounds = array.shapeRange.sizeRanges
        ready = ready if len(ready) == len(bounds) else [max(int(b.lowerBound), 1) for b in bounds]
        sizes = [
            size if b.lowerBound == b.upperBound else f"{name}_{n}"
            for n, (size, b) in enumerate(zip(ready, bounds, strict=True))
        ]
    return Feature(name, "array", _ARRAYS.get(array.dataType, ""), tuple(sizes), tuple(ready))
