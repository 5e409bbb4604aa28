"""Conversations with an end of docs/rpc.md: steps, what they send, and how what comes back is checked.

A conversation is a list of steps on a connection of its own. A step sends one frame and says what comes back: a reply,
or an ERROR with a status; what the reply holds is checked by a function, which may note it for later steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from support.rpc_wire import TOKEN, VERSION, Wire


@dataclass
class Talk:
    """A conversation under way: the bundle that is sent, its case, and what was noted."""

    wire: Wire
    files: dict[str, bytes]
    feed: np.ndarray
    wanted: np.ndarray
    end: str
    notes: dict[str, bytes] = field(default_factory=dict)


Payload = bytes | Callable[[Talk], bytes]
Check = Callable[[bytes, Talk], None]


@dataclass(frozen=True)
class Step:
    """One frame and its answer.

    Args:
        kind, payload, version: of the frame.
        status: of the ERROR that answers; None for a reply, which `check` looks at.
        closes: whether the connection ends with it.
    """

    kind: int
    payload: Payload = b""
    status: int | None = None
    check: Check | None = None
    closes: bool = False
    version: int = VERSION


@dataclass(frozen=True)
class Conversation:
    """Steps one after the other; `files`: whether the end has to be one that keeps files."""

    name: str
    steps: Sequence[Step]
    files: bool = False


def hold(conversation: Conversation, talk: Talk) -> None:
    """Goes through a conversation; raises AssertionError at the first step that is answered otherwise."""
    with contextlib.closing(talk.wire.stream):
        for number, step in enumerate(conversation.steps):
            payload = step.payload(talk) if callable(step.payload) else step.payload
            status, reply = talk.wire.ask(step.kind, payload, step.version)
            where = f"{conversation.name}, step {number} (kind {step.kind}): {status}, {reply[:200]!r}"
            assert status == step.status, where
            if step.check is not None:
                step.check(reply, talk)
            if step.closes:
                assert talk.wire.is_closed(), where


# ---- Payloads and checks ----


def u32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def text(value: str) -> bytes:
    return u32(len(value.encode())) + value.encode()


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def hello(talk: Talk) -> bytes:
    talk.notes["client"] = os.urandom(32)
    return talk.notes["client"] + text("conformance")


def noted(reply: bytes, talk: Talk) -> None:
    assert len(reply) == 36
    talk.notes["server"] = reply[4:]


def plain(reply: bytes, talk: Talk) -> None:
    noted(reply, talk)
    assert struct.unpack_from("<I", reply)[0] & 1 == 0


def demands(reply: bytes, talk: Talk) -> None:
    noted(reply, talk)
    assert struct.unpack_from("<I", reply)[0] & 1 == 1


def proof(talk: Talk) -> bytes:
    return hmac.digest(TOKEN, b"sterna-rpc client" + talk.notes["server"] + talk.notes["client"], "sha256")


def old_proof(talk: Talk) -> bytes:
    """That of a connection whose server had another nonce."""
    return hmac.digest(TOKEN, b"sterna-rpc client" + bytes(32) + talk.notes["client"], "sha256")


def proven(reply: bytes, talk: Talk) -> None:
    assert reply == hmac.digest(TOKEN, b"sterna-rpc server" + talk.notes["client"] + talk.notes["server"], "sha256")


def is_status(reply: bytes, talk: Talk) -> None:
    said = json.loads(reply)
    assert said["end"] == talk.end
    assert said["protocol"] == [1, 1]
    assert {"sterna", "system"} <= set(said)
    assert said["machine"] in (platform.machine(), "wasm32")


def equals(wanted: bytes) -> Check:
    def check(reply: bytes, _talk: Talk) -> None:
        assert reply == wanted

    return check


def hashes(talk: Talk) -> bytes:
    return u32(len(talk.files)) + b"".join(map(digest, talk.files.values()))


def holds(whole: bool) -> Check:
    def check(reply: bytes, talk: Talk) -> None:
        assert struct.unpack_from("<I", reply)[0] == len(talk.files)
        rows = [struct.unpack_from("<QI", reply, 4 + 12 * n) for n in range(len(talk.files))]
        sizes = [len(data) for data in talk.files.values()]
        assert not whole or rows == [(size, 1) for size in sizes]

    return check


def part_of(name: str, first: int, last: int | None) -> Callable[[Talk], bytes]:
    def payload(talk: Talk) -> bytes:
        data = talk.files[name]
        return digest(data) + struct.pack("<QQ", len(data), first) + data[first:last]

    return payload


def load_of(*names: str) -> Callable[[Talk], bytes]:
    def payload(talk: Talk) -> bytes:
        files = talk.files if not names else dict.fromkeys(names, talk.files["graph.json"])
        return u32(1, len(files)) + b"".join(text(name) + digest(data) for name, data in files.items())

    return payload


def fed(talk: Talk) -> bytes:
    return u32(0) + talk.feed.tobytes()


def right(reply: bytes, talk: Talk) -> None:
    found = np.frombuffer(reply, talk.wanted.dtype).reshape(talk.wanted.shape)
    assert np.abs(found - talk.wanted).max() <= 1e-4 * np.abs(talk.wanted).max()


def is_table(rows: Callable[[int], bool]) -> Check:
    def check(reply: bytes, _talk: Talk) -> None:
        assert rows(struct.unpack_from("<I", reply)[0])

    return check


def inputs(reply: bytes, talk: Talk) -> None:
    count, size = struct.unpack_from("<II", reply)
    name = reply[8 : 8 + size].decode()
    at = 8 + size
    (size,) = struct.unpack_from("<I", reply, at)
    dtype = reply[at + 4 : at + 4 + size].decode()
    at += 4 + size
    (rank,) = struct.unpack_from("<I", reply, at)
    dims = struct.unpack_from(f"<{rank}q", reply, at + 4)
    (nbytes,) = struct.unpack_from("<Q", reply, at + 4 + 8 * rank)
    assert (count, name, dtype, dims, nbytes) == (1, "image", "float32", talk.feed.shape, talk.feed.nbytes)


def is_memory(reply: bytes, _talk: Talk) -> None:
    assert len(reply) == 32


def timed(least: int, most: int) -> Check:
    def check(reply: bytes, _talk: Talk) -> None:
        count = struct.unpack_from("<I", reply)[0]
        assert least <= count <= most
        assert len(reply) == 36 + 8 * count
        assert struct.unpack_from("<Q", reply, 28)[0] in (0, 1)

    return check


def profile(reply: bytes, _talk: Talk) -> None:
    assert reply
    assert len(reply) % 12 == 0
    assert [row[0] for row in struct.iter_unpack("<IQ", reply)] == list(range(len(reply) // 12))


def resumed(talk: Talk, first: int, last: int) -> bytes:
    """Part of a file of ten bytes that no other connection sends."""
    data = talk.notes.setdefault("file", os.urandom(10))
    return digest(data) + struct.pack("<QQ", len(data), first) + (data + bytes(9))[first:last]


def files_of(bundle: Path, names: Sequence[str] | None = None) -> dict[str, bytes]:
    """What a runtime needs of a bundle, by name."""
    needed = {"graph.json", "params.bin", *(path.name for path in bundle.iterdir() if path.suffix in (".so", ".wasm"))}
    return {name: (bundle / name).read_bytes() for name in sorted(needed if names is None else names)}
