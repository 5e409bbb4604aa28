"""A bundle, run on what files or chance give: what the commands `run` do, whoever prints it."""

from __future__ import annotations

import io
import statistics
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sterna_runtime.arguments import Dims
from sterna_runtime.bundle import Bundle
from sterna_runtime.cli.files import ImageOptions, Normalization, read_inputs
from sterna_runtime.cli.reports import spec_json
from sterna_runtime.detections import CORNERS, detecting_outputs, detections
from sterna_runtime.errors import Diagnostic, SternaError, error
from sterna_runtime.inputs import Array, TensorSpec, match_inputs
from sterna_runtime.profile import NodeTime
from sterna_runtime.random_inputs import random_inputs


@dataclass(frozen=True)
class Asked:
    """What to run on, and how often.

    Args:
        given: NAME=FILE or FILE, as `read_inputs` takes them; mean, scale, layout: of images among them.
        random: whether inputs that are not given have random values, of that seed.
        dims: sizes of open dimensions; of one that is not there the greatest.
        profile: whether every node is timed, too.
    """

    given: Iterable[str] = ()
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    layout: str = "auto"
    random: bool = False
    seed: int = 0
    dims: Dims | None = None
    repeat: int = 1
    profile: bool = False


@dataclass(frozen=True)
class Trial:
    """What came of it: outputs by name, seconds of each run, times of nodes."""

    results: dict[str, Array]
    times: list[float]
    nodes: list[NodeTime]


def refuse_file(bundle: Path) -> None:
    """Raises E0006 for a file in place of a bundle's directory: most often it is a model."""
    if bundle.is_file():
        fix = f"sterna compile {bundle}, then sterna run {bundle.stem}"
        raise error("E0006", f"{bundle} is a file, not a bundle", fix=fix)


def tried(model: Bundle, asked: Asked) -> Trial:
    """Runs a bundle.

    Raises:
        SternaError: E0002 to E0005 of files and options, E0601 to E0606 of inputs.
    """
    if sizes := _open_sizes(model, asked.dims or {}):
        model.set_dims(**sizes)
    specs = [spec.at(model.dim_sizes) for spec in model.inputs]
    images = ImageOptions(asked.mean, asked.scale, asked.layout, _normalizations(model))
    arrays = read_inputs(specs, asked.given, images)
    if asked.random:
        arrays = {**random_inputs(specs, asked.seed), **arrays}
    _check_all_given(specs, arrays)
    for spec, array in zip(specs, match_inputs(specs, arrays), strict=True):
        model.set_input(spec.name, np.require(array, requirements=["C", "A"]))
    times = _time(model, asked.repeat)
    results = {spec.name: model.get_output(spec.name).copy() for spec in model.outputs}
    return Trial(results, times, model.profile(asked.repeat) if asked.profile else [])


def _normalizations(model: Bundle) -> dict[str, Normalization]:
    """What the model says of images, by input."""
    found = {}
    for name, row in model.metadata.get("normalization", {}).items():
        known = model.quantization(name)
        step, zero = (1.0, 0) if known is None or known.axis is not None else (known.scales[0], known.zero_points[0])
        found[name] = Normalization(tuple(row["mean"]), tuple(row["std"]), step, zero)
    return found


def _open_sizes(model: Bundle, given: Dims) -> dict[str, int]:
    """A size for every open dimension: the one given, else the greatest."""
    if given and not model.dims:
        raise error("E0002", "--dim is of no use: all sizes of this bundle are fixed", fix="leave it out")
    sizes = {name: hi for name, (_, hi) in model.dims.items()}
    for name, size in given.items():
        if name not in sizes or not isinstance(size, int):
            known = ", ".join(f"{n} ({lo} to {hi})" for n, (lo, hi) in model.dims.items())
            raise error("E0002", f"--dim {name} is not one size of an open dimension", fix=f"open: {known}")
        sizes[name] = size
    return sizes


def _time(model: Bundle, repeat: int) -> list[float]:
    """Seconds of each run, by the clock of where it runs; an unmeasured one comes first, where there are several."""
    functions, pointer = model.of_runtime()
    elsewhere = getattr(functions, "nanoseconds", None)
    times = []
    if repeat > 1:
        model.run()
    for _ in range(repeat):
        start = time.perf_counter()
        model.run()
        seconds = time.perf_counter() - start
        told = elsewhere(pointer) if elsewhere is not None else None
        times.append(seconds if told is None else told * 1e-9)
    return times


