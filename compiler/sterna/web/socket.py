"""WebSockets (RFC 6455), as far as bytes are carried: the handshake's answer, messages of either side, their end.

Text, extensions and sub-protocols are not spoken: who sends text is hung up on.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
import threading
from collections.abc import Callable

from sterna_runtime.errors import error

_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BYTES, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_MOST_OF_CONTROL = 125


def accepted(key: str) -> str:
    """What a server answers to a client's `Sec-WebSocket-Key`."""
    return base64.b64encode(hashlib.sha1(key.encode() + _SALT).digest()).decode()


class WebSocket:
    """One side of a connection whose handshake is done.

    Args:
        connection: of the system; read: so many bytes of it, fewer only at its end.
        masks: whether this is the client, who masks what it sends.
        most: bytes of a message that is received.
    """

    def __init__(self, connection: socket.socket, read: Callable[[int], bytes], masks: bool, most: int):
        self._connection, self._read, self._masks, self._most = connection, read, masks, most
        self._sending = threading.Lock()
        self._closed = False

    def send(self, message: bytes) -> None:
        """Sends a message. Raises OSError where the other side is gone."""
        self._put(_BYTES, message)

    def receive(self) -> bytes | None:
        """The next message; None where the other side has ended the connection.

        Raises:
            SternaError: E0010, what comes is no message of bytes, or a longer one than may come.
        """
        parts: list[bytes] = []
        while (frame := self._frame(self._most - sum(map(len, parts)))) is not None:
            last, kind, data = frame
            if kind == _CLOSE:
                self.close()
                return None
            if kind == _PING:
                self._put(_PONG, data)
            elif kind in (_BYTES, _CONTINUED) and (kind == _CONTINUED) == bool(parts):
                parts.append(data)
                if last:
                    return b"".join(parts)
            elif kind != _PONG:
                raise error("E0010", f"a WebSocket brings a frame of kind {kind}, which does not follow")
        return None

    def close(self) -> None:
        """Says that no more comes."""
        try:
            self._put(_CLOSE, b"")
        except OSError:
            return

    def _frame(self, most: int) -> tuple[bool, int, bytes] | None:
        head = self._read(2)
        if len(head) < 2:
            return None
        kind, length = head[0] & 15, head[1] & 127
        masked = bool(head[1] & 128)
        if length > _MOST_OF_CONTROL:
            form = "!H" if length == _MOST_OF_CONTROL + 1 else "!Q"
            length = struct.unpack(form, self._whole(struct.calcsize(form)))[0]
        if length > (_MOST_OF_CONTROL if kind >= _CLOSE else most) or masked == self._masks or head[0] & 0x70:
            raise error("E0010", f"a WebSocket brings a frame of {length} bytes that is not to be had")
        mask = self._whole(4) if masked else None
        data = self._whole(length)
        return bool(head[0] & 128), kind, data if mask is None else _masked(data, mask)

    def _whole(self, count: int) -> bytes:
        data = self._read(count)
        if len(data) < count:
            raise ConnectionResetError("the connection ends within a frame")
        return data

    def _put(self, kind: int, data: bytes) -> None:
        size = len(data)
        first = size if size <= _MOST_OF_CONTROL else 126 if size < 1 << 16 else 127
        head = struct.pack("!BB", 128 | kind, first | (128 if self._masks else 0))
        head += b"" if first < 126 else struct.pack("!H" if first == 126 else "!Q", size)
        with self._sending:
            if self._closed:
                return
            self._closed = kind == _CLOSE
            if self._masks:
                mask = os.urandom(4)
                head, data = head + mask, _masked(data, mask)
            self._connection.sendall(head + data if size < 1 << 16 else head)
            if size >= 1 << 16:
                self._connection.sendall(data)


def _masked(data: bytes, mask: bytes) -> bytes:
    """Bytes with a mask of four applied, which also takes it away."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(size, "little")
