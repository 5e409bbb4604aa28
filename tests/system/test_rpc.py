"""A machine that runs bundles for another: the real server, and the client against it."""

from __future__ import annotations

import json
import os
import platform
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna import rpc
from sterna.api import compile_to
from sterna.cli import program
from sterna.codegen import c
from sterna.errors import SternaError
from sterna.rpc import frames
from sterna.rpc.frames import Kind, Status
from sterna.rpc.link import Refused
from sterna.rpc.program import architecture_of
from sterna.targets.description import load_target
from sterna.toolchain.compilers import compile_c
from support.rpc_server import TOKEN, Raw, Running, server_program, started
from support.tools import ROOT, need, run

pytestmark = pytest.mark.skipif(
    os.name != "posix" or platform.system() != "Linux", reason="the server is built for Linux"
)

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"
WRONG = "another token of many bytes"


@pytest.fixture(scope="module")
def binary() -> Path:
    return server_program()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("digits") / "digits"
    assert said("compile", MODEL, "-g", "llvm", "-o", place, "--golden", 2).exit_code == 0
    return place


@pytest.fixture
def server(binary: Path, tmp_path: Path) -> Iterator[Running]:
    with started([binary], tmp_path / "scratch", "--slow", "1", "--limit", "2") as running:
        yield running


@pytest.fixture
def guarded(binary: Path, tmp_path: Path) -> Iterator[Running]:
    with started([binary], tmp_path / "scratch", "--slow", "1", token=TOKEN) as running:
        yield running


def image() -> np.ndarray:
    return np.random.default_rng(3).random((1, 1, 8, 8), dtype=np.float32)


def codes(problem: pytest.ExceptionInfo[SternaError]) -> str:
    [code] = problem.value.codes
    return code


def works(running: Running, bundle: Path) -> bool:
    """Whether the server still does all that it is for."""
    with rpc.connect(running.address) as device:
        return bool(np.isfinite(device.load(bundle).run([image()])["scores"]).all())


# ---- What it is for ----


def test_a_bundle_there_is_as_one_here(server: Running, bundle: Path) -> None:
    with sterna.load(bundle) as here, rpc.connect(server.address) as device, device.load(bundle) as there:
        assert (there.inputs, there.outputs, there.values) == (here.inputs, here.outputs, here.values)
        assert there.memory() == here.memory()
        wanted = here.run([image()])["scores"]
        assert np.array_equal(there.run([image()])["scores"], wanted)
        there.set_input("image", image())
        there.run()
        assert np.array_equal(there.get_output("scores"), wanted)
        assert np.array_equal(there.intermediate("scores"), wanted)
        nodes = there.profile(2)
        assert [node.name for node in nodes] == [node.name for node in here.profile()]
        assert all(node.nanoseconds > 0 for node in nodes[2:3])
        assert there.verify_golden().ok


def test_times_are_all_given_back(server: Running, bundle: Path) -> None:
    with rpc.connect(server.address) as device, device.load(bundle) as there:
        timing = device.time(there, warmup=2, repeats=5, most=7)
        assert 5 <= len(timing.samples) <= 7
        assert timing.unit == "nanoseconds"
        assert min(timing.samples) > 0
        assert min(timing.samples) <= timing.median <= max(timing.samples)
        longer = device.time(there, repeats=1, least=0.02)
        assert sum(longer.samples) >= 0.02e9
        assert sum(longer.samples[:-1]) < 0.02e9
        with pytest.raises(SternaError) as problem:
            device.time(there, repeats=9, most=8)
        assert codes(problem) == "E0501"
        with sterna.load(bundle) as here, pytest.raises(SternaError) as problem:
            device.time(here)
        assert codes(problem) == "E0501"


def test_a_file_is_sent_once_and_goes_on_where_it_broke_off(server: Running, bundle: Path) -> None:
    data = os.urandom(frames.CHUNK_BYTES + 5)
    name = frames.file_hash(data)
    size = struct.pack("<Q", len(data))
    with Raw(server).first() as first:
        assert first.ask(Kind.PUT, name + size + bytes(8) + data[:1000]) == struct.pack("<Q", 1000)
    with Raw(server).first() as again:
        assert again.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:] == struct.pack("<QI", 1000, 0)
        again.send(Kind.PUT, name + size + bytes(8) + data[:10])
        assert again.refusal()[0] == Status.OFFSET
        again.ask(Kind.PUT, name + size + struct.pack("<Q", 1000) + data[1000:-5])
        assert again.ask(Kind.PUT, name + size + struct.pack("<Q", len(data) - 5) + data[-5:]) == size
        assert again.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:] == size + struct.pack("<I", 1)
    assert (server.scratch / "files" / name.hex()).read_bytes() == data
    assert works(server, bundle)
    before = {path: path.stat().st_ino for path in (server.scratch / "files").iterdir()}
    assert works(server, bundle)
    assert {path: path.stat().st_ino for path in (server.scratch / "files").iterdir()} == before
    assert list((server.scratch / "models").iterdir()) == []


