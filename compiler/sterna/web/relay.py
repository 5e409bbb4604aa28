"""Browsers as devices: a server for a page that dials back, and a port whose clients are passed on to such pages.

A client of `rpc://127.0.0.1:9190` gets the next page that waits; bytes go both ways as they are (docs/rpc.md). A page
opens one WebSocket more whenever one is taken: several clients share a browser, which queues them itself.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer

from sterna.codegen.render import resource
from sterna.errors import SternaError, error
from sterna.web.files import INDEX, Root
from sterna.web.server import HOST, make_server
from sterna.web.socket import WebSocket
from sterna_runtime.advice import Advice, Option

_PAGE = b"""<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>sterna: this browser runs models</title>
<link rel="icon" href="data:,">
<h1>This browser runs models</h1>
<p id="said">connecting</p>
<p>Keep this page in front: browsers slow down pages that nobody sees.</p>
<script type="module" src="/sterna/rpc/page.js"></script>
"""
_CHUNK = 1 << 18
#: The frame that says so: an ERROR SYSTEM.
_NO_PAGE = b"no page is open: open the address that `sterna rpc serve --web` printed in a browser"
_ERROR, _SYSTEM, _VERSION = 0xFFFF, 15, 1


@dataclass(frozen=True)
class Relay:
    """A relay that runs; ports of the page and of the clients."""

    page_port: int
    port: int

    @property
    def page(self) -> str:
        return f"http://{HOST}:{self.page_port}/"


@contextlib.contextmanager
def relay(port: int = 0, page_port: int | None = None, patience: float = 10.0) -> Iterator[Relay]:
    """Serves the page and passes clients on, until the end of the block.

    Args:
        port: of the clients, 0 for any; page_port: of the page, None for the first free one from 8000 on.
        patience: seconds that a client waits for a page.

    Raises:
        SternaError: E0010, a port is taken.
    """
    waiting: queue.Queue[_Page] = queue.Queue()

    def talk(page: WebSocket) -> None:
        held = _Page(page)
        waiting.put(held)
        held.talk()

    roots: dict[str, Root] = {"": {INDEX: _PAGE}, "sterna": resource("runtime_js") / "src"}
    with _listening(port) as clients, make_server(roots, page_port, talk=talk) as pages:
        for work in (pages.serve_forever, lambda: _accept(clients, waiting, patience)):
            threading.Thread(target=work, daemon=True).start()
        try:
            yield Relay(pages.server_address[1], clients.getsockname()[1])
        finally:
            _end(pages, clients, waiting)


def _end(pages: ThreadingHTTPServer, clients: socket.socket, waiting: queue.Queue[_Page]) -> None:
    with contextlib.suppress(OSError):
        clients.shutdown(socket.SHUT_RDWR)
    pages.shutdown()
    while not waiting.empty():
        waiting.get().end()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as problem:
        fix = Advice(Option("port", 0), " takes a free one")
        raise error("E0010", f"port {port} of {HOST} cannot be listened on: {problem.strerror}", fix=fix) from None


class _Page:
    """A WebSocket that waits for a client, and then carries it."""

    def __init__(self, page: WebSocket):
        self._page = page
        self._client: socket.socket | None = None
        self._taken, self.ended = threading.Event(), threading.Event()

    def talk(self) -> None:
        """What the page says, to the client. Returns when the page has ended."""
        with contextlib.suppress(OSError, SternaError):
            while (message := self._page.receive()) is not None:
                self._taken.wait()
                if self._client is not None:
                    self._client.sendall(message)
        self.ended.set()
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)

    def carry(self, client: socket.socket) -> None:
        """What the client says, to the page, until either has ended."""
        self._client = client
        self._taken.set()
        with contextlib.suppress(OSError):
            while not self.ended.is_set() and (data := client.recv(_CHUNK)):
                self._page.send(data)
        self.end()

    def end(self) -> None:
        self._taken.set()
        self._page.close()


def _accept(clients: socket.socket, waiting: queue.Queue[_Page], patience: float) -> None:
    while True:
        try:
            client, _ = clients.accept()
        except OSError:
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_pass_on, args=(client, waiting, patience), daemon=True).start()


def _pass_on(client: socket.socket, waiting: queue.Queue[_Page], patience: float) -> None:
    with client:
        try:
            page = _next(waiting, patience)
        except queue.Empty:
            payload = struct.pack("<iI", _SYSTEM, len(_NO_PAGE)) + _NO_PAGE
            with contextlib.suppress(OSError):
                client.sendall(struct.pack("<IHHI", len(payload), _VERSION, _ERROR, 0) + payload)
            return
        page.carry(client)


def _next(waiting: queue.Queue[_Page], patience: float) -> _Page:
    """A page that is still there. Raises queue.Empty."""
    while (page := waiting.get(timeout=patience)).ended.is_set():
        continue
    return page
