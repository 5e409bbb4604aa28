"""What the tests of the C server of devices have in common: its program, a bundle for it, and a server that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sterna.cli import program
from support.rpc_digits import MODEL
from support.rpc_server import TOKEN, Running, server_program, started


@pytest.fixture(scope="session")
def binary() -> Path:
    return server_program()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("digits") / "digits"
    done = CliRunner().invoke(program, ["compile", str(MODEL), "-g", "llvm", "-o", str(place), "--golden", "2"])
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture
def server(binary: Path, tmp_path: Path) -> Iterator[Running]:
    with started([binary], tmp_path / "scratch", "--slow", "1", "--limit", "2") as running:
        yield running


@pytest.fixture
def guarded(binary: Path, tmp_path: Path) -> Iterator[Running]:
    with started([binary], tmp_path / "scratch", "--slow", "1", token=TOKEN) as running:
        yield running