def test_one_client_at_a_time(server: Running, bundle: Path) -> None:
    heard: list[int] = []
    results: list[bool] = []

    def second() -> None:
        with rpc.connect(server.address, told=heard.append) as device:
            results.append(bool(device.load(bundle).run([image()])))

    with rpc.connect(server.address) as device:
        device.load(bundle)
        thread = threading.Thread(target=second)
        thread.start()
        while not heard:
            time.sleep(0.01)
        assert device.status()["queue"] == 1
        assert device.status()["busy"] is True
        with rpc.connect(server.address, wait=0.05) as third, pytest.raises(SternaError) as problem:
            third.load(bundle)
        assert codes(problem) == "E0803"
        assert results == []
    thread.join(20)
    assert (heard, results) == ([1], [True])


# ---- Who may ----


def test_a_token_opens_and_others_do_not(guarded: Running, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_RPC_TOKEN_FILE", raising=False)
    for token in (WRONG, None):
        with pytest.raises(SternaError) as problem:
            rpc.connect(guarded.address, token)
        assert codes(problem) == "E0802"
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


def test_a_server_that_others_can_reach_needs_a_token(binary: Path, tmp_path: Path) -> None:
    def output(*options: str, **environment: str) -> str:
        done = subprocess.run(
            [binary, "--scratch", tmp_path / "s", "--port", "0", *options],
            capture_output=True, text=True, env={"PATH": "", **environment}, timeout=10, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        return done.stderr

    assert "there is no token" in output("--listen", "0.0.0.0")
    assert "less than 16 bytes" in output(STERNA_RPC_TOKEN="short")
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert "chmod 600" in output("--token-file", str(file))
    (tmp_path / "s").chmod(0o777)
    assert "not a folder of this user alone" in output()


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
        start = time.monotonic()
        client.socket.sendall(sent)
        assert client.refusal()[0] == Status.SLOW
        assert time.monotonic() - start < 8
        assert client.closed()
    assert works(server, bundle)


def test_a_client_that_sends_a_byte_now_and_then(server: Running) -> None:
    with Raw(server) as client:
        start = time.monotonic()
        client.socket.setblocking(False)
        for byte in frames.HEAD.pack(200, 1, Kind.HELLO, 1) + bytes(200):
            try:
                client.socket.send(bytes([byte]))
                if client.socket.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                time.sleep(0.1)
        client.socket.settimeout(10)
        assert client.refusal()[0] == Status.SLOW
        assert 0.9 < time.monotonic() - start < 8


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


# ---- What goes wrong on the device ----


def test_a_quota_holds_and_what_is_old_gives_way(binary: Path, bundle: Path, tmp_path: Path) -> None:
    size = sum(sterna.load(bundle).sizes().values())
    with started([binary], tmp_path / "small", "--quota", "1000") as running:
        with rpc.connect(running.address) as device, pytest.raises(SternaError) as problem:
            device.load(bundle)
        assert codes(problem) == "E0806"
        assert "quota" in str(problem.value)
    with started([binary], tmp_path / "scratch", "--quota", str(size + 4000)) as running:
        old = os.urandom(3000)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, frames.file_hash(old) + struct.pack("<QQ", 3000, 0) + old)
        time.sleep(0.05)  # the file system's clock has steps
        new = os.urandom(size + 2000)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, frames.file_hash(new) + struct.pack("<QQ", len(new), 0) + new)
            assert client.ask(Kind.HAVE, struct.pack("<I", 1) + frames.file_hash(old))[4:] == bytes(12)
            client.send(Kind.PUT, frames.file_hash(old) + struct.pack("<QQ", 3000, 0) + old)
            assert client.refusal()[0] == Status.FULL
        assert works(running, bundle)


