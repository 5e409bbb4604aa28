"""Inputs of a model from files: arrays, raw bytes, images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sterna_runtime.errors import Diagnostic, SternaError, error
from sterna_runtime.inputs import Array, TensorSpec, only_input

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
RAW = (".bin", ".raw")
LAYOUTS = ("auto", "nchw", "nhwc")
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class ImageOptions:
    """How pixels become numbers: (pixel - mean) * scale, with pixels of 0 to 255.

    Args:
        mean, scale: one number, or one per channel; None: what the model says, else 0 and 1/255 for floats, 0 (of int8:
            128) and 1 for integers.
        layout: where the channels stand; "auto" looks for a dimension of 1, 3 or 4.
        known: what the model says of its inputs, by name.
    """

    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    layout: str = "auto"
    known: Mapping[str, Normalization] = field(default_factory=dict)


@dataclass(frozen=True)
class Normalization:
    """What a model expects of pixels p: (p - mean) / std, and of that, where its integers stand for real numbers,
    the rounded x / step + zero."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    step: float = 1.0
    zero: int = 0


def read_inputs(specs: Sequence[TensorSpec], given: Iterable[str], images: ImageOptions) -> dict[str, Array]:
    """The arrays of `--input` options: NAME=FILE, or FILE for an archive or a model with one input.

    Shapes and types are checked by the runtime; here only what the files say.

    Raises:
        SternaError: E0002 to E0005, everything that is wrong at once.
    """
    by_name = {spec.name: spec for spec in specs}
    arrays: dict[str, Array] = {}
    problems: list[Diagnostic] = []
    for item in given:
        try:
            name, path = _split(item, by_name)
            for key, array in _read(name, path, by_name, images).items():
                if key in arrays:
                    raise error("E0002", f'the input "{key}" is given twice', fix="give it once")
                arrays[key] = array
        except SternaError as mistake:
            problems += mistake.diagnostics
    if problems:
        raise SternaError(problems)
    return arrays


def _split(item: str, specs: dict[str, TensorSpec]) -> tuple[str | None, Path]:
    """The input's name, None for all that an archive holds, and the file."""
    name, equals, file = item.partition("=")
    if equals and (name in specs or not Path(item).exists()):
        if not file:
            raise error("E0002", f'--input "{item}" names no file', fix="--input NAME=FILE")
        return name, Path(file)
    path = Path(item)
    if path.suffix.lower() == ".npz":
        return None, path
    if len(specs) == 1:
        return next(iter(specs)), path
    raise error(
        "E0002", f'--input "{item}" does not say which input it is for', fix=f"one of {_names(specs)}: NAME={item}"
    )


def _names(specs: Iterable[str]) -> str:
    return ", ".join(specs) or "none"


def _read(name: str | None, path: Path, specs: dict[str, TensorSpec], images: ImageOptions) -> dict[str, Array]:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise error("E0003", f"the file {path} {what}")
    kind = path.suffix.lower()
    if kind == ".npz":
        archive = _numpy(path)
        assert isinstance(archive, dict)
        if name is None:
            return only_input(archive, tuple(specs))
        if name not in archive and len(archive) != 1:
            raise error("E0005", f'{path} has no array "{name}"', f"it has {_names(archive)}")
        return {name: archive.get(name, next(iter(archive.values())))}
    assert name is not None
    if name not in specs:
        raise error("E0602", f'the model has no input "{name}"', f"its inputs: {_names(map(str, specs.values()))}")
    spec = specs[name]
    if kind == ".npy":
        array = _numpy(path)
        assert isinstance(array, np.ndarray)
        return {name: array}
    if kind in RAW:
        return {name: _raw(path, spec)}
    if kind in IMAGES:
        return {name: read_image(path, spec, images)}
    known = ", ".join((".npy", ".npz", *RAW, *IMAGES))
    raise error("E0003", f"{path} has an ending that is not known", f"known: {known}", fix=f"raw bytes: {path}.bin")


