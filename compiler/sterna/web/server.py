"""A small server for pages with models: on loopback, with the headers that WebAssembly and threads want.

It serves named directories and nothing outside of them. The pages it serves are isolated from other origins, so that
memory can be shared between threads, and may run scripts of their own origin and WebAssembly, and nothing else.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sterna.errors import error

HOST = "127.0.0.1"
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


def make_server(roots: Mapping[str, Path], port: int | None = None, first: int = 8000) -> ThreadingHTTPServer:
    """A server that listens on loopback and waits for `serve_forever`.

    Args:
        roots: directories by the path they are served under, "" for the page itself.
        port: a number; 0 for any; None for the first free one from `first` on.

    Raises:
        SternaError: E0010 the port is taken.
    """
    handler = partial(_Handler, roots={name: path.resolve() for name, path in roots.items()})
    for candidate in range(first, first + 100) if port is None else (port,):
        try:
            return _Server((HOST, candidate), handler)
        except OSError as problem:
            reason = problem.strerror or str(problem)
    where = f"port {port}" if port is not None else f"ports {first} to {first + 99}"
    raise error("E0010", f"{where} of {HOST} cannot be listened on: {reason}", fix="--port 0 takes a free one")


def find_file(roots: Mapping[str, Path], target: str) -> Path | None:
    """The file that a request's target names, or None: it does not exist, or does not lie in a directory served."""
    path = unquote(urlsplit(target).path)
    parts = [part for part in path.split("/") if part]
    if "\0" in path or "\\" in path or any(part.startswith(".") for part in parts):
        return None
    name = parts[0] if parts and parts[0] in roots else ""
    root = roots.get(name)
    if root is None:
        return None
    file = root.joinpath(*(parts[1:] if name else parts))
    if file.is_dir():
        file = file / "index.html"
    # A link may lead out of the directory.
    return file if file.is_file() and file.resolve().is_relative_to(root) else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "sterna"
    sys_version = ""

    def __init__(self, *args: object, roots: Mapping[str, Path]):
        self.roots = roots
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        # A page elsewhere whose name was made to resolve to this machine says another name than ours.
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if host not in (HOST, "localhost"):
            self._send(HTTPStatus.FORBIDDEN, b"this server answers to localhost only\n", "text/plain", with_body)
            return
        file = find_file(self.roots, self.path)
        if file is None:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such file\n", "text/plain", with_body)
            return
        kind = TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        self._send(HTTPStatus.OK, file.read_bytes(), kind, with_body)

    def _send(self, status: HTTPStatus, data: bytes, kind: str, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is for the address."""
