"""Firmware behind a serial line: the frames of docs/rpc.md with checksums, sent again where none comes back.

A board is described by a file of TOML:

    line = "/dev/ttyACM0"                                # or "tcp:localhost:4000": QEMU's chardev, ser2net
    baud = 115200
    flash = "make -C nucleo BUNDLE={bundle} SERVER={server} flash"

    counts = false                                       # true: its clock counts instructions, not nanoseconds

`flash` builds and flashes a program around a bundle, and is run where the board has another one: {bundle} is the
bundle's folder, {server} one with rpc.c, its headers, and the model's rpc_model.c.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sterna.codegen.render import render_template, resource
from sterna.errors import SternaError, error, system_error
from sterna.firmware.description import Firmware, Tensor, read_firmware
from sterna.firmware.machines import Machine
from sterna.firmware.remote import Counted
from sterna.rpc import frames
from sterna.rpc.frames import HEAD, MOST_STATUS_BYTES, Kind, Request, Status
from sterna.rpc.functions import DeviceModel, ModelFunctions
from sterna.rpc.link import LOST, Link, Refused
from sterna.runtime import remote
from sterna.runtime.remote import Failure, Model
from sterna.scratch import temporary_directory
from sterna.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module under its older name

START = b"\xa5\x5a"
#: Seconds until a frame is sent again, beside what it takes, and how often.
PATIENCE, TRIES = 1.0, 4
#: Seconds that a program takes to start, and after which one that runs has answered.
SECONDS_TO_START, SECONDS_TO_ANSWER = 20.0, 5.0
#: Seconds that a run may take, and that building and flashing may.
SECONDS_OF_A_RUN, SECONDS_TO_FLASH = 60.0, 600.0
_SLOW = frozenset({Kind.RUN, Kind.TIME, Kind.PROFILE})
#: What a board says of a frame that may have been damaged on its way.
_DAMAGED = frozenset({Status.TOO_LARGE, Status.VERSION})
#: A board that says nothing, or anything.
_ANSWERS = "reset it; its program calls rpc_serve, and line and baud are its own; `flash` puts such a program there"
_EXAMPLE = 'line = "/dev/ttyACM0"'
_EXAMPLE_OF_FLASH = 'flash = "make BUNDLE={bundle} SERVER={server} flash"; {{ and }} are braces'
_SERVER = ("rpc.c", "rpc.h", "node.h")


@dataclass(frozen=True)
class Board:
    """A board, as its file describes it; `counts`: its clock counts instructions."""

    file: Path
    line: str
    baud: int
    flash: str
    counts: bool


def read_board(path: Path) -> Board:
    """Reads the description of a board.

    Raises:
        SternaError: E0010, E0002, it cannot be read or is none.
    """
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise system_error(problem, "to read the description of a board", fix=f"write it: {_EXAMPLE}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise error("E0002", f"{path} describes no board: {problem}", fix=_EXAMPLE) from None
    unknown = sorted({*rows} - {"line", "baud", "flash", "counts"})
    line, baud, flash, counts = (rows.get(*each) for each in (
        ("line", None), ("baud", 115200), ("flash", ""), ("counts", False)
    ))  # fmt: skip
    right = isinstance(line, str) and isinstance(baud, int) and baud > 0 and isinstance(flash, str)
    if unknown or not right or not isinstance(counts, bool):
        what = f'it has "{unknown[0]}"' if unknown else "line and flash are texts, baud a number, counts true or false"
        raise error("E0002", f"{path} describes no board: {what}", fix=_EXAMPLE)
    assert isinstance(line, str)
    return Board(path.resolve(), line, baud, flash, counts)


class Line:
    """Bytes to and from a serial device or a TCP port.

    Raises:
        SternaError: E0801, it cannot be opened.
    """

    def __init__(self, board: Board):
        self._socket: socket.socket | None = None
        try:
            if board.line.startswith("tcp:"):
                host, _, port = board.line.removeprefix("tcp:").rpartition(":")
                self._socket = socket.create_connection((host, int(port)), 5)
                self._file = self._socket.fileno()
            else:
                self._file = _opened(board.line, board.baud)
        except (OSError, ValueError, OverflowError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            fix = "plug it in, and see that you may read and write it (group dialout)"
            if board.line.startswith("tcp:"):
                fix = "start what gives the port (ser2net, an emulator), and see that host and port are its own"
            raise error(
                "E0801", f"the line {board.line} cannot be opened: {reason}", str(board.file), fix=fix
            ) from None

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def receive(self, seconds: float) -> bytes:
        """What there is, after at most so many seconds."""
        ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
        if not ready:
            return b""
        data = os.read(self._file, 1 << 16)
        if not data:
            raise OSError("the line has ended")
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.close()
            else:
                os.close(self._file)


def _opened(path: str, baud: int) -> int:
    """A serial device, raw. Raises OSError."""
    try:
        import termios  # noqa: PLC0415 (POSIX)
        import tty  # noqa: PLC0415
    except ImportError:
        raise OSError(
            "this system's serial lines are not spoken; ser2net or another bridge gives tcp:HOST:PORT"
        ) from None
    speed = getattr(termios, f"B{baud}", None)
    if speed is None:
        raise OSError(f"there is no speed of {baud} baud")
    file = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        tty.setraw(file)
        settings: list[Any] = termios.tcgetattr(file)
        settings[4] = settings[5] = speed
        settings[2] = (settings[2] | termios.CLOCAL | termios.CREAD) & ~(termios.CSTOPB | termios.PARENB)
        termios.tcsetattr(file, termios.TCSANOW, settings)
        termios.tcflush(file, termios.TCIOFLUSH)
    except (termios.error, OSError) as problem:
        os.close(file)
        raise OSError(f"it is no serial line: {problem}") from None
    return file


def framed(head: bytes, *parts: bytes | memoryview) -> bytes:
    """A frame as it travels."""
    data = b"".join((head, *parts))
    return START + data + struct.pack("<I", zlib.crc32(data))


class SerialLink(Link):
    """A connection over a line that may lose bytes. One request at a time; one without a reply is sent again.

    Args:
        seconds: that the first reply may take: the board may be starting.
    """

    #: A line stays, whatever came of a frame.
    fatal = frozenset({Status.LOST})

    def __init__(self, board: Board, line: Line, seconds: float):
        self.place, self.patience = board.line, SECONDS_OF_A_RUN
        self._line, self._byte = line, 10 / board.baud
        self._lock = threading.RLock()
        self._ids = 0
        self._ended = None
        self._got = bytearray()
        try:
            self._greet(seconds)
        except Refused as problem:
            self.close()
            why = problem.message.removeprefix(LOST)
            raise Refused(Status.ABSENT, f"no program of Sterna answers at {board.line}: {why}") from None

    def _greet(self, seconds: float) -> None:
        """HELLO, until it is answered. Raises Refused."""
        end = time.monotonic() + seconds
        hello = Request(Kind.HELLO, bytes(frames.NONCE_BYTES) + frames.text("sterna"), 4 + frames.NONCE_BYTES)
        while (reply := self._once(hello, 0, PATIENCE)) is None:
            if time.monotonic() > end:
                raise self._end(f"nothing came in {seconds:g} s")
        if len(reply) != 4 + frames.NONCE_BYTES or reply[0] & 1:
            raise self._end("its first reply is no HELLO of a board")

    def ask_all(self, requests: Sequence[Request]) -> list[bytes]:
        with self._lock:
            return [self._asked(request) for request in requests]

    def _asked(self, request: Request) -> bytes:
        if self._ended is not None:
            raise Refused(Status.LOST, self._ended)
        self._ids += 1
        refused: Refused | None = None
        for attempt in range(TRIES):
            seconds = self.patience if request.kind in _SLOW and attempt + 1 == TRIES else PATIENCE * 2**attempt
            try:
                if (reply := self._once(request, self._ids, seconds)) is not None:
                    return reply
            except Refused as problem:
                if problem.status == Status.STATE and self._is_new():
                    raise self._end(f"the board has started anew, and does not know of {request.kind.name}") from None
                if problem.status not in _DAMAGED:
                    raise
                refused = problem
        raise refused or self._end(f"{request.kind.name} was sent {TRIES} times, and no reply came")

    def _is_new(self) -> bool:
        """Whether the board has forgotten that it was greeted: it then refuses even what it always answers."""
        self._ids += 1
        with contextlib.suppress(Refused):
            return self._once(Request(Kind.STATUS, most=MOST_STATUS_BYTES), self._ids, PATIENCE) is None
        return True

    def _once(self, request: Request, number: int, seconds: float) -> bytes | None:
        """Sends a frame once; None where no reply to it comes in time. Raises Refused."""
        size = len(request.payload) + len(request.tensor)
        head = HEAD.pack(size, frames.VERSION, request.kind, number)
        try:
            self._line.send(framed(head, request.payload, request.tensor))
            quiet = seconds + self._byte * size
            # Who talks without end is no board either.
            end = time.monotonic() + quiet + self._byte * request.most
            while (found := self._frame(quiet, end, max(request.most, frames.MOST_ERROR_BYTES))) is not None:
                answered, payload = found
                if HEAD.unpack(answered)[3] == number:
                    return self.checked(answered, payload, request, number)
        except OSError as problem:
            raise self._end(problem.strerror or str(problem)) from None
        return None

    def _frame(self, quiet: float, end: float, most: int) -> tuple[bytes, bytes] | None:
        """The next whole frame; None where nothing comes for so many seconds, or no frame until the end. What does not
        fit is dropped."""
        while True:
            at = self._got.find(START)
            if at > 0 or (at < 0 and len(self._got) > 1):
                del self._got[: at if at > 0 else -1]
            data = self._got[2:]
            if at >= 0 and len(data) >= HEAD.size:
                length = HEAD.unpack_from(data)[0]
                whole = HEAD.size + length
                if length > most or (
                    len(data) >= whole + 4
                    and zlib.crc32(data[:whole]) != int.from_bytes(data[whole : whole + 4], "little")
                ):
                    del self._got[:2]  # no frame begins here
                    continue
                if len(data) >= whole + 4:
                    del self._got[: 2 + whole + 4]
                    return bytes(data[: HEAD.size]), bytes(data[HEAD.size : whole])
            if not (more := self._line.receive(min(quiet, end - time.monotonic()))):
                return None
            self._got += more

    def wait_for_turn(self, seconds: float, told: Callable[[int], None] | None = None) -> None:
        """Who has the line has the board."""

    def be_patient(self, seconds: float) -> None:
        self.patience = seconds

    def _hang_up(self) -> None:
        self._line.close()

    def close(self) -> None:
        if self._ended is None:
            with contextlib.suppress(Refused):
                self._once(Request(Kind.BYE), self._ids + 1, PATIENCE)
        self._end("it was closed here")


class BoardModel(DeviceModel):
    """The model that is linked into a board's program."""

    def end(self) -> bytes:
        self.ended = self.ended or b"the bundle has been closed"
        return self.ended


