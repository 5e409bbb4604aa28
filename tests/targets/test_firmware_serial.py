"""Firmware behind a serial line: a board is flashed by its own command, answers frames, and loses nothing of them."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from sterna.driver import reading
from sterna.emulate.devices import device
from sterna.errors import SternaError
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.remote import BoardFunctions, Counted, counted
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.rpc import frames, serial
from sterna.rpc.frames import HEAD, Kind, Request, Status
from sterna.rpc.link import Refused
from sterna.rpc.serial import Line, SerialLink, framed, opened, read_board
from sterna.targets.description import load_target
from sterna.tuning.kernels import tasks_of
from sterna.tuning.measure import Local
from sterna.tuning.tune import device_of
from sterna_runtime import library, load
from sterna_runtime.random_inputs import random_inputs
from support import flash_emulated
from support.small_models import residual_network
from support.tools import ROOT, need

DIGITS = Path(sterna.__file__).parent / "demo" / "digits.onnx"
FLASH = ROOT / "tests" / "support" / "flash_emulated.py"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    need("qemu-system-arm", "emulates boards of microcontrollers")
    place = tmp_path_factory.mktemp("serial")
    return [compile_to(place / str(n), model, "cortex-m4") for n, model in enumerate((DIGITS, residual_network()))]


@contextlib.contextmanager
def kept_port() -> Iterator[int]:
    """A port that is nobody else's: it stays bound, without listening, and who reuses addresses, as QEMU does, can
    listen on it, again after every flash."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


def described(folder: Path, port: int, line: int | None = None) -> Path:
    words = [sys.executable, FLASH, "{bundle}", "{server}", folder, port]
    flash = shlex.join(map(str, words)).replace("'", "")
    path = folder / "board.toml"
    path.write_text(f'line = "tcp:127.0.0.1:{line or port}"\nflash = "{flash}"\ncounts = true\n')
    return path


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "compiler"))
    with kept_port() as port:
        yield described(tmp_path, port)
        flash_emulated.end(tmp_path)


def flashed(board: Path) -> int:
    file = board.parent / "times"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def test_a_board_runs_what_is_flashed(bundles: list[Path], board: Path) -> None:
    """Outputs and counts as through the files of its emulator; a bundle that it has is not flashed anew."""
    for number, bundle in enumerate(bundles[:2]):
        with library.replaced_by(BoardFunctions("mps2-an386")), load(bundle) as there:
            feed = random_inputs(there.inputs, 3)
            wanted = {name: array.copy() for name, array in there.run(feed).items()}
            count = counted(there)
            assert count is not None
        for _ in range(2):
            with device(f"serial:{board}"), load(bundle) as model:
                found = model.run(feed)
                functions, pointer = model.of_runtime()
                assert functions.nanoseconds(pointer) == pytest.approx(count.instructions, rel=0.05, abs=120)
                assert counted(model) == Counted(board.name, functions.nanoseconds(pointer), None)
                nodes = model.profile(1)
                assert sum(node.fastest for node in nodes) == pytest.approx(count.instructions, rel=0.2, abs=400)
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array)
            assert flashed(board) == number + 1


class Lossy(threading.Thread):
    """Carries bytes between a port and a board, and of each direction's loses or changes one in so many, in turns."""

    def __init__(self, board: int, one_in: int):
        super().__init__(daemon=True)
        self._board, self._one_in = board, one_in
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port, self.lost = int(self._server.getsockname()[1]), 0

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._server.accept()
                theirs = socket.create_connection(("127.0.0.1", self._board))
                for a, b in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        count = self._one_in // 2
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(4096):
                out = bytearray()
                for byte in data:
                    count += 1
                    if count % self._one_in:
                        out.append(byte)
                    else:
                        self.lost += 1
                        out += bytes([byte ^ 0x10]) if count % (2 * self._one_in) else b""
                sink.sendall(out)

    def stop(self) -> None:
        self._server.close()


