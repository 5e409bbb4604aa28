"""The machines of an XCFramework: which systems it is for, and what is compiled for each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.codegen.render import resource
from sterna.scratch import scratch_folder
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.toolchain.compilers import compiler_version, run
from sterna.toolchain.zig import zig
from sterna_runtime.recipe import DEVICES, FLAGS, SOURCES

_FLAGS = (
    *(flag for flag in FLAGS if flag not in ("-DSTERNA_SHARED", "-DSTERNA_BUILDING")),
    "-D_FORTIFY_SOURCE=0", "-DSTERNA_NO_FILES", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables",
    "-fomit-frame-pointer",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A processor of a slice. `target`: of kernels, and of everything else."""

    processor: str
    target: Target

    def compile(
        self, sources: Sequence[Path], folders: Sequence[Path], beside: Mapping[str, bytes] | None = None
    ) -> list[bytes]:
        """The objects of sources in C.

        Args:
            folders: of headers; beside: files that the sources read while they are compiled, headers too.

        Raises:
            SternaError: E0402 there is no zig; E0403 it rejected a source.
        """
        command = [*zig("cc", "-target", self.target.triple), *_FLAGS, *(f"-I{folder}" for folder in folders)]
        # zig has the headers of macOS, and takes them for no other system: those of C and POSIX are the same there.
        command += ["-isystem", str(_zig_library() / "libc" / "include" / "any-darwin-any"), "-c"]
        if beside:
            return [self._object([*command, "-I."], source, beside) for source in sources]
        # The folders are no part of what an object is made from, what lies in them is.
        places = (*folders, *(source.parent for source in sources))
        headers = [path.read_bytes() for place in places for path in sorted(place.glob("*.h"))]
        made_by = (compiler_version(command[0]), self.target.triple, repr(_FLAGS))
        store = Cache("objects", cache_directory())
        return [
            store.get_or_make(
                caching.key("apple", *made_by, source.read_bytes(), *headers),
                partial(self._object, command, source, {}),
            )
            for source in sources
        ]

    def _object(self, command: Sequence[str], source: Path, beside: Mapping[str, bytes]) -> bytes:
        with scratch_folder("ios") as folder:
            for name, data in beside.items():
                (folder / name).write_bytes(data)
            run([*command, str(source), "-o", "made.o"], folder, f"{source.name} for {self.target.name}")
            return (folder / "made.o").read_bytes()

    def archive(self, objects: Sequence[bytes]) -> bytes:
        """A static library; the same objects give the same bytes. Raises SternaError as `compile` does."""
        with scratch_folder("ios") as folder:
            names = [f"{n:03}.o" for n in range(len(objects))]
            for name, data in zip(names, objects, strict=True):
                (folder / name).write_bytes(data)
            run(zig("ar", "--format=darwin", "rcsD", "made.a", *names), folder, f"a library for {self.target.name}")
            return (folder / "made.a").read_bytes()

    def library(self, objects: Sequence[bytes], own_name: str) -> bytes:
        """A dynamic library; the same objects give the same bytes. That for a simulator or a Mac on an Apple processor
        is signed ad hoc; that for phones is not: Xcode signs what it puts into an app.

        Args:
            own_name: by which apps load it.

        Raises:
            SternaError: as `compile` does; the objects call what `libSystem.tbd` does not list.
        """
        with scratch_folder("ios") as folder:
            # zig knows the C library of macOS alone, and links with no other of that name: ours is in its place.
            stubs = folder / "lib" / "libc" / "darwin"
            stubs.mkdir(parents=True)
            shutil.copy(resource("runtime_apple") / "stubs" / "libSystem.tbd", stubs)
            shutil.copy(_zig_library() / "libc" / "darwin" / "SDKSettings.json", stubs)
            names = [f"{n:03}.o" for n in range(len(objects))]
            for name, data in zip(names, objects, strict=True):
                (folder / name).write_bytes(data)
            command = [*zig("cc", "-target", self.target.triple), "-shared", "-nostdlib", "-s"]
            command += [f"-Wl,-install_name,{own_name}", "-o", "made", *names]
            subject = f"a dynamic library for {self.target.name}"
            run(command, folder, subject, {"ZIG_LIB_DIR": str(folder / "lib")})
            return (folder / "made").read_bytes()


def members(archive: bytes) -> list[bytes]:
    """The objects of a static library, which has the table of symbols that libraries of Apple's begin with."""
    found, at = [], len(b"!<arch>\n")
    while at < len(archive):
        name, size = archive[at : at + 16].decode().strip(), int(archive[at + 48 : at + 58])
        head = int(name.removeprefix("#1/")) if name.startswith("#1/") else 0
        full = archive[at + 60 : at + 60 + head].rstrip(b"\0").decode() if head else name
        if not full.startswith(("__.SYMDEF", "/")):
            found.append(archive[at + 60 + head : at + 60 + size])
        at += 60 + size + size % 2
    return found


@dataclass(frozen=True)
class Slice:
    """A system that an XCFramework is for.

    Args:
        name: of its folder; platform, variant, system: in the words of lists of properties.
        minimum: the oldest version; parts: its processors; flat: frameworks have no versions inside.
    """

    name: str
    platform: str
    variant: str
    system: str
    minimum: str
    parts: tuple[Part, ...]

    @property
    def flat(self) -> bool:
        return self.platform != "macos"


def _zig_library() -> Path:
    return Path(zig()[0]).parent / "lib"


def slices() -> tuple[Slice, ...]:
    """All of them. The first one is the phone's."""
    arm, intel = "arm64", "x86_64"
    rows = (
        ("ios-arm64", "ios", "", "iPhoneOS", "13.0", {arm: "ios-arm64"}),
        ("ios-arm64_x86_64-simulator", "ios", "simulator", "iPhoneSimulator", "13.0",
         {arm: "ios-simulator", intel: "ios-simulator-x86-64"}),
        ("macos-arm64_x86_64", "macos", "", "MacOSX", "11.0", {arm: "macos-arm64", intel: "macos-x86-64"}),
    )  # fmt: skip
    return tuple(
        Slice(*row[:-1], tuple(Part(processor, load_target(name)) for processor, name in row[-1].items()))
        for row in rows
    )


def runtime_objects(part: Part) -> list[bytes]:
    """The C runtime with threads and without files, the loading of linked models, and what drives Metal: objects of
    their own, which no app of static frameworks has that does not call for them."""
    native, own = resource("runtime_c"), resource("runtime_apple")
    sources = [*(native / "src" / f"{name}.c" for name in SOURCES), native / "port" / "posix.c"]
    sources += [native / "devices" / f"{name}.c" for name in DEVICES["metal"]]
    sources.append(own / "src" / "sterna_linked.c")
    return part.compile(sources, (native / "include", own / "include"))


def public_headers() -> dict[str, bytes]:
    """The headers of the runtime that apps see, by name."""
    native, own = resource("runtime_c") / "include", resource("runtime_apple") / "include"
    names = ("sterna_kernel.h", "sterna.h", "sterna_device.h", "sterna_metal.h")
    paths = (*(native / name for name in names), own / "sterna_linked.h")
    return {path.name: path.read_bytes() for path in paths}
