"""Frames of docs/rpc.md as bytes, for tests: kinds, statuses, and a connection that asks and reads replies."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

HEAD = struct.Struct("<IHHI")
REPLY, ERROR, VERSION = 0x8000, 0xFFFF, 1
#: Kinds of requests, and what an ERROR says.
HELLO, PROOF, TURN, STATUS, HAS, HAVE, PUT, LOAD, UNLOAD, TABLE = range(1, 11)
SET, DIMS, RUN, TIME, PROFILE, RESET, GET, VALUE, LIMIT, BYE = range(11, 21)
MALFORMED, TOO_LARGE, WRONG_VERSION, DENIED, STATE, BUSY, SLOW, IDLE, FULL = range(1, 10)
HASH, MISSING, CRASHED, HUNG, UNKNOWN, SYSTEM, OFFSET, UNSUPPORTED = range(10, 18)
TOKEN = b"a token of more than sixteen bytes"
CHUNK = 1 << 20


class Stream(Protocol):
    """A connection: bytes of whole frames, both ways; `receive` gives b"" where the other side has closed it."""

    def send(self, data: bytes) -> None: ...
    def receive(self, count: int) -> bytes: ...
    def close(self) -> None: ...


@dataclass
class Wire:
    """Frames over a stream."""

    stream: Stream
    number: int = 0

    def ask(self, kind: int, payload: bytes = b"", version: int = VERSION) -> tuple[int | None, bytes]:
        """(status, payload): status None for a reply, of an ERROR its status and message. TURN waits for it."""
        self.send(kind, payload, version)
        status, reply = self.reply(kind)
        while kind == TURN and status is None and reply != bytes(4):  # an earlier client is still leaving
            status, reply = self.reply(kind)
        return status, reply

    def send(self, kind: int, payload: bytes = b"", version: int = VERSION) -> None:
        """A request whose reply is read later."""
        self.number += 1
        self.stream.send(HEAD.pack(len(payload), version, kind, self.number) + payload)

    def reply(self, kind: int) -> tuple[int | None, bytes]:
        """The next reply, to the latest request."""
        length, version, answered, found = HEAD.unpack(self.stream.receive(HEAD.size))
        payload = self.stream.receive(length) if length else b""
        assert (version, found) == (VERSION, self.number)
        assert answered in (kind | REPLY, ERROR), f"a reply of kind {answered:#x} to {kind}"
        if answered != ERROR:
            return None, payload
        status, size = struct.unpack_from("<iI", payload)
        assert len(payload) == 8 + size
        assert size <= 256
        return status, payload[8:]

    def is_closed(self) -> bool:
        return self.stream.receive(1) == b""