class SerialFunctions(ModelFunctions):
    """Those of `runtime.library`, of a board: each bundle is flashed, unless the board has it."""

    def __init__(self, board: Board):
        super().__init__()
        self._board = board
        self._connected: SerialLink | None = None

    def sterna_cpu_has(self, feature: bytes) -> int:
        return -1

    def counted(self, pointer: Any) -> Counted | None:
        """What the latest run took, where the board's clock counts instructions."""
        taken = self._models[pointer.value].nanoseconds if self._board.counts else None
        return None if taken is None else Counted(self._board.file.name, taken, None)

    def _opened(self, path: bytes, threads: int) -> Model:
        firmware = read_firmware(os.fsdecode(path))
        if threads > 1:
            raise error("E0501", f"a board has one processor; {threads} threads were asked for", fix="1 thread")
        try:
            model = BoardModel(None, link=self._with(firmware))  # type: ignore[arg-type]
            for table in (remote.INPUTS, remote.OUTPUTS, remote.DIMS):
                model.table(table)
        except (Refused, Failure) as problem:
            message = problem.message if isinstance(problem.message, str) else problem.message.decode()
            if problem.status == Status.ABSENT:
                raise error("E0801", message, str(self._board.file), fix=_ANSWERS) from None
            raise Refused(problem.status, message).as_error(self._board.line) from None
        if self._latest is not None and self._latest.ended is None:
            self._latest.ended = b"another bundle has been loaded on the same board"
        self._latest = model
        return model

    def _with(self, firmware: Firmware) -> SerialLink:
        """A connection to the board with this model on it. Raises Refused."""
        wanted = identity(firmware)
        if self._connected is not None and self._connected.ended:
            self.close()  # the board may have started anew, or be plugged in again
        if self._connected is None:
            self._connected = self._running()
        if self._connected is not None and model_on(self._connected) == wanted:
            return self._connected
        self.close()
        if not self._board.flash:
            title = "the board has another model, and no command flashes it"
            raise error("E0810", title, str(self._board.file), fix=_EXAMPLE_OF_FLASH)
        with temporary_directory("serial") as folder:
            server_files(firmware, Path(folder))
            _flash(self._board, firmware, Path(folder))
        link = SerialLink(self._board, _line_of(self._board), SECONDS_TO_START)
        if model_on(link) != wanted:
            link.close()
            raise error("E0810", "the board has another model than was flashed", str(self._board.file))
        self._connected = link
        return link

    def _running(self) -> SerialLink | None:
        """A connection to the program that the board has; None where that does not answer, and may be flashed."""
        if not self._board.flash:
            return SerialLink(self._board, Line(self._board), SECONDS_TO_START)
        try:
            return SerialLink(self._board, Line(self._board), SECONDS_TO_ANSWER)
        except (SternaError, Refused):
            return None

    def close(self) -> None:
        """Hangs up."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None


@contextlib.contextmanager
def opened(board: Board) -> Iterator[SerialFunctions]:
    """The functions of a board, for as long as the context lasts."""
    found = SerialFunctions(board)
    try:
        yield found
    finally:
        found.close()


def model_on(link: Link) -> str:
    """The identity of the model on a board. Raises Refused."""
    data = link.ask(Request(Kind.STATUS, most=MOST_STATUS_BYTES))
    with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
        return str(json.loads(data)["bundle"])
    raise Refused(Status.LOST, "what the board says of itself is malformed")


def identity(firmware: Firmware) -> str:
    """A hash of a bundle's files that a program is made of."""
    digest = hashlib.sha256()
    for name in sorted({*firmware.sources, firmware.header, firmware.params}):
        digest.update(name.encode() + b"\0")
        if (file := firmware.place / name).is_file():
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def server_files(firmware: Firmware, folder: Path) -> None:
    """Writes what a program needs beside the bundle's own files to answer on a line."""
    for name in _SERVER:
        shutil.copy(resource("templates") / "firmware" / name, folder / name)
    shutil.copy(resource("runtime_c") / "rpc" / "protocol.h", folder / "protocol.h")
    (folder / "rpc_model.c").write_text(model_source(firmware), "utf-8")


