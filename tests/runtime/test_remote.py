"""A runtime in another process that does not answer as it should: errors, no endless wait or memory."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

import pytest

from sterna.runtime import remote
from sterna_runtime import library

_GOOD = "struct.pack('=iQ', 0, 0)"


def _loaded(script: str) -> tuple[int, str]:
    """Status and message of loading from a program that writes those bytes, and then waits for its input to end."""
    body = f"import struct, sys; sys.stdout.buffer.write({script}); sys.stdout.flush(); sys.stdin.read()"
    return _answer([sys.executable, "-c", body])


def _answer(command: list[str]) -> tuple[int, str]:
    problem, options = library.CError(), library.COptions()
    status = remote.Functions(command).sterna_load(b"bundle", options, ctypes.byref(ctypes.c_void_p()), problem)
    assert problem.status == status
    return status, problem.message.decode()


@pytest.mark.parametrize(
    "script",
    [
        f"{_GOOD} + struct.pack('=iQ', 0, 1 << 62)",  # a table without end
        "struct.pack('=iQ', -3, 1 << 40)",  # a message without end
        "struct.pack('=iQ', 0, 1)",  # nothing was asked for yet
        f"{_GOOD} + struct.pack('=iQI', 0, 4, 1)",  # a row is promised, and is not there
        f"{_GOOD} + struct.pack('=iQII', 0, 8, 1, 1 << 31)",  # a name that is longer than the reply
    ],
)
def test_a_reply_that_is_none(script: str) -> None:
    status, message = _loaded(script)
    assert status == remote._KERNEL_FAILED
    assert message in ("the reply of the emulator is malformed", "a reply from elsewhere is malformed")


def test_a_reply_that_is_cut_off() -> None:
    body = "import sys; sys.stdout.buffer.write(bytes(5)); sys.exit(3)"
    assert _answer([sys.executable, "-c", body]) == (remote._KERNEL_FAILED, "the emulator ended with status 3")


def test_an_emulator_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_SECONDS_TO_LOAD", 0.1)
    assert "said nothing for 0.1 seconds" in _loaded("b''")[1]


def test_an_emulator_that_is_not_there() -> None:
    status, message = _answer(["/nowhere/qemu-none"])
    assert status == remote._KERNEL_FAILED
    assert message == "the emulator /nowhere/qemu-none cannot be started: No such file or directory"
    assert remote.Functions(["/nowhere/qemu-none"]).sterna_cpu_has(b"avx2") == -1


@contextlib.contextmanager
def answering(reply: str) -> Iterator[tuple[remote.Functions, ctypes.c_void_p]]:
    """A model whose process answers with these bytes once it is loaded."""
    said = f"data = {reply}; out.write(struct.pack('=iQ', 0, len(data)) + data)"
    empty = f"{_GOOD} + struct.pack('=iQI', 0, 4, 0)"  # loaded, and without outputs
    body = f"import struct, sys; out = sys.stdout.buffer; out.write({empty}); {said}; out.flush(); sys.stdin.read()"
    functions, pointer = remote.Functions([sys.executable, "-c", body]), ctypes.c_void_p()
    assert functions.sterna_load(b"bundle", library.COptions(), ctypes.byref(pointer), library.CError()) == 0
    try:
        yield functions, pointer
    finally:
        functions.sterna_unload(pointer)


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [("struct.pack('=QQ', 5, 7)", 12), ("struct.pack('=Q', 12)", 12), ("b''", None), ("bytes(9)", None)],
)
def test_the_time_of_several_runs_together(reply: str, wanted: int | None) -> None:
    """As one number, or as those of all runs."""
    with answering(reply) as (functions, pointer):
        if wanted is not None:
            assert functions.timed(pointer, 2) == wanted
            return
        with pytest.raises(remote.Failure, match="malformed"):
            functions.timed(pointer, 2)


@pytest.mark.parametrize(
    ("reply", "node", "wanted"),
    [
        ("struct.pack('=IQIQ', 0, 5, 0, 7)", None, [5, 7]),
        ("struct.pack('=IQIQIQIQ', 0, 5, 1, 1, 0, 7, 1, 2)", None, [6, 9]),
        ("struct.pack('=IQIQIQIQ', 0, 5, 1, 1, 0, 7, 1, 2)", 1, [1, 2]),
        ("b''", None, [0, 0]),  # a bundle without nodes
        ("struct.pack('=IQ', 0, 5)", None, None),  # of one run only
        ("struct.pack('=IQIQ', 0, 5, 0, 7)", 1, None),  # of fewer nodes
        ("bytes(23)", None, None),  # cut off
    ],
)
def test_times_of_several_runs(reply: str, node: int | None, wanted: list[int] | None) -> None:
    with answering(reply) as (functions, pointer):
        if wanted is not None:
            assert functions.profiled(pointer, 2, node) == wanted
            return
        with pytest.raises(remote.Failure, match="malformed"):
            functions.profiled(pointer, 2, node)
