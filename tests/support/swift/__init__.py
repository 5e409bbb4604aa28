"""Swift for Linux, from Debian's packages in a folder of its own: `ci/swift` unpacks it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from sterna_runtime.recipe import SOURCES
from support.tools import ROOT, need

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sterna" / "swift" / "root"
_INSIDE = "/usr/libexec/swift"
_LIBRARIES = ":".join(f"{_INSIDE}/lib{name}" for name in ("/swift/linux", "", "/swift/host"))
_SCRIPT = (
    'mount --bind "$1" "$0/src" && cd / && exec chroot "$0" /usr/bin/env -i HOME=/tmp'
    f' PATH={_INSIDE}/bin:/usr/bin LD_LIBRARY_PATH={_LIBRARIES} /bin/bash -c \'cd /src && exec "$@"\' x "${{@:2}}"'
)


def swift(work: Path, *command: str) -> str:
    """What a command prints that runs in the folder of packages, in `work`, which it sees as /src.

    Raises:
        AssertionError: it fails.
    """
    words = ["unshare", "-rmpf", f"--mount-proc={FOLDER / 'proc'}", "bash", "-c", _SCRIPT, str(FOLDER), str(work)]
    done = subprocess.run([*words, *command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@lru_cache
def _why_not(folder: Path) -> str:
    if not (folder / "usr").is_dir():
        return "needs Debian's Swift: ci/swift unpacks it"
    try:
        swift(folder / "tmp", "swiftc", "--version")
    except AssertionError as problem:
        return f"Swift does not run in a folder of its own here: {problem}"
    return ""


def need_swift() -> None:
    """Skips where there is no Swift, or no program may have a root of its own."""
    need("unshare", "gives programs a root of their own")
    if reason := _why_not(FOLDER):
        pytest.skip(reason)


def compile_module(
    work: Path, name: str, sources: Sequence[Path], headers: Sequence[tuple[str, Path, str]], version: int = 5
) -> None:
    """Compiles a module into `work`; a warning is an error.

    Args:
        sources: below `work`; headers: modules of C as a name, a folder of headers, and the text of the module map.
    """
    folders = []
    for module, folder, text in headers:
        place = work / "modules" / module
        if not place.is_dir():
            place.mkdir(parents=True)
            for header in folder.glob("*.h"):
                (place / header.name).write_bytes(header.read_bytes())
            (place / "module.modulemap").write_text(text.replace("framework module", "module"))
        folders += ["-I", f"modules/{module}"]
    command = ["swiftc", "-swift-version", str(version), "-warnings-as-errors", "-wmo", "-module-name", name, "-I", "."]
    command += [*folders, "-emit-module", "-emit-object", "-o", f"{name}.o"]
    command += [] if name == "main" else ["-parse-as-library"]
    swift(work, *command, *(str(path.relative_to(work)) for path in sources))


def compile_packages(work: Path, packages: Path, version: int = 5) -> list[str]:
    """Compiles the Swift packages of a place below `work`, the runtime's first; returns their modules."""
    modules: list[str] = []
    headers: list[tuple[str, Path, str]] = []
    for package in sorted(packages.iterdir(), key=lambda path: path.name != "sterna-runtime"):
        (framework,) = package.glob("*.xcframework/ios-arm64/*.framework")
        text = (framework / "Modules" / "module.modulemap").read_text()
        headers.append((framework.stem, framework / "Headers", text))
        (sources,) = (package / "Sources").iterdir()
        compile_module(work, sources.name, sorted(sources.glob("*.swift")), headers, version)
        modules.append(sources.name)
    return modules


def replay_program(work: Path, packages: Path) -> None:
    """Builds `program` in `work`: the packages' Swift, the C runtime for this machine, and what replays golden sets."""
    modules = compile_packages(work, packages)
    for folder in ("runtime_c", "runtime_apple"):
        shutil.copytree(ROOT / folder, work / folder)
    sources = [*(f"runtime_c/src/{name}.c" for name in SOURCES), "runtime_c/port/posix.c"]
    sources.append("runtime_apple/src/sterna_linked.c")
    for path in HERE.glob("*.[ch]"):
        shutil.copy(path, work)
    folders = ["-I", "runtime_c/include", "-I", "runtime_apple/include"]
    swift(work, "clang", "-std=gnu11", "-O1", "-Wall", "-Werror", "-c", *folders, *sources, "test_bundle.c")
    shutil.copy(HERE / "main.swift", work)
    test = ("TestBundle", HERE, (HERE / "module.modulemap").read_text())
    known = sorted((work / "modules").iterdir())
    headers = [(folder.name, folder, (folder / "module.modulemap").read_text()) for folder in known]
    compile_module(work, "main", [work / "main.swift"], [*headers, test])
    objects = [f"{Path(name).stem}.o" for name in (*modules, "main", *sources, "test_bundle.c")]
    swift(work, "swiftc", "-o", "program", *objects, "-ldl", "-lpthread")
