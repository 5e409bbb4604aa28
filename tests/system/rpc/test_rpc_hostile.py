"""Clients of a server of devices that may not, or that send what is none: each is refused, and the server goes on."""

from __future__ import annotations

import os
import platform
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from sterna import rpc
from sterna.errors import SternaError
from sterna.rpc import frames
from sterna.rpc.frames import Kind, Status
from sterna.rpc.link import Refused
from support.rpc_digits import code_of, image, works
from support.rpc_server import TOKEN, Raw, Running, started

pytestmark = pytest.mark.skipif(
    os.name != "posix" or platform.system() != "Linux", reason="the server is built for Linux"
)

WRONG = "another token of many bytes"


# ---- Who may ----


def test_a_token_opens_and_others_do_not(guarded: Running, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_RPC_TOKEN_FILE", raising=False)
    for token in (WRONG, None):
        with pytest.raises(SternaError) as problem:
            rpc.connect(guarded.address, token)
        assert code_of(problem) == "E0802"
    with rpc.connect(guarded.address, TOKEN) as device:
        assert device.load(bundle).run([image()])["scores"].shape == (1, 10)
    monkeypatch.setenv("STERNA_RPC_TOKEN", TOKEN)
    with rpc.connect(guarded.address) as device:
        assert device.status()["end"] == "c"


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.HELLO, Kind.PROOF)])
def test_nothing_is_answered_before_the_proof(guarded: Running, kind: Kind) -> None:
    with Raw(guarded) as client:
        client.hello()
        client.send(kind)
        assert client.refusal()[0] == Status.STATE
        assert client.closed()


def test_a_proof_that_was_overheard_is_of_no_use(guarded: Running) -> None:
    """The server's nonce is another one in every connection."""
    token, own = TOKEN.encode(), os.urandom(32)
    with Raw(guarded) as first:
        shown = frames.proof("client", token, first.hello(own), own)
        first.ask(Kind.PROOF, shown)
    with Raw(guarded) as replay:
        replay.hello(own)
        replay.send(Kind.PROOF, shown)
        assert replay.refusal() == (Status.DENIED, "the token is not the device's")
        assert replay.closed()


def test_a_proof_of_the_other_side_is_of_no_use(guarded: Running) -> None:
    """What the server shows of itself cannot be sent back to it."""
    with Raw(guarded) as client:
        own = os.urandom(32)
        other = client.hello(own)
        client.send(Kind.PROOF, frames.proof("server", TOKEN.encode(), own, other))
        assert client.refusal()[0] == Status.DENIED


def test_a_token_of_any_bytes_and_which_of_two_counts(binary: Path, tmp_path: Path) -> None:
    """A file's token with a zero in it, which differs from another one behind that; STERNA_RPC_TOKEN comes first."""
    file = tmp_path / "token"
    file.write_bytes(bytes(range(200, 220)) + b"\0 and more\n")
    file.chmod(0o600)
    with started([binary], tmp_path / "s", "--token-file", str(file), token=TOKEN) as server, Raw(server) as client:
        own = os.urandom(32)
        other = client.hello(own)
        assert client.ask(Kind.PROOF, frames.proof("client", file.read_bytes().rstrip(), other, own))
    both: list[str | Path] = ["env", f"STERNA_RPC_TOKEN_FILE={file}", binary]
    with started(both, tmp_path / "s", token=TOKEN) as server, rpc.connect(server.address, TOKEN) as device:
        assert device.status()["end"] == "c"


def test_a_server_that_cannot_begin_says_why_and_what_to_do(binary: Path, tmp_path: Path) -> None:
    def refused(code: str, *options: str, **environment: str) -> str:
        done = subprocess.run(
            [binary, "--scratch", tmp_path / "s", "--port", "0", *options],
            capture_output=True, text=True, env={"PATH": "", **environment}, timeout=10, check=False,
        )  # fmt: skip
        assert done.returncode == (2 if code == "E0002" else 1)
        assert done.stderr.startswith(f"error[{code}]: ")
        assert "\n  fix: " in done.stderr
        return done.stderr

    assert "there is no token" in refused("E0002", "--listen", "0.0.0.0")
    assert "fewer than 16 bytes" in refused("E0002", STERNA_RPC_TOKEN="short")
    assert "300.1.1.1: not the address" in refused("E0002", "--listen", "300.1.1.1")
    assert "--limit: not an option, or not a value" in refused("E0002", "--limit", "never")
    file = tmp_path / "token"
    assert f"{file}: No such file" in refused("E0010", "--token-file", str(file))
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert "chmod 600" in refused("E0002", "--token-file", str(file))
    file.chmod(0o600)
    file.write_bytes(b"x" * 4097)
    assert "more than 4096 bytes" in refused("E0002", "--token-file", str(file))
    assert "it is no file" in refused("E0002", "--token-file", str(tmp_path))
    named = {"STERNA_RPC_TOKEN": "", "STERNA_RPC_TOKEN_FILE": ""}  # set to nothing: there is none
    assert "there is no token" in refused("E0002", "--listen", "0.0.0.0", **named)
    other = "192.0.2.77"  # of documentation's network: no machine's own
    said = refused("E0010", "--listen", other, STERNA_RPC_TOKEN=TOKEN)
    assert f"{other}: Cannot assign" in said
    assert "--port" not in said
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"port {port}: Address already in use" in refused("E0010", "--port", str(port))
    (tmp_path / "s").chmod(0o777)
    assert "not a folder of this user alone" in refused("E0010")