def program_files(firmware: Firmware, server: Path, machine: Machine) -> tuple[list[Path], list[str]]:
    """The sources of a program for an emulated board, the board's own apart, and flags of the compiler.

    Args:
        server: a folder that `server_files` has filled.
    """
    place = resource("templates") / "firmware"
    ticks = [f"-DBOARD_INSTRUCTIONS={round(machine.tick * 100)}u", f"-DBOARD_TICKS={100 << machine.shift}u"]
    flags = [f"-I{server}", "-include", str(server / "node.h"), f"-DBOARD_UART={machine.uart:#x}u", *ticks]
    return [server / "rpc.c", server / "rpc_model.c", place / "rpc_board.c", *firmware.linked(calls=True)], flags


def model_source(firmware: Firmware) -> str:
    """rpc_model.c: memory, calls and tables of a model."""
    rows = {key: value for key, value in asdict(firmware).items() if key not in ("place", "processor", "nodes")}
    said = {
        "sterna": __version__, "end": "firmware", "protocol": [1, 1], "machine": firmware.processor.llvm_triple,
        "system": "", "bundle": identity(firmware), "limits": {"milliseconds": round(SECONDS_OF_A_RUN * 1000)},
    }  # fmt: skip
    text = json.dumps(said).replace("\\", "\\\\").replace('"', '\\"')
    return render_template(
        "firmware/rpc_model.c.j2", nodes=len(firmware.nodes), tables=_tables(firmware), status=text, **rows
    )


