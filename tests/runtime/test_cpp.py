"""sterna.hpp: strict builds with and without exceptions, its own tests, and the golden sets of all bundles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.java import write_bundles
from support.tools import ROOT, need, run

pytestmark = pytest.mark.family("runtime")

RUNTIME = ROOT / "runtime_c"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wshadow", "-Werror", "-O1")
BUNDLES = ("digits", "open", "sizes", "labels", "counter", "quantized", "relu")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundles(tmp_path_factory.mktemp("cpp") / "bundles")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runtime")
    sources = [*sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    flags = ("-O1", "-fsanitize=address,undefined", f"-I{RUNTIME / 'include'}")
    run(need("gcc", "compiles the runtime"), "-c", *flags, *sources, cwd=place)
    run("ar", "rcs", place / "libsterna.a", *sorted(place.glob("*.o")))
    return place / "libsterna.a"


def build(compiler: str, source: str, runtime: Path, place: Path, *flags: str) -> Path:
    command = [need(compiler, "compiles C++"), *STRICT, *flags, f"-I{RUNTIME / 'include'}", RUNTIME / "test" / source]
    run(*command, runtime, "-fsanitize=address,undefined", "-o", place / "program", "-lpthread", "-ldl")
    return place / "program"


@pytest.mark.parametrize("flags", [("-std=c++17",), ("-std=c++20", "-fno-exceptions", "-fno-rtti")], ids=["17", "bare"])
def test_its_own_tests(flags: tuple[str, ...], runtime: Path, bundles: Path, tmp_path: Path) -> None:
    program = build("g++", "test_cpp.cpp", runtime, tmp_path, *flags)
    names = ("digits", "open", "counter", "quantized")
    assert run(program, *(bundles / name for name in names)) == "0 failures\n"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("flags", [("-std=c++17",), ("-std=c++17", "-fno-exceptions"), ("-std=c++20",)])
def test_strict_builds(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    for source in ("test_cpp.cpp", "golden.cpp"):
        command = (need(compiler, "compiles C++"), *STRICT, *flags, f"-I{RUNTIME / 'include'}", "-fsyntax-only")
        run(*command, RUNTIME / "test" / source)


def test_golden_sets(runtime: Path, bundles: Path, tmp_path: Path) -> None:
    program = build("g++", "golden.cpp", runtime, tmp_path, "-std=c++17")
    for name in BUNDLES:
        place = bundles / name
        data, script = golden_steps(place)
        (tmp_path / "data").write_bytes(data)
        done = subprocess.run(
            [program, place, tmp_path / "data"], input=script, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    wrong = script.replace("out 0 0 ", "out 0 64 ") if "out 0 0 " in script else script.replace("reset", "dim x 1")
    done = subprocess.run([program, place, tmp_path / "data"], input=wrong, capture_output=True, text=True, check=False)
    assert done.returncode == 1, "a golden set that does not fit passes"


def golden_steps(bundle: Path) -> tuple[bytes, str]:
    """The data of golden.bin, behind it the numbers of strings; and what to do with them, line by line."""
    graph = json.loads((bundle / "graph.json").read_text())
    golden = json.loads((bundle / "golden.json").read_text())
    data, lines = bytearray((bundle / "golden.bin").read_bytes()), []
    table = json.loads((bundle / "strings.json").read_text())["strings"] if "strings.json" in graph["files"] else []
    values = {side: [graph["values"][v] for v in graph[side]] for side in ("inputs", "outputs")}

    def place(side: str, row: dict[str, Any], words: list[str]) -> str:
        number = [value["name"] for value in values[side]].index(row["name"])
        if row["dtype"] != "string":
            return f"{number} {row['offset']} {row['bytes']}"
        for word in row["strings"]:
            if word not in words:
                words.append(word)
        numbers = np.array([words.index(word) for word in row["strings"]], np.int64).tobytes()
        data.extend(numbers)
        return f"{number} {len(data) - len(numbers)} {len(numbers)}"

    for each in golden["sets"]:
        words = list(table)
        lines += ["reset", *(f"dim {name} {size}" for name, size in dims(graph, values["inputs"], each["inputs"]))]
        lines += [f"in {place('inputs', row, words)}" for row in each["inputs"]]
        lines.append("run")
        for row in each["outputs"]:
            tolerance = max(golden["tolerance"], row.get("tolerance", 0.0))
            sizes = " ".join(map(str, row["dims"]))
            lines.append(f"out {place('outputs', row, words)} {tolerance} {len(row['dims'])} {sizes}")
    return bytes(data), "\n".join(lines) + "\n"


def dims(graph: dict[str, Any], inputs: list[Any], rows: list[Any]) -> Iterator[tuple[str, int]]:
    """The sizes of open dimensions in a golden set."""
    found = {}
    for value in inputs:
        row = next(row for row in rows if row["name"] == value["name"])
        found |= {size[1]: n for size, n in zip(value["dims"], row["dims"], strict=True) if isinstance(size, list)}
    return ((graph["symbols"][symbol]["name"], size) for symbol, size in found.items())