def check_output(path: Path | None, specs: Sequence[TensorSpec]) -> None:
    """Before anything runs: whether the outputs can be written there at all."""
    if path is None:
        return
    if path.suffix not in (".npz", ".npy"):
        raise error("E0007", f"{path} ends in neither .npz nor .npy", fix="--output out.npz")
    if path.suffix == ".npy" and len(specs) != 1:
        raise error(
            "E0007", f"an .npy file holds one array; the model has {len(specs)} outputs", fix="--output out.npz"
        )


def _check_all_given(specs: Sequence[TensorSpec], arrays: dict[str, Array]) -> None:
    """Raises E0601 and E0602: inputs without a file, and arrays of an archive that are none of the inputs."""
    names = ", ".join(map(str, specs))
    known = {spec.name for spec in specs}
    missing = [spec for spec in specs if spec.name not in arrays]
    problems = [
        Diagnostic("E0602", f'the model has no input "{name}"', (f"its inputs: {names}",))
        for name in arrays
        if name not in known
    ]
    if missing:
        fix = f"--input {missing[0].name}=FILE, or --random"
        problems += [Diagnostic("E0601", f"no file is given for the input {spec}", (), fix) for spec in missing]
    if problems:
        raise SternaError(problems)


def encoded(path: Path, results: Mapping[str, Array]) -> bytes:
    """The contents of a file of outputs with that name, which `check_output` has accepted."""
    return _npy(next(iter(results.values()))) if path.suffix == ".npy" else _npz(results)


def _npz(results: Mapping[str, Array]) -> bytes:
    """As numpy's savez, which takes an output of the name `file` for its own argument."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in results.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(array))
    return buffer.getvalue()


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array.astype(str) if array.dtype == object else array, allow_pickle=False)
    return buffer.getvalue()


def largest(array: Array, count: int) -> list[tuple[int, Any]]:
    """(index, value) of the largest elements of a flattened array, the greatest first."""
    flat = array.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    return [(int(i), flat[i].item()) for i in order]


def top_rows(model: Bundle, name: str, array: Array, count: int) -> list[dict[str, Any]]:
    """The largest elements of an output, as JSON has them: of integers that stand for real numbers these, and `raw` the
    integers."""
    known = model.quantization(name)
    labels = model.labels(name)
    real = array if known is None else known.real(array)
    flat = array.reshape(-1)
    return [
        {
            "index": index,
            "value": value,
            **({} if known is None else {"raw": flat[index].item()}),
            **({"label": labels[index]} if index < len(labels) else {}),
        }
        for index, value in largest(real, count)
    ]


def shown_detections(model: Bundle, trial: Trial, top: int | None) -> tuple[set[str], list[list[str]]]:
    """Of a detector the outputs that need not be shown, and a table of what it found: what, how sure, where."""
    found = None if top is None else detections(model.metadata, trial.results, top)
    if found is None:
        return set(), []
    rows = [
        [row.get("label") or str(row["class"]), f"{row['score']:.5g}", *(f"{edge:.5g}" for edge in row["box"])]
        for row in found
    ]
    return detecting_outputs(model.metadata), [["detected", "score", *CORNERS], *rows]


def trial_json(model: Bundle, trial: Trial, threads: int, top: int | None) -> dict[str, Any]:
    """What came of it, for scripts; `top`: how many of the largest elements of every output."""
    outputs = []
    for spec in model.outputs:
        row = spec_json(spec)
        if top is not None:
            row["top"] = top_rows(model, spec.name, trial.results[spec.name], top)
        outputs.append(row)
    data: dict[str, Any] = {
        "bundle": str(model.directory),
        "threads": threads,
        "runs": len(trial.times),
        "median_seconds": statistics.median(trial.times),
        "fastest_seconds": min(trial.times),
        "outputs": outputs,
    }
    if top is not None and (found := detections(model.metadata, trial.results, top)) is not None:
        data["detections"] = found
    if trial.nodes:
        data["nodes"] = [
            {
                "index": node.index,
                "name": node.name,
                "kernel": node.kernel,
                "sources": list(node.sources),
                "tasks": node.tasks,
                "median_nanoseconds": node.nanoseconds,
                "fastest_nanoseconds": node.fastest,
            }
            for node in trial.nodes
        ]
    return data
