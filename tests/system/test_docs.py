"""The documentation: generated parts are what the code prints today, links lead somewhere, interfaces are complete."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", "build", "node_modules", "dist", "shared"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part in SKIPPED or part.startswith(".") for part in path.relative_to(ROOT).parts)
)
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.S | re.M)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.M)


def script(name: str) -> ModuleType:
    """A Python file of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["update.py", "operators.py", "errors.py", "targets.py"])
def test_generated_parts_are_up_to_date(name: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / name), "--check"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("compiler", "tests"))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


# ---- links ----


def anchors(page: Path) -> set[str]:
    """The anchors that a code host gives the headings of a page."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere in this repository."""
    text = CODE.sub("", FENCE.sub("", page.read_text("utf-8")))
    problems = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.is_relative_to(ROOT) or not place.is_file():
            problems.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(place):
            problems.append(f"{target}: no such heading")
    return problems


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A b\n\n[a](#a-b) [b](#c) [c](none.md) `[d](code.md)` [e](https://example.org)\n", "utf-8")
    assert broken(page) == ["#c: no such heading", "none.md: no such file"]


def test_every_page_is_in_the_table_of_contents() -> None:
    """`ci/docs` checks this too, but needs Sphinx and half a minute."""
    listed = re.findall(
        r'"((?:docs|runtime_\w+|examples/\w+)/[\w-]+|[A-Z]+)"', (ROOT / "docs" / "conf.py").read_text("utf-8")
    )
    pages = {str(page.relative_to(ROOT).with_suffix("")) for page in PAGES}
    assert pages <= set(listed)


# ---- interfaces ----


def test_the_page_of_the_c_interface_has_every_function() -> None:
    header = (ROOT / "runtime_c" / "include" / "sterna.h").read_text("utf-8")
    page = script("interfaces").c_page()
    declared = re.findall(r"^STERNA_API [^;]*?\b(sterna_\w+)\(", header, re.M)
    assert len(declared) > 30
    headings = set(re.findall(r"\w+", " ".join(re.findall(r"^### (.*)$", page, re.M))))
    assert [name for name in declared if name not in headings] == []
    assert page.count("```c\n") == page.count("\n```\n")
    assert "STERNA_API" not in page


def test_the_page_of_the_javascript_interface_has_every_export() -> None:
    interfaces = script("interfaces")
    page = interfaces.js_page()
    for module in interfaces.JS_MODULES:
        part = page.partition(f"## {module.name}\n")[2].partition("\n## ")[0]
        for name in (name for names in module.exports.values() for name in names):
            assert re.search(rf"^### `(class )?{name}\b", part, re.M), name
    for name in ("TypedArray", "TensorInfo", "Source", "Lifetime"):
        assert page.count(f"- `{name}` = ") == 1
    for call in ("Model.load", "run", "setDims", "dispose", "new Strings"):
        assert f"#### `{call}(" in page
    assert "constructor" not in page


# ---- limits ----

ROW = re.compile(r"^\| (.+?) \| ([\d,]+)( \w+)? \| (`\w+` in .+?) \|$", re.M)
UNITS = {"": 1, "bytes": 1, "s": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def constant(name: str, path: str) -> int:
    """The value that a source file gives a constant, in C, JavaScript or Python."""
    text = (ROOT / path).read_text("utf-8")
    found = re.search(rf"(?:#define {name} |\b{name}(?:: \w+)? ?= ?)([\w() <*+-]+)", text)
    assert found is not None, f"{path} has no {name}"
    return int(eval(re.sub(r"\(size_t\)|(?<=\d)u\b", "", found[1]), {"__builtins__": {}}))


def test_limits_of_the_security_page_are_those_of_the_code() -> None:
    table = (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Limits")[2].partition("\n## ")[0]
    rows = ROW.findall(table)
    assert len(rows) == sum(line.startswith("| ") for line in table.splitlines()) - 2
    for what, number, unit, places in rows:
        limit = int(number.replace(",", "")) * UNITS[unit.strip()]
        for name, path in re.findall(r"`(\w+)` in ([\w/.]+)", places):
            assert constant(name, path) == limit, (what, name)
