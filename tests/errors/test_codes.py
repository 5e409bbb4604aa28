"""The table of error codes, the source and the C runtime agree, and every code has a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sterna_runtime.error_codes import CODES, GROUPS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for path in (ROOT / "compiler").rglob("*.py") if path.name != "error_codes.py"]
CODE = re.compile(r"\bE0\d{3}\b")


def codes_in(paths: list[Path]) -> dict[str, Path]:
    return {code: path for path in paths for code in CODE.findall(path.read_text(encoding="utf-8"))}


def test_every_code_in_the_source_is_listed() -> None:
    unlisted = {code: path.name for code, path in codes_in(SOURCES).items() if code not in CODES}
    assert unlisted == {}


def test_the_table_is_in_order() -> None:
    assert list(CODES) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_cause_and_a_fix(code: str) -> None:
    entry = CODES[code]
    assert code[:3] in GROUPS
    assert not entry.meaning.endswith(".")
    for text in (entry.cause, entry.fix):
        assert text[0].isupper() or text[0] == "`", text
        assert text.endswith((".", ")")), text
        assert "  " not in text


def test_the_c_runtime_has_the_same_codes() -> None:
    header = (ROOT / "runtime_c" / "include" / "sterna.h").read_text(encoding="utf-8")
    table = dict(re.findall(r'X\((\w+), -\d+, "(E0\d{3})"', header))
    assert sorted(table.values()) == [code for code in CODES if "E0501" <= code <= "E0512"]


@pytest.mark.parametrize("code", sorted(codes_in(SOURCES).keys() & CODES.keys()))
def test_every_code_has_a_test(code: str) -> None:
    # E0512 is for builds without an operating system: the C tests have it by its C name.
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__).resolve()]
    in_c = (ROOT / "runtime_c" / "test" / "test_model.c").read_text(encoding="utf-8")
    assert code in codes_in(tests) or (code == "E0512" and "STERNA_UNSUPPORTED" in in_c)