# ---- Hostile clients ----


def test_a_frame_that_is_too_long_is_not_read(server: Running, bundle: Path) -> None:
    for kind, length in ((Kind.HELLO, 257), (Kind.HELLO, 0xFFFFFFFF)):
        with Raw(server) as client:
            client.send(kind, b"", length=length)
            assert client.refusal()[0] == Status.TOO_LARGE
            assert client.closed()
    with Raw(server).first() as client:
        client.send(Kind.SET, b"", length=1 << 30)
        assert client.refusal()[0] == Status.TOO_LARGE
        assert client.closed()
    assert works(server, bundle)


@pytest.mark.parametrize("sent", [b"", b"\x01", frames.HEAD.pack(32, 1, Kind.HELLO, 1) + bytes(8)])
def test_a_client_that_ends_in_the_middle_or_never_goes_on(server: Running, bundle: Path, sent: bytes) -> None:
    with Raw(server) as client:
        client.socket.sendall(sent)
    with Raw(server) as client:
        client.socket.sendall(sent)
        assert client.refusal()[0] == Status.SLOW
        assert client.closed()
    assert works(server, bundle)


def test_a_client_that_sends_a_byte_now_and_then(server: Running) -> None:
    with Raw(server) as client:
        client.socket.setblocking(False)
        sent = 0
        for byte in frames.HEAD.pack(200, 1, Kind.HELLO, 1) + bytes(200):
            sent += 1
            try:
                client.socket.send(bytes([byte]))
                if client.socket.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                time.sleep(0.1)
        client.socket.settimeout(10)
        assert client.refusal()[0] == Status.SLOW
        assert sent < 200


def test_a_client_that_sleeps_on_its_turn_gives_way(binary: Path, bundle: Path, tmp_path: Path) -> None:
    options = ["--slow", "0.4", "--idle", "0.2"]
    with started([binary], tmp_path / "scratch", *options) as running, Raw(running).first() as sleeper:
        assert works(running, bundle)
        assert sleeper.refusal()[0] == Status.IDLE


def test_another_version_is_named(server: Running) -> None:
    with Raw(server) as client:
        client.send(Kind.HELLO, bytes(36), version=2)
        status, message = client.refusal()
        assert (status, "version 1" in message) == (Status.VERSION, True)
        assert client.closed()


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Kind.TURN, b"1"),
        (Kind.HAS, struct.pack("<I", 100) + b"avx2"),
        (Kind.HAVE, struct.pack("<I", 2) + bytes(32)),
        (Kind.PUT, bytes(40)),
        (Kind.PUT, bytes(32) + struct.pack("<QQ", 1, 0) + b"ab"),
        (Kind.LOAD, struct.pack("<II", 1, 0)),
        (Kind.LOAD, struct.pack("<II", 1, 1) + frames.text("../graph.json") + bytes(32)),
        (Kind.LOAD, struct.pack("<II", 1, 1) + struct.pack("<I", 0xFFFFFFFF)),
        (Kind.LIMIT, struct.pack("<I", 2001)),
    ],
)
def test_a_payload_that_is_none_is_refused_and_the_session_goes_on(server: Running, kind: Kind, payload: bytes) -> None:
    with Raw(server).first() as client:
        client.send(kind, payload)
        assert client.refusal()[0] == Status.MALFORMED
        client.send(99)
        assert client.refusal()[0] == Status.UNKNOWN
        client.send(Kind.RUN)
        assert client.refusal() == (Status.STATE, "no model is loaded")
        assert b'"busy": true' in client.ask(Kind.STATUS)


def test_requests_to_a_model_are_checked_against_it(server: Running, bundle: Path) -> None:
    with rpc.connect(server.address) as device:
        there = device.load(bundle)
        link = device._link
        for kind, payload in (
            (Kind.SET, struct.pack("<I", 0) + bytes(4)),
            (Kind.SET, struct.pack("<I", 5) + bytes(256)),
            (Kind.TABLE, struct.pack("<I", 6)),
            (Kind.TABLE, b""),
            (Kind.TIME, struct.pack("<IIIIQ", 0, 5, 4, 0, 0)),
            (Kind.DIMS, struct.pack("<I", 3)),
        ):
            with pytest.raises(Refused) as problem:
                link.ask(frames.Request(kind, payload))
            assert problem.value.status == Status.MALFORMED, kind
        with pytest.raises(Refused) as problem:
            link.ask(frames.Request(Kind.GET, struct.pack("<I", 9)))
        assert problem.value.status == -1
        assert there.run([image()])["scores"].shape == (1, 10)


def test_what_was_sent_damaged_is_dropped(server: Running) -> None:
    name = frames.file_hash(b"what was meant")
    with Raw(server).first() as client:
        client.send(Kind.PUT, name + struct.pack("<QQ", 4, 0) + b"else")
        assert client.refusal()[0] == Status.HASH
        assert client.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:] == bytes(12)
        client.send(Kind.LOAD, struct.pack("<II", 1, 1) + frames.text("graph.json") + name)
        assert client.refusal()[0] == Status.MISSING
