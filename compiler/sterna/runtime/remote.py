"""The functions of the C runtime, as `runtime.library` has them, of a runtime in another process.

That process runs `runtime_c/tools/sterna_remote.c`, whose head describes what is sent. A model is a process; memory of
inputs and outputs is kept on both sides and copied before and after a run. Whoever loads a bundle within `elsewhere`
gets one that runs there, and need not know it.

A run may take as long as it takes, as anywhere else. A reply is at most as long as what was asked for. A process that
ends, hangs while it loads, or answers otherwise makes an error of the call; the model is lost then.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import os
import select
import signal
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sterna_runtime import library
from sterna_runtime.abi import ALIGNMENT, MAX_GRAPH_BYTES, MESSAGE_BYTES
from sterna_runtime.advice import Advice, Option
from sterna_runtime.refusals import Place

SET_INPUT, SET_DIMS, RUN, PROFILE, RESET, GET_OUTPUT, GET_VALUE = range(1, 8)
INPUTS, OUTPUTS, VALUES, DIMS, NODES, MEMORY = range(8, 14)
_BAD_ARGUMENT, _KERNEL_FAILED = -1, -11
_SECONDS_TO_LOAD = 300  # the hash of a gigabyte of weights takes seconds in an emulator
_SECONDS_TO_END = 60
#: Bytes of a reply that is no tensor: what graph.json says, in other words.
_MOST_BYTES = 4 * MAX_GRAPH_BYTES
_MALFORMED = b"a reply from elsewhere is malformed"


class Reader:
    """Numbers and texts of a reply, one after the other. Raises Failure where it ends too early."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def many(self, kind: str, count: int) -> tuple[Any, ...]:
        try:
            found = struct.unpack_from(f"={count}{kind}", self._data, self._at)
        except struct.error:
            raise Failure(_KERNEL_FAILED, _MALFORMED) from None
        self._at += struct.calcsize(f"={count}{kind}")
        return found

    def one(self, kind: str) -> int:
        return int(self.many(kind, 1)[0])

    def text(self) -> bytes:
        return bytes(self.many("s", self.one("I"))[0])  # of "s" the count is bytes


class Failure(Exception):  # noqa: N818  a status, which the caller of a function gets
    def __init__(self, status: int, message: bytes):
        super().__init__(status, message)
        self.status, self.message = status, message


@dataclass
class Model:
    """A model in a process of its own.

    Args:
        bound: addresses of the memory that inputs are read from.
        outputs: memory for the outputs, as large as they can become.
        tables: what the process has said of tensors, dimensions and nodes, as long as it holds.
        ended: how the process ended, once it has.
        where: the process is, for messages.
        nanoseconds: of the latest run, by the process's own clock; None where it does not say.
    """

    process: subprocess.Popen[bytes]
    where: str = "the emulator"
    bound: dict[int, int] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    tables: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    on_node: Callable[..., None] | None = None
    error: library.CError = field(default_factory=library.CError)
    ended: bytes | None = None
    nanoseconds: int | None = None

    def ask(self, what: int, number: int = 0, payload: bytes = b"", most: int = _MOST_BYTES) -> bytes:
        """What the process answers, in at most so many bytes. Raises Failure."""
        if self.ended is not None:
            raise Failure(_KERNEL_FAILED, self.ended)
        stdin = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(struct.pack("=IIQ", what, number, len(payload)))
            stdin.write(payload)
            stdin.flush()
        except OSError:
            raise Failure(_KERNEL_FAILED, self.end()) from None
        return self.reply(most)

    def loaded(self) -> None:
        """Waits until the process has loaded its bundle. Raises Failure."""
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], _SECONDS_TO_LOAD)
        if not ready:
            self.process.kill()
            self.end()
            raise Failure(_KERNEL_FAILED, f"{self.where} said nothing for {_SECONDS_TO_LOAD} seconds".encode())
        self.reply(0)

    def reply(self, most: int) -> bytes:
        """What the process writes next. Raises Failure."""
        stdout = self.process.stdout
        assert stdout is not None
        head = stdout.read(12)
        if len(head) == 12:
            status, length = struct.unpack("=iQ", head)
            if length > (MESSAGE_BYTES if status else most):
                self.process.kill()
                self.end()
                raise Failure(_KERNEL_FAILED, f"the reply of {self.where} is malformed".encode())
            data = stdout.read(length)
            if len(data) == length:
                if status:
                    raise Failure(status, data)
                return data
        raise Failure(_KERNEL_FAILED, self.end())

    def end(self) -> bytes:
        """Ends the process; how it ended."""
        if self.ended is not None:
            return self.ended
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            code = self.process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"status {code}"
        self.ended = f"{self.where} ended with {name}".encode()
        return self.ended

    def table(self, what: int) -> list[tuple[Any, ...]]:
        """The rows of a table. Raises Failure."""
        if what not in self.tables:
            reader = Reader(self.ask(what))
            read = {DIMS: _dim, NODES: _node}.get(what, _tensor)
            self.tables[what] = [read(reader) for _ in range(reader.one("I"))]
        return self.tables[what]

    def changed(self) -> None:
        """Sizes may be others now."""
        if self.table(DIMS):
            self.tables.clear()


