"""The pages that lead from an empty folder to an answer, followed as they are written (`support/pages.py` says how)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import DOCS, Walk, follow, has_commands, sections, steps
from support.tools import ROOT

DIGITS = {"digits.onnx": ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"}
PAGES = ("android.md", "cpp.md", "ios.md", "raspberry-pi.md", "windows-macos.md")
WALKS = (
    Walk("cpp.md", ["A program"], r"^class \d of 10$", {"cmake": "builds the example", "g++": "compiles it"}, DIGITS),
)
#: Sections that tests follow otherwise, or not at all, and why.
ELSEWHERE = {
    ("android.md", "On a desktop"): "Maven builds and tests the runtime in tests/targets/test_java.py",
    (
        "android.md",
        "In an Android app",
    ): "tests/targets/test_android.py packages the model; the app needs Android Studio",
    ("cpp.md", "With exceptions or without"): "an excerpt; runtime_c/test/golden.cpp is compiled without exceptions",
}


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: f"{walk.page}-{'-'.join(walk.sections)}".replace(" ", "_"))
def test_a_page_is_followed_as_written(walk: Walk, tmp_path: Path) -> None:
    follow(walk, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if (DOCS / page).is_file()])
def test_every_section_with_commands_is_followed_or_says_why_not(page: str) -> None:
    followed = {(walk.page, title) for walk in WALKS for title in walk.sections}
    there = {(page, title) for title, text in sections(page).items() if has_commands(text)}
    assert there == {each for each in {*followed, *ELSEWHERE} if each[0] == page}


def test_what_a_section_says_to_do() -> None:
    section = (
        "Words.\n\nWrite `a/b.txt`:\n\n```text\none\n\n# two\n```\n\nAn excerpt of `b.txt` is\n\n```c\nx\n```\n\n"
        "From the root of this repository:\n\n    first\n    second\n\nThen, here:\n\n    third\n\n"
        "On Windows:\n\n    fourth\n"
    )
    found = [(step.text, step.file, step.place) for step in steps(section)]
    assert found == [
        ("one\n\n# two\n", "a/b.txt", "folder"),
        ("first\nsecond", "", "repository"),
        ("third", "", "folder"),
        ("fourth", "", "windows"),
    ]


def test_a_page_that_does_not_work_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"cpp\.md"):
        follow(Walk("cpp.md", [], "something"), tmp_path)
