"""Kernels with programs for devices that have subgroups, beside those without: both are run by the interpreter, on the
same memory. `test_opencl_subgroups.py` and `test_webgpu.py` run them where a bundle is loaded."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from sterna.api import compile_model, options_of
from sterna.choices import ByRule
from sterna.driver import compile_graph, reading
from sterna.errors import SternaError
from sterna.frontends.formats import read_model, source_of
from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.threads import run_threads
from sterna.passes.stages import Planned
from sterna.targets.description import load_target
from support.bound_axes import barriers
from support.control_flow import model
from support.exchanging_rows import rows

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
#: What is computed of rows x into y, and the type of y: along the last axis, which has so many elements.
ROWS = {
    "softmax": ("float[{r}, {c}]", "y = Softmax <axis = -1> (x)"),
    "place": ("int64[{r}]", "y = ArgMax <axis = -1, keepdims = 0> (x)"),
    "total": ("float[{r}]", "y = ReduceSum <keepdims = 0> (x, axis)"),
    "norm": ("float[{r}]", "y = ReduceL2 <axes = [-1], keepdims = 0> (x)"),
    "centred": ("float[{r}, {c}]", "m = ReduceMean <axes = [-1], keepdims = 1> (x)\n y = Sub (x, m)"),
    "sums": ("float[{r}, {c}]", "y = CumSum (x, axis)"),
}  # fmt: skip


def network(kind: str, r: int, c: int) -> Any:
    result, text = ROWS[kind]
    head = f"rows (float[{r}, {c}] x) => ({result.format(r=r, c=c)} y) <int64[1] axis = {{1}}>"
    return parser.parse_model(model(f"{head} {{ {text} }}"))


def memories(kernel: Planned, function: P.Function) -> dict[str, np.ndarray]:
    """Of a kernel or what takes its place: the same numbers by slot."""
    memory = {}
    for side, buffers in enumerate((function.inputs, function.params, function.outputs)):
        for b in buffers:
            kind = dtypes.to_numpy(dtypes.storage(b.dtype))
            drawn = np.random.default_rng(7 * b.slot + side).standard_normal(b.elements)
            memory[b.name] = (drawn if side < 2 else np.zeros(b.elements)).astype(kind)
    return memory


@settings(max_examples=10 * MORE, deadline=None, derandomize=MORE == 1, database=None)
@given(
    st.sampled_from(sorted(ROWS)), st.integers(1, 90), st.integers(2, 700),
    st.sampled_from(["opencl", "opencl-mali", "opencl-adreno", "webgpu"]), st.integers(0, 9),
)  # fmt: skip
def test_both_compute_the_same(kind: str, r: int, c: int, target: str, seed: int) -> None:
    for kernel in compile_model(network(kind, r, c), target).kernels:
        known = load_target(target).threads
        assert known is not None
        assert P.exchanged(kernel.function.body) == 1
        widths = [width for width, _ in kernel.exchanging]
        assert widths == sorted({*widths}, reverse=True)
        wanted = memories(kernel, kernel.function)
        if kernel.exchanging:
            run_threads(kernel.function, wanted)
        for width, function in kernel.exchanging:
            assert P.exchanged(function.body) == width <= max(known.optional_subgroups)
            found = memories(kernel, function)
            run_threads(function, found, order=np.random.default_rng(seed))
            for one, other in zip(kernel.function.outputs, function.outputs, strict=True):
                np.testing.assert_allclose(found[other.name], wanted[one.name], 1e-5, 1e-5, err_msg=function.name)


@pytest.mark.parametrize("target", ["opencl", "webgpu"])
def test_they_wait_less(target: str) -> None:
    """A subgroup that has a row alone waits for nobody, but where its threads read what others have stored of it."""
    for kernel in compile_model(rows(128, 384), target).kernels:
        for width, function in kernel.exchanging:
            own, other = barriers(function.body), barriers(kernel.function.body)
            assert own < other, function.name
            if width == 32 and kernel.schedule is not None:
                assert own <= 1, function.name


@pytest.mark.parametrize("widths", ["[8, 32]", "[8, 8]", "[12]", "[2]", "[256]", "[32, 'x']", "8"])
def test_widths_that_there_are_not(widths: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(f'extends = "opencl"\n[threads]\noptional_subgroups = {widths}\n')
    with pytest.raises(SternaError, match="optional_subgroups") as caught:
        load_target(str(tmp_path / "wrong.toml"))
    assert set(caught.value.codes) == {"E0202"}


def test_what_is_known_of_the_device_is_all_there_is() -> None:
    """A target that says how wide its subgroups are has one program of each kernel."""
    target = load_target("opencl")
    for one in (target.with_subgroup(8), load_target("metal"), load_target("cuda")):
        compiled = compile_model(rows(), one)
        assert not any(kernel.exchanging for kernel in compiled.kernels)
        assert any(P.exchanged(kernel.function.body) > 1 for kernel in compiled.kernels)


def test_what_was_measured_stays_alone() -> None:
    """A kernel that was tuned was measured on a device as it is."""

    class Tuning:
        kernels, parts, snapshot = 1, 0, "0" * 16

        def chooser(self, kernel: str, target: Any) -> Any:
            return ByRule()

        def part(self, part: str, target: Any) -> Any:
            return ByRule()

        def algorithms(self, model: str, target: Any, bound: float) -> None:
            return None

        def refused(self, kernel: str) -> None:
            raise AssertionError(kernel)

    options = options_of("opencl")
    graph = read_model(source_of(rows()), reading(options))
    apart = {
        tuned: compile_graph(graph, "rows", replace(options, tuning=Tuning() if tuned else None))
        for tuned in (False, True)
    }
    exchanging = {tuned: [k for k in made.kernels if k.exchanging and k.schedule] for tuned, made in apart.items()}
    assert exchanging[False]
    assert not exchanging[True]
