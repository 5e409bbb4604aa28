"""The same model gives the same: for every generator, from a saved schedule, in another process and directory."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from sterna.api import compile_model
from sterna.codegen import ptx
from sterna.codegen.llvm import emit_object
from sterna.driver import Options
from sterna.frontends.formats import ReadOptions, read_model
from sterna.loops.printer import print_function
from sterna.passes.context import context_of
from sterna.passes.plan_kernels import realize
from sterna.passes.stages import Finished
from sterna.pipeline import walk
from sterna.schedule import saved
from sterna.targets.description import load_target, target_names
from sterna.targets.target import Target
from sterna.toolchain.check import read_elf
from support.networks import mobilenet_v2
from support.tools import ROOT
from support.trained import sample


def stages(generator: str) -> dict[str, str]:
    seen: dict[str, str] = {}
    model = sample("digits")
    compile_model(model.file, shapes=model.shapes(), generator=generator, observe=seen.__setitem__)
    return seen


def test_one_loop_program_for_every_generator() -> None:
    c, llvm = stages("c"), stages("llvm")
    assert list(c) == list(llvm)
    assert len(c["loops"]) > 1000
    assert {stage for stage in c if c[stage] != llvm[stage]} == set()


@lru_cache
def finished(name: str, target: str) -> Finished:
    """A model's kernels before firmware's loops are written out, which all of them together decide."""
    if name == "mobilenet_v2":
        graph = read_model(mobilenet_v2())
    else:
        model = sample(name)
        graph = read_model(model.file, ReadOptions(shapes=model.shapes()))
    state = walk(graph, context_of(Options(load_target(target), "llvm")), last="shrink-kernels")
    assert isinstance(state, Finished)
    return state


@pytest.mark.parametrize("target", ["host", "arm64", "cortex-m4"])
@pytest.mark.parametrize("name", ["digits", "mobilenet_v2"])
def test_a_saved_schedule_gives_the_same_loops(name: str, target: str) -> None:
    result = finished(name, target)
    for number, planned in enumerate(result.kernels):
        call = result.sequence.calls[result.kernel_of.index(number)]
        steps = saved.from_json(saved.to_json(planned.schedule.steps))
        again = saved.apply(call.kernel, steps)
        assert again.steps == planned.schedule.steps
        assert saved.to_json(again.steps) == saved.to_json(planned.schedule.steps)
        function = realize(call, again, load_target(target), planned.function.name).function
        assert print_function(function) == print_function(planned.function)


BUILD = """
import sys
from sterna.api import compile_to
compile_to(sys.argv[1], sys.argv[2], sys.argv[3], generator=sys.argv[4])
"""


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", ["host", "raspberrypi4", "browser", "cortex-m4", "c99"])
def test_bundles_are_reproducible(target: str, generator: str, tmp_path: Path) -> None:
    """Byte for byte, in another process and directory, with other hash seeds and nothing cached."""
    bundles = []
    for seed in ("1", "4321"):
        work = tmp_path / f"somewhere{seed}"
        work.mkdir()
        bundle = work / seed / "bundle"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "STERNA_NO_CACHE": "1"}
        environment["PYTHONPATH"] = str(ROOT / "compiler")
        arguments = [str(bundle), str(sample("digits").file), target, generator]
        subprocess.run([sys.executable, "-c", BUILD, *arguments], cwd=work, env=environment, check=True)
        bundles.append({p.name: p.read_bytes() for p in sorted(bundle.iterdir())})
    first, second = bundles
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []
    local = str(tmp_path).encode(), str(ROOT).encode()
    assert [name for name, data in first.items() if any(path in data for path in local)] == []


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "arm64"])
def test_a_kernel_library_needs_nothing(target: str, generator: str) -> None:
    """One exported symbol, none undefined, no library needed."""
    model = sample("digits")
    result = compile_model(model.file, target, shapes=model.shapes(), generator=generator)
    elf = read_elf(result.library)
    assert elf.undefined == ()
    assert elf.exported == (f"sterna_{result.model}_library",)
    assert elf.needed == ()


def switches(most: int) -> str:
    """LLVM assembly of functions with a switch of two cases, of three, ..."""
    texts = []
    for cases in range(2, most + 1):
        rows = "\n".join(f"    i32 {n}, label %c{n}" for n in range(cases))
        blocks = "\n".join(
            f"c{n}:\n  store i32 {n * n + 7}, ptr %p\n  store i8 {n}, ptr %q\n  ret void" for n in range(cases)
        )
        texts.append(
            f"define void @f{cases}(i32 %x, ptr %p, ptr %q) {{\n  switch i32 %x, label %end [\n{rows}\n  ]\n"
            f"{blocks}\nend:\n  ret void\n}}\n"
        )
    return "\n".join(texts)


def test_what_was_compiled_before_is_of_no_account() -> None:
    """Back ends of LLVM change options of the whole process, such as how many cases make a jump table."""
    targets = [load_target(name) for name in target_names()]
    kinds = {(t.llvm_triple, t.llvm_cpu): t for t in targets if t.llvm_triple}
    assert len(kinds) > 15
    text = switches(24)

    def made(target: Target) -> bytes:
        return ptx.emit(text, target) if target.llvm_triple.startswith("nvptx") else emit_object(text, target)

    first = {kind: made(target) for kind, target in kinds.items()}
    assert [kind for kind, target in reversed(kinds.items()) if made(target) != first[kind]] == []
