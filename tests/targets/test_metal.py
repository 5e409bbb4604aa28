"""The Metal dialect: what loop programs compute in Metal's language, its text compiled by clang with a header in the
place of Metal's own, and run over fibers of the CPU with threads in random orders. No Metal compiler is here: that one
takes the text is not shown.

STERNA_METAL=all runs every part of the operators.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sterna.api import compile_model
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.ops import Case, Operator
from support.compiling import check
from support.cuda_host import HERE, METAL, run_model
from support.every_operator import agree, every_operator
from support.tools import need, run
from support.trained import sample

PARTS = 16
SAMPLED = range(PARTS) if os.environ.get("STERNA_METAL") == "all" else (5,)
#: Operators that are computed in float64 for float32, too.
BY_FLOAT64 = ("sin", "cos", "tan", "pow")


def without_float64(operator: Operator, case: Case) -> bool:
    kinds = [str(a.dtype) for a in case.arrays() if a is not None]
    return operator.name not in BY_FLOAT64 and "float64" not in (*kinds, *map(str, case.attributes.values()))


@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(without_float64, part, PARTS)
    compiled = compile_graph(graph, "small", Options(METAL.target))
    agree(run_model(compiled, inputs, tmp_path, part + 1, METAL), expected)


@pytest.mark.parametrize("name", ["digits"])
def test_a_network(name: str, tmp_path: Path) -> None:
    model = sample(name)
    compiled = compile_model(model.file, METAL.target, shapes=model.shapes())
    for seed, case in enumerate(model.cases[:2]):
        found = run_model(compiled, case.inputs, tmp_path, seed, METAL)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)
    # Pointers keep to their address spaces, which are types of their own then.
    file = tmp_path / "checked.metal"
    file.write_text(compiled.source)
    quiet = [f"-Wno-{what}" for what in (*METAL.ignored, "unused-function", "unused-variable")]
    checked = [*METAL.compiler, "-std=c++14", "-fsyntax-only", "-DMETAL_CHECK", "-Wall", "-Werror", *quiet]
    run(need(checked[0], "checks Metal text"), *checked[1:], "-include", HERE / "metal_on_cpu.h", file)


def test_what_has_float64_is_refused() -> None:
    graph, _, _ = every_operator(lambda operator, case: operator.name == "pow")
    with pytest.raises(SternaError, match=r"E0205.*the dialect metal has no float64"):
        compile_graph(graph, "small", Options(METAL.target))
