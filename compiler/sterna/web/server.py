"""A small server for pages with models: on loopback, with the headers that WebAssembly and threads want.

It serves what it is given and nothing else (files.py), to GET and HEAD without a body. The pages it serves are isolated
from other origins, so that memory can be shared between threads, and may run scripts of their own origin and
WebAssembly, and nothing else.

Whoever connects costs little: connections, the bytes of a request and the time it may take to arrive are bounded
(`Limits`), and when all connections are taken, the one that has been silent for longest makes room.
"""

from __future__ import annotations

import contextlib
import io
import math
import mimetypes
import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from sterna.errors import error, internal_error
from sterna.web.files import Root, open_file
from sterna.web.socket import WebSocket, accepted
from sterna_runtime.advice import Advice, Option

HOST = "127.0.0.1"
#: Where pages open a WebSocket, and how many bytes a message over it may have.
SOCKET, MOST_OF_MESSAGE = "/socket", 1 << 31
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self' blob:; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
#: Not left to the system's own table, which may know neither.
TYPES = {
    ".wasm": "application/wasm",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".bin": "application/octet-stream",
}
_OWN_NAMES = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")
_CHUNK = 1 << 18
_TEXTS = {
    HTTPStatus.FORBIDDEN: "this server answers to localhost only",
    HTTPStatus.NOT_FOUND: "there is no such file",
    HTTPStatus.METHOD_NOT_ALLOWED: "only GET and HEAD are answered",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "a request has no body here",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the request is too long",
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "only HTTP/1.0 and HTTP/1.1 are spoken",
}
_OTHER_TEXT = "this is not a request of HTTP"


@dataclass(frozen=True)
class Limits:
    """What a client may take: seconds until its whole request, or its next one, has arrived; seconds for it to take a
    part of an answer (256 KB); bytes of a request; connections at a time, of all clients."""

    request_seconds: float = 10
    answer_seconds: float = 20
    request_bytes: int = 16384
    connections: int = 64


#: What is done with a WebSocket; the connection ends with it.
Talk = Callable[[WebSocket], None]


def make_server(
    roots: Mapping[str, Root],
    port: int | None = None,
    first: int = 8000,
    limits: Limits | None = None,
    talk: Talk | None = None,
) -> ThreadingHTTPServer:
    """A server that listens on loopback and waits for `serve_forever`.

    Args:
        roots: directories, or files in memory, by the path they are served under, "" for the page itself.
        port: a number; 0 for any; None for the first free one from `first` on.
        talk: with pages of this server that open a WebSocket at `/socket`.

    Raises:
        SternaError: E0010 the port is taken.
    """
    real = {name: root.resolve() if isinstance(root, Path) else root for name, root in roots.items()}
    limits = limits or Limits()
    handler = partial(_Handler, roots=real, limits=limits, talk=talk)
    for candidate in range(first, first + 100) if port is None else (port,):
        try:
            return _Server((HOST, candidate), handler, limits.connections)
        except OSError as problem:
            reason = problem.strerror or str(problem)
    where = f"port {port}" if port is not None else f"ports {first} to {first + 99}"
    raise error(
        "E0010",
        f"{where} of {HOST} cannot be listened on: {reason}",
        fix=Advice(Option("port", 0), " takes a free one"),
    )