def _tables(firmware: Firmware) -> list[bytes]:
    """As TABLE numbers them: inputs, outputs, values, dimensions, nodes, memory."""
    nodes = [frames.text(node.name) + frames.text(node.kernel) + struct.pack("<I", 1) for node in firmware.nodes]
    signature = sum(tensor.bytes for tensor in (*firmware.inputs, *firmware.outputs))
    none = struct.pack("<I", 0)
    memory = struct.pack("<4Q", firmware.memory_bytes, 0, signature, firmware.params_bytes)
    inputs, outputs = (_table(map(_tensor, side)) for side in (firmware.inputs, firmware.outputs))
    return [inputs, outputs, none, none, _table(nodes), memory]


def _table(rows: Any) -> bytes:
    found = [*rows]
    return struct.pack("<I", len(found)) + b"".join(found)


def _tensor(t: Tensor) -> bytes:
    dims = struct.pack(f"<I{len(t.dims)}qQ", len(t.dims), *t.dims, t.bytes)
    scales = struct.pack(f"<II{len(t.scales)}f{len(t.zero_points)}i", len(t.scales), 0, *t.scales, *t.zero_points)
    return frames.text(t.name) + frames.text(t.dtype) + dims + scales + struct.pack("<I", 0)


def _flash(board: Board, firmware: Firmware, server: Path) -> None:
    """Raises E0810, the board's own command failed."""
    places = {"bundle": str(firmware.place), "server": str(server)}
    try:
        words = [word.format(**places) for word in shlex.split(board.flash)]
    except (ValueError, LookupError, AttributeError) as problem:
        title = f"{board.file} describes no board: flash is no command with {{bundle}} and {{server}}: {problem}"
        raise error("E0002", title, fix=_EXAMPLE_OF_FLASH) from None
    try:
        done = subprocess.run(words, capture_output=True, timeout=SECONDS_TO_FLASH, check=False, cwd=board.file.parent)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise error("E0810", f"the board cannot be flashed: {problem}", str(board.file)) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-6:]
        why = f": {said[-1].strip()[:100]}" if said else ""
        raise error("E0810", f"flashing ended with status {done.returncode}{why}", str(board.file), *said[:-1])


def _line_of(board: Board) -> Line:
    """The line of a board that is starting: a USB device comes back, an emulator opens its port."""
    end = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            return Line(board)
        except SternaError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
