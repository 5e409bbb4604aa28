"""The files of exported programs, as PyTorch 2.3 and later write them.

Since 2.8: `models/<name>.json` is the program; `data/weights` and `data/constants` hold raw elements, and a JSON file
each that says which tensor lies where. Before: `serialized_exported_program.json`, and what `torch.save` makes of the
tensors beside it. A part that is not compressed is used where it lies in the file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.archives import member_content
from sterna.frontends.pytorch.pickles import saved_tensors
from sterna.frontends.pytorch.program import Program, program_of
from sterna.frontends.pytorch.tensors import BROKEN, COMPLEX, check_member, scalar_type, strided
from sterna.ir import dtypes
from sterna.ir.graph import Array

OLD_PROGRAM = "serialized_exported_program.json"
_MODELS, _JSON = "models/", ".json"
LARGEST_PROGRAM = 512 << 20  # bytes of JSON
_HEADER = 30  # bytes of a local file header of a zip archive before its name
MOST_MEMBERS = 200_000


def is_program(names: tuple[str, ...]) -> bool:
    """Whether an archive with these names is an exported program."""
    return any(_is_model(name) or name.rpartition("/")[2] == OLD_PROGRAM for name in names)


def is_torchscript(names: tuple[str, ...]) -> bool:
    """Whether it is a TorchScript model."""
    return any("/code/" in name for name in names) and any(name.endswith("/data.pkl") for name in names)


def _is_model(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return file.endswith(_JSON) and (folder == "models" or folder.endswith("/models"))


class Archive:
    """An exported program in a file.

    Args:
        path: of the file.
        model: which of several programs; None: the only one.

    Raises:
        SternaError: E0101, it is damaged or no exported program; E0106, it has no such program.
    """

    def __init__(self, path: Path, model: str | None = None):
        self.where = path.name
        try:
            with path.open("rb") as file:
                self.content = mmap(file.fileno(), 0, access=ACCESS_READ)
            self.zip = zipfile.ZipFile(path)
            names = self.zip.namelist()
        except BROKEN as problem:
            raise error("E0101", f"{self.where} is a damaged archive", str(problem)) from None
        if len(names) > MOST_MEMBERS:
            raise error("E0112", f"{self.where} has {len(names)} parts")
        old = [name for name in names if name.rpartition("/")[2] == OLD_PROGRAM]
        self.models = {name.rpartition("/")[2].removesuffix(_JSON): name for name in names if _is_model(name)}
        if not old and not self.models:
            raise error("E0101", f"{self.where} holds no exported program", fix="torch.export.save writes one")
        self.is_old = not self.models
        self.model = ""
        if self.is_old:
            self.document = old[0]
            self.root = old[0].removesuffix(OLD_PROGRAM)
        else:
            self.model = next(iter(self.models)) if model is None else model
            if self.model not in self.models:
                raise error(
                    "E0106", f'the file has no program "{model}"', f"its programs: {', '.join(sorted(self.models))}"
                )
            self.document = self.models[self.model]
            self.root = self.document.removesuffix(f"{_MODELS}{self.model}{_JSON}")
        self.names = set(names)

    # ---------------------------------------------------------------- parts
    def read(self, name: str, limit: int = 1 << 40) -> memoryview:
        """A part; the file's own bytes where it is not compressed."""
        try:
            info = self.zip.getinfo(name)
            check_member(info, self.where, limit)
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                return memoryview(member_content(self.zip, info))
        except BROKEN as problem:
            raise error("E0101", f"{self.where}: {name} cannot be read", str(problem)) from None
        header = self.content[info.header_offset : info.header_offset + _HEADER]
        first = info.header_offset + _HEADER + int.from_bytes(header[26:28], "little")
        first += int.from_bytes(header[28:30], "little")
        if header[:4] != b"PK\x03\x04" or first + info.file_size > len(self.content):
            raise error("E0101", f"{self.where}: {name} is not whole")
        return memoryview(self.content)[first : first + info.file_size]

    def json(self, name: str) -> Any:
        try:
            return json.loads(bytes(self.read(name, LARGEST_PROGRAM)))
        except (ValueError, RecursionError) as problem:
            raise error("E0101", f"{self.where}: {name} is damaged", str(problem)) from None

    def program(self) -> Program:
        """What the file says, without its tensors.

        Raises:
            SternaError: E0101 or E0103.
        """
        return program_of(self.json(self.document), self.where)

    # ---------------------------------------------------------------- tensors
    def tensors(self) -> Mapping[str, Array]:
        """Parameters, buffers and constants by name.

        Raises:
            SternaError: E0101, E0111 or E0112.
        """
        found: dict[str, Array] = {}
        if self.is_old:
            for name in ("serialized_state_dict.pt", "serialized_constants.pt"):
                if self.root + name in self.names:
                    found |= self.saved(self.root + name)
            return found
        for part in ("weights", "constants"):
            folder = f"{self.root}data/{part}/"
            config = f"{folder}{self.model}_{part}_config.json"
            if config in self.names:
                found |= self.raw(self.json(config), folder)
            if f"{folder}{self.model}.pt" in self.names:
                found |= self.saved(f"{folder}{self.model}.pt")
        return found

    def saved(self, name: str) -> dict[str, Array]:
        """What `torch.save` wrote."""
        content = bytes(self.read(name))
        return saved_tensors(content, f"{self.where}: {name}") if content else {}

    def raw(self, config: Any, folder: str) -> dict[str, Array]:
        """Tensors whose elements lie in parts of their own."""
        found: dict[str, Array] = {}
        entries = config.get("config") if isinstance(config, dict) else None
        if not isinstance(entries, dict):
            raise error("E0101", f"{self.where}: {folder} has no list of its tensors")
        for name, entry in entries.items():
            try:
                path, meta = folder + entry["path_name"], entry["tensor_meta"]
                if entry.get("use_pickle"):
                    if meta is not None:  # without it, an object of a class of its own
                        found[name] = next(iter(self.saved(path).values()))
                    continue
                layout = [_known(n) for n in meta["sizes"]], [_known(n) for n in meta["strides"]]
                where = f'{self.where}, the tensor "{name}"'
                found[name] = self.stored(path, scalar_type(meta["dtype"], where), *layout, meta, where)
            except SternaError:
                raise
            except (KeyError, TypeError, AttributeError, StopIteration) as problem:
                title = f'{self.where}: what is said of the tensor "{name}" is damaged'
                raise error("E0101", title, f"{type(problem).__name__}: {problem}") from None
        return found

    def stored(self, path: str, dtype: str, sizes: Any, strides: Any, meta: Any, where: str) -> Array:
        content = self.read(path)
        kind = np.dtype("complex64") if dtype == "complex64" else None
        if dtype in COMPLEX and kind is None:
            raise error("E0111", f"{where} is of {dtype}, which is not supported")
        kind = kind or dtypes.to_numpy(dtype)
        data = np.frombuffer(content, kind, len(content) // kind.itemsize)
        return strided(data, sizes, strides, _known(meta["storage_offset"]), where)


def _known(size: Any) -> Any:
    return size["as_int"]
