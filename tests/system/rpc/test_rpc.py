"""A machine that runs bundles for another: the real server, and the client against it."""

from __future__ import annotations

import json
import os
import platform
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna import rpc
from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.rpc import frames
from sterna.rpc.frames import Kind, Status
from sterna.rpc.program import architecture_of
from sterna.runtime.remote import Functions
from sterna.targets.description import load_target
from support.rpc_digits import MODEL, code_of, image, works
from support.rpc_server import Raw, Running, started
from support.tools import need

pytestmark = pytest.mark.skipif(
    os.name != "posix" or platform.system() != "Linux", reason="the server is built for Linux"
)

# ---- What it is for ----


def test_several_runs_are_timed_by_one_question(server: Running, bundle: Path) -> None:
    with rpc.connect(server.address) as device, device.load(bundle) as there:
        there.run([image()])
        functions, model = there.of_runtime()
        assert isinstance(functions, Functions)
        for runs in (1, 7):
            times = functions.profiled(model, runs)
            assert len(times) == runs
            assert min(times) > 0


def test_kernels_are_tuned_there(server: Running, tmp_path: Path) -> None:
    """Kernels of another processor are refused by the device: an error of the command, not of each kernel."""
    words = ["-g", "llvm", "--trials", "2", "--explorer", "grid", "--records", str(tmp_path / "t.db"), "--json"]
    done = CliRunner().invoke(program, ["tune", str(MODEL), *words, "--on", server.address])
    assert done.exit_code == 0, done.output
    kernels = json.loads(done.stdout)["kernels"]
    assert not [kernel["reason"] for kernel in kernels if "reason" in kernel]
    assert sum(kernel["trials"] for kernel in kernels) > 0
    elsewhere = "raspberrypi4" if platform.machine() == "x86_64" else "x86-64-v2"
    refused = CliRunner().invoke(program, ["tune", str(MODEL), *words, "-t", elsewhere, "--on", server.address])
    assert refused.exit_code == 1
    assert "error[E0507]: no kernel can be measured" in refused.stderr
    assert "fix: --target has to be what the device is; `sterna rpc doctor` describes it" in refused.stderr


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
        assert code_of(problem) == "E0501"
        with sterna.load(bundle) as here, pytest.raises(SternaError) as problem:
            device.time(here)
        assert code_of(problem) == "E0501"


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
        assert code_of(problem) == "E0803"
        assert results == []
    thread.join(20)
    assert (heard, results) == ([1], [True])


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


@pytest.mark.parametrize(
    "words", [["-o", "server", "--port", "1"], ["--web", "--limit", "1"], ["--web", "-o", "server"]]
)
def test_options_that_would_not_count_are_refused(words: list[str]) -> None:
    done = said("rpc", "serve", *words)
    assert (done.exit_code, "E0002" in done.output, "of no use with" in done.output) == (2, True, True)


def test_there_is_no_server_for_what_has_no_linux() -> None:
    for name in ("cortex-m4", "browser", "windows-x86-64"):
        with pytest.raises(SternaError) as problem:
            architecture_of(load_target(name))
        assert code_of(problem) == "E0507"