def _tensor(reader: Reader) -> tuple[Any, ...]:
    name, dtype, rank = reader.text(), reader.text(), reader.one("I")
    dims, nbytes = reader.many("q", rank), reader.one("Q")
    n_scales, axis = reader.one("I"), reader.one("I")
    scales, zero_points = reader.many("f", n_scales), reader.many("i", n_scales)
    return name, dtype, dims, nbytes, axis, scales, zero_points, [reader.text() for _ in range(reader.one("I"))]


def _dim(reader: Reader) -> tuple[Any, ...]:
    return reader.text(), *reader.many("q", 3), reader.one("I")


def _node(reader: Reader) -> tuple[Any, ...]:
    return reader.text(), reader.text(), reader.one("I")


#: An emulator of a processor, or of a board.
EMULATOR = Place((), Advice("leave out ", Option("on")))


class Functions:
    """Those of `runtime.library` that Python's `Bundle` calls; statuses are returned, errors are kept, as C does.

    Args:
        command: starts the process; a bundle's folder and a number of threads are added to it.
        where: the process is, for messages; place: what there is.
    """

    def __init__(self, command: Sequence[str], where: str = "the emulator", place: Place = EMULATOR):
        self._command, self._where, self.place = tuple(command), where, place
        self._models: dict[int, Model] = {}
        self._numbers = itertools.count(1)
        self._features: dict[bytes, int] = {}
        self._here = library.here()

    # ---- Facts ----

    def sterna_cpu_has(self, feature: bytes) -> int:
        if feature not in self._features:
            self._features[feature] = self._asked_of_the_processor(feature)
        return self._features[feature]

    def _asked_of_the_processor(self, feature: bytes) -> int:
        command: list[str | bytes] = [*self._command, "--cpu-has", feature]
        try:
            done = subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS_TO_END)
            return int(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return -1

    def sterna_hash64(self, data: bytes, nbytes: int) -> int:
        return int(self._here.sterna_hash64(data, nbytes))

    def sterna_status_code(self, status: int) -> bytes:
        return bytes(self._here.sterna_status_code(status))

    def sterna_version(self) -> bytes:
        return bytes(self._here.sterna_version())

    # ---- A model's life ----

    def sterna_load(self, path: bytes, options: library.COptions, out: Any, problem: library.CError) -> int:
        try:
            model = self._loaded(self._opened(path, max(1, options.threads)))
        except Failure as failure:
            problem.status, problem.message = failure.status, failure.message[: MESSAGE_BYTES - 1]
            return failure.status
        number = next(self._numbers)
        self._models[number] = model
        out._obj.value = number
        return 0

    def _opened(self, path: bytes, threads: int) -> Model:
        """A process that loads a bundle. Raises Failure."""
        return Model(self._started([*self._command, path, str(threads)]), self._where)

    def _started(
        self, command: Sequence[str | bytes], stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE, **more: int
    ) -> subprocess.Popen[bytes]:
        """Raises Failure."""
        try:
            return subprocess.Popen(command, stdin=stdin, stdout=stdout, **more)  # type: ignore[call-overload,no-any-return]
        except OSError as problem:
            name = command[0] if isinstance(command[0], str) else os.fsdecode(command[0])
            reason = f"{self._where} {name} cannot be started: {problem.strerror}"
            raise Failure(_KERNEL_FAILED, reason.encode()) from None

    @staticmethod
    def _loaded(model: Model) -> Model:
        """The model once its process has loaded it, with memory for its outputs. Raises Failure."""
        try:
            model.loaded()
            for row in model.table(OUTPUTS):
                model.outputs.append(ctypes.create_string_buffer(row[3] + ALIGNMENT))
        except BaseException:
            model.end()
            raise
        return model

    def sterna_unload(self, pointer: Any) -> None:
        if (model := self._models.pop(pointer.value, None)) is not None:
            model.end()

    def sterna_last_error(self, pointer: Any) -> Any:
        return ctypes.pointer(self._models[pointer.value].error)

    def sterna_reset_state(self, pointer: Any) -> int:
        return self._status(pointer, lambda model: model.ask(RESET))

    # ---- Running ----

    def sterna_run(self, pointer: Any) -> int:
        return self._status(pointer, self._run)

    def profiled(self, pointer: Any, runs: int, node: int | None = None) -> list[int]:
        """Nanoseconds of each of so many runs, of a node or of all together, on the inputs that the model has there:
        one question, where each run of its own would be several. Raises Failure."""
        model = self._models[pointer.value]
        data = model.ask(PROFILE, runs)
        nodes, rest = divmod(len(data), runs * struct.calcsize("=IQ"))
        if rest or (node is not None and node >= nodes):
            raise Failure(_KERNEL_FAILED, _MALFORMED)
        times = [nanoseconds for _, nanoseconds in struct.iter_unpack("=IQ", data)]
        own = slice(None) if node is None else slice(node, node + 1)
        return [sum(times[n * nodes : (n + 1) * nodes][own]) for n in range(runs)]

    def timed(self, pointer: Any, runs: int) -> int:
        """Nanoseconds of so many runs together, on the inputs that the model has there: where a clock is coarse, many
        are known better than one. Raises Failure."""
        data = self._models[pointer.value].ask(RUN, runs)
        if not data or len(data) % struct.calcsize("=Q"):
            raise Failure(_KERNEL_FAILED, _MALFORMED)
        return sum(nanoseconds for (nanoseconds,) in struct.iter_unpack("=Q", data))

    def nanoseconds(self, pointer: Any) -> int | None:
        """Of the latest run, where it was; None where nothing is known of it."""
        return self._models[pointer.value].nanoseconds

    def sterna_set_on_node(self, pointer: Any, on_node: Any, _user: object) -> None:
        self._models[pointer.value].on_node = None if on_node is None else library.ON_NODE(on_node.value)

    def sterna_bind_input(self, pointer: Any, number: int, address: int | None) -> int:
        bound = self._models[pointer.value].bound
        bound.pop(number, None)
        if address is not None:
            bound[number] = address
        return 0

    def sterna_output_buffer(self, pointer: Any, number: int) -> int:
        return aligned(self._models[pointer.value].outputs[number])

    def sterna_set_dims(self, pointer: Any, sizes: Any, count: int) -> int:
        def resize(model: Model) -> None:
            model.ask(SET_DIMS, count, bytes(sizes))
            model.changed()

        return self._status(pointer, resize)

    def sterna_value_copy(self, pointer: Any, number: int, address: int, nbytes: int) -> int:
        def copy(model: Model) -> None:
            data = model.ask(GET_VALUE, number, most=nbytes)
            if len(data) != nbytes:
                raise Failure(_BAD_ARGUMENT, f"the tensor has {len(data)} bytes, not {nbytes}".encode())
            ctypes.memmove(address, data, nbytes)

        return self._status(pointer, copy)

    def _run(self, model: Model) -> None:
        self._give(model)
        reader = Reader(model.ask(RUN if model.on_node is None else PROFILE))
        model.nanoseconds = reader.one("Q") if model.on_node is None and reader.left else None
        model.changed()
        self._take(model)
        while model.on_node is not None and reader.left:
            model.on_node(None, reader.one("I"), b"", reader.one("Q"))

    @staticmethod
    def _give(model: Model) -> None:
        """Sends the inputs."""
        inputs = model.table(INPUTS)
        for number, address in model.bound.items():
            model.ask(SET_INPUT, number, ctypes.string_at(address, inputs[number][3]))

    @staticmethod
    def _take(model: Model) -> None:
        """Fetches the outputs."""
        for number, memory in enumerate(model.outputs):
            data = model.ask(GET_OUTPUT, number, most=len(memory) - ALIGNMENT)
            ctypes.memmove(aligned(memory), data, len(data))

    # ---- Tables ----

    def sterna_input_count(self, pointer: Any) -> int:
        return self._count(pointer, INPUTS)

    def sterna_output_count(self, pointer: Any) -> int:
        return self._count(pointer, OUTPUTS)

    def sterna_value_count(self, pointer: Any) -> int:
        return self._count(pointer, VALUES)

    def sterna_dim_count(self, pointer: Any) -> int:
        return self._count(pointer, DIMS)

    def sterna_node_count(self, pointer: Any) -> int:
        return self._count(pointer, NODES)

    def sterna_input_info(self, pointer: Any, number: int, info: library.CTensor) -> int:
        return self._tensor(pointer, INPUTS, number, info)

    def sterna_output_info(self, pointer: Any, number: int, info: library.CTensor) -> int:
        return self._tensor(pointer, OUTPUTS, number, info)

    def sterna_value_info(self, pointer: Any, number: int, info: library.CTensor) -> int:
        return self._tensor(pointer, VALUES, number, info)

    def sterna_dim_info(self, pointer: Any, number: int, info: library.CDim) -> int:
        def fill(model: Model) -> None:
            info.name, info.lo, info.hi, info.size, info.computed = model.table(DIMS)[number]

        return self._status(pointer, fill)

    def sterna_node_info(self, pointer: Any, number: int, info: library.CNode) -> int:
        def fill(model: Model) -> None:
            info.name, info.kernel, info.tasks = model.table(NODES)[number]

        return self._status(pointer, fill)

    def sterna_memory_info(self, pointer: Any, info: library.CMemory) -> int:
        def fill(model: Model) -> None:
            info.arena, info.scratch, info.signature, info.params = Reader(model.ask(MEMORY)).many("Q", 4)

        return self._status(pointer, fill)

    def _tensor(self, pointer: Any, table: int, number: int, info: library.CTensor) -> int:
        def fill(model: Model) -> None:
            name, dtype, dims, nbytes, axis, scales, zero_points, labels = model.table(table)[number]
            info.name, info.dtype, info.rank, info.bytes, info.axis = name, dtype, len(dims), nbytes, axis
            info.dims = (ctypes.c_int64 * len(dims))(*dims)
            info.n_scales, info.n_labels = len(scales), len(labels)
            info.scales = (ctypes.c_float * len(scales))(*scales)
            info.zero_points = (ctypes.c_int32 * len(scales))(*zero_points)
            info.labels = (ctypes.c_char_p * len(labels))(*labels)

        return self._status(pointer, fill)

    def _count(self, pointer: Any, table: int) -> int:
        found: list[int] = [0]

        def count(model: Model) -> None:
            found[0] = len(model.table(table))

        self._status(pointer, count)
        return found[0]

    def _status(self, pointer: Any, work: Callable[[Model], object]) -> int:
        """0, or the status of what went wrong, which `sterna_last_error` then tells."""
        model = self._models[pointer.value]
        try:
            work(model)
        except Failure as failure:
            model.error.status, model.error.message = failure.status, failure.message[: MESSAGE_BYTES - 1]
            return failure.status
        except IndexError:
            model.error.status, model.error.message = _BAD_ARGUMENT, b"there is none of that number"
            return _BAD_ARGUMENT
        return 0


def aligned(memory: Any) -> int:
    """Where a buffer begins, at a multiple of the runtime's alignment."""
    return math.ceil(ctypes.addressof(memory) / ALIGNMENT) * ALIGNMENT
