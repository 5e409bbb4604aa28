"""What the benchmark can measure: its own networks, integer ones made of them, trained models, any file."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import operators
from architectures import ARCHITECTURES, ARCHITECTURES_INT8, QUANTIZED
from batches import network_and_batch
from environments import Environments
from integers import INTEGERS, quantize
from reference import Arrays, Case, write_reference
from sterna.errors import Diagnostic, SternaError, error

#: The folder of trained models, beside the checkout.
TRAINED = Path(os.environ.get("STERNA_MODELS", Path(__file__).resolve().parents[2] / "shared" / "models"))
SUFFIXES = (".onnx", ".tflite")
#: An error of Sterna on an architecture from which on it is wrong, in parts of the largest output.
WRONG_ARCHITECTURE = 1e-5
#: The networks over which the geometric mean is taken.
COUNTED = (
    *("mobilenet_v2", "resnet18", "resnet50", "squeezenet", "efficientnet_lite0", "yolov5n", "minilm_128"),
    *("gpt2", "lstm", "gru", "ds_cnn", "mlp", "autoencoder"),
)
#: All that bench/networks.py writes, which needs torch to say so itself.
NETWORKS = (*COUNTED, "vgg11", "mobilenet_v1", "minilm_16", "minilm_256", "gpt2_step", "null")


@dataclass(frozen=True)
class Model:
    """A model's name in the tables, its file, and a reference case; None: one is made of random inputs.

    Args:
        rounding: what its own types leave of a result, in parts of the largest.
        own_limit: the error from which on Sterna is wrong, where it is held to less than its peers.
    """

    label: str
    file: Path
    case: Case | None = None
    rounding: float = 0.0
    own_limit: float | None = None

    @property
    def spread(self) -> float:
        """By how much right outputs may differ, in parts of the largest."""
        return max(self.rounding, self.case.spread if self.case is not None else 0.0)

    @cached_property
    def digest(self) -> str:
        """Of the file, for the names of what is kept."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]


#: By families of rows, how far engines that round may be apart: half floats have eleven bits, bytes differ by steps.
_ROUNDING = {"half": 2.0**-8, "integer": 2.0**-5}


