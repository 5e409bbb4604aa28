"""The functions of the C runtime, as `runtime.library` has them, of a device: what a `Bundle` calls that runs there."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sterna.rpc import frames
from sterna.rpc.frames import CHUNK_BYTES, MOST_FILES, MOST_TABLE_BYTES, Kind, Request, Status
from sterna.rpc.link import Link, Refused
from sterna.runtime import remote
from sterna.runtime.remote import Failure, Functions, Model, aligned
from sterna_runtime import library
from sterna_runtime.abi import ALIGNMENT, status
from sterna_runtime.names import is_file_name
from sterna_runtime.refusals import Place

#: The numbers of `runtime.remote`, and the kinds and tables here.
_KINDS = {
    remote.SET_DIMS: Kind.DIMS,
    remote.RUN: Kind.RUN,
    remote.PROFILE: Kind.PROFILE,
    remote.RESET: Kind.RESET,
    remote.GET_OUTPUT: Kind.GET,
    remote.GET_VALUE: Kind.VALUE,
}
_TABLES = (remote.INPUTS, remote.OUTPUTS, remote.VALUES, remote.DIMS, remote.NODES, remote.MEMORY)
_NUMBERED = frozenset({remote.SET_DIMS, remote.GET_OUTPUT, remote.GET_VALUE})


#: A machine behind an address: it tells itself which devices it drives.
SERVER = Place(
    None,
    "start `sterna_rpc` there, as CMake builds it, and put the library of the device, such as libsterna_opencl, beside "
    "its others: a static server opens none",
)


@dataclass
class DeviceModel(Model):
    """The model that a device has loaded; `nanoseconds`: of its latest run there; `lost`: the status that ended it."""

    link: Link = field(kw_only=True)
    nanoseconds: int = 0
    lost: int = Status.STATE

    def ask(self, what: int, number: int = 0, payload: bytes = b"", most: int = MOST_TABLE_BYTES) -> bytes:
        with self.refusals():
            return self.link.ask(self.request(what, number, payload, most))

    @staticmethod
    def request(what: int, number: int = 0, payload: bytes = b"", most: int = MOST_TABLE_BYTES) -> Request:
        """A request of `runtime.remote` as a frame."""
        if what in _TABLES:
            return Request(Kind.TABLE, struct.pack("<I", _TABLES.index(what)), most)
        numbered = struct.pack("<I", number) if what in _NUMBERED else b""
        return Request(_KINDS[what], numbered + payload, most)

    def given(self) -> list[Request]:
        """The inputs that are bound."""
        inputs = self.table(remote.INPUTS)
        return [
            Request(Kind.SET, struct.pack("<I", number), tensor=_memory(address, inputs[number][3]))
            for number, address in self.bound.items()
        ]

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """What the device refuses within it is a Failure; where the model is lost by it, that is remembered."""
        if self.ended is not None:
            raise Failure(self.lost, self.ended)
        try:
            yield
        except Refused as problem:
            message = problem.message.encode()
            if problem.status in (Status.CRASHED, Status.HUNG, *frames.FATAL):
                self.lost, self.ended = problem.status, message + b"; load the bundle again"
            raise Failure(problem.status, message) from None

    def loaded(self) -> None:
        """LOAD was answered."""

    def end(self) -> bytes:
        if self.ended is None:
            with contextlib.suppress(Refused):
                self.link.ask(Request(Kind.UNLOAD))
            self.ended = b"the bundle has been closed"
        return self.ended


class ModelFunctions(Functions):
    """Those of `runtime.library`, of a model that is loaded at the other end of a link."""

    def __init__(self) -> None:
        super().__init__(())
        self._latest: DeviceModel | None = None

    def sterna_status_code(self, status: int) -> bytes:
        return frames.code_of(status).encode() if status > 0 else super().sterna_status_code(status)

    def _run(self, model: Model) -> None:
        """One round trip: inputs, the run and outputs travel at once."""
        assert isinstance(model, DeviceModel)
        given = model.given()
        run = model.request(remote.RUN if model.on_node is None else remote.PROFILE)
        taken = [
            model.request(remote.GET_OUTPUT, number, most=len(memory) - ALIGNMENT)
            for number, memory in enumerate(model.outputs)
        ]
        with model.refusals():
            replies = model.link.ask_all([*given, run, *taken])
        model.changed()
        for memory, data in zip(model.outputs, replies[len(given) + 1 :], strict=True):
            ctypes.memmove(aligned(memory), data, len(data))
        said = replies[len(given)]
        if model.on_node is None:
            model.nanoseconds = int.from_bytes(said, "little")
            return
        for node, nanoseconds in struct.iter_unpack("<IQ", said):
            model.on_node(None, node, b"", nanoseconds)

    def sterna_memory_info(self, pointer: Any, info: library.CMemory) -> int:
        def fill(model: Model) -> None:
            info.arena, info.scratch, info.signature, info.params = struct.unpack("<4Q", model.ask(remote.MEMORY))

        return self._status(pointer, fill)

    def nanoseconds(self, pointer: Any) -> int:
        """Of the latest run of a model, on the device."""
        model = self._models[pointer.value]
        return model.nanoseconds if isinstance(model, DeviceModel) else 0

    def profiled(self, pointer: Any, runs: int, node: int | None = None) -> list[int]:
        """Nanoseconds of each of so many runs, by TIME, of all nodes: a device's PROFILE is of one run. Raises
        Failure."""
        model = self._models[pointer.value]
        assert isinstance(model, DeviceModel)
        with model.refusals():
            said = self.time(pointer, (0, runs, runs), 0)
        return [nanoseconds for (nanoseconds,) in struct.iter_unpack("<Q", said[-8 * runs :])]

    def timed(self, pointer: Any, runs: int) -> int:
        """The sum of these."""
        return sum(self.profiled(pointer, runs))

    def time(self, pointer: Any, counts: tuple[int, int, int], least: int) -> bytes:
        """TIME's reply. Raises Refused."""
        model = self._models[pointer.value]
        assert isinstance(model, DeviceModel)
        asked = Request(Kind.TIME, struct.pack("<IIIIQ", *counts, 0, least), 36 + 8 * counts[2])
        try:
            with model.refusals():
                return model.link.ask_all([*model.given(), asked])[-1]
        except Failure as failure:
            raise Refused(failure.status, failure.message.decode()) from None


