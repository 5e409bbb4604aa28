"""The levels of the compiler keep to themselves: what each may know, and that each gives the same for the same."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from sterna.api import compile_model
from sterna.driver import Compiled, realize
from sterna.loops.printer import print_function
from sterna.ops import operators
from sterna.schedule.schedule import Schedule
from sterna.targets.target import target_names
from sterna.toolchain.check import read_elf
from support.networks import mobilenet_v2
from support.tools import ROOT
from support.trained import sample

PACKAGE = ROOT / "compiler" / "sterna"

#: Every module and package, each after all that it may import. The root of the package is for users, not for its parts.
LAYERS = (
    "version", "escape", "names", "advice", "error_codes", "errors", "arguments", "private", "cache", "ir", "te",
    "intrinsics", "targets", "schedule", "loops", "ops", "frontends", "passes", "export", "toolchain", "codegen",
    "runtime", "driver", "bundle", "api", "debug", "package", "quantize", "web", "demo", "cli", "__init__", "__main__",
)  # fmt: skip


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The parts of the package that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            name = node.module or ""
            found |= {f"sterna.{alias.name}" for alias in node.names} if name == "sterna" else {name}
    return {name.split(".")[1] for name in found if name.startswith("sterna.")}


def test_imports_point_only_downstream() -> None:
    rank = {name: n for n, name in enumerate(LAYERS)}
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = module_of(path)
        assert module in rank, f"{module} has no place among the layers"
        wrong += [
            f"{path.relative_to(PACKAGE)} imports {name}"
            for name in sorted(imports(path))
            if name in rank and rank[name] > rank[module]
        ]
    assert wrong == []


def words_of_targets() -> set[str]:
    """Names of targets, processors and instruction sets."""
    names = {name for name in target_names() if name != "host"}
    families = {
        "x86",
        "arm",
        "aarch64",
        "avx",
        "avx2",
        "avx512",
        "amx",
        "neon",
        "sve",
        "wasm",
        "wasm32",
        "cortex",
        "riscv",
    }
    return names | families


def test_strategies_name_no_target() -> None:
    words = "|".join(map(re.escape, sorted(words_of_targets())))
    forbidden = re.compile(rf"(?<![\w-])({words})(?![\w-])", re.IGNORECASE)
    for path in sorted((PACKAGE / "schedule" / "strategies").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert forbidden.findall(text) == [], path.name
        assert "target.name" not in text


def test_generators_know_no_processor() -> None:
    """What processors can is declared in `intrinsics` and `targets`; one file has LLVM's own names of machines."""
    words = words_of_targets() - {"c99"} | {"mmx", "sse", "sse2", "f16c", "vnni", "thumb", "simd128", "ia32", "_mm"}
    alternatives = "|".join(map(re.escape, sorted(words)))
    forbidden = re.compile(rf"(?<![A-Za-z])({alternatives})(?![a-z])", re.IGNORECASE)
    sources = [p for p in (PACKAGE / "codegen").rglob("*.py") if p.name != "llvm_machine.py"]
    templates = [p for folder in ("c", "opencl") for p in (ROOT / "templates" / folder).glob("*.j2")]
    found = {p.name: forbidden.findall(p.read_text(encoding="utf-8")) for p in (*sources, *templates)}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_code_asks_for_capabilities_never_for_a_target() -> None:
    asks = re.compile(r"target\.name\s*(==|!=|in\b)|(==|!=)\s*\w*\.?target\.name")
    assert [p.name for p in PACKAGE.rglob("*.py") if asks.search(p.read_text(encoding="utf-8"))] == []


def test_the_printer_knows_no_language() -> None:
    """It asks no dialect which one it is, and writes no word of a language but `if`, `else` and `break`."""
    text = (PACKAGE / "codegen" / "printer.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert not re.search(r"isinstance\((self\.)?d\b|type\((self\.)?d\)|\bd\.name\b|dialects", text)
    documented = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    comments = {id(n.body[0].value) for n in documented if isinstance(n.body[0], ast.Expr)}
    constants = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in comments)
    words = {w for n in constants if isinstance(n.value, str) for w in re.findall(r"\w{2,}", n.value)}
    assert not words & {"const", "for", "restrict", "call", "return", "static", "vector_size", "void"}
    assert not {word for word in words if word.startswith("__")}


def test_an_operator_is_declared_in_one_place() -> None:
    """One declaration each, in `ops`; from tensor expressions on nothing knows an operator by its name."""
    modules = [importlib.import_module(f"sterna.ops.{path.stem}") for path in (PACKAGE / "ops").glob("*.py")]
    declared = Counter(operator.name for module in modules for operator in getattr(module, "OPERATORS", ()))
    assert set(declared) == set(operators())
    assert set(declared.values()) == {1}
    assert "frontends" not in {name for path in (PACKAGE / "ops").glob("*.py") for name in imports(path)}
    known = {name for name in operators() if "_" in name} | {"conv", "matmul", "softmax", "concat", "reshape", "resize"}
    arithmetic = {"logical_not"}  # also nodes of expressions
    for layer in ("te", "schedule", "loops", "targets", "toolchain", "codegen", "runtime", "bundle"):
        for path in (PACKAGE / layer).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            strings = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            assert strings & known - arithmetic == set(), f"{path.relative_to(PACKAGE)} knows an operator by name"


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
def compiled(name: str, target: str) -> Compiled:
    if name == "mobilenet_v2":
        return compile_model(mobilenet_v2(), target, generator="llvm")
    model = sample(name)
    return compile_model(model.file, target, shapes=model.shapes(), generator="llvm")


@pytest.mark.parametrize("target", ["host", "arm64", "cortex-m4"])
@pytest.mark.parametrize("name", ["digits", "mobilenet_v2"])
def test_a_saved_schedule_gives_the_same_loops(name: str, target: str) -> None:
    result = compiled(name, target)
    for number, planned in enumerate(result.kernels):
        call = result.calls[result.kernel_of.index(number)]
        steps = Schedule.from_json(planned.schedule.to_json())
        again = Schedule.apply(call.kernel, steps)
        assert again.steps == planned.schedule.steps
        assert again.to_json() == planned.schedule.to_json()
        function = realize(call, again, planned.function.name).function
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
