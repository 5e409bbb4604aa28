"""What another user of this machine can plant is never used: caches, entries, libraries, temporary folders."""

from __future__ import annotations

import os
import platform
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sterna.cache import Cache, key
from sterna.cli.doctor import command as doctor
from sterna.targets import self_test
from sterna_runtime import building, private
from sterna_runtime.building import zig_environment
from support.tools import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")

KEY = key("one")


def become_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process takes itself for another user than the one whose files there are."""
    monkeypatch.setattr(private, "user", lambda: os.geteuid() + 1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("STERNA_CACHE_DIR", str(folder))
    monkeypatch.delenv("STERNA_NO_CACHE", raising=False)
    assert private.cache_directory() == folder
    return folder


def test_folders_are_the_users_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    before = os.umask(0)
    try:
        Cache("objects", cache).put(KEY, b"payload")
        zig_environment(cache)
    finally:
        os.umask(before)
    for path in [cache, *cache.rglob("*")]:
        assert not path.stat().st_mode & 0o077, path
    assert stat.S_IMODE(private.scratch_directory().stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    become_another(monkeypatch)
    assert private.cache_directory() is None
    assert "belongs to another user" in private.cache_state()[1]
    assert "belongs to another user" in str(private.cache_problem(cache))


def test_a_folder_that_all_can_write_to_is_refused(cache: Path) -> None:
    cache.chmod(0o777)
    assert private.cache_directory() is None
    assert "every user of this machine can write to it" in private.cache_state()[1]


def test_a_folder_that_can_be_exchanged_is_refused(cache: Path) -> None:
    """Whoever may write to the folder above can put another one in its place; not in a sticky one, such as /tmp."""
    cache.parent.chmod(0o777)
    assert private.cache_directory() is None
    assert "exchange" in private.cache_state()[1]
    cache.parent.chmod(0o1777)
    assert private.cache_directory() == cache


def test_a_link_that_can_be_exchanged_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is private, and everybody can make the path lead to another one."""
    link = tmp_path / "open" / "link"
    link.parent.mkdir()
    link.symlink_to(cache)
    monkeypatch.setenv("STERNA_CACHE_DIR", str(link))
    assert private.cache_directory() == link
    link.parent.chmod(0o777)
    assert private.cache_directory() is None
    assert "exchange" in private.cache_state()[1]


def test_a_folder_whose_rights_cannot_be_changed_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems without rights: no traceback."""
    cache.chmod(0o775)

    def fails(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", fails)
    assert private.cache_directory() is None
    assert "Operation not permitted" in private.cache_state()[1]


def test_a_folder_above_that_is_another_users_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `sudo` and the home folder of the user who called it."""
    real, above = Path.stat, cache.parent.stat()

    def lying(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)  # type: ignore[arg-type]
        return os.stat_result((*found[:4], 12345, *found[5:])) if os.path.samestat(found, above) else found

    monkeypatch.setattr(Path, "stat", lying)
    assert private.cache_directory() is None
    assert "above it, belongs to another user (number 12345" in private.cache_state()[1]


