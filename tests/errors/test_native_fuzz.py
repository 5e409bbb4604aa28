"""The fuzzers of the C runtime: a short run of each finds nothing, and each finds a defect that is put in.

`ci/fuzz --only loader,calls` is the long run.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import native
from frame import Budget
from support.tools import need, run

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="gcc's sanitizers are those of Linux")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc", "builds the fuzzer of the C runtime with sanitizers")
    return native.build(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize(("mode", "executions"), [("loader", 20_000), ("calls", 10_000)])
def test_nothing_is_found(program: Path, mode: str, executions: int, tmp_path: Path) -> None:
    budget = Budget(100, executions)
    findings = native.fuzz_program(program, mode, [], budget, 1, tmp_path)
    assert findings == []
    assert budget.made > executions // 10


@pytest.mark.parametrize(("mode", "executions"), [("loader", 600), ("calls", 300)])
def test_nothing_is_read_before_it_is_written(mode: str, executions: int, tmp_path: Path) -> None:
    """What the sanitizers do not see: valgrind follows every byte."""
    valgrind = need("valgrind", "finds reads of memory that nobody has written")
    need("gcc", "builds the fuzzer of the C runtime")
    plain = native.build(tmp_path, sanitizers=())
    checks = ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=all"]
    bases = native.write_bases(tmp_path)
    run(valgrind, *checks, plain, mode, "2", "0", str(executions), tmp_path / "progress", *bases)


def test_every_allocation_may_fail(program: Path, tmp_path: Path) -> None:
    """Without the n-th allocation a bundle is refused for want of memory, keeps none, and nothing else happens."""
    files = native.write_bases(tmp_path)
    lines = run(program, "memory", *files).splitlines()
    assert len(lines) == len(files)
    assert all(int(line.split()[0]) > 20 for line in lines)


def test_the_same_seed_makes_the_same_inputs(program: Path, tmp_path: Path) -> None:
    files = native.write_bases(tmp_path)

    def printed(seed: int, number: int) -> bytes:
        command = [program, "loader", str(seed), str(number), "print", *files]
        return subprocess.run(command, check=True, capture_output=True).stdout

    assert printed(3, 5) == printed(3, 5)
    assert len({printed(seed, number) for seed in range(2) for number in range(8)}) == 16
    assert native.replay_with(program, printed(0, 1), tmp_path) == []


#: Defects that were there, or could be: the line of the source, what it is made into, and the fuzzer that must see it.
DEFECTS = {
    # A size that turns negative failed the run and left dims of one size beside bytes of another.
    "no roll back": ("dims.c", "*f->target = f->before;", ";", "calls"),
    # The bytes of a tensor may reach one element behind its buffer.
    "off by one": ("values.c", "if (!add_fits(last, 1, &end)", "end = last; if (0", "loader"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, program: Path, tmp_path: Path) -> None:
    name, line, spoiled, mode = DEFECTS[defect]
    shutil.copytree(native.RUNTIME, tmp_path / "runtime", ignore=shutil.ignore_patterns("build*"))
    source = tmp_path / "runtime" / "src" / name
    assert source.read_text().count(line) == 1
    source.write_text(source.read_text().replace(line, spoiled))
    for file in program.parent.glob("*.o"):
        if file.stem != source.stem:
            shutil.copy(file, tmp_path)
    program = native.build(tmp_path, tmp_path / "runtime")
    (finding, *_) = native.fuzz_program(program, mode, [], Budget(60, 20_000), 0, tmp_path)
    assert finding.kind == "crash"
    assert "WRONG" in finding.text or "Sanitizer" in finding.text
    assert native.replay_with(program, finding.data, tmp_path)[0].kind == "crash", "the input shows it again"