def test_bytes_that_are_lost_are_sent_again(bundles: list[Path], board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "TRIES", 12)
    with opened(read_board(board)) as functions, library.replaced_by(functions), load(bundles[0]) as model:
        feed = random_inputs(model.inputs, 3)
        wanted = {name: array.copy() for name, array in model.run(feed).items()}
    # Another bundle than the board has, and no way to change that.
    board.write_text(board.read_text().replace("flash", "#"))
    with pytest.raises(SternaError, match="no command flashes it"), device(f"serial:{board}"):
        load(bundles[1])
    line = Lossy(int(read_board(board).line.rpartition(":")[2]), 1500)
    line.start()
    other = board.with_name("lossy.toml")
    other.write_text(f'line = "tcp:127.0.0.1:{line.port}"\n')
    try:
        with opened(read_board(other)) as functions, library.replaced_by(functions), load(bundles[0]) as model:
            for _ in range(12):
                for name, array in model.run(feed).items():
                    np.testing.assert_array_equal(array, wanted[name])
    finally:
        line.stop()
    assert line.lost >= 2


def test_what_is_sent_does_not_end_a_board(bundles: list[Path], board: Path) -> None:
    with opened(read_board(board)) as functions, library.replaced_by(functions), load(bundles[0]) as model:
        assert functions._connected is not None
        functions._connected._once(Request(Kind.BYE), 999, 2)  # as if it had been reset: it knows nobody
        with pytest.raises(SternaError, match=r"E0805.*the board has started anew"):
            model.run(random_inputs(model.inputs, 3))
        with load(bundles[0]) as again:
            again.run(random_inputs(again.inputs, 3))
    assert flashed(board) == 1
    line = Line(read_board(board))
    try:
        link = SerialLink(read_board(board), line, 20)
        with pytest.raises(Refused) as refused:
            link.ask(Request(Kind.PUT, bytes(60)))
        assert refused.value.status == Status.UNSUPPORTED
        with pytest.raises(Refused) as refused:
            link.ask(Request(Kind.SET, struct.pack("<I", 0), tensor=bytes(1 << 12)))
        assert refused.value.status == Status.TOO_LARGE
        took = link.ask(Request(Kind.RUN, most=8))
        # The same request once more, as if its reply had been lost: the board does not run again.
        repeated = (link._once(Request(Kind.RUN, most=8), link._ids, 2) for _ in range(10))
        assert next(filter(None, repeated)) == took
        # What came damaged was written to an input, whichever the sender meant: nothing runs until that is set again.
        (image,) = read_firmware(bundles[0]).inputs
        put = Request(Kind.SET, struct.pack("<I", 0), tensor=bytes(image.bytes))
        link.ask(put)
        whole = framed(HEAD.pack(4 + image.bytes, frames.VERSION, Kind.SET, 78), put.payload, put.tensor)
        line.send(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(Refused, match="an input came damaged") as refused:
            link.ask(Request(Kind.RUN, most=8))
        assert refused.value.status == Status.STATE
        link.ask(put)
        assert len(link.ask(Request(Kind.RUN, most=8))) == 8
        # Half a frame, and nothing more: the board gives up waiting, and the next one is heard.
        line.send(framed(HEAD.pack(256, frames.VERSION, Kind.HAS, 77), bytes(256))[:40])
        assert link.ask(Request(Kind.STATUS, most=1 << 16)).startswith(b"{")
        # Anything at all.
        rng = random.Random(1)
        for _ in range(20):
            line.send(rng.choice([serial.START, b""]) + rng.randbytes(rng.randrange(1, 90)))
        again = SerialLink(read_board(board), line, 20)
        assert len(again.ask(Request(Kind.RUN, most=8))) == 8
    finally:
        line.close()


def test_kernels_are_measured_on_a_board(board: Path) -> None:
    """What `sterna tune --on serial:...` measures: instructions, of a program that is flashed for each schedule."""
    need("qemu-system-arm", "emulates boards of microcontrollers")
    options = Options(load_target("cortex-m4"), "llvm")
    task = max(tasks_of(read_model(Source.of(DIGITS), reading(options)), options)[0], key=lambda t: t.multiply_adds)
    with Local(device_of(f"serial:{board}", options)) as measurer:
        assert measurer.unit == "instructions"
        rules = measurer.measure(task, {})
        assert rules.error == ""
    with Local("qemu:mps2-an386") as measurer:
        assert min(rules.samples) == pytest.approx(min(measurer.measure(task, {}).samples), rel=0.05, abs=120)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("line = 5", "E0002"),
        ("lines = 5", "E0002"),
        ("line", "E0002"),
        ('line = "/dev/null"', "E0801"),
        ('line = "/dev/none-such"', "E0801"),
        ('line = "tcp:127.0.0.1:99999"', "E0801"),
        ('line = "/dev/none-such"\nflash = "false"', "E0810"),
        ('line = "/dev/none-such"\nflash = "make {image}"', "E0002"),
        ('line = "/dev/none-such"\nflash = "make \'{bundle}"', "E0002"),
        ('line = "/dev/none-such"\nflash = "no-such-program-at-all {bundle}"', "E0810"),
    ],
)
def test_what_is_wrong_with_a_board_is_said(text: str, code: str, bundles: list[Path], tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(text)
    with pytest.raises(SternaError) as refused, device(f"serial:{tmp_path / 'board.toml'}"):
        load(bundles[0])
    assert refused.value.codes == (code,)
    with pytest.raises(SternaError, match=r"E0010.*No such file"):
        read_board(tmp_path / "none.toml")


def test_what_flashing_says_last_is_in_the_message(bundles: list[Path], tmp_path: Path) -> None:
    """The tuner has one line for it."""
    flash = 'sh -c "echo started; echo no probe is there >&2; exit 3"'
    (tmp_path / "board.toml").write_text(f"line = '/dev/none-such'\nflash = '{flash}'\n")
    with pytest.raises(SternaError) as refused, device(f"serial:{tmp_path / 'board.toml'}"):
        load(bundles[0])
    assert str(refused.value).splitlines()[0] == "error[E0810]: flashing ended with status 3: no probe is there"


@pytest.mark.parametrize("says", [b"", framed(HEAD.pack(2, 1, frames.REPLY | Kind.HELLO, 0), b"no")])
def test_what_is_no_board_is_named(says: bytes, bundles: list[Path], tmp_path: Path) -> None:
    """At the other end is something else: it hangs up, or answers what is no HELLO."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answers() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(says)

        threading.Thread(target=answers, daemon=True).start()
        (tmp_path / "board.toml").write_text(f'line = "tcp:127.0.0.1:{server.getsockname()[1]}"\n')
        with pytest.raises(SternaError) as refused, device(f"serial:{tmp_path / 'board.toml'}"):
            load(bundles[0])
    text = str(refused.value)
    assert refused.value.codes == ("E0801",)
    assert "no program of Sterna answers at tcp:" in text
    assert "fix: reset it" in text


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals of POSIX")
def test_a_serial_device_is_raw(tmp_path: Path) -> None:
    """Every byte goes through as it is, those that terminals make something of among them."""
    ours, theirs = os.openpty()
    (tmp_path / "board.toml").write_text(f'line = "{os.ttyname(theirs)}"\nbaud = 115200\n')
    line = Line(read_board(tmp_path / "board.toml"))
    try:
        sent = framed(bytes(range(256)))
        line.send(sent)
        assert os.read(ours, 4096) == sent
        os.write(ours, sent)
        got = b""
        while len(got) < len(sent) and (more := line.receive(5)):
            got += more
        assert got == sent
    finally:
        line.close()
        os.close(ours)
        os.close(theirs)


def test_boards_with_a_known_line() -> None:
    assert [name for name, machine in MACHINES.items() if machine.uart] == ["mps2-an385", "mps2-an386", "mps2-an500"]
