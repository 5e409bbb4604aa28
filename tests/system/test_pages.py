"""The pages that lead from an empty folder to an answer, followed as they are written (`support/pages.py` says how)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna_runtime.private import cache_directory
from support.pages import DOCS, Walk, follow, has_commands, sections, steps
from support.tools import ROOT
from support.trained import FOLDER

DEMO = ROOT / "compiler" / "sterna" / "demo"
DIGITS = {"digits.onnx": DEMO / "digits.onnx"}
PICTURE = {**DIGITS, "7.npy": DEMO / "images" / "7.npy"}
#: The C library for arm64 that ci/arm64-jre unpacks with its runtime of Java.
ARM64 = (cache_directory() or Path("nowhere")) / "arm64-jre" / "root"
EMULATED = f"qemu-aarch64 -cpu cortex-a72 -E LD_LIBRARY_PATH=$HOME/pi/usr/lib/aarch64-linux-gnu -L {ARM64}"
#: A Raspberry Pi: the folder ~/pi, where packages are unpacked, too, and programs run in the emulator.
PI = {
    "scp": 'mkdir -p ~/pi; for f; do case "$f" in -*|*:) ;; *) cp -r "$f" ~/pi/;; esac; done',
    "ssh": 'shift; cd ~/pi; exec sh -c "$*"',
    "sudo": 'exec "$@"',
    "apt": 'for f; do case "$f" in *.deb) dpkg-deb -x "$f" ~/pi;; esac; done',
    "sterna-run": f'folder=$1; shift; exec {EMULATED} ~/pi/usr/bin/sterna-run "$HOME/pi$folder" "$@"',
    "cc": f"""python -m ziglang cc -target aarch64-linux-gnu.2.28 "$@" && mv digits arm64
printf '#!/bin/sh\nexec {EMULATED} ./arm64 "$@"\n' >digits && chmod +x digits""",
}
BOARD = {"qemu-aarch64": "runs programs for 64-bit ARM", "dpkg-deb": "unpacks packages"}
PAGES = ("android.md", "cpp.md", "firmware.md", "ios.md", "raspberry-pi.md", "windows-macos.md")
KWS = {"kws.tflite": FOLDER / "mlperf_tiny_kws_int8" / "model.tflite"}
CROSS = {"arm-none-eabi-gcc": "compiles for Cortex-M", "qemu-system-arm": "emulates boards", "cmake": "builds"}
#: What stands in for tools that are not here compiles a library's sources for the board's core.
SOURCES = (
    "for f in {0}/src/*.c; do "
    "arm-none-eabi-gcc -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -I{0}/{1} -c $f; done; ls *.o; rm *.o"
)
TOOLCHAINS = {
    "arduino-cli": f"cd ~; test -f $4/Run.ino; {SOURCES.format('$4/../..', 'src')}",
    "west": f"test -f $4/prj.conf; {SOURCES.format('$4/../..', 'include')}",
}
WALKS = (
    Walk("android.md", ["An app from a model"], r"a project: open it", {"javac": "compiles its libraries"}, DIGITS),
    Walk("cpp.md", ["A program"], r"^class \d of 10$", {"cmake": "builds the example", "g++": "compiles it"}, DIGITS),
    Walk(
        "raspberry-pi.md",
        ["On your computer", "By Debian packages", "By C"],
        r"^ +7 +0\.99",
        BOARD,
        PICTURE,
        PI,
        {"arm64-jre": ARM64},
    ),
    Walk("firmware.md", ["Does it fit", "On an emulated board"], r"agrees with", CROSS, KWS),
    Walk("firmware.md", ["When it does not fit"], r"to meet the budgets: small code", CROSS, KWS),
    Walk("firmware.md", ["Weights elsewhere"], r"kernels fetch them by panels", CROSS, KWS),
    Walk("firmware.md", ["Bare CMake"], r"^as recorded, class \d+$", CROSS, KWS),
    Walk("firmware.md", ["Arduino"], r"kws_kernels\.o", CROSS, KWS, TOOLCHAINS),
    Walk("firmware.md", ["Zephyr"], r"kws_kernels\.o", CROSS, KWS, TOOLCHAINS),
    Walk("windows-macos.md", ["A program for Windows"], r"^\d+\.\d{3} ms", {}, DIGITS),
    Walk("ios.md", ["Dynamic frameworks"], r"Swift packages; docs/ios\.md", {}, DIGITS),
    Walk("windows-macos.md", ["macOS"], r"compiled in", {}, DIGITS),
)
#: Sections that tests follow otherwise, or not at all, and why.
ELSEWHERE = {
    ("raspberry-pi.md", "By pip"): "ci/runtime-wheels builds the wheels and runs them in emulated roots",
    ("android.md", "On a desktop"): "Maven builds and tests the runtime in tests/targets/test_java.py",
    (
        "android.md",
        "In an Android app",
    ): "tests/targets/test_android.py packages the model; the app needs Android Studio",
    ("android.md", "On the GPU"): "tests/targets/test_android_device.py packages models and runs them on a JVM",
    ("ios.md", "On the GPU"): "tests/targets/test_ios_metal.py packages a model; the rest needs a Mac",
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