class _Server(ThreadingHTTPServer):
    """One thread for each connection, and as many of them as there may be."""

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], handler: Any, connections: int):
        self._free = threading.BoundedSemaphore(connections)
        #: Connections from which a request is awaited, the one that waits for longest first.
        self._silent: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._hang_up_longest()
            if not self._free.acquire(timeout=0.5):
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.is_heard(request)
            self._free.release()

    def is_silent(self, connection: socket.socket) -> None:
        """A request is awaited."""
        with self._lock:
            self._silent.pop(connection, None)
            self._silent[connection] = None

    def is_heard(self, connection: socket.socket) -> None:
        """Its request is here, or none will come."""
        with self._lock:
            self._silent.pop(connection, None)

    def _hang_up_longest(self) -> None:
        with self._lock:
            longest = next(iter(self._silent), None)
            if longest is not None:
                del self._silent[longest]
                with contextlib.suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error; anything else is ours."""
        problem = sys.exc_info()[1]
        if isinstance(problem, OSError):
            return
        print(internal_error(f"the server failed: {type(problem).__name__}"), file=sys.stderr)
        if os.environ.get("STERNA_DEBUG", "") not in ("", "0"):
            traceback.print_exc()


class _TooLongError(Exception):
    """A request has more bytes than one may have."""


class _Requests(io.RawIOBase):
    """The requests that come over a connection; each within its time and of its length."""

    def __init__(self, connection: socket.socket, limits: Limits):
        self._connection, self._limits = connection, limits
        self.begin()

    def begin(self) -> None:
        """From now on the next request is awaited."""
        self._left = self._limits.request_bytes
        self._end = time.monotonic() + self._limits.request_seconds

    def endless(self) -> None:
        """What comes is no request any more: it may be as long as it is, and take as long."""
        self._left, self._end = sys.maxsize, math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        if not self._left:
            raise _TooLongError
        self._connection.settimeout(None if math.isinf(seconds) else seconds)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # what says no version is no request of 0.9
    server_version = "sterna"
    sys_version = ""
    server: _Server
    command: str = ""

    def __init__(self, *args: object, roots: Mapping[str, Root], limits: Limits, talk: Talk | None):
        self.roots, self.limits, self.talk = roots, limits, talk
        super().__init__(*args)  # type: ignore[arg-type]

    def setup(self) -> None:
        super().setup()
        self._requests = _Requests(self.connection, self.limits)
        self.rfile = io.BufferedReader(self._requests, 4096)

    def handle_one_request(self) -> None:
        self.command, self.request_version, self.requestline = "", self.default_request_version, ""
        self._requests.begin()
        self.server.is_silent(self.connection)
        try:
            super().handle_one_request()
        except _TooLongError:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except OSError:  # the client is gone, or does not take its answer
            self.close_connection = True

    def parse_request(self) -> bool:
        """Also refuses what has a body, before it is read."""
        if not super().parse_request():
            return False
        self.server.is_heard(self.connection)
        if self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            return False
        if self.command in ("GET", "HEAD") and ("Transfer-Encoding" in self.headers or self._says_length()):
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return False
        return True

    def handle_expect_100(self) -> bool:
        return True  # no body is wanted, so nothing is said

    def do_GET(self) -> None:
        # A page elsewhere whose name was made to resolve to this machine says another name than ours.
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _OWN_NAMES.fullmatch(hosts[0]):
            self._say(HTTPStatus.FORBIDDEN)
            return
        if self.talk is not None and self.path == SOCKET:
            self._talk(self.talk, hosts[0])
            return
        served = open_file(self.roots, self.path)
        if served is None:
            self._say(HTTPStatus.NOT_FOUND)
            return
        suffix = Path(served.name).suffix
        kind = TYPES.get(suffix) or mimetypes.guess_type(served.name)[0] or "application/octet-stream"
        with served.file as file:
            self._send(HTTPStatus.OK, kind, served.size, file)

    def _talk(self, talk: Talk, host: str) -> None:
        """Answers the handshake of a WebSocket; only pages of this server may open one."""
        said = {name: self.headers.get(name, "") for name in ("Origin", "Sec-WebSocket-Key", "Sec-WebSocket-Version")}
        asked = self.headers.get("Upgrade", "").lower() == "websocket" and self.command == "GET"
        if not asked or said["Origin"] != f"http://{host}" or said["Sec-WebSocket-Version"] != "13":
            self._say(HTTPStatus.FORBIDDEN)
            return
        self.close_connection = True
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade")):
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", accepted(said["Sec-WebSocket-Key"]))
        self.end_headers()
        self._requests.endless()
        self.connection.settimeout(None)
        talk(WebSocket(self.connection, self.rfile.read, masks=False, most=MOST_OF_MESSAGE))

    def do_HEAD(self) -> None:
        self.do_GET()  # _send leaves the body out

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser of requests refuses, in our words and with our headers; the connection ends."""
        self.close_connection = True
        status = HTTPStatus(code)
        # A method that nobody knows is refused like one that is not for us.
        self._say(HTTPStatus.METHOD_NOT_ALLOWED if status is HTTPStatus.NOT_IMPLEMENTED else status)

    def _says_length(self) -> bool:
        return any(length.strip() != "0" for length in self.headers.get_all("Content-Length") or [])

    def _say(self, status: HTTPStatus) -> None:
        text = f"{_TEXTS.get(status, _OTHER_TEXT)}\n".encode()
        self._send(status, "text/plain", len(text), io.BytesIO(text))

    def _send(self, status: HTTPStatus, kind: str, size: int, file: BinaryIO) -> None:
        self.connection.settimeout(self.limits.answer_seconds)
        self.request_version = self.protocol_version  # to one that says 0.9, no status would be sent
        self.send_response(status)
        headers = {**HEADERS, "Content-Type": kind, "Content-Length": str(size)}
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        left = 0 if self.command == "HEAD" else size
        while left:
            part = file.read(min(_CHUNK, left))
            if not part:  # the file has become shorter: what is announced cannot come
                self.close_connection = True
                return
            self.wfile.write(part)
            left -= len(part)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is for the address."""
