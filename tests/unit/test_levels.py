"""The levels of the compiler keep to themselves: what each may know."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

from sterna.ops import operators
from sterna.targets.description import target_names
from support.imports import PACKAGE, imported
from support.tools import ROOT


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
    dialects = {"c99", "opencl", "cuda", "metal"}  # targets that are called as what they are written in
    words = words_of_targets() - dialects | {"mmx", "sse", "sse2", "f16c", "vnni", "thumb", "simd128", "ia32", "_mm"}
    alternatives = "|".join(map(re.escape, sorted(words)))
    forbidden = re.compile(rf"(?<![A-Za-z])({alternatives})(?![a-z])", re.IGNORECASE)
    sources = [p for p in (PACKAGE / "codegen").rglob("*.py") if p.name != "llvm_machine.py"]
    templates = [p for folder in ("c", "cuda", "metal", "opencl") for p in (ROOT / "templates" / folder).glob("*.j2")]
    found = {p.name: forbidden.findall(p.read_text(encoding="utf-8")) for p in (*sources, *templates)}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_code_asks_scopes_and_compares_no_names() -> None:
    asks = re.compile(r"scope(\.name)?\s*(==|!=|in|not in)\s*[(\[]?[\"']|scope: str\b")
    sources = (p for p in PACKAGE.rglob("*.py") if asks.search(p.read_text(encoding="utf-8")))
    assert [p.name for p in sources] == []


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
    assert not {name for module in modules for name in imported(Path(module.__file__ or "")) if ".frontends" in name}
    known = {name for name in operators() if "_" in name} | {"conv", "matmul", "softmax", "concat", "reshape", "resize"}
    arithmetic = {"logical_not"}  # also nodes of expressions
    for layer in ("te", "schedule", "loops", "targets", "toolchain", "codegen", "runtime", "bundle"):
        for path in (PACKAGE / layer).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            strings = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            assert strings & known - arithmetic == set(), f"{path.relative_to(PACKAGE)} knows an operator by name"
