"""Keras models on disk: `.keras` (version 3), HDF5 (version 2), the JSON of `to_json` with its weights, layers models
of TensorFlow.js; a model in memory."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.archives import member_content
from sterna.frontends.hdf5.file import File
from sterna.frontends.hdf5.file import Group as H5Group
from sterna.frontends.keras.stores import Group, InMemory, NamedStore, NumberedStore, Store
from sterna.frontends.pairs import without_weights
from sterna.frontends.source import Source, json_fault
from sterna.frontends.tfjs_weights import tfjs_weights
from sterna.ir.graph import Array
from sterna.scratch import temporary_directory

CONFIG, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"
MOST_JSON = 256 << 20
MOST_WEIGHTS = 16 << 30
#: Names of files that are never JSON.
_BINARY = (".keras", ".h5", ".hdf5")
_NEWEST = 1 << 16  # of the second numbers of versions
MOST_NESTED = 64  # configurations within a layer


@dataclass(frozen=True)
class ModelFile:
    """What a file holds.

    Args:
        config: of the model: {"class_name": ..., "config": ...}.
        version: of Keras that wrote it, where the file says so.
        form: how it was stored.
        weights: of each layer of the model.
        arrays: numbers in all, and their bytes.
        opened: the file that the weights are read from.
    """

    config: dict[str, Any]
    version: str
    form: str
    weights: Store | dict[str, Store]
    arrays: tuple[int, int] = (0, 0)
    opened: File | None = None

    def close(self) -> None:
        """Ends what is read of the file."""
        if self.opened is not None:
            self.opened.close()

    @property
    def major(self) -> int:
        """Of the version: 3 for the native format."""
        return self.version_numbers[0]

    @property
    def version_numbers(self) -> tuple[int, int]:
        """The version's first two numbers; the newest of 3, and 2.0, where the file does not say more."""
        found = [int(part) if part.isdigit() else None for part in self.version.split(".")[:2]]
        major = found[0] if found and found[0] is not None else 2
        minor = found[1] if len(found) > 1 else None
        return major, minor if minor is not None else (_NEWEST if major > 2 else 0)

    def store(self, name: str, kind: str, number: int) -> Store:
        """The variables of a layer of the model; `number`: how many of its class come before."""
        if isinstance(self.weights, dict):
            return self.weights.get(name) or NamedStore({}, name)
        return self.weights.child("layers", number, name, kind)


