"""Where tests stand (CONTRIBUTING.md, Tests): what several share in `support`, units in `unit`."""

from __future__ import annotations

import ast
from pathlib import Path

from support.tools import ROOT

TESTS = ROOT / "tests"
#: What starts compilers, servers, emulators or browsers, or compiles whole models.
NO_UNITS = {
    "sterna", "sterna.api", "sterna.driver", "sterna.toolchain.compilers", "sterna.toolchain.link", "sterna.web",
    "support.browser_models", "support.compiling", "support.cuda_driver", "support.javascript",
    "support.kernel_hosts", "support.machines", "support.matrix", "support.opencl_host", "support.tile_emulation",
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """The modules that a file imports, also inside functions; `a` and `a.b` where it says `from a import b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module} - {"sterna", "support"} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_test_imports_another() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"support"}
    wrong = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in sorted(imported(path))
        if name.split(".")[0] in folders and (TESTS / Path(*name.split(".")[:2])).with_suffix(".py").exists()
    ]
    assert wrong == []


def test_units_start_nothing() -> None:
    wrong = [
        f"{path.name} imports {name}"
        for path in sorted((TESTS / "unit").glob("*.py"))
        for name in sorted(imported(path) & NO_UNITS)
    ]
    assert wrong == []


def test_helpers_stand_in_support() -> None:
    """Every other file is a test, or pytest's own."""
    others = [p for p in TESTS.rglob("*.py") if not p.is_relative_to(TESTS / "support")]
    assert [p.name for p in others if not p.name.startswith("test_") and p.name != "conftest.py"] == []
