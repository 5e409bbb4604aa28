"""A device that is none: it speaks the frames of docs/rpc.md as a script says, over a socket pair."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from sterna.rpc import frames
from sterna.rpc.frames import ERROR, HEAD, REPLY, Kind

STATUS = {"sterna": "0.1.0", "end": "c", "protocol": [1, 1], "limits": {"milliseconds": 60000}, "queue": 0}


def refusal(status: int, message: str) -> bytes:
    """An ERROR's payload."""
    return struct.pack("<i", status) + frames.text(message)


@dataclass
class FakeDevice:
    """Answers as a device does that has all files, until a kind of request comes for which there is something else.

    Args:
        refuses: payloads of ERROR by the kind of request.
        raw: bytes in place of a reply; afterwards the connection is closed.
        flags: of HELLO.
        asked: the kinds that have come.
    """

    refuses: Mapping[Kind, bytes] = field(default_factory=dict)
    raw: Mapping[Kind, bytes] = field(default_factory=dict)
    flags: int = 0
    asked: list[int] = field(default_factory=list)

    def serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), client, client.makefile("rb") as stream:
            while True:
                length, _, kind, number = HEAD.unpack(stream.read(HEAD.size))
                payload = stream.read(length)
                self.asked.append(kind)
                if kind in self.raw:
                    client.sendall(self.raw[Kind(kind)])
                    return
                if kind in self.refuses:
                    said, kind = self.refuses[Kind(kind)], ERROR
                else:
                    said, kind = self._reply(Kind(kind), payload), REPLY | kind
                client.sendall(HEAD.pack(len(said), frames.VERSION, kind, number) + said)

    def _reply(self, kind: Kind, payload: bytes) -> bytes:
        if kind == Kind.HELLO:
            return struct.pack("<I", self.flags) + bytes(frames.NONCE_BYTES)
        if kind == Kind.STATUS:
            return json.dumps(STATUS).encode()
        if kind == Kind.TURN:
            return bytes(4)
        if kind == Kind.HAVE:
            return payload[:4] + struct.pack("<QI", 1, 1) * int.from_bytes(payload[:4], "little")
        return bytes(32) if kind == Kind.PROOF else b""


@contextmanager
def connected_to(device: FakeDevice) -> Iterator[FakeDevice]:
    """Within it, every connection leads to that device."""
    threads = []

    def create_connection(_address: object, _timeout: object = None) -> socket.socket:
        ours, theirs = socket.socketpair()
        threads.append(threading.Thread(target=device.serve, args=[theirs], daemon=True))
        threads[-1].start()
        return ours

    with mock.patch("socket.create_connection", create_connection):
        yield device
    for thread in threads:
        thread.join(10)
