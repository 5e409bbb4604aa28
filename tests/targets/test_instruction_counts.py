"""Instructions that ten kernels take, compared with a file: steadier than time on a machine that others load.

Counted by callgrind on bundles for x86-64-v3 (it does not know AVX-512), as the difference between runs of different
length, so that loading does not count. A change of more than 5 % either way fails: `STERNA_UPDATE_COUNTS=1 pytest
tests/targets/test_instruction_counts.py` writes the file anew, and the commit says why.
"""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path

import pytest

import sterna.api
from sterna_runtime import cpu_has
from support.counted_kernels import KERNELS, hold, random_input
from support.tools import ROOT, need, run

COUNTS = Path(__file__).with_suffix(".json")
RUNTIME = ROOT / "runtime_c"
MORE = 8

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="counts are of x86-64 code")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sterna_run, built by gcc."""
    need("valgrind", "it counts the instructions")
    gcc = need("gcc", "it builds the program that is counted")
    target = tmp_path_factory.mktemp("counted") / "sterna_run"
    sources = [RUNTIME / "tools" / "sterna_run.c", *sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    run(gcc, "-O1", "-std=c99", f"-I{RUNTIME / 'include'}", *sources, "-o", target, "-lpthread", "-ldl")
    return target


def instructions(program: Path, bundle: Path, inputs: list[Path], repeat: int, scratch: Path) -> int:
    command = ["--tool=callgrind", f"--callgrind-out-file={scratch / 'callgrind.out'}"]
    log = scratch / "log"
    arguments = [bundle, "--repeat", str(repeat), *inputs, "--out", scratch / "out"]
    run("valgrind", *command, f"--log-file={log}", program, *arguments)
    found = re.search(r"Collected : (\d+)", log.read_text())
    assert found is not None, log.read_text()
    return int(found[1])


@pytest.mark.parametrize("name", KERNELS)
def test_instruction_counts(name: str, program: Path, tmp_path: Path) -> None:
    if not cpu_has("avx2"):
        pytest.skip("this machine does not run x86-64-v3")
    model = KERNELS[name]()
    bundle = sterna.api.compile_to(tmp_path / "bundle", model, "x86-64-v3")
    data = tmp_path / "x.bin"
    random_input(model).tofile(data)
    few, many = (instructions(program, bundle, [data], n, tmp_path) for n in (1, 1 + MORE))
    hold(COUNTS, name, round((many - few) / MORE))


def test_every_count_has_a_kernel() -> None:
    assert set(json.loads(COUNTS.read_text())) == set(KERNELS)
