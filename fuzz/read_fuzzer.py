"""Mutated models of every format are read and described, and nothing else: some hundreds in a second.

Formats take turns, a process each. What is left of a model is a graph or a coded refusal; the graph's printer and what
`inspect` prints run as well. `models` (model_fuzzer.py) compiles some of them.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np

from format_seeds import archive
from frame import Budget, Finding, Fuzzer
from model_fuzzer import FORMATS
from model_mutations import mutated
from model_seeds import SHARES, seeds
from sterna.frontends import formats
from sterna.frontends.formats import describe_model, read_model
from sterna.frontends.frontend import ReadOptions
from watched import STUCK, Bad, batch, guarded, note

#: A folder with more models to begin with, as `ci/random-layers --cases-in FOLDER` writes them.
SEEDS = "STERNA_FUZZ_SEEDS"
BATCH = 1000  # models of one process
#: What a model of such a folder is called, and its format.
_STORED = {
    "model.pt2": "pt2", "model.keras": "keras", "model.h5": "h5", "model.json": "tensorflow_js",
    "model-symbol.json": "mxnet", "model.mlmodel": "coreml", "model.mlpackage": "mlpackage", "model.prototxt": "caffe",
    "model.cfg": "darknet", "model.pb": "tensorflow", "saved": "saved_model",
}  # fmt: skip
#: Formats of one file; others are an archive of their files.
_SINGLE = ("pt2", "keras", "h5", "coreml", "tensorflow")
_LARGEST = 50_000  # bytes of such a model
_ASIDE, _SYMBOL = ("case.npz", "layers.txt"), "model-symbol.json"


class _Read:
    """Reads a model; `accepted` of them, in memory that processes share, were models in spite of the damage."""

    def __init__(self) -> None:
        self._accepted = mmap.mmap(-1, 8)

    @property
    def accepted(self) -> int:
        return int(struct.unpack("<q", self._accepted[:])[0])

    def __call__(self, content: bytes, folder: Path) -> Bad | None:
        return guarded(self._read, content, folder) or guarded(_described, content, folder)

    def _read(self, content: bytes, folder: Path) -> Bad | None:
        file = folder / "model"
        file.write_bytes(content)
        graph = read_model(file, _options(content))
        self._accepted[:] = struct.pack("<q", self.accepted + 1)
        if zlib.crc32(content) % 8 == 0:
            str(graph)
        return None


def _described(content: bytes, folder: Path) -> Bad | None:
    if zlib.crc32(content) % 3 == 0:
        str(describe_model(folder / "model", _options(content)))
    return None


def _options(content: bytes) -> ReadOptions:
    """What MXNet's symbols do not say themselves."""
    return ReadOptions(dims={"batch": 2}) if zlib.crc32(content) % 4 == 1 else ReadOptions()


class _Inputs:
    """The inputs of one format by number."""

    def __init__(self, form: str, models: Sequence[bytes], seed: int):
        self._form, self._models, self._seed = form, models, seed

    def __getitem__(self, number: int) -> bytes:
        return mutated(self._form, self._models, Random(f"{self._seed}:{self._form}:{number}"))


def fuzz(budget: Budget, seed: int, work: Path) -> list[Finding]:
    """Reads models until the budget is spent, and prints how many of each format."""
    pools = _pools()
    found: dict[str, Finding] = {}
    with patch.object(formats, "entry_points", lambda **_: ()):  # other packages' front ends have no part in this
        execute = {form: _Read() for form in pools}
        _warm(pools, execute, work)
        made = dict.fromkeys(pools, 0)
        corpus = FUZZER.corpus()
        for place, bad in batch(corpus, range(len(corpus)), _Read(), budget, work) if corpus else ():
            if bad is not None:
                note(found, bad, corpus[place], budget)
        try:
            while not budget.spent:
                for form, models in pools.items():
                    inputs = _Inputs(form, models, seed)
                    end = made[form] + BATCH
                    while made[form] < end and not budget.spent:
                        for place, bad in batch(inputs, range(made[form], end), execute[form], budget, work):
                            made[form] = place + 1
                            if bad is not None:
                                note(found, bad, inputs[place], budget, f" at {place} of {form}")
        finally:
            for form, count in made.items():
                accepted = execute[form].accepted
                print(f"  {form:14} {count:>9,} read, {accepted:>9,} of them taken for models", flush=True)
    return list(found.values())


def replay(content: bytes, work: Path) -> list[Finding]:
    """Reads one saved model, in a process of its own."""
    bad = [bad for _, bad in batch([content], range(1), _Read(), Budget(STUCK, 1), work) if bad is not None]
    return [Finding(each.kind, each.text, content) for each in bad]


def _pools() -> dict[str, list[bytes]]:
    """The seeds of the formats that are asked for."""
    pools = {form: list(pool) for form, pool in {"grown": [b""], **seeds()}.items() if pool}
    if folder := os.environ.get(SEEDS):
        for form, content in stored(Path(folder)):
            pools.setdefault(form, []).append(content)
    wanted = [each for each in os.environ.get(FORMATS, "").split(",") if each] or list(SHARES)
    return {form: pools[form] for form in wanted if form in pools}


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The models of random layers in a folder, with their formats."""
    for case in sorted(path.parent for path in folder.glob("*/*/layers.txt")):
        name = next((name for name in _STORED if (case / name).exists()), None)
        if name is None:
            continue
        form, root = _STORED[name], case / name
        content = root.read_bytes() if form in _SINGLE else _archived(root if root.is_dir() else case)
        if len(content) < _LARGEST:
            yield form, content


def _archived(folder: Path) -> bytes:
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    content = {name: path.read_bytes() for name, path in files.items() if name not in _ASIDE}
    if _SYMBOL in content:
        content[_SYMBOL] = _with_shapes(content[_SYMBOL], files["case.npz"])
    return archive(content)


def _with_shapes(symbol: bytes, case: Path) -> bytes:
    """A symbol that says the shapes of its inputs, which are those of the case."""
    document = json.loads(symbol)
    with np.load(case) as arrays:
        shapes = {name[3:]: str(arrays[name].shape) for name in arrays.files if name.startswith("in_")}
    for node in document["nodes"]:
        if node["name"] in shapes:
            node["attrs"] = {"__shape__": shapes[node["name"]]}
    return json.dumps(document).encode()


def _warm(pools: dict[str, list[bytes]], execute: dict[str, _Read], work: Path) -> None:
    """Lets everything be imported and every cache be filled before the first process is forked."""
    for form, pool in pools.items():
        for content in pool[:: max(len(pool) // 5, 1)]:
            execute[form](content, work)
        execute[form] = _Read()
    gc.collect()
    gc.freeze()


FUZZER = Fuzzer("read", "mutated models of every format are read and described", fuzz, replay)
