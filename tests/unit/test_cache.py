"""The cache of objects: whole or absent, shared by processes, bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.cache import Cache, cache_directory, key
from sterna.codegen import render
from sterna.codegen.render import environment

ROOT = Path(__file__).parents[2]
KEY = key("one")


def _entries(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file())


def test_entries_are_found_again(tmp_path: Path) -> None:
    assert Cache("objects", tmp_path).get(KEY) is None
    Cache("objects", tmp_path).put(KEY, b"payload")
    assert Cache("objects", tmp_path).get(KEY) == b"payload"
    assert Cache("libraries", tmp_path).get(KEY) is None
    assert Cache("objects", tmp_path).get(key("two")) is None


@given(parts=st.lists(st.binary(max_size=4), min_size=2, max_size=4))
def test_keys_keep_their_parts_apart(parts: list[bytes]) -> None:
    joined = [parts[0] + parts[1], *parts[2:]]
    assert key(*parts) != key(*joined)
    assert key(*parts) == key(*parts)


def test_made_once(tmp_path: Path) -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"object"

    cache = Cache("objects", tmp_path)
    assert [cache.get_or_make(KEY, make) for _ in range(3)] == [b"object"] * 3
    assert len(made) == 1


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "header"])
def test_damaged_entries_count_as_missing_and_are_replaced(damage: str, tmp_path: Path) -> None:
    cache = Cache("objects", tmp_path)
    cache.put(KEY, b"x" * 1000)
    (path,) = _entries(tmp_path)
    data = path.read_bytes()
    flipped = data[:500] + bytes([data[500] ^ 1]) + data[501:]
    damaged = {"cut": data[:-1], "flip": flipped, "empty": b"", "foreign": b"\x7fELF" + data, "header": data[:40]}
    path.write_bytes(damaged[damage])
    assert cache.get(KEY) is None
    assert cache.get_or_make(KEY, lambda: b"y" * 1000) == b"y" * 1000
    assert cache.get(KEY) == b"y" * 1000


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache("objects", tmp_path, limit=10_000)
    keys = [key(str(n)) for n in range(8)]
    for n, name in enumerate(keys):
        cache.put(name, bytes(1000))
        os.utime(cache._file(name), (n, n))
    cache.get(keys[0])  # used now
    cache.put(key("large"), bytes(5000))
    kept = [n for n, name in enumerate(keys) if cache.get(name) is not None]
    assert 0 in kept
    assert kept[1:] == list(range(8 - len(kept) + 1, 8))
    assert cache.get(key("large")) is not None
    assert sum(p.stat().st_size for p in _entries(tmp_path)) <= 10_000


def test_a_new_process_counts_what_is_there(tmp_path: Path) -> None:
    for n in range(5):
        Cache("objects", tmp_path, limit=3000).put(key(str(n)), bytes(1000))
    assert sum(p.stat().st_size for p in _entries(tmp_path)) <= 3000


def test_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_NO_CACHE", raising=False)
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    assert cache_directory() == tmp_path / "deep" / "cache"
    monkeypatch.delenv("STERNA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "sterna"
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    assert cache_directory() is None


def test_without_a_directory_everything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.delenv("STERNA_NO_CACHE", raising=False)
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "file"))
    assert cache_directory() is None
    cache = Cache("objects", cache_directory())
    cache.put(KEY, b"payload")
    assert cache.get(KEY) is None
    assert cache.get_or_make(KEY, lambda: b"made") == b"made"
    assert cache.trim(0) == 0


_WRITER = """
import sys
from pathlib import Path
from sterna.cache import Cache, key
cache = Cache("objects", Path(sys.argv[1]), limit=200_000)
for round in range(60):
    for n in range(12):
        payload = bytes([n]) * (1000 + n)
        found = cache.get(key(str(n)))
        assert found is None or found == payload, n
        cache.put(key(str(n)), payload)
"""


def test_processes_share_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], env=environment, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for writer in writers:
        _, problem = writer.communicate(timeout=120)
        assert writer.returncode == 0, problem.decode()
    assert len(_entries(tmp_path)) == 12


def test_templates_are_translated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one process has translated, the next one reads; a damaged entry is made again, and one of other settings."""
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("STERNA_NO_CACHE", raising=False)
    translated: list[str] = []
    parse = jinja2.Environment._parse

    def counted(self: jinja2.Environment, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        translated.append(str(name))
        return parse(self, source, name, filename)

    monkeypatch.setattr(jinja2.Environment, "_parse", counted)

    def rendered() -> str:
        return environment().get_template("sterna_kernel.h").render()

    first = rendered()
    assert translated == ["sterna_kernel.h"]
    assert rendered() == first
    assert len(translated) == 1
    (entry,) = (p for p in (tmp_path / "templates").glob("*/*") if p.is_file())
    entry.write_bytes(entry.read_bytes()[:-20] + bytes(20))
    assert rendered() == first
    assert len(translated) == 2
    with monkeypatch.context() as other:
        other.setattr(render, "_SYNTAX", {**render._SYNTAX, "keep_trailing_newline": False})
        assert rendered() != first
    assert len(translated) == 3
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    assert rendered() == first
    assert len(translated) == 4
