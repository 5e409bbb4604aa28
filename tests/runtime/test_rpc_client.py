"""The client of a device that does not answer as it should: errors with codes, no endless wait or memory."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

import sterna.rpc
from sterna.errors import SternaError
from sterna.rpc import frames
from sterna.rpc.device import find_token, parse_address
from sterna.rpc.frames import ERROR, HEAD, REPLY, Kind, Status
from support.fake_device import FakeDevice, connected_to, refusal


def refused(device: FakeDevice, bundle: Path, token: str | None = None) -> tuple[str, str]:
    """Code and text of what loading a bundle on that device leads to."""
    with connected_to(device), pytest.raises(SternaError) as problem, sterna.rpc.connect("rpc://pi", token) as there:
        there.load(bundle)
    [code] = problem.value.codes
    return code, str(problem.value)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "graph.json").write_text('{"files": {"params.bin": {}}}')
    (tmp_path / "params.bin").write_bytes(bytes(100))
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (Kind.HELLO, Status.VERSION, "E0804"),
        (Kind.TURN, Status.BUSY, "E0803"),
        (Kind.HAVE, Status.FULL, "E0806"),
        (Kind.HAVE, Status.HASH, "E0809"),
        (Kind.LOAD, Status.MISSING, "E0809"),
        (Kind.LOAD, Status.UNSUPPORTED, "E0810"),
        (Kind.LOAD, 4711, "E0810"),
        (Kind.STATUS, Status.SLOW, "E0805"),
        (Kind.LOAD, -5, "E0505"),
    ],
)
def test_what_a_device_refuses_has_a_code(bundle: Path, kind: Kind, status: int, code: str) -> None:
    said = refused(FakeDevice({kind: refusal(status, "what happened")}), bundle)
    assert (said[0], "what happened" in said[1]) == (code, True)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 5,
        HEAD.pack(1 << 31, 1, REPLY | Kind.LOAD, 0),  # longer than what was asked for
        HEAD.pack(1 << 31, 1, ERROR, 0),
        HEAD.pack(4, 1, ERROR, 0) + bytes(4),  # an error without a message
        HEAD.pack(0, 1, REPLY | Kind.RUN, 0),  # the reply to something else
        HEAD.pack(0, 1, REPLY | Kind.LOAD, 12345),
        HEAD.pack(0, 9, REPLY | Kind.LOAD, 0),
    ],
)
def test_a_reply_that_is_none_ends_the_connection(bundle: Path, raw: bytes) -> None:
    code, text = refused(FakeDevice(raw={Kind.LOAD: raw}), bundle)
    assert (code, "the connection to the device is lost" in text) == ("E0805", True)


@pytest.mark.parametrize("raw", [b"HTTP/1.0 400 Bad request\r\n", b"", HEAD.pack(2, 1, REPLY | Kind.HELLO, 0) + b"no"])
def test_another_program_on_that_port_is_no_device(bundle: Path, raw: bytes) -> None:
    code, text = refused(FakeDevice(raw={Kind.HELLO: raw}), bundle)
    assert (code, "does not answer as a device" in text, "fix:" in text) == ("E0801", True, True)


def test_an_impostor_gets_no_model(bundle: Path) -> None:
    """A device that demands a token, and does not show that it knows it."""
    device = FakeDevice(flags=1)
    code, text = refused(device, bundle, "a token of many bytes")
    assert (code, "it is not the device" in text) == ("E0802", True)
    assert Kind.PUT not in device.asked


def test_addresses() -> None:
    assert parse_address("rpc://pi") == ("pi", frames.DEFAULT_PORT)
    assert parse_address("rpc://10.0.0.2:80/") == ("10.0.0.2", 80)
    assert parse_address("rpc://[::1]:9191") == ("::1", 9191)


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_RPC_TOKEN", raising=False)
    monkeypatch.delenv("STERNA_RPC_TOKEN_FILE", raising=False)
    assert find_token() is None
    file = tmp_path / "token"
    file.write_text("the token of a file\n")
    file.chmod(0o600)
    monkeypatch.setenv("STERNA_RPC_TOKEN_FILE", str(file))
    assert find_token() == b"the token of a file"
    if os.name == "posix":
        file.chmod(0o644)
        with pytest.warns(UserWarning, match="other users may read the token"):
            find_token()
    monkeypatch.setenv("STERNA_RPC_TOKEN", "that of the environment")
    assert find_token() == b"that of the environment"
    assert find_token("one that was given") == b"one that was given"
    with pytest.raises(SternaError, match="has 5 bytes"):
        find_token("short")
    monkeypatch.setenv("STERNA_RPC_TOKEN", "")
    file.chmod(0o600)
    assert find_token() == b"the token of a file"
    for name, why in (("none", "No such file"), (".", "no file that this user alone")):
        monkeypatch.setenv("STERNA_RPC_TOKEN_FILE", str(tmp_path / name))
        with pytest.raises(SternaError, match=f"(?s)E0802.*{why}.*fix: STERNA_RPC_TOKEN_FILE names the file"):
            find_token()


@pytest.mark.skipif(os.name != "posix", reason="variables of the environment are texts there")
def test_a_token_is_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = b"\xff\x00bytes that are no text\xfe"
    file = tmp_path / "token"
    file.write_bytes(token)
    file.chmod(0o600)
    monkeypatch.delenv("STERNA_RPC_TOKEN", raising=False)
    monkeypatch.setenv("STERNA_RPC_TOKEN_FILE", str(file))
    assert find_token() == token
    monkeypatch.setitem(os.environb, b"STERNA_RPC_TOKEN", b"\xff" * 16)
    assert find_token() == b"\xff" * 16


def test_a_proof_is_hmac_of_both_nonces() -> None:
    """A value from docs/rpc.md's formula, computed by another implementation (openssl dgst -hmac)."""
    shown = frames.proof("client", b"0123456789abcdef", bytes(32), b"\1" * 32)
    assert shown.hex() == "9874f226f6789d9c7b49067d82d2a21114fc65715444d9f73eeb20d886b74d9d"
    assert struct.calcsize("<IHHI") == HEAD.size == 12
