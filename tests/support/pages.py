"""Pages of docs/ that are followed as they are written, from an empty folder.

Of a section, an indented block is commands, and a fenced block a file if the paragraph before it ends with a colon and
names a file as `code`: the last one named there. Fenced blocks without a name are excerpts. Commands after a paragraph
that says "root of this repository" run in a copy of it, all others in the reader's folder; those after one with "On
Windows" run in Wine's command prompt. `sterna` and `python` are those of this checkout, `~` is the test's own folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import wine
from support.tools import ROOT, need

DOCS = ROOT / "docs"
_FENCE = re.compile(r"```\w*\n(.*?)```", re.S)
_FILE = re.compile(r"`([\w./-]+\.\w+)`")


@dataclass(frozen=True)
class Step:
    """Commands, or a file where it has a name.

    Args:
        place: "folder" of the reader, "repository" or "windows": where commands are typed.
    """

    text: str
    file: str = ""
    place: str = "folder"


@dataclass(frozen=True)
class Walk:
    """Sections of a page that a reader follows one after the other, in the same folder.

    Args:
        prints: a regular expression that is found in what the last commands print.
        tools: programs that the page takes for granted, each with the reason for a skip.
        folders: that the page takes for granted, by what ci/test calls them.
        files: what the reader has in the folder before, by name.
        instead: scripts of the shell in place of programs that this machine must not or cannot run, by name.
    """

    page: str
    sections: Sequence[str]
    prints: str
    tools: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)


def sections(page: str) -> dict[str, str]:
    """The text below each heading of the second level or deeper, by heading."""
    parts = re.split(r"^##+ (.+)\n", _without_fenced_headings((DOCS / page).read_text()), flags=re.M)
    return {title: text.replace("\0", "#") for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _without_fenced_headings(text: str) -> str:
    """Comments of a shell or of CMake in fenced blocks look like headings."""
    return re.sub(r"```.*?```", lambda block: block[0].replace("#", "\0"), text, flags=re.S)


def steps(section: str) -> Iterator[Step]:
    """Files and commands in the order of the text."""
    said = ""
    for part in re.split(r"\n\n+", _joined(section.strip("\n"))):
        block = part.replace("\1", "\n\n")
        fenced = _FENCE.fullmatch(block.strip())
        if fenced is not None:
            names = _FILE.findall(said) if said.endswith(":") else []
            if names:
                yield Step(fenced[1], file=names[-1])
        elif block.startswith("    "):
            place = "repository" if "root of this repository" in said else "folder"
            yield Step(re.sub(r"^    ", "", block, flags=re.M), place="windows" if "On Windows" in said else place)
        else:
            said = block.strip()


def _joined(section: str) -> str:
    """Fenced blocks without empty lines, which would end them."""
    return _FENCE.sub(lambda block: "\n\n" + block[0].replace("\n\n", "\1") + "\n\n", section)


def has_commands(section: str) -> bool:
    """Whether a reader is told to type something."""
    return any(not step.file for step in steps(section))


def follow(walk: Walk, place: Path) -> str:
    """Does what the sections say, in an empty folder below `place`.

    Returns:
        What the last commands printed.

    Raises:
        AssertionError: one of them failed, or the last ones printed something else.
    """
    for tool, why in walk.tools.items():
        need(tool, why)
    for name, path in walk.folders.items():
        if not path.is_dir():
            pytest.skip(f"needs {name}: {walk.page} runs programs with it")
    folder, home = place / "folder", place / "home"
    for each in (folder, home):
        each.mkdir()
    for name, file in walk.files.items():
        if not file.is_file():
            pytest.skip(f"needs {file}: {walk.page} begins with it")
        (folder / name).write_bytes(file.read_bytes())
    environment = _environment(place, home, walk.instead)
    text = sections(walk.page)
    said = ""
    for step in (step for title in walk.sections for step in steps(text[title])):
        if step.file:
            (folder / step.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.file).write_text(step.text)
        elif step.place == "windows":
            said = "".join(wine.run("cmd", "/c", line, cwd=folder) for line in step.text.strip().splitlines())
        else:
            said = _run(step.text, _repository(place) if step.place == "repository" else folder, environment)
    assert re.search(walk.prints, said, re.M), f"{walk.page}: {said}"
    return said


def _run(commands: str, folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def _environment(place: Path, home: Path, instead: Mapping[str, str]) -> dict[str, str]:
    programs = place / "programs"
    programs.mkdir()
    own = {
        "sterna": f'exec {shlex.quote(sys.executable)} -m sterna "$@"',
        "python": f'exec {shlex.quote(sys.executable)} "$@"',
    }
    for name, script in {**own, **instead}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    caches = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
    return {**os.environ, **caches, "PATH": path, "HOME": str(home), "PYTHONPATH": str(ROOT / "compiler")}


def _repository(place: Path) -> Path:
    """The repository, whose `build` is the test's own."""
    copy = place / "repository"
    if not copy.is_dir():
        copy.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in ("build", ".git"):
                (copy / entry.name).symlink_to(entry)
    return copy