def trained_file(name: str) -> Path | None:
    """The file of a trained model that is here."""
    files = (TRAINED / name / f"model{suffix}" for suffix in SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def trained_floats() -> tuple[str, ...]:
    """The trained models that are here and compute in floats."""
    folders = sorted(TRAINED.iterdir()) if TRAINED.is_dir() else []
    names = [folder.name for folder in folders if trained_file(folder.name) is not None]
    return tuple(name for name in names if not name.endswith(("_int8", "_u8", "_hybrid")))


def groups() -> dict[str, Sequence[str]]:
    """Names that stand for several models."""
    rows = {f"operators-{family}": names for family, names in operators.families().items()}
    found = {"networks": NETWORKS, "integers": INTEGERS, "trained": trained_floats()}
    found |= {"architectures": tuple(ARCHITECTURES), "architectures-int8": ARCHITECTURES_INT8}
    return {**found, "operators": tuple(operators.OPERATORS), **rows}


def _is_known(name: str) -> bool:
    if name.endswith(SUFFIXES):
        return Path(name).is_file()
    if name in NETWORKS or name in operators.OPERATORS or name in ARCHITECTURES or trained_file(name) is not None:
        return True
    network, batch = network_and_batch(name)
    if batch > 1 and network in COUNTED:
        return True
    return name.endswith("_int8") and name.removesuffix("_int8") in (*NETWORKS, *QUANTIZED)


def check(names: Sequence[str]) -> list[str]:
    """The names, groups expanded.

    Raises:
        SternaError: E0006 for every name that is none.
    """
    known = groups()
    singles = list(dict.fromkeys(single for name in names for single in known.get(name, (name,))))
    problems = []
    for name in singles:
        if _is_known(name):
            continue
        if name.endswith(SUFFIXES):
            problems.append(Diagnostic("E0006", f"there is no file {name}"))
            continue
        if not TRAINED.is_dir() and name in INTEGERS:
            title = f"{name} is a trained model, and there is no folder {TRAINED}"
            problems.append(Diagnostic("E0006", title, fix="name the folder of trained models in STERNA_MODELS"))
            continue
        every = [*known, *NETWORKS, *known["trained"], *INTEGERS, *operators.OPERATORS, *ARCHITECTURES]
        near = difflib.get_close_matches(name, every, 1)
        fix = f"did you mean {near[0]}? ci/bench --help lists all" if near else "ci/bench --help lists all"
        problems.append(Diagnostic("E0006", f'there is no model "{name}"', fix=fix))
    if problems:
        raise SternaError(problems)
    return singles


class Models:
    """Models by name, and their inputs with the outputs that are right; what is made is kept in `folder`."""

    def __init__(self, folder: Path, environments: Environments):
        self.folder, self.environments = folder, environments
        #: By name, why a model that `find` was asked for could not be written.
        self.failed: dict[str, str] = {}

    def find(self, names: Sequence[str]) -> list[Model]:
        """The models, groups expanded. Networks are written once; those that cannot be are in `failed`.

        Raises:
            SternaError: E0006 as of `check`; E0004, the one model that is named cannot be written.
        """
        singles = check(names)
        found = []
        for name in singles:
            try:
                found.append(self._model(name))
            except SternaError as problem:
                if len(singles) == 1:
                    raise
                self.failed[name] = problem.diagnostics[0].title
                print(f"{name}: {self.failed[name]}", file=sys.stderr, flush=True)
        return found

    def arrays(self, model: Model) -> Path:
        """The file with inputs and reference outputs of a model, made once."""
        place = self.folder / "arrays" / f"{model.label}-{model.digest}.npz"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            write_reference(model.file, model.case, place)
        return place

    def inputs(self, model: Model) -> Arrays:
        with np.load(self.arrays(model)) as found:
            return {key[3:]: found[key] for key in found.files if key.startswith("in:")}

    def _model(self, name: str) -> Model:
        if name.endswith(SUFFIXES):
            return Model(Path(name).stem, Path(name).resolve())
        if name in operators.OPERATORS:
            target = self.folder / "operators" / f"{name}.onnx"
            operators.write(name, target)
            return Model(name, target, rounding=_ROUNDING.get(operators.OPERATORS[name].family, 0.0))
        if name in ARCHITECTURES:
            return Model(name, self._written(name), own_limit=WRONG_ARCHITECTURE)
        trained = trained_file(name)
        return Model(name, self._written(name)) if trained is None else Model(name, trained, _case(trained.parent))

    def _written(self, name: str) -> Path:
        floats = name.removesuffix("_int8")
        target = self.folder / ("architectures" if floats in ARCHITECTURES else "networks") / f"{name}.onnx"
        if name != floats:
            if not target.exists():
                quantize(self._written(floats), target)
        elif name in ARCHITECTURES:
            if not target.exists():
                self._exported(name, target)
        elif not target.with_suffix(".pt").exists():  # what is written last
            script = Path(__file__).with_name("networks.py")
            command = [self.environments.networks(), "-W", "ignore", str(script), str(target.parent), name]
            if status := subprocess.run(command, check=False).returncode:  # whatever torch thinks of its own exporter
                title = f"{name} cannot be written: {command[0]} ended with status {status}"
                raise error("E0004", title, fix=" ".join(command))
        return target

    def _exported(self, name: str, target: Path) -> None:
        """Writes an architecture in a process of its own, which says much; its last words are in the error.

        Raises:
            SternaError: E0004 where the installed versions of the packages do not export it.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("export_architecture.py")
        command = [self.environments.exporter(), str(script), name, str(target)]
        offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=offline)
        if result.returncode != 0:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise error("E0004", f"{name} cannot be exported: {last}", fix=" ".join(command))


def _case(folder: Path) -> Case | None:
    """A trained model's first reference case."""
    if not (folder / "ref.npz").is_file():
        return None
    described = json.loads((folder / "meta.json").read_text())
    names = described.get("runtime_input_order") or [entry["name"] for entry in described["inputs"]]
    with np.load(folder / "ref.npz") as cases:
        inputs = {name: cases[f"c0_in{number}"] for number, name in enumerate(names)}
        outputs = [cases[f"c0_out{number}"] for number in range(sum(key.startswith("c0_out") for key in cases.files))]
    spread = max([0.0, *(float(v) for v in described["spread"].values() if isinstance(v, (int, float)))])
    largest = max(float(np.abs(output).max(initial=0)) for output in outputs) or 1.0
    return Case(inputs, outputs, 4 * spread / largest)
