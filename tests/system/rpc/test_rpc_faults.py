"""What goes wrong on a server of devices: full disks, kernels that crash or never end, devices that are gone."""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna import rpc
from sterna.api import compile_to
from sterna.codegen import c
from sterna.errors import SternaError
from sterna.rpc import frames
from sterna.rpc.frames import Kind, Status
from sterna.toolchain.compilers import compile_c
from support.rpc_digits import MODEL, code_of, image, works
from support.rpc_server import Raw, Running, full_disk, started
from support.tools import need

pytestmark = pytest.mark.skipif(
    os.name != "posix" or platform.system() != "Linux", reason="the server is built for Linux"
)

# ---- What goes wrong on the device ----


def test_a_quota_holds_and_what_is_old_gives_way(binary: Path, bundle: Path, tmp_path: Path) -> None:
    size = sum(sterna.load(bundle).sizes().values())
    with started([binary], tmp_path / "small", "--quota", "1000") as running:
        with rpc.connect(running.address) as device, pytest.raises(SternaError) as problem:
            device.load(bundle)
        assert code_of(problem) == "E0806"
        assert "quota" in str(problem.value)
    with started([binary], tmp_path / "scratch", "--quota", str(size + 4000)) as running:
        old = os.urandom(3000)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, frames.file_hash(old) + struct.pack("<QQ", 3000, 0) + old)
        new = os.urandom(size + 2000)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, frames.file_hash(new) + struct.pack("<QQ", len(new), 0) + new)
            assert client.ask(Kind.HAVE, struct.pack("<I", 1) + frames.file_hash(old))[4:] == bytes(12)
            client.send(Kind.PUT, frames.file_hash(old) + struct.pack("<QQ", 3000, 0) + old)
            assert client.refusal()[0] == Status.FULL
        assert works(running, bundle)


def test_what_others_sent_while_a_client_waited_gives_way_to_it(binary: Path, tmp_path: Path) -> None:
    """What is a client's own is told by its turn, not by when it connected: it may have waited for long."""
    with started([binary], tmp_path / "scratch", "--quota", "5000") as running, Raw(running) as waits:
        waits.hello()
        theirs, own = os.urandom(3000), os.urandom(3000)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, frames.file_hash(theirs) + struct.pack("<QQ", 3000, 0) + theirs)
        waits.turn()
        waits.ask(Kind.PUT, frames.file_hash(own) + struct.pack("<QQ", 3000, 0) + own)
        assert waits.ask(Kind.HAVE, struct.pack("<I", 1) + frames.file_hash(theirs))[4:] == bytes(12)


def test_a_file_that_is_gone_on_with_does_not_give_way_to_itself(binary: Path, tmp_path: Path) -> None:
    """An earlier client has sent the beginning, which is the oldest that is there."""
    with started([binary], tmp_path / "scratch", "--quota", "5000") as running:
        data = os.urandom(4500)
        name = frames.file_hash(data)
        for sent, at in ((data[:1000], 0), (os.urandom(900), None)):
            with Raw(running).first() as client:
                own, total = (name, len(data)) if at is not None else (frames.file_hash(sent), len(sent))
                client.ask(Kind.PUT, own + struct.pack("<QQ", total, 0) + sent)
        with Raw(running).first() as client:
            client.ask(Kind.PUT, name + struct.pack("<QQ", len(data), 1000) + data[1000:])
            assert struct.unpack("<QI", client.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:]) == (4500, 1)


def test_what_is_old_gives_way_on_a_full_disk(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scratch folder's disk may be smaller than the quota."""
    monkeypatch.setenv("LD_PRELOAD", str(full_disk(tmp_path)))
    monkeypatch.setenv("FULL_DISK", str(tmp_path / "never"))
    monkeypatch.setenv("FULL_DISK_FOLDER", str(tmp_path / "scratch" / "files"))
    with started([binary], tmp_path / "scratch") as running:
        monkeypatch.delenv("LD_PRELOAD")
        first, second = os.urandom(3000), os.urandom(3000)
        for data in (first, second):
            with Raw(running).first() as client:
                client.ask(Kind.PUT, frames.file_hash(data) + struct.pack("<QQ", 3000, 0) + data)
        with Raw(running).first() as client:
            asked = struct.pack("<I", 2) + frames.file_hash(first) + frames.file_hash(second)
            said = client.ask(Kind.HAVE, asked)
            assert struct.unpack("<QIQI", said[4:]) == (0, 0, 3000, 1)
            client.send(Kind.PUT, frames.file_hash(first) + struct.pack("<QQ", 3000, 0) + first)
            assert client.refusal()[0] == Status.FULL


def test_a_full_disk_is_named_and_what_was_written_is_kept(
    binary: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the middle of a file; with room again, the file goes on from there."""
    mark = tmp_path / "full"
    mark.touch()
    monkeypatch.setenv("LD_PRELOAD", str(full_disk(tmp_path)))
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
        mark.unlink()
        with Raw(running).first() as client:
            client.ask(Kind.PUT, name + struct.pack("<QQ", 3000, 1000) + data[1000:])
            assert struct.unpack("<QI", client.ask(Kind.HAVE, struct.pack("<I", 1) + name)[4:]) == (3000, 1)
        mark.touch()
        with rpc.connect(running.address) as device, pytest.raises(SternaError) as problem:
            device.load(bundle)
        assert code_of(problem) == "E0806"
        mark.unlink()
        assert works(running, bundle)


def with_fault(monkeypatch: pytest.MonkeyPatch, place: Path, fault: str) -> Path:
    """The digits, with a kernel that does that when it is called."""

    def compile_faulty(text: str, *rest: Any, **more: Any) -> bytes:
        text = text.replace("uint32_t last_task) {", f"uint32_t last_task) {{ {fault} ", 1)
        return compile_c(text, *rest, **more)

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
        assert code_of(problem) == code
        assert said in str(problem.value)
        with pytest.raises(SternaError, match="load the bundle again"):
            there.run([image()])
        assert np.isfinite(device.load(bundle).run([image()])["scores"]).all()
        device.load(bad)
        with pytest.raises(SternaError) as problem:
            device.time(device.load(bad))
        assert code_of(problem) == code
    assert works(server, bundle)


def test_a_client_that_leaves_a_kernel_running_frees_the_device(
    binary: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not when the kernel's hour is over."""
    bad = with_fault(monkeypatch, tmp_path / "bad", "for (volatile int i = 0; i >= 0;) {}")
    with started([binary], tmp_path / "scratch", "--limit", "3600") as running:
        with rpc.connect(running.address) as device:
            device.load(bad)
            device._link._send([frames.HEAD.pack(0, 1, Kind.RUN, 1)])
            device._link._socket.close()
        assert works(running, bundle, wait=60)


def test_a_bundle_for_another_processor_is_named(server: Running, tmp_path: Path) -> None:
    other = "raspberrypi4" if platform.machine() != "aarch64" else "x86-64-v2"
    with rpc.connect(server.address) as device, pytest.raises(SternaError) as problem:
        device.load(compile_to(tmp_path / "other", MODEL, other, generator="llvm"))
    assert code_of(problem) == "E0507"


def test_a_device_that_ends_is_named(binary: Path, bundle: Path, tmp_path: Path) -> None:
    with started([binary], tmp_path / "scratch") as running:
        device = rpc.connect(running.address)
        there = device.load(bundle)
    # `started` has ended it.
    for again in range(2):
        with pytest.raises(SternaError) as problem:
            there.run([image()])
        assert code_of(problem) == "E0805", again
    with pytest.raises(SternaError) as problem:
        rpc.connect(running.address)
    assert code_of(problem) == "E0801"