def _numpy(path: Path) -> Array | dict[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                return {key: loaded[key] for key in loaded.files}
        if path.suffix.lower() == ".npz":
            raise ValueError
        array: Array = loaded
        return array
    except OSError as problem:
        raise error("E0003", f"{path} cannot be read: {problem.strerror or problem}") from None
    except Exception:  # numpy, zipfile and zlib each have their own
        raise error("E0003", f"{path} is not a file that numpy.save wrote, or is damaged") from None


def _raw(path: Path, spec: TensorSpec) -> Array:
    found = path.stat().st_size
    if found != spec.nbytes:
        raise error("E0005", f"{path} has {found} bytes; the input {spec} needs {spec.nbytes}")
    return np.fromfile(path, dtype=spec.dtype).reshape(spec.sizes)


def read_image(path: Path, spec: TensorSpec, options: ImageOptions) -> Array:
    """An image, stretched to the input's size and with its number of channels.

    Raises:
        SternaError: E0004 pillow is missing, E0003 the file is no image, E0005 the input does not hold one image.
    """
    try:
        from PIL import Image  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", f"reading {path.name} needs the package pillow", fix="pip install pillow") from None
    height, width, channels, last = _plane(spec, options.layout)
    try:
        with Image.open(path) as file:
            image = file.convert(_CHANNELS[channels])
    except Exception as problem:  # a decoder for every format
        raise error("E0003", f"{path} is not an image that pillow can read: {problem}") from None
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    whole = spec.dtype.kind in "iub"
    pixels = np.asarray(image, np.float32).reshape(height, width, channels)
    values = _normalized(pixels, spec, options, channels)
    if whole and spec.dtype.kind != "b":
        limits = np.iinfo(spec.dtype)
        values = np.clip(np.round(values), limits.min, limits.max)
    if not last:
        values = np.moveaxis(values, 2, 0)
    result: Array = np.ascontiguousarray(values.astype(spec.dtype).reshape(spec.sizes))
    return result


def _normalized(pixels: Array, spec: TensorSpec, options: ImageOptions, channels: int) -> Array:
    """The numbers that pixels become."""
    known = options.known.get(spec.name)
    if known is not None and options.mean is None and options.scale is None:
        mean, std = (_per_channel(n, channels, "the model's normalization") for n in (known.mean, known.std))
        real: Array = (pixels - mean) / std
        return real / np.float32(known.step) + np.float32(known.zero) if spec.dtype.kind in "iu" else real
    usual = 128.0 if spec.dtype == np.int8 else 0.0
    mean = _per_channel(options.mean or (usual,), channels, "--mean")
    scale = _per_channel(options.scale or ((1.0,) if spec.dtype.kind in "iub" else (1 / 255,)), channels, "--scale")
    shifted: Array = (pixels - mean) * scale
    return shifted


def _per_channel(numbers: tuple[float, ...], channels: int, option: str) -> Array:
    if len(numbers) not in (1, channels):
        raise error(
            "E0005", f"{option} has {len(numbers)} numbers; the image has {channels} channels", fix="give one for all"
        )
    return np.array(numbers, np.float32)


def _plane(spec: TensorSpec, layout: str) -> tuple[int, int, int, bool]:
    """(height, width, channels, whether channels come last) of an input that holds one image."""
    shape = spec.sizes
    if len(shape) == 2:
        return (*shape, 1, True)
    if len(shape) == 4 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 3:
        first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
        if first and layout != "nhwc":
            return shape[1], shape[2], shape[0], False
        if last and layout != "nchw":
            return shape[0], shape[1], shape[2], True
    wanted = "" if layout == "auto" else f" with layout {layout}"
    title = f"the input {spec} does not hold one image{wanted}"
    where = "an image fits [1, C, H, W], [1, H, W, C], without the 1, or [H, W], where C is 1, 3 or 4"
    raise error("E0005", title, where, fix="prepare the array yourself and give it as .npy")
