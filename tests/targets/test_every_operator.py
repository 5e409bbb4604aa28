"""Every declared operator on its own test cases, compiled for other processors and run in their emulators.

A part of them is run in turn; STERNA_OPERATORS=all runs all parts for all processors.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sterna.bundle.writer import write_bundle
from sterna.driver import Options, compile_graph
from sterna.targets.description import load_target
from support import machines
from support.every_operator import agree, every_operator
from support.matrix import family
from support.tools import need

PARTS = 16
#: A part for each processor and generator, another one each time.
SAMPLED = {("arm64", "c"): 3, ("arm64", "llvm"): 7, ("armv7", "c"): 11, ("riscv64", "c"): 15}
TARGETS = ("arm64", "arm64-dotprod", "armv7", "armv6", "riscv64")
CASES = (
    [(name, generator, part) for name in TARGETS for generator in ("c", "llvm") for part in range(PARTS)]
    if os.environ.get("STERNA_OPERATORS") == "all"
    else [(name, generator, part) for (name, generator), part in SAMPLED.items()]
)


@pytest.mark.parametrize(
    ("name", "generator", "part"),
    [pytest.param(*case, marks=pytest.mark.family(family(load_target(case[0])))) for case in CASES],
)
def test_every_operator(
    name: str, generator: str, part: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = load_target(name)
    need(target.runs_on.split()[0], "runs programs for other processors")
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    bundle = write_bundle(compile_graph(graph, "operators", Options(target, generator=generator)), tmp_path / "bundle")
    host = machines.arm_host(target.llvm_triple.split("-")[0], tmp_path_factory.getbasetemp())
    given = [inputs[value.name] for value in graph.inputs]
    found = machines.run_emulated(host, bundle, given, list(expected.values()), tmp_path, target.runs_on)
    agree(dict(zip(expected, found, strict=True)), expected)