class DeviceFunctions(ModelFunctions):
    """The same, of models that a device runs. A device has one at a time: the latest."""

    def __init__(self, link: Link):
        super().__init__()
        self._link, self.place = link, SERVER

    def _asked_of_the_processor(self, feature: bytes) -> int:
        try:
            return self.has(feature)
        except Refused:
            return -1

    def has(self, feature: bytes) -> int:
        """1, 0, or -1 for a name that the device does not know. Raises Refused."""
        return int.from_bytes(self._link.ask(Request(Kind.HAS, frames.text(feature), 4)), "little", signed=True)

    def _opened(self, path: bytes, threads: int) -> Model:
        try:
            files = _files(os.fsdecode(path))
        except OSError as problem:
            reason = f"{problem.filename}: cannot be opened: {problem.strerror}"
            raise Failure(status("UNREADABLE"), reason.encode()) from None
        if self._latest is not None and self._latest.ended is None:
            self._latest.ended = b"another bundle has been loaded over the same connection"
        try:
            self._send(files)
            rows = b"".join(frames.text(name) + hashed for name, (hashed, _) in files.items())
            self._link.ask(Request(Kind.LOAD, struct.pack("<II", threads, len(files)) + rows))
        except Refused as problem:
            raise Failure(problem.status, problem.message.encode()) from None
        self._latest = DeviceModel(None, link=self._link)  # type: ignore[arg-type]
        return self._latest

    def _send(self, files: dict[str, tuple[bytes, bytes]]) -> None:
        """Sends what the device lacks of the files, from where an earlier attempt ended."""
        hashes = [hashed for hashed, _ in files.values()]
        asked = struct.pack("<I", len(hashes)) + b"".join(hashes)
        held = self._link.ask(Request(Kind.HAVE, asked, 4 + 12 * len(hashes)))
        for (hashed, data), (there, whole) in zip(files.values(), struct.iter_unpack("<QI", held[4:]), strict=True):
            if whole:
                continue
            at = there if there <= len(data) else 0
            for start in range(at, max(len(data), at + 1), CHUNK_BYTES):
                head = hashed + struct.pack("<QQ", len(data), start)
                self._link.ask(Request(Kind.PUT, head + data[start : start + CHUNK_BYTES], 8))


def _memory(address: int, size: int) -> memoryview | bytes:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B") if size else b""


def _files(directory: str) -> dict[str, tuple[bytes, bytes]]:
    """Hash and contents of what a device needs of a bundle: graph.json and the files that it names.

    Golden sets and sources stay here: the runtime does not read them.

    Raises:
        OSError: one of them cannot be read.
    """
    graph = (Path(directory) / "graph.json").read_bytes()
    try:
        named = json.loads(graph)["files"]
        names = [name for name in named if is_file_name(name) and not _stays(name)][: MOST_FILES - 1]
    except (ValueError, LookupError, TypeError, RecursionError):
        names = []  # the device's runtime says what is wrong with it
    contents = {"graph.json": graph}
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # the runtime says which one it misses
            contents[name] = (Path(directory) / name).read_bytes()
    return {name: (frames.file_hash(data), data) for name, data in contents.items()}


def _stays(name: str) -> bool:
    return name.endswith((".c", ".h")) or name.startswith("golden.")
