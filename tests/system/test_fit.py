"""`sterna fit`: boards as data, what is measured, what is estimated, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sterna.cli import program
from sterna.errors import SternaError
from sterna.firmware.boards import board_names, load_board
from sterna.firmware.machines import MACHINES
from sterna.targets.description import load_target
from support.tools import need
from support.trained import trained

OWN = """title = "Our sensor"
target = "cortex-m4"
mhz = 100
flash = {flash}
ram = 65536
cycles_per_instruction = 2
microamperes_per_mhz = 50
volts = 2.0
source = "none"
"""


def fit(*arguments: object, columns: int = 200) -> Result:
    """Columns: of the terminal, which those who run tests in parallel otherwise choose."""
    return CliRunner().invoke(program, ["fit", *(str(a) for a in arguments)], env={"COLUMNS": str(columns)})


@pytest.mark.parametrize("name", board_names())
def test_every_board_is_whole(name: str) -> None:
    """A board whose own core cannot be emulated names one that can."""
    board = load_board(name)
    assert board.title
    assert board.source
    assert 16 << 10 <= board.ram <= board.flash
    core = load_target(board.counted_on or board.target)
    assert load_target(board.target).static
    assert any(core.llvm_cpu in machine.cpus for machine in MACHINES.values())
    assert 0.5 <= board.cycles_per_instruction <= 2


def test_there_are_twenty() -> None:
    assert len(board_names()) >= 20
    assert {"stm32f411", "nrf52840", "rp2040", "esp32s3"} <= set(board_names())


@pytest.mark.family("cortex-m")
def test_what_fits_and_what_does_not(tmp_path: Path) -> None:
    need("qemu-system-arm", "emulates Cortex-M boards")
    model = trained("tflm_hello_world_int8").file
    for name, flash in (("large", 65536), ("small", 512)):
        (tmp_path / f"{name}.toml").write_text(OWN.format(flash=flash))
    done = fit(model, "--board", tmp_path / "large.toml", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert row["fits"]
    assert row["flash_bytes"] > 500
    assert 0 < row["stack_bytes"] < row["ram_bytes"] < 2000
    assert row["estimated_milliseconds"] == pytest.approx(row["instructions"] * 2 / 100e3)
    assert row["estimated_microjoules"] == pytest.approx(row["instructions"] * 2 * 100e-6)

    done = fit(model, "--board", tmp_path / "small.toml", "--board", tmp_path / "large.toml")
    assert done.exit_code == 1
    assert "E0405" in done.stderr
    assert "small: flash: " in done.stderr
    assert "does not fit" in done.stdout
    assert "large" not in done.stderr
    assert "time: " in fit(model, "--board", tmp_path / "large.toml", "--max-ms", "1e-6").stderr


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_no_number_is_cut_off(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the table is wider than the terminal, a board is a sentence."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "qemu" in name else which(name, **more))
    done = fit(trained("tflm_hello_world_int8").file, "--board", "nrf52840", "--board", "rp2040", columns=columns)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    for word in ("nrf52840", "cortex-m4", "1.0 MB", "262.1 kB", "rp2040", "cortex-m0plus", "2.1 MB", "270.3 kB"):
        assert word in text, text
    assert max(map(len, done.stdout.splitlines())) <= columns


@pytest.mark.family("cortex-m")
def test_without_an_emulator_sizes_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "qemu" in name else which(name, **more))
    done = fit(trained("tflm_hello_world_int8").file, "--board", "nrf52840")
    assert done.exit_code == 0
    assert "QEMU is missing" in done.stdout
    (row,) = json.loads(fit(trained("tflm_hello_world_int8").file, "--board", "nrf52840", "--json").stdout)
    assert row["flash_bytes"] > 416  # the weights alone
    assert row["ram_bytes"] > row["stack_bytes"] > 100
    assert "instructions" not in row
    # A time that nobody measured meets no bound.
    done = fit(trained("tflm_hello_world_int8").file, "--board", "nrf52840", "--max-ms", 1000)
    assert done.exit_code == 1
    assert "nrf52840: time: not known of 1000 ms" in done.stderr


def test_boards_that_are_none(tmp_path: Path) -> None:
    done = fit("model.tflite", "--board", "nrf52480")
    assert "E0209" in done.stderr
    assert "did you mean nrf52840?" in done.stderr
    for text in ("flash = 1", OWN.format(flash='"much"'), OWN.format(flash=-1), f"{OWN.format(flash=1)}core = 3"):
        (tmp_path / "own.toml").write_text(text)
        load_board.cache_clear()
        with pytest.raises(SternaError, match="E0202"):
            load_board(str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text(OWN.format(flash=1).replace("cortex-m4", "cortex-m9"))
    load_board.cache_clear()
    with pytest.raises(SternaError, match="no target"):
        load_board(str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text(OWN.format(flash=1).replace("cortex-m4", "host"))
    load_board.cache_clear()
    with pytest.raises(SternaError, match="host is no target for firmware"):
        load_board(str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text('title = "half"\nmhz = 2\n')
    load_board.cache_clear()
    with pytest.raises(SternaError, match="it lacks target, flash, ram, cycles_per_instruction, source"):
        load_board(str(tmp_path / "own.toml"))