def test_a_full_disk_is_named_and_what_was_written_is_kept(
    binary: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the middle of a file; with room again, the file goes on from there."""
    library, mark = tmp_path / "full_disk.so", tmp_path / "full"
    source = ROOT / "tests" / "support" / "full_disk.c"
    run(need("gcc", "builds what fills the disk"), "-shared", "-fPIC", "-o", library, source)
    mark.touch()
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FULL_DISK", str(mark))
    with started([binary], tmp_path / "scratch") as running:
        monkeypatch.delenv("LD_PRELOAD")
        data = os.urandom(3000)
        name = frames.file_hash(data)
        with Raw(running).first() as client:
            client.send(Kind.PUT, name + struct.pack("<QQ", 3000, 0) + data)
            status, message = client.refusal()
            assert status == Status.FULL
            assert "the disk of the device is full" in message
            assert struct.unpack("<QI", client.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:]) == (1000, 0)
        with rpc.connect(running.address) as device, pytest.raises(SternaError) as problem:
            device.load(bundle)
        assert codes(problem) == "E0806"
        mark.unlink()
        with Raw(running).first() as client:
            client.ask(Kind.PUT, name + struct.pack("<QQ", 3000, 1000) + data[1000:])
            assert struct.unpack("<QI", client.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:]) == (3000, 1)
        assert works(running, bundle)


def with_fault(monkeypatch: pytest.MonkeyPatch, place: Path, fault: str) -> Path:
    """The digits, with a kernel that does that when it is called."""

    def compile_faulty(text: str, *rest: object) -> bytes:
        text = text.replace("uint32_t last_task) {", f"uint32_t last_task) {{ {fault} ", 1)
        return compile_c(text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(c, "compile_c", compile_faulty)
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    need("gcc", "compiles kernels with faults")
    return compile_to(place, MODEL, compiler="gcc")


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("__builtin_trap();", "E0807", "signal 4"),
        ("*(volatile int *)8 = 1;", "E0807", "signal 11"),
        ("for (volatile int i = 0; i >= 0;) {}", "E0808", "longer than 300 ms"),
    ],
)
def test_a_kernel_at_fault_costs_its_model_alone(
    server: Running, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, code: str, said: str
) -> None:
    bad = with_fault(monkeypatch, tmp_path / "bad", fault)
    with rpc.connect(server.address) as device:
        there = device.load(bad)
        device.limit(0.3)
        with pytest.raises(SternaError) as problem:
            there.run([image()])
        assert codes(problem) == code
        assert said in str(problem.value)
        with pytest.raises(SternaError, match="load the bundle again"):
            there.run([image()])
        assert np.isfinite(device.load(bundle).run([image()])["scores"]).all()
        device.load(bad)
        with pytest.raises(SternaError) as problem:
            device.time(device.load(bad))
        assert codes(problem) == code
    assert works(server, bundle)


def test_a_client_that_leaves_a_kernel_running_frees_the_device(
    server: Running, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = with_fault(monkeypatch, tmp_path / "bad", "for (volatile int i = 0; i >= 0;) {}")
    with rpc.connect(server.address) as device:
        device.load(bad)
        device._link._send([frames.HEAD.pack(0, 1, Kind.RUN, 1)])
        device._link._socket.close()
    start = time.monotonic()
    assert works(server, bundle)
    assert time.monotonic() - start < 1.8  # its limit is 2 s


def test_a_bundle_for_another_processor_is_named(server: Running, tmp_path: Path) -> None:
    other = "raspberrypi4" if platform.machine() != "aarch64" else "x86-64-v2"
    with rpc.connect(server.address) as device, pytest.raises(SternaError) as problem:
        device.load(compile_to(tmp_path / "other", MODEL, other, generator="llvm"))
    assert codes(problem) == "E0507"


def test_a_device_that_ends_is_named(binary: Path, bundle: Path, tmp_path: Path) -> None:
    with started([binary], tmp_path / "scratch") as running:
        device = rpc.connect(running.address)
        there = device.load(bundle)
    # `started` has ended it.
    for again in range(2):
        with pytest.raises(SternaError) as problem:
            there.run([image()])
        assert codes(problem) == "E0805", again
    with pytest.raises(SternaError) as problem:
        rpc.connect(running.address)
    assert codes(problem) == "E0801"


# ---- The command line ----


def said(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def test_commands_run_on_a_device(server: Running, bundle: Path, tmp_path: Path) -> None:
    done = said("run", bundle, "--on", server.address, "--random", "--repeat", 3, "--profile", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["runs"] == 3
    assert len(found["nodes"]) > 3
    assert "of the device" in said("run", bundle, "--on", server.address, "--random").output
    replayed = said("verify", bundle, "--golden", "--on", server.address)
    assert "agrees with" in replayed.output, replayed.output
    assert json.loads(said("rpc", "doctor", server.address, "--json").output)["protocol"] == [1, 1]
    shown = said("rpc", "doctor", server.address).output
    assert "features" in shown
    assert "GiB" in shown


@pytest.mark.parametrize("text", ["rpc://", "rpc://pi:0", "rpc://pi:70000", "rpc://secret@pi", "rpc:pi", "rpc://pi/x"])
def test_addresses_that_are_none(bundle: Path, text: str) -> None:
    done = said("run", bundle, "--on", text, "--random")
    assert (done.exit_code, "E0002" in done.output) == (2, True)
    assert "secret" not in done.output


@pytest.mark.family("arm64")
def test_the_program_for_a_board(tmp_path: Path) -> None:
    """Built without the board's tools, started as there, and used from here."""
    qemu = need("qemu-aarch64", "runs programs for 64-bit ARM")
    done = said("rpc", "serve", "--target", "raspberrypi4", "-o", tmp_path / "sterna_rpc")
    assert done.exit_code == 0, done.output
    board = compile_to(tmp_path / "board", MODEL, "raspberrypi4", generator="llvm")
    with sterna.load(compile_to(tmp_path / "here", MODEL, generator="llvm")) as here:
        wanted = here.run([image()])["scores"]
    server = started([qemu, tmp_path / "sterna_rpc"], tmp_path / "scratch")
    with server as running, rpc.connect(running.address) as device, device.load(board) as there:
        assert device.status()["machine"] == "aarch64"
        assert device.has("neon") is True
        assert np.abs(there.run([image()])["scores"] - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_there_is_no_server_for_what_has_no_linux() -> None:
    for name in ("cortex-m4", "browser", "windows-x86-64"):
        with pytest.raises(SternaError) as problem:
            architecture_of(load_target(name))
        assert codes(problem) == "E0507"