def test_a_folder_that_the_group_can_write_to_is_closed(cache: Path) -> None:
    cache.chmod(0o775)
    assert private.cache_directory() == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_the_doctor_says_why_there_is_no_cache(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.chmod(0o777)
    doctor(["--json"], standalone_mode=False)
    said = capsys.readouterr().out
    assert said.count("every user of this machine can write to it") == 1
    assert "not used: " in said


def test_an_entry_of_another_user_counts_as_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cache("objects", cache)
    store.put(KEY, b"planted, with the right hash")
    become_another(monkeypatch)
    assert store.get(KEY) is None


def test_an_entry_that_others_can_write_to_counts_as_missing(cache: Path) -> None:
    store = Cache("objects", cache)
    store.put(KEY, b"payload")
    for mode, found in ((0o602, None), (0o620, None), (0o600, b"payload"), (0o644, b"payload")):
        store._file(KEY).chmod(mode)
        assert store.get(KEY) == found


def test_an_entry_under_another_name_counts_as_missing(cache: Path) -> None:
    """Entries are true of one key: one's own files, moved or linked to another name, are none."""
    store, other = Cache("objects", cache), key("two")
    store.put(KEY, b"payload")
    store.put(other, b"other")
    os.link(store._file(KEY), store._file(other).with_name("link"))
    store._file(other).with_name("link").replace(store._file(other))
    assert store.get(other) is None
    assert store.get(KEY) == b"payload"


def test_a_symbolic_link_is_no_entry(cache: Path, tmp_path: Path) -> None:
    store = Cache("objects", cache)
    store.put(KEY, b"payload")
    moved = store._file(KEY).rename(tmp_path / "moved")
    store._file(KEY).symlink_to(moved)
    assert store.get(KEY) is None
    store.put(KEY, b"again")
    assert moved.read_bytes().endswith(b"payload"), "writing replaces a link and does not follow it"
    assert store.get(KEY) == b"again"


def test_files_that_are_no_entries_stay(cache: Path) -> None:
    """A cache folder that was set to a folder in use: what lies there is not ours to delete."""
    store = Cache("objects", cache, limit=100)
    notes = cache / "objects" / "notes" / "diary.txt"
    notes.parent.mkdir(parents=True)
    notes.write_bytes(bytes(1000))
    for n in range(5):
        store.put(key(str(n)), bytes(200))
    assert notes.read_bytes() == bytes(1000)
    assert sum(store.get(key(str(n))) is not None for n in range(5)) == 0


def planted(folder: Path) -> Path:
    """A library that must not be opened, in the place of the runtime's."""
    sources = building.runtime_sources()
    assert sources is not None
    library = building.build(sources)
    assert folder in library.parents
    library.chmod(0o700)
    library.write_bytes(b"planted")
    return library


def test_a_damaged_library_is_built_again(cache: Path) -> None:
    library = planted(cache)
    assert building.build(building.runtime_sources()) == library  # type: ignore[arg-type]
    assert library.read_bytes()[:4] != b"plan"


def test_a_library_that_another_process_has_built_meanwhile_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that build at once, the slower one takes the other's, which may be in use, and does not remove it."""
    sources = building.runtime_sources()
    assert sources is not None
    library = building.build(sources)
    before, kept, looks = library.parent.stat().st_ino, building._kept, []

    def nothing_at_first(*given: Any) -> Path | None:
        looks.append(given)
        return None if len(looks) == 1 else kept(*given)

    monkeypatch.setattr(building, "_kept", nothing_at_first)
    assert building.build(sources) == library
    assert library.parent.stat().st_ino == before


def test_a_library_of_another_user_is_not_opened(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = building.runtime_sources()
    assert sources is not None
    library = building.build(sources)
    asked = library.parents[1], library.parent.name.split("-")[0], library.name
    assert building._kept(*asked) == library
    library.chmod(0o722)
    assert building._kept(*asked) is None
    library.chmod(0o700)
    become_another(monkeypatch)
    assert building._kept(*asked) is None


def test_without_a_cache_the_library_is_built_for_this_process(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    sources = building.runtime_sources()
    assert sources is not None
    library = building.build(sources)
    assert private.scratch_directory() in library.parents
    assert building.build(sources) == library


def test_a_library_in_the_working_directory_is_not_opened(tmp_path: Path) -> None:
    for name in ("libsterna.so", "sterna.dll", "libsterna.dylib"):
        (tmp_path / name).write_bytes(b"planted")
    script = "from sterna_runtime import library; library.load(); print(library.find())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert tmp_path not in Path(said.strip()).parents


def test_scratch_folders_go_with_the_process(tmp_path: Path) -> None:
    """Also where a child was forked, whose end must not take the parent's folder away."""
    script = (
        "import os, sys; from sterna_runtime.private import scratch_directory as s; d = s()\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait(); assert d.is_dir(); print(d)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler"), "TMPDIR": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert Path(said.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_zig_never_uses_a_folder_that_others_could_have_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    place = Path(zig_environment(tmp_path)["ZIG_GLOBAL_CACHE_DIR"])
    assert private.scratch_directory() in place.parents
    assert private.is_private(place.stat())


def test_no_temporary_name_can_be_guessed() -> None:
    """Temporary files come from tempfile's functions that make them, under names drawn at random."""
    guessed = re.compile(r"gettempdir|mktemp\(|[\"']/tmp\b|environ.*TMPDIR")
    for path in sorted((ROOT / "compiler").rglob("*.py")):
        assert not guessed.search(path.read_text("utf-8")), path


def test_modules_in_the_working_directory_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test is another Python process: a numpy.py beside a downloaded model must not become part of it."""
    (tmp_path / "numpy.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    (tmp_path / "tempfile.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    assert self_test.run_self_test("x86-64-v2") is (platform.machine() in ("x86_64", "AMD64"))
    assert not (tmp_path / "ran").exists()
