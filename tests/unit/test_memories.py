"""Memories: what a target's description says of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sterna.cli import program
from sterna.errors import SternaError
from sterna.ir.memory import BUILT_IN, Memory
from sterna.targets.description import load_target, target_names

TWO = """extends = "cortex-m4"

[[memories]]
name = "fast"
bytes = 32768
reach = "device"
alignment = 16
bytes_per_cycle = 8

[[memories]]
name = "large"
bytes = 262144
reach = "device"
bytes_per_cycle = 1.5
"""
ONE = 'extends = "c99"\n[[memories]]\nname = "pad"\nreach = "block"\nbytes = 4096\n'


def described(folder: Path, text: str, name: str = "board") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_target_declares_memories(tmp_path: Path) -> None:
    target = load_target(str(described(tmp_path, TWO)))
    fast = Memory("fast", "device", bytes=32768, alignment=16, bytes_per_cycle=8)
    large = Memory("large", "device", bytes=262144, bytes_per_cycle=1.5)
    assert target.memories == (fast, large)
    assert target.memory("large") == large
    assert target.memory("fastest") is None
    assert isinstance(hash(target), int)
    assert fast.holds_tensors
    assert not fast.private


def test_a_description_that_extends_another_has_its_memories_or_its_own(tmp_path: Path) -> None:
    base = described(tmp_path, TWO)
    other = described(tmp_path, f'extends = "{base}"\nl1_bytes = 0\n', "other")
    assert load_target(str(other)).memories == load_target(str(base)).memories
    own = described(tmp_path, f'extends = "{base}"\n[[memories]]\nname = "all"\nreach = "host"\nbytes = 1024\n', "own")
    assert [m.name for m in load_target(str(own)).memories] == ["all"]


def test_no_target_of_the_package_has_more_than_an_arena() -> None:
    assert {name for name in target_names() if load_target(name).tensor_memories} == set()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("bytes = 0", "bytes is 0"),
        ('bytes = "4 KB"', "key bytes in [[memories]] has a value of type str"),
        ("bytes = true", "key bytes in [[memories]] has a value of type bool"),
        ("alignment = 24", "alignment is 24"),
        ("alignment = 0", "alignment is 0"),
        ("address_space = -1", "address_space is -1"),
        ("bytes_per_cycle = 0", "bytes_per_cycle is 0"),
        ("bytes_per_cycle = nan", "bytes_per_cycle is nan"),
        ('reach = "everyone"', 'key reach in [[memories]] is "everyone"'),
        ('access = "load/store"', 'key access in [[memories]] is "load/store"'),
        ("reech = 1", "unknown key reech"),
        ('kind = "array"', "unknown key kind"),
        ('name = "Pad"', "it cannot be called that"),
        ('name = "scratch"', "scratch is a scope that every target has"),
        ('name = "state"', "state is a scope that every target has"),
    ],
)
def test_an_error_names_file_and_key(entry: str, says: str, tmp_path: Path) -> None:
    key = entry.partition(" ")[0]
    lines = [line for line in ONE.splitlines() if not line.startswith(key)]
    path = described(tmp_path, "\n".join([*lines, entry]) + "\n")
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202",)
    assert says in str(caught.value)
    assert f"{path}, line {len(lines) + 1}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('extends = "c99"\nmemories = "pad"\n', "key memories is no array of tables"),
        ('extends = "c99"\n[memories]\nname = "pad"\n', "key memories is no array of tables"),
        ('extends = "c99"\n[[memories]]\nname = "pad"\n', "lacks reach, bytes"),
        (f'{ONE}[[memories]]\nname = "pad"\nreach = "block"\nbytes = 1\n', "there are two of that name"),
    ],
)
def test_malformed_tables(text: str, says: str, tmp_path: Path) -> None:
    path = described(tmp_path, text)
    with pytest.raises(SternaError, match=says) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202",)
    assert str(path) in str(caught.value)


def test_every_problem_of_every_memory_at_once(tmp_path: Path) -> None:
    text = f"{ONE}alignment = 3\n[[memories]]\nname = 'b'\nreach = 'host'\nbytes = 0\n"
    path = described(tmp_path, text)
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202", "E0202")
    assert f"{path}, line 6" in str(caught.value)
    assert f"{path}, line 10" in str(caught.value)


def test_sterna_targets_shows_them(tmp_path: Path) -> None:
    path = described(tmp_path, TWO)
    shown = CliRunner().invoke(program, ["targets", str(path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "name fast" in shown.output
    assert "262144" in CliRunner().invoke(program, ["targets", str(path), "--json"]).output


def test_scopes_say_who_sees_them_and_how() -> None:
    of = BUILT_IN
    assert {s.name for s in of.values() if s.private} == {"stack", "register", "tile"}
    assert {s.name for s in of.values() if s.kind == "argument"} == {"input", "output", "param"}
    assert {s.name for s in of.values() if s.is_variables or s.is_tiles} == {"register", "tile", "fragment"}
    assert {s.name for s in of.values() if s.is_allocated} == {"input", "output", "param", "state"}
    assert all(s.loadable for s in of.values())
