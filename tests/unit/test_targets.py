"""Targets are data: every description loads, wrong ones are refused with every problem that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna.errors import SternaError
from sterna.targets.target import Target, host, load_target, target_names


@pytest.mark.parametrize("name", target_names())
def test_every_description_loads(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.description
    assert target.dialect in ("vector", "plain")
    assert target.vector_bits in (0, 64, 128, 256, 512)
    assert target.pointer_bits in (32, 64)
    assert bool(target.triple) == bool(target.llvm_triple)
    assert target.lanes(32) == max(1, target.vector_bits // 32)


def test_host_is_this_machine() -> None:
    assert host() is load_target("host")
    assert host().cores >= 1


def test_a_users_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('extends = "arm64"\ndescription = "my board"\ncores = 2\n')
    for name in (str(tmp_path / "mine.toml"), "mine"):
        monkeypatch.setenv("STERNA_TARGETS", str(tmp_path))
        target = load_target(name)
        assert (target.name, target.cores, target.vector_bits) == ("mine", 2, load_target("arm64").vector_bits)
    assert "mine" in target_names()


def test_an_unknown_target_is_told_what_is_near() -> None:
    with pytest.raises(SternaError, match=r'E0201.*"rasberrypi4"[\s\S]*did you mean raspberrypi4') as caught:
        load_target("rasberrypi4")
    assert caught.value.codes == ("E0201",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vector_bits = [", "cannot be read"),
        ('description = "x"\n', "lacks triple, llvm_triple"),
        ('extends = "arm64"\nlanes = 3\n', "unknown key lanes"),
        ('extends = "arm64"\nvector_bits = "wide"\n', "key vector_bits has a value of type str"),
        ('extends = "arm64"\nc_flags = "-O2"\n', "key c_flags has a value of type str"),
    ],
)
def test_malformed_descriptions(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SternaError, match=says) as caught:
        load_target(str(path))
    assert set(caught.value.codes) == {"E0202"}


def test_all_problems_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('extends = "arm64"\nlanes = 3\nfoo = 1\ncores = "two"\n')
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202", "E0202", "E0202")


def test_a_target_is_a_value() -> None:
    assert isinstance(hash(load_target("arm64")), int)
    assert Target("a", "b", "c", "d") == Target("a", "b", "c", "d")
