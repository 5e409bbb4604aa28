"""No operator on floats needs a function of libm on a microcontroller, which a program for one may lack.

STERNA_FIRMWARE=all compiles every operator for every core, by both generators (some ten minutes).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sterna.bundle.writer import write_bundle
from sterna.ops import Case, Operator
from support import boards
from support.compiling import compiled
from support.every_operator import every_operator

ALL = os.environ.get("STERNA_FIRMWARE") == "all"
PARTS = 20
#: All cores without an FPU, or with one of single precision, and a part of the operators for each.
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4-nofpu", "riscv32imc", "cortex-m4", "cortex-m33", "riscv32imafc")
CORES += ("cortex-m7", "cortex-m55")
CASES = [(core, generator, part) for core in CORES for generator in ("c", "llvm") for part in range(PARTS)]
SAMPLE = [(core, ("c", "llvm")[n % 2], (7 * n) % PARTS) for n, core in enumerate(CORES)]
#: What every compiler brings: its own library of helpers, and the functions of memory that a program always has.
BROUGHT = re.compile(r"__\w+|mem(cpy|move|set|cmp)")


def of_floats(operator: Operator, case: Case) -> bool:
    return any(a is not None and a.dtype.kind == "f" for a in case.arrays())


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(("target", "generator", "part"), CASES if ALL else SAMPLE)
def test_no_function_of_libm(target: str, generator: str, part: int, tmp_path: Path) -> None:
    graph, _, _ = every_operator(of_floats, part, PARTS)
    bundle = write_bundle(compiled(graph, target, generator), tmp_path / "b")
    assert {n for n in boards.unresolved([bundle / "model.a"], tmp_path) if not BROUGHT.fullmatch(n)} == set()
    if generator == "c" and target.startswith("cortex"):
        objects = boards.objects_of_gcc(bundle, tmp_path, "-O1")
        assert {n for n in boards.unresolved(objects, tmp_path) if not BROUGHT.fullmatch(n)} == set()
