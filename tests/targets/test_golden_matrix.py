"""One golden set for all: what `sterna compile --golden` put into bundles, replayed in every language from one file.

The bundles have strings, states, open sizes, sizes that data decide, float16 and quantized tensors
(`support/golden.py`). Each language also refuses a set whose outputs are wrong.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import onnx
import pytest

import sterna
from sterna.api import options_of
from sterna.errors import SternaError
from sterna.package import ios, natives
from support import java, wine
from support.golden import BUNDLES, steps, write_bundles
from support.javascript import RUNTIME as RUNTIME_JS
from support.string_models import labels
from support.swift import need_swift, replay_program, swift
from support.tools import ROOT, need, run
from support.trained import digits

RUNTIME = ROOT / "runtime_c"
SANITIZE = "-fsanitize=address,undefined"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", SANITIZE, f"-I{RUNTIME / 'include'}")
SPOILED = "spoiled"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a target's bundles; one of them is spoiled."""
    folder = tmp_path_factory.mktemp("golden")

    @lru_cache
    def make(target: str) -> Path:
        place = write_bundles(folder / target, target)
        shutil.copytree(place / "digits", place / SPOILED)
        data = bytearray((place / SPOILED / "golden.bin").read_bytes())
        (place / SPOILED / "golden.bin").write_bytes(data[:-4] + b"\0\0\0\x40")  # the last number is 2
        return place

    return make


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C runtime as a library that programs of C and C++ are linked with."""
    place = tmp_path_factory.mktemp("runtime")
    sources = [*sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    run(need("gcc", "compiles the runtime"), "-std=c99", "-c", *STRICT, *sources, cwd=place)
    run("ar", "rcs", place / "libsterna.a", *sorted(place.glob("*.o")))
    return place / "libsterna.a"


def status(*command: str | Path, text: str = "") -> bool:
    """Whether a program says that all is well; it must not crash."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0


def python(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    def good(name: str) -> bool:
        with sterna.load(bundles / name) as bundle:
            return bundle.verify_golden().ok

    with pytest.raises(SternaError, match="E0505"):  # it compares hashes first
        good(SPOILED)
    return {**{name: good(name) for name in BUNDLES}, SPOILED: False}


def c(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    program, flags = place / "sterna_run", ("-std=c99", *STRICT)
    run("gcc", *flags, RUNTIME / "tools" / "sterna_run.c", runtime, "-o", program, "-lpthread", "-ldl")
    return {name: status(program, bundles / name, "--golden", "--threads", "2") for name in (*BUNDLES, SPOILED)}


def cpp(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    program, source = place / "golden", RUNTIME / "test" / "golden.cpp"
    compiler = need("g++", "compiles C++")
    run(compiler, "-std=c++17", *STRICT, source, runtime, "-o", program, "-lpthread", "-ldl")

    def good(name: str) -> bool:
        data, script = steps(bundles / name)
        (place / "data").write_bytes(data)
        return status(program, bundles / name, place / "data", text=script)

    return {name: good(name) for name in (*BUNDLES, SPOILED)}


def javascript(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    node = need("node", "runs the JavaScript runtime")
    said = run(node, RUNTIME_JS / "test" / "replay-main.js", "1", *(bundles / name for name in (*BUNDLES, SPOILED)))
    found = {Path(path).name: result for path, result in json.loads(said).items()}
    problems = {name: result["problem"] for name, result in found.items() if "problem" in result}
    assert problems == {}
    return {
        name: result["error"] is not None and result["error"] <= result["tolerance"] for name, result in found.items()
    }


def java_(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    library = natives.build(natives.PLATFORMS["linux-x86_64"], place / "natives")
    sources = [*(java.RUNTIME / "src" / "main" / "java" / "dev" / "sterna").glob("*.java")]
    sources += [
        *(java.RUNTIME / "stubs").rglob("*.java"),
        *(java.RUNTIME / "src/test/java/dev/sterna").glob("Golden.java"),
    ]
    run(need("javac", "compiles the Java runtime"), "-nowarn", "-d", place / "classes", *sources)
    command = (
        "java",
        f"-Ddev.sterna.library={library}",
        "-XX:+UseSerialGC",
        "-cp",
        place / "classes",
        "dev.sterna.Golden",
    )
    done = subprocess.run(
        [*map(str, command), *(str(bundles / name) for name in (*BUNDLES, SPOILED))],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    rows = [line.split(": ") for line in done.stdout.splitlines() if ": " in line]
    assert len(rows) == len(BUNDLES) + 1, done.stdout + done.stderr
    return {Path(path).name: float(said.split("largest error ")[1].split()[0]) <= 1 for path, said in rows}


def windows(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    wine.need()
    program = wine.build_runtime(place)

    def good(name: str) -> bool:
        done = wine.call(program, bundles / name, "--golden", "--threads", "2")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.returncode == 0

    return {name: good(name) for name in (*BUNDLES, SPOILED)}


def swift_(bundles: Path, runtime: Path, place: Path) -> Mapping[str, bool]:
    """The Swift packages of two models, on Linux; bundles are linked models there. Their classes are used, too."""
    need_swift()
    onnx.save(labels(), place / "labels.onnx")
    for model in (digits().file, place / "labels.onnx"):
        ios.ios_package(model, options_of(generator="llvm"), place / "packages")
    replay_program(place, place / "packages")
    names = (*BUNDLES, SPOILED)
    for name in names:
        shutil.copytree(bundles / name, place / name)
    models = [json.loads((place / name / "graph.json").read_text())["model"] for name in names]
    said = swift(place, "./program", *(f"{name}={model}" for name, model in zip(names, models, strict=True)))
    rows = dict(line.split(": ", 1) for line in said.splitlines())
    assert rows.pop("classes") == "0 wrong"
    return {name: " sets, 0 wrong " in text for name, text in rows.items()}


Replay = Callable[[Path, Path, Path], Mapping[str, bool]]
LANGUAGES: tuple[tuple[str, str, str, Replay], ...] = (
    ("Python", "host-llvm", "host", python),
    ("C", "runtime", "host", c),
    ("C++", "runtime", "host", cpp),
    ("JavaScript", "wasm32", "browser", javascript),
    ("Java", "java", "host", java_),
    ("Swift", "apple", "host", swift_),
    ("C-on-Windows", "windows", "windows-x86-64", windows),
)


@pytest.mark.parametrize(
    ("target", "replay"),
    [pytest.param(target, replay, id=name, marks=pytest.mark.family(kind)) for name, kind, target, replay in LANGUAGES],
)
def test_a_language_replays_every_golden_set(
    target: str, replay: Replay, places: Callable[[str], Path], runtime: Path, tmp_path: Path
) -> None:
    assert replay(places(target), runtime, tmp_path) == {**dict.fromkeys(BUNDLES, True), SPOILED: False}


def test_all_bundles_have_the_same_golden_sets(places: Callable[[str], Path]) -> None:
    for name in BUNDLES:
        for file in ("golden.json", "golden.bin"):
            assert (places("host") / name / file).read_bytes() == (places("browser") / name / file).read_bytes()
