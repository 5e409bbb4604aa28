"""Which files of the packages import which others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from support.tools import ROOT

PACKAGE = ROOT / "compiler" / "sterna"
RUNTIME = ROOT / "compiler" / "sterna_runtime"


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    """Every file of both packages by the name that it is imported by."""
    found = {}
    for path in sorted([*PACKAGE.rglob("*.py"), *RUNTIME.rglob("*.py")]):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """The files of the packages that a file imports: also inside functions, also where only types are checked."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in known:
                    yield submodule
                elif node.module in known:
                    yield node.module
