"""WebSockets: messages of all sizes, both sides, what is refused, and who may open one at the server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sterna.web.server import HOST, make_server
from sterna.web.socket import WebSocket, accepted
from sterna_runtime.errors import SternaError

MOST = 200_000


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    first, second = socket.socketpair()
    with first, second:
        yield first, second


def side(end: socket.socket, masks: bool) -> WebSocket:
    return WebSocket(end, end.makefile("rb").read, masks=masks, most=MOST)


def test_the_answer_to_a_key() -> None:
    """The example of RFC 6455."""
    assert accepted("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, MOST])
def test_messages_arrive_as_they_were(ends: tuple[socket.socket, socket.socket], masks: bool, size: int) -> None:
    sender, receiver = side(ends[0], masks), side(ends[1], not masks)
    message = bytes(n % 251 for n in range(size))
    thread = threading.Thread(target=lambda: (sender.send(message), sender.close()))
    thread.start()
    assert receiver.receive() == message
    assert receiver.receive() is None
    thread.join()


def frame(kind: int, data: bytes, last: bool = True) -> bytes:
    """Of a server, unmasked, of at most 125 bytes."""
    return bytes([(128 if last else 0) | kind, len(data)]) + data


def test_parts_pings_and_ends(ends: tuple[socket.socket, socket.socket]) -> None:
    parts = [frame(2, b"one", last=False), frame(9, b"there?"), frame(0, b", two"), frame(10, b""), frame(8, b"")]
    ends[0].sendall(b"".join(parts))
    client = side(ends[1], masks=True)
    assert client.receive() == b"one, two"
    assert client.receive() is None
    client.send(b"after the end")
    ends[1].shutdown(socket.SHUT_WR)
    said = ends[0].makefile("rb").read()
    assert (said[0], said[1], len(said)) == (128 | 10, 128 | 6, 2 + 4 + 6 + 2 + 4)  # a pong, and the end
    assert bytes(a ^ b for a, b in zip(said[6:12], said[2:6] * 2, strict=False)) == b"there?"


@pytest.mark.parametrize(
    "wrong",
    [
        frame(1, b"text"),
        frame(0, b"nothing before"),
        frame(2, b"one", last=False) + frame(2, b"another"),
        frame(9, b"", last=True)[:1] + bytes([126, 0, 200]) + bytes(200),
        bytes([130, 127]) + struct.pack("!Q", MOST + 1),
        frame(2, bytes(100), last=False) + bytes([128, 127]) + struct.pack("!Q", MOST - 99),
        bytes([0xC2, 1, 0]),
        bytes([130, 129, 0, 0, 0, 0, 0]),
    ],
)
def test_what_is_refused(ends: tuple[socket.socket, socket.socket], wrong: bytes) -> None:
    """Text, parts in no order, more bytes than may come, extensions, a mask of the wrong side."""
    ends[0].sendall(wrong)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(SternaError, match="E0010"):
        side(ends[1], masks=True).receive()


def test_an_end_within_a_frame(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(frame(2, b"whole")[:4])
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError):
        side(ends[1], masks=True).receive()


def test_only_pages_of_the_server_open_one(tmp_path: Path) -> None:
    heard: list[bytes | None] = []

    def talk(page: WebSocket) -> None:
        heard.append(page.receive())
        page.send(b"heard")

    with make_server({"": tmp_path}, port=0, talk=talk) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.server_address[1]
            for origin in ("http://elsewhere.example", "null", f"https://{HOST}:{port}"):
                assert _opened(port, origin)[0].startswith(b"HTTP/1.1 403")
            status, connection, read = _opened(port, f"http://{HOST}:{port}")
            assert status.startswith(b"HTTP/1.1 101")
            page = WebSocket(connection, read, masks=True, most=MOST)
            page.send(b"hello")
            assert page.receive() == b"heard"
            assert heard == [b"hello"]
            connection.close()
        finally:
            server.shutdown()
            thread.join()


def _opened(port: int, origin: str) -> tuple[bytes, socket.socket, Callable[[int], bytes]]:
    connection = socket.create_connection((HOST, port), timeout=20)
    lines = (
        "GET /socket HTTP/1.1", f"Host: {HOST}:{port}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", f"Origin: {origin}", "", "",
    )  # fmt: skip
    connection.sendall("\r\n".join(lines).encode())
    file = connection.makefile("rb")
    status = file.readline()
    while file.readline().strip():
        pass
    return status, connection, file.read
