"""Ends of docs/rpc.md that tests start, and connections to them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sterna.emulate.engines import browser_command
from sterna.web.relay import relay
from support.rpc_wire import TOKEN


class SocketStream:
    """A connection over TCP; "" where the other side closed it."""

    def __init__(self, port: int):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, count: int) -> bytes:
        found = b""
        try:
            while len(found) < count and (part := self._socket.recv(count - len(found))):
                found += part
        except ConnectionResetError:
            return b""
        return found

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True)
class End:
    """A running end: its name in STATUS, the port it listens on, and the target whose bundles it runs."""

    name: str
    port: int
    target: str = "browser"


@contextlib.contextmanager
def listening(name: str, command: Sequence[str | Path], token: bool = False, target: str = "browser") -> Iterator[End]:
    """A program that prints its address `rpc://HOST:PORT`, until the end of the block."""
    known = {"STERNA_RPC_TOKEN": TOKEN.decode()} if token else {}
    program = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **known},
    )  # fmt: skip
    assert program.stdout is not None
    try:
        line = program.stdout.readline()
        assert line.startswith("rpc://"), line
        yield End(name, int(line.strip().rpartition(":")[2]), target)
    finally:
        program.kill()
        program.communicate()


@contextlib.contextmanager
def browsing(browser: str, address: str) -> Iterator[None]:
    """A browser without a window, at an address."""
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = subprocess.Popen(browser_command(browser, address, folder), stdout=quiet, stderr=quiet)
        try:
            yield
        finally:
            program.terminate()
            program.wait()


@contextlib.contextmanager
def paged(browser: str, token: bool = False) -> Iterator[End]:
    """A page of a browser behind a relay."""
    with relay(patience=60) as server:  # a browser takes more than ten seconds to start on a busy machine
        address = f"{server.page}#{TOKEN.decode().replace(' ', '%20')}" if token else server.page
        with browsing(browser, address):
            yield End("javascript", server.port)
