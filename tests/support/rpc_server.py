"""The server of runtime_c/rpc/, built by gcc and started on a free port; a client that sends any bytes."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sterna.rpc import frames
from sterna.rpc.frames import HEAD, Kind
from support.tools import ROOT, need, run

RUNTIME = ROOT / "runtime_c"
TOKEN = "a token of many bytes"


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="sterna-rpc-")


@functools.cache
def server_program() -> Path:
    """The program, for this machine; built once in a process. `sterna rpc serve` has a static one, by zig, of the same
    sources."""
    program = Path(_folder().name) / "sterna_rpc"
    sources = [*(RUNTIME / "rpc").glob("*.c"), *(RUNTIME / "src").glob("*.c"), RUNTIME / "port" / "posix.c"]
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
    includes = [f"-I{RUNTIME / name}" for name in ("include", "src")]
    gcc = need("gcc", "builds the server of devices")
    run(gcc, "-std=c99", "-O1", *warnings, *includes, *sources, "-o", program, "-lpthread", "-ldl")
    return program


def full_disk(folder: Path) -> Path:
    """A library that makes a program find its disk full (full_disk.c), to be loaded before the system's."""
    library = folder / "full_disk.so"
    source = ROOT / "tests" / "support" / "full_disk.c"
    run(need("gcc", "builds what fills the disk"), "-shared", "-fPIC", "-o", library, source)
    return library


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    port: int
    process: subprocess.Popen[str]
    scratch: Path

    @property
    def address(self) -> str:
        return f"rpc://127.0.0.1:{self.port}"


@contextmanager
def started(words: list[str | Path], scratch: Path, *options: str, token: str | None = None) -> Iterator[Running]:
    """A server with these options, until the end of the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STERNA_RPC_")}
    environment |= {"STERNA_RPC_TOKEN": token} if token is not None else {}
    command = [*map(str, words), "--port", "0", "--scratch", str(scratch), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r":(\d+),", line)
            assert found is not None, line
            yield Running(int(found[1]), process, scratch)
            assert process.poll() is None, "the server has ended"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, running: Running):
        self.socket = socket.create_connection(("127.0.0.1", running.port), 10)

    def send(self, kind: int, payload: bytes = b"", version: int = frames.VERSION, length: int | None = None) -> None:
        size = len(payload) if length is None else length
        self.socket.sendall(HEAD.pack(size, version, kind, 7) + payload)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self.socket.recv(size - len(data))):
            data += more
        return data

    def reply(self) -> tuple[int, bytes]:
        """Kind and payload."""
        length, version, kind, _ = HEAD.unpack(self.read(HEAD.size))
        assert version == frames.VERSION
        return kind, self.read(length)

    def refusal(self) -> tuple[int, str]:
        """Status and message of an ERROR."""
        kind, payload = self.reply()
        assert kind == frames.ERROR, (kind, payload)
        status, size = struct.unpack_from("<iI", payload)
        assert len(payload) == 8 + size
        return status, payload[8:].decode()

    def ask(self, kind: int, payload: bytes = b"") -> bytes:
        self.send(kind, payload)
        answered, said = self.reply()
        assert answered == kind | frames.REPLY, (kind, said)
        return said

    def hello(self, nonce: bytes = bytes(32)) -> bytes:
        """The server's nonce."""
        return self.ask(Kind.HELLO, nonce + frames.text("test"))[4:]

    def first(self) -> Raw:
        """As far as the turn."""
        self.hello()
        return self.turn()

    def turn(self) -> Raw:
        """Waits for it."""
        position = self.ask(Kind.TURN, struct.pack("<I", 5000))
        while position != bytes(4):
            _, position = self.reply()
        return self

    def closed(self) -> bool:
        """Whether the server has closed the connection."""
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
