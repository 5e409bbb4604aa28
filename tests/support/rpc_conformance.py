"""What every end of docs/rpc.md answers: one table of conversations, for ends in C, JavaScript, Java and firmware."""

from __future__ import annotations

import struct

from support.rpc_steps import (
    Conversation,
    Step,
    Talk,
    demands,
    digest,
    equals,
    fed,
    hashes,
    hello,
    holds,
    inputs,
    is_memory,
    is_status,
    is_table,
    load_of,
    noted,
    old_proof,
    part_of,
    plain,
    profile,
    proof,
    proven,
    resumed,
    right,
    text,
    timed,
    u32,
)
from support.rpc_wire import (
    BYE,
    CHUNK,
    DENIED,
    DIMS,
    FULL,
    GET,
    HAS,
    HASH,
    HAVE,
    HELLO,
    HUNG,
    LIMIT,
    LOAD,
    MALFORMED,
    MISSING,
    OFFSET,
    PROFILE,
    PROOF,
    PUT,
    RESET,
    RUN,
    SET,
    STATE,
    STATUS,
    TABLE,
    TIME,
    TOO_LARGE,
    TURN,
    UNKNOWN,
    UNLOAD,
    UNSUPPORTED,
    WRONG_VERSION,
)

_HELLO = Step(HELLO, hello, check=noted)
_TURN = Step(TURN, u32(1000), check=equals(u32(0)))
_KNOWN = (_HELLO,)
_FIRST = (*_KNOWN, _TURN)


def upload(talk: Talk) -> list[Step]:
    """Steps that send the files of a bundle, as far as they are not there."""
    steps = []
    for name, data in talk.files.items():
        if talk.wire.ask(HAVE, u32(1) + digest(data))[1][12:] == u32(1):
            continue
        for first in range(0, max(1, len(data)), CHUNK):
            steps.append(Step(PUT, part_of(name, first, first + CHUNK)))
    return steps


def loaded(talk: Talk, files: bool) -> None:
    """Brings a connection to the state in which a model is loaded."""
    start = Conversation("to begin with", _FIRST if files else _KNOWN)
    for step in start.steps:
        payload = step.payload(talk) if callable(step.payload) else step.payload
        assert talk.wire.ask(step.kind, payload)[0] is None
    if files:
        for step in [*upload(talk), Step(LOAD, load_of())]:
            assert callable(step.payload)
            assert talk.wire.ask(step.kind, step.payload(talk)) == (None, b"") or step.kind == PUT


#: On a connection of its own each, from the first frame on.
CONVERSATIONS = (
    Conversation("hello", (Step(HELLO, hello, check=plain), Step(STATUS, check=is_status), Step(BYE, closes=True))),
    Conversation("something before hello", (Step(STATUS, status=STATE, closes=True),)),
    Conversation("a model before hello", (Step(RUN, status=STATE, closes=True),)),
    Conversation("hello twice", (_HELLO, Step(HELLO, hello, status=STATE, closes=True))),
    Conversation("a short hello", (Step(HELLO, b"short", status=MALFORMED, closes=True),)),
    Conversation(
        "a hello whose name ends early", (Step(HELLO, bytes(32) + u32(9) + b"a", status=MALFORMED, closes=True),)
    ),
    Conversation("proof without need", (_HELLO, Step(PROOF, bytes(32), status=STATE, closes=True))),
    Conversation("another version", (Step(HELLO, hello, status=WRONG_VERSION, version=2, closes=True),)),
    Conversation("a kind that is none", (_HELLO, Step(99, status=UNKNOWN), Step(STATUS, check=is_status))),
    Conversation("that kind with a payload", (_HELLO, Step(99, b"1", status=UNKNOWN, closes=True))),
    Conversation("a status with a payload", (_HELLO, Step(STATUS, b"1", status=TOO_LARGE, closes=True))),
    Conversation(
        "features",
        (
            _HELLO,
            Step(HAS, text("no such feature"), check=equals(u32(0xFFFFFFFF))),
            Step(HAS, u32(9) + b"x", status=MALFORMED),
            Step(STATUS, check=is_status),
        ),
    ),
    Conversation("turn", (_HELLO, _TURN, _TURN, Step(TURN, b"12", status=MALFORMED), _TURN)),
    Conversation("a request before the turn", (_HELLO, Step(HAVE, hashes, status=STATE), _TURN), files=True),
    Conversation(
        "a run before the model", (*_FIRST, Step(RUN, status=STATE), Step(TABLE, u32(0), status=STATE)), files=True
    ),
    Conversation(
        "have",
        (
            *_FIRST,
            Step(HAVE, hashes, check=holds(False)),
            Step(HAVE, u32(0), status=MALFORMED),
            Step(HAVE, u32(2) + bytes(32), status=MALFORMED),
            Step(HAVE, u32(257), status=MALFORMED),
        ),
        files=True,
    ),
    Conversation(
        "a file that is resumed",
        (
            *_FIRST,
            Step(PUT, lambda talk: resumed(talk, 0, 3), check=equals(struct.pack("<Q", 3))),
            Step(PUT, lambda talk: resumed(talk, 5, 7), status=OFFSET),
            Step(PUT, lambda talk: resumed(talk, 3, 7), check=equals(struct.pack("<Q", 7))),
            Step(PUT, lambda talk: resumed(talk, 7, 12), status=MALFORMED),
            Step(PUT, lambda talk: resumed(talk, 7, 10), check=equals(struct.pack("<Q", 10))),
            Step(PUT, lambda talk: resumed(talk, 0, 3), check=equals(struct.pack("<Q", 10))),
        ),
        files=True,
    ),
    Conversation(
        "contents of another hash",
        (
            *_FIRST,
            Step(PUT, lambda _: digest(b"other") + struct.pack("<QQ", 4, 0) + b"evil", status=HASH),
            Step(HAVE, lambda _: u32(1) + digest(b"other"), check=equals(u32(1) + bytes(12))),
        ),
        files=True,
    ),
    Conversation(
        "a file beyond the quota",
        (
            *_FIRST,
            Step(PUT, lambda _: bytes(32) + struct.pack("<QQ", 1 << 50, 0) + b"much", status=FULL),
        ),
        files=True,
    ),
    Conversation(
        "load",
        (
            *_FIRST,
            Step(LOAD, u32(1, 0), status=MALFORMED),
            Step(LOAD, u32(1, 257), status=MALFORMED),
            Step(LOAD, u32(1, 1) + text("graph.json") + bytes(32), status=MISSING),
            Step(LOAD, u32(1, 1) + text("../graph.json") + bytes(32), status=MALFORMED),
            Step(LOAD, u32(1, 1) + text(".hidden") + bytes(32), status=MALFORMED),
            Step(LOAD, u32(1, 1) + text("") + bytes(32), status=MALFORMED),
        ),
        files=True,
    ),
)