def load(source: Source) -> ModelFile:
    """What a source holds.

    Raises:
        SternaError: E0101 or E0103.
    """
    if source.path is None:
        return _in_memory(source.model)
    try:
        if source.start.startswith(b"PK"):
            return _native(source.file())
        if source.start.startswith(b"\x89HDF"):
            return _hdf5(source.file())
        if source.file().suffix.lower() in _BINARY:
            begins = f"it begins with the bytes {source.start[:8].hex(' ')}" if source.start else "it is empty"
            fix = "copy it again, or save the model again: model.save(path)"
            raise error("E0101", "no model of Keras: neither a zip archive nor HDF5", begins, fix=fix)
        return _from_json(source)
    except SternaError as mistake:
        raise mistake.within(source.name) from None
    except (OSError, RuntimeError, KeyError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as problem:
        raise error("E0103", f"{source.name} is damaged", f"{type(problem).__name__}: {problem}") from None


def _in_memory(model: Any) -> ModelFile:
    """A model that Keras holds: through a file, as Keras knows best what it consists of."""
    with temporary_directory("model") as folder:
        path = Path(folder) / "model.keras"
        try:
            model.save(path)
        except Exception as problem:  # it is Keras', or the user's own layer
            raise error("E0101", "the model cannot be saved", f"{type(problem).__name__}: {problem}") from None
        return _native(path)


def _json(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error("E0103", f"{what} is not JSON: {json_fault(problem)}", fix="save the model again") from None
    if not isinstance(found, dict):
        raise error("E0103", f"{what} is not an object")
    return found


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > most:
        raise error("E0103", f"{name} is announced with {info.file_size} bytes")
    return member_content(archive, info)


def _native(path: Path) -> ModelFile:
    with zipfile.ZipFile(path) as archive:
        for name in (CONFIG, WEIGHTS):
            if name not in archive.namelist():
                raise error("E0103", f"the archive has no {name}")
        config = _json(_member(archive, CONFIG, MOST_JSON), CONFIG)
        about = _json(_member(archive, METADATA, MOST_JSON), METADATA) if METADATA in archive.namelist() else {}
        limit = min(MOST_WEIGHTS, max(path.stat().st_size, 1) * 1100)  # deflate makes nothing smaller than that
        content = _member(archive, WEIGHTS, limit)
    version = str(about.get("keras_version", "3"))
    with _kept(File(content)) as file:
        return ModelFile(config, version, "native", NumberedStore(file, "the model"), _measured(file), file)


@contextmanager
def _kept(file: File) -> Iterator[File]:
    """A file that stays open unless something goes wrong."""
    try:
        yield file
    except BaseException:
        file.close()
        raise


def _hdf5(path: Path) -> ModelFile:
    with _kept(File(path)) as file:
        text = file.attrs.get("model_config")
        if text is None:
            fix = "save the whole model: model.save(path)"
            raise error("E0103", "the file has weights without a model", "it has no model_config", fix=fix)
        config = _json(text if isinstance(text, bytes) else str(text).encode("utf-8", "replace"), "model_config")
        groups = _weights_group(file)
        version = _text(file.attrs.get("keras_version", groups.attrs.get("keras_version", "2")))
        return ModelFile(config, version, "HDF5", _named_layers(groups), _measured(groups), file)


def _weights_group(file: File) -> H5Group:
    """Where the layers' groups are."""
    groups = file.get("model_weights", file)
    if not isinstance(groups, H5Group):
        raise error("E0103", "model_weights is not a group")
    return groups


def _named_layers(groups: Any) -> dict[str, Store]:
    """The variables of each layer, in groups of the layers' names."""
    layers: dict[str, Store] = {}
    for name, group in groups.items():
        if hasattr(group, "keys"):
            layers[name] = NamedStore({each: group[each] for each in _names(group)}, name)
    return layers


def _names(group: Any) -> list[str]:
    """The names of a layer's variables, which may be cut into several attributes (`weight_names0` ...)."""
    if "weight_names" in group.attrs:
        return _names_in(group, "weight_names")
    found, n = [], 0
    while f"weight_names{n}" in group.attrs:
        found += _names_in(group, f"weight_names{n}")
        n += 1
    return found


def _names_in(group: Any, attribute: str) -> list[str]:
    names = group.attrs[attribute]
    if np.ndim(names) != 1:
        raise error("E0103", f"{attribute} is not a list of names")
    return [_text(each) for each in names]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _measured(group: Any) -> tuple[int, int]:
    """How many numbers a file has, and their bytes; what an optimizer keeps is not counted."""
    sizes: list[tuple[int, int]] = []

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "nbytes") and not name.startswith("optimizer"):
            sizes.append((int(item.size), int(item.nbytes)))

    group.visititems(visit)
    return sum(size for size, _ in sizes), sum(size for _, size in sizes)


def _shard(folder: Path, name: str) -> bytes:
    """A file beside model.json, and no other."""
    if not name or Path(name).name != name:
        raise error("E0103", f'the shard "{name}" is not a file beside model.json')
    try:
        return (folder / name).read_bytes()
    except OSError as problem:
        fix = "put the weights beside model.json, under the names that it gives them"
        raise error("E0101", f"the shard {name} cannot be read: {problem.strerror}", fix=fix) from None


def _from_json(source: Source) -> ModelFile:
    path = source.file()
    if path.stat().st_size > MOST_JSON:
        raise error("E0103", f"it has more than {MOST_JSON >> 20} MiB")
    model = _json(path.read_bytes(), path.name)
    return _architecture(model, source) if "class_name" in model else _layers_model(model, path)


def weights_of(source: Source) -> Path:
    """Where the weights of a model in JSON are.

    Raises:
        SternaError: E0101, they are not beside it.
    """
    beside = (source.beside(suffix) for suffix in (".weights.h5", ".h5", ".hdf5"))
    weights = source.weights or next((path for path in beside if path is not None), None)
    if weights is None:
        raise without_weights(source.file(), source.file().with_suffix(".weights.h5").name)
    return weights


def _architecture(config: dict[str, Any], source: Source) -> ModelFile:
    """What `to_json` gives, with what `save_weights` writes: variables by the layers' names, or numbered."""
    weights = weights_of(source)
    with weights.open("rb") as opened:
        if not opened.read(4).startswith(b"\x89HDF"):
            fix = "save them so: model.save_weights(path)"
            raise error("E0101", f"{weights.name} is no file of Keras' weights", "it is not HDF5", fix=fix)
    with _kept(File(weights)) as file:
        groups = _weights_group(file)
        by_name = "layer_names" in groups.attrs or "layer_names0" in groups.attrs
        version = _text(config.get("keras_version") or groups.attrs.get("keras_version") or ("2" if by_name else "3"))
        stores = _named_layers(groups) if by_name else NumberedStore(file, "the model")
        return ModelFile(config, version, "JSON with weights", stores, _measured(groups), file)


def _layers_model(model: dict[str, Any], path: Path) -> ModelFile:
    topology = model.get("modelTopology")
    if isinstance(topology, dict) and isinstance(topology.get("model_config"), dict):
        config, version = topology["model_config"], str(topology.get("keras_version", "2"))
    elif isinstance(topology, dict) and "class_name" in topology:
        config, version = topology, str(topology.get("keras_version", "2"))
    else:
        raise error("E0103", "modelTopology has no model_config")
    arrays = tfjs_weights(model.get("weightsManifest"), partial(_shard, path.parent))
    measured = sum(a.size for a in arrays.values()), sum(a.nbytes for a in arrays.values())
    return ModelFile(config, version, "TensorFlow.js", _manifested(arrays, config), measured)


def _manifested(arrays: dict[str, Array], config: dict[str, Any]) -> Store | dict[str, Store]:
    """The variables of a manifest. Of `.keras` files its writer keeps the numbers (`layers/dense/vars/0`), of others
    the names, before which that of a Sequential model may stand (`sequential/dense/kernel`). What a layer is around may
    stand there without it (`eye/conv2d/kernel` of a TimeDistributed model `eye`)."""
    if arrays and all(re.search(r"(^|/)vars/\d+$", name) for name in arrays):
        return NumberedStore(Group.of({name: InMemory(array) for name, array in arrays.items()}), "the model")
    inner = config["config"].get("layers") if isinstance(config.get("config"), dict) else config.get("config")
    known = {_name_of(layer): layer for layer in inner or () if isinstance(layer, dict)}
    within = {each: outer for outer, layer in known.items() for each in _names_within(layer.get("config"))}
    layers: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        path = name.split("/")
        owner = next((part for part in path[:-1] if part in known), None)
        owner = owner or next((within[part] for part in path[:-1] if part in within), path[0])
        layers.setdefault(owner, {})[name] = InMemory(array)
    return {name: NamedStore(found, name) for name, found in layers.items()}


def _names_within(config: Any, depth: int = 0) -> Iterator[str]:
    """The names of the layers that stand in a layer's configuration."""
    if depth > MOST_NESTED:
        return
    for value in config.values() if isinstance(config, dict) else config if isinstance(config, list) else ():
        if isinstance(value, dict) and "class_name" in value and isinstance(name := _name_of(value), str):
            yield name
        if isinstance(value, (dict, list)):
            yield from _names_within(value, depth + 1)


def _name_of(layer: dict[str, Any]) -> Any:
    inner = layer.get("config")
    return layer.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
