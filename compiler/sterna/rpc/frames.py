"""The protocol of docs/rpc.md as data: kinds of frames, what errors mean, and the proof that a side knows the token."""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
HEAD = struct.Struct("<IHHI")
REPLY, ERROR = 0x8000, 0xFFFF
NONCE_BYTES = 32
CHUNK_BYTES = 1 << 20
MOST_FILES = 256
MOST_ERROR_BYTES = 8 + 256
MOST_STATUS_BYTES = 1 << 16
MOST_TABLE_BYTES = 256 << 20
DEFAULT_PORT = 9190
LEAST_TOKEN_BYTES = 16


class Kind(IntEnum):
    """Of a request."""

    HELLO = 1
    PROOF = 2
    TURN = 3
    STATUS = 4
    HAS = 5
    HAVE = 6
    PUT = 7
    LOAD = 8
    UNLOAD = 9
    TABLE = 10
    SET = 11
    DIMS = 12
    RUN = 13
    TIME = 14
    PROFILE = 15
    RESET = 16
    GET = 17
    VALUE = 18
    LIMIT = 19
    BYE = 20


class Status(IntEnum):
    """What an ERROR says, besides the statuses of the C runtime, which are negative."""

    MALFORMED = 1
    TOO_LARGE = 2
    VERSION = 3
    DENIED = 4
    STATE = 5
    BUSY = 6
    SLOW = 7
    IDLE = 8
    FULL = 9
    HASH = 10
    MISSING = 11
    CRASHED = 12
    HUNG = 13
    UNKNOWN = 14
    SYSTEM = 15
    OFFSET = 16
    UNSUPPORTED = 17
    LOST = 1000  #: nobody sends it, nor the next: the connection has ended
    ABSENT = 1001  #: what answers is no device


#: The code of Sterna's that stands for a status of the protocol.
CODES = {
    Status.ABSENT: "E0801",
    Status.DENIED: "E0802",
    Status.BUSY: "E0803",
    Status.VERSION: "E0804",
    Status.FULL: "E0806",
    Status.CRASHED: "E0807",
    Status.HUNG: "E0808",
    Status.HASH: "E0809",
    Status.MISSING: "E0809",
    Status.OFFSET: "E0809",
    Status.LOST: "E0805",
    Status.SLOW: "E0805",
    Status.IDLE: "E0805",
    Status.TOO_LARGE: "E0805",
    Status.MALFORMED: "E0805",
}
_OTHERS = "E0810"
#: After these the device closes the connection.
FATAL = frozenset({Status.TOO_LARGE, Status.VERSION, Status.DENIED, Status.SLOW, Status.IDLE, Status.LOST})


def code_of(status: int) -> str:
    """The code of a status above 0."""
    return next((code for known, code in CODES.items() if known == status), _OTHERS)


@dataclass(frozen=True)
class Request:
    """What is asked.

    Args:
        most: bytes that the reply may have.
        tensor: what follows the payload, read where it lies.
    """

    kind: Kind
    payload: bytes = b""
    most: int = 0
    tensor: memoryview | bytes = b""


def text(value: str | bytes) -> bytes:
    """A text as it travels."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


def proof(side: str, token: bytes, first: bytes, second: bytes) -> bytes:
    """What a side ("client", "server") shows for knowing the token: the other's nonce comes first, then its own."""
    return hmac.digest(token, b"sterna-rpc " + side.encode() + first + second, "sha256")


def file_hash(data: bytes) -> bytes:
    """The name of a file on a device."""
    return hashlib.sha256(data).digest()