#: With a model, on a connection of its own each.
WITH_A_MODEL = (
    Conversation(
        "a run",
        (
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
            Step(SET, u32(9) + bytes(256), status=MALFORMED),
            Step(SET, u32(0) + b"few", status=MALFORMED),
            Step(GET, u32(9), status=-1),
            Step(GET, b"", status=MALFORMED),
            Step(RUN),
            Step(GET, u32(0), check=right),
        ),
    ),
    Conversation(
        "tables",
        (
            Step(TABLE, u32(0), check=inputs),
            Step(TABLE, u32(1), check=is_table(lambda n: n == 1)),
            Step(TABLE, u32(3), check=is_table(lambda n: n == 0)),
            Step(TABLE, u32(4), check=is_table(lambda n: n > 0)),
            Step(TABLE, u32(5), check=is_memory),
            Step(TABLE, u32(6), status=MALFORMED),
            Step(TABLE, b"", status=MALFORMED),
        ),
    ),
    Conversation(
        "time",
        (
            Step(SET, fed),
            Step(TIME, u32(1, 3, 3, 0) + bytes(8), check=timed(3, 3)),
            Step(TIME, u32(0, 0, 5, 0) + struct.pack("<Q", 1 << 60), check=timed(5, 5)),
            Step(TIME, u32(0, 0, 5, 0) + bytes(8), check=timed(1, 1)),
            Step(TIME, u32(0, 2, 1, 0) + bytes(8), status=MALFORMED),
            Step(TIME, u32(0, 0, 0, 0) + bytes(8), status=MALFORMED),
            Step(TIME, u32(0, 0, 100_001, 0) + bytes(8), status=MALFORMED),
            Step(TIME, u32(1, 3), status=MALFORMED),
            Step(GET, u32(0), check=right),
        ),
    ),
    Conversation("profile", (Step(SET, fed), Step(PROFILE, check=profile), Step(GET, u32(0), check=right))),
    Conversation(
        "reset and dimensions",
        (
            Step(RESET),
            Step(DIMS, u32(1) + bytes(8), status=-1),
            Step(DIMS, u32(2) + bytes(8), status=MALFORMED),
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
        ),
    ),
    Conversation(
        "limits",
        (
            Step(LIMIT, u32(1000)),
            Step(LIMIT, u32(0xFFFFFFFF), status=MALFORMED),
            Step(LIMIT, u32(0)),
            Step(SET, fed),
            Step(RUN),
        ),
    ),
    Conversation(
        "a request that takes too long",
        (
            Step(LIMIT, u32(50)),
            Step(TIME, u32(0, 0, 100_000, 0) + struct.pack("<Q", 1 << 60), status=HUNG),
            Step(RUN, status=STATE),
            Step(LIMIT, u32(0)),
            Step(LOAD, load_of()),
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
        ),
        files=True,
    ),
    Conversation("too much for an input", (Step(SET, bytes(1 << 16), status=TOO_LARGE, closes=True),)),
    Conversation(
        "unload",
        (
            Step(UNLOAD),
            Step(RUN, status=STATE),
            Step(LOAD, load_of()),
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
            Step(LOAD, load_of()),
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
            Step(HAVE, hashes, check=holds(True)),
        ),
        files=True,
    ),
    Conversation(
        "a bundle that is none",
        (
            Step(LOAD, load_of("params.bin"), status=-3),
            Step(RUN, status=STATE),
            Step(LOAD, load_of()),
            Step(SET, fed),
            Step(RUN),
        ),
        files=True,
    ),
)

#: On an end that demands `TOKEN`.
WITH_A_TOKEN = (
    Conversation(
        "the token",
        (
            Step(HELLO, hello, check=demands),
            Step(PROOF, proof, check=proven),
            Step(STATUS, check=is_status),
            _TURN,
        ),
    ),
    Conversation("another token", (Step(HELLO, hello), Step(PROOF, bytes(32), status=DENIED, closes=True))),
    Conversation("no proof", (Step(HELLO, hello), Step(TURN, u32(0), status=STATE, closes=True))),
    Conversation(
        "a proof of an earlier connection",
        (
            _HELLO,
            Step(PROOF, old_proof, status=DENIED, closes=True),
        ),
    ),
)

#: On an end whose model is linked in.
WITHOUT_FILES = (
    Conversation(
        "no files",
        (
            _HELLO,
            Step(HAVE, u32(1) + bytes(32), status=UNSUPPORTED),
            Step(LOAD, u32(1, 0), status=UNSUPPORTED),
            Step(UNLOAD, status=UNSUPPORTED),
            Step(SET, fed),
            Step(RUN),
            Step(GET, u32(0), check=right),
        ),
    ),
)
