"""Every level of this machine's processor family, and every compiler that generated sources must please."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_model, compile_to
from sterna.targets.description import load_target
from sterna.toolchain.compilers import compiler_command
from sterna_runtime import cpu_has
from support.tools import ZIG, need, run
from support.trained import FOLDER, sample

SOURCE_TARGETS = ("x86-64-v4", "x86-64-v3", "arm64", "c99")
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]


@pytest.mark.family("host-c")
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "arm64"])
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", ["digits", "mtcnn_rnet_f32"])
def test_every_level_that_runs_here(level: str, generator: str, name: str, tmp_path: Path) -> None:
    lacking = [f for f in load_target(level).cpu_features if not cpu_has(f)]
    if lacking or sys.platform != "linux":
        pytest.skip(f"this machine does not run {level}: no {', '.join(lacking) or 'Linux libraries'}")
    model = sample(name)
    bundle = sterna.load(compile_to(tmp_path / "bundle", model.file, level, shapes=model.shapes(), generator=generator))
    for case in model.cases[:1]:
        for found, expected in zip(bundle.run(case.inputs).values(), case.outputs, strict=True):
            assert np.abs(found - expected).max() <= model.tolerance(expected)


@lru_cache
def kernels(name: str, target: str) -> str:
    """A model's kernels as C."""
    model = sample(name)
    return compile_model(model.file, replace(load_target(target), library=""), shapes=model.shapes()).source


@pytest.mark.family("c99")
@pytest.mark.parametrize(
    ("target", "compiler"),
    [(t, c) for t in SOURCE_TARGETS for c in ("gcc", "clang", "zig") if (t, c) != ("arm64", "gcc")],
)
def test_generated_c_has_no_warnings(target: str, compiler: str, tmp_path: Path) -> None:
    machine = load_target(target)
    if compiler != "zig":
        need(compiler, "one of the compilers that generated C must be clean under")
    if machine.triple:
        command = [part for part in compiler_command(compiler, machine) if not part.startswith("-Wno")]
    else:
        command = [*(ZIG if compiler == "zig" else (compiler,)), *(["cc"] if compiler == "zig" else []), "-std=c99"]
    source = tmp_path / "kernels.c"
    source.write_text(kernels("digits", target))
    run(*command, *STRICT, "-c", source, "-o", tmp_path / "kernels.o")
    if (FOLDER / "ppocr_cls_f32").is_dir():
        source.write_text(kernels("ppocr_cls_f32", target))
        output = ("-c", "-o", tmp_path / "kernels.o") if compiler == "zig" else ("-fsyntax-only",)
        run(*command, *STRICT, source, *output)
