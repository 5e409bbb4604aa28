"""The native libraries of the Java runtime, built by zig: for desktops with their C library, for Android without an NDK
(runtime_android/bionic). One is the runtime, `sterna_jni`; it opens others, which drive devices, where a model has
kernels of such: `sterna_opencl`.

`python -m sterna.package.natives FOLDER [PLATFORM ...]` writes `FOLDER/PLATFORM/libsterna_jni.so`, as the jar has them.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.codegen.render import resource
from sterna.errors import error
from sterna.scratch import scratch_folder
from sterna.toolchain.compilers import compiler_version, run
from sterna.toolchain.zig import zig
from sterna_runtime.recipe import DEVICES, FLAGS, SHARED_WITH_DEVICES, SOURCES

NAME = "sterna_jni"
PAGE = 16384
"""Bytes of a page on newer Android phones; a multiple of that of older ones."""


@dataclass(frozen=True)
class Platform:
    """A system and machine that the library is built for.

    Args:
        triple: of `zig cc`; flags: what else it needs to know of the machine.
        android: link against Android's C library.
    """

    name: str
    triple: str
    flags: tuple[str, ...] = ()
    android: bool = False


_SOFT = ("-mcpu=generic+v7a+neon-soft_float", "-mfloat-abi=softfp")
ANDROID = (
    Platform("arm64-v8a", "aarch64-linux-android", android=True),
    Platform("armeabi-v7a", "arm-linux-androideabi", _SOFT, android=True),
    Platform("x86_64", "x86_64-linux-android", android=True),
    Platform("x86", "x86-linux-android", ("-mcpu=i686",), android=True),
)
DESKTOPS = (
    Platform("linux-x86_64", "x86_64-linux-gnu.2.17"),
    Platform("linux-aarch64", "aarch64-linux-gnu.2.17"),
)
PLATFORMS = {platform.name: platform for platform in (*ANDROID, *DESKTOPS)}


def java_home() -> Path:
    """The folder of a Java development kit: JAVA_HOME, or where the program `javac` is.

    Raises:
        SternaError: E0402, there is none.
    """
    given, program = os.environ.get("JAVA_HOME"), shutil.which("javac")
    for folder in (Path(given) if given else None, Path(program).resolve().parent.parent if program else None):
        if folder is not None and (folder / "include" / "jni.h").is_file():
            return folder
    raise error("E0402", "no Java development kit is installed", fix="install JDK 11 or later, or set JAVA_HOME")


def file_name(kind: str = "") -> str:
    """Of the runtime's library; of that which drives devices of a kind."""
    return f"lib{f'sterna_{kind}' if kind else NAME}.so"


def build(platform: Platform, place: Path, kind: str = "") -> Path:
    """Builds a library into a folder; the same sources give the same bytes, and are compiled once.

    Args:
        kind: of devices that it drives; "": the runtime.

    Raises:
        SternaError: E0402 no JDK or no zig; E0403 the sources do not compile.
    """

    def make() -> bytes:
        with scratch_folder("jni") as scratch:
            output = scratch / file_name(kind)
            exported = f"sterna_{kind}; sterna_{kind}_describe" if kind else "JNI_OnLoad"
            (scratch / "exports.map").write_text(f"{{ global: {exported}; local: *; }};\n")
            if platform.android:
                _make_stubs(platform, scratch)
            subject = f"the Java runtime's {file_name(kind)} for {platform.name}"
            run(_command(platform, output, scratch, kind), scratch, subject)
            return output.read_bytes()

    parts = [path.read_bytes() for path in _read()]
    command = _command(platform, Path(), Path(), kind)
    key = caching.key("jni", compiler_version(zig()[0]), repr((platform, command)), *parts)
    place.mkdir(parents=True, exist_ok=True)
    output = place / file_name(kind)
    output.write_bytes(Cache("libraries", cache_directory()).get_or_make(key, make))
    return output


def _read() -> list[Path]:
    """Every file that is compiled, or that such a file includes."""
    java, native = resource("runtime_android"), resource("runtime_c")
    folders = (java / "jni", java / "bionic", *(native / name for name in ("include", "src", "port", "devices")))
    ours = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".c", ".h", ".txt")]
    return [*ours, java_home() / "include" / "jni.h"]


def _command(platform: Platform, output: Path, scratch: Path, kind: str) -> list[str]:
    java, native, headers = resource("runtime_android"), resource("runtime_c"), java_home() / "include"
    flags = [flag for flag in FLAGS if flag not in ("-DSTERNA_SHARED", "-DSTERNA_BUILDING")]
    machine = next(folder for folder in sorted(headers.iterdir()) if (folder / "jni_md.h").is_file())
    sources = [native / "src" / f"{name}.c" for name in (SHARED_WITH_DEVICES if kind else SOURCES)]
    sources += [native / "devices" / f"{name}.c" for name in DEVICES[kind]] if kind else [java / "jni" / f"{NAME}.c"]
    script = scratch / "exports.map"
    command = zig("cc", *flags, "-target", platform.triple, *platform.flags, "-shared", "-fPIC")
    command += ["-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"]
    command += [f"-I{native / 'include'}", f"-I{headers}", f"-I{machine}"]
    if platform.android:
        command += ["-ffreestanding", "-nostdlib", "-rtlib=compiler-rt", f"-I{java / 'bionic'}", "-D_GNU_SOURCE"]
        command += [f"-Wl,-z,max-page-size={PAGE}", "-Wl,-z,relro", "-Wl,-z,now"]
    command += [str(source) for source in (*sources, native / "port" / "posix.c")]
    command += ["-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,--hash-style=gnu", f"-Wl,-soname,{file_name(kind)}"]
    command += [f"-Wl,--version-script,{script}", "-Wl,--build-id=none"]
    if platform.android:
        command += [str(scratch / library) for library in functions()]
    else:
        command += ["-lpthread", "-ldl"]
    return [*command, "-s", "-o", str(output)]


def functions() -> dict[str, list[str]]:
    """What Android's libraries have that may be used: library -> functions (runtime_android/bionic/symbols.txt)."""
    found: dict[str, list[str]] = {}
    for line in (resource("runtime_android") / "bionic" / "symbols.txt").read_text().splitlines():
        library, _, names = line.partition(": ")
        if not line.startswith("#"):
            found.setdefault(library, []).extend(names.split())
    return found


def _make_stubs(platform: Platform, scratch: Path) -> None:
    """Empty libraries with the names of Android's, to link against."""
    for library, names in functions().items():
        source = scratch / f"{library}.c"
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
        command = zig("cc", "-target", platform.triple, *platform.flags, "-ffreestanding", "-nostdlib", "-fno-builtin")
        command += ["-w", "-shared", "-fPIC", f"-Wl,-soname,{library}", str(source), "-o", str(scratch / library)]
        run(command, scratch, f"a stand-in for {library}")


def main(arguments: list[str]) -> None:
    """Builds the libraries of the desktops, or of the platforms that are named."""
    folder, names = Path(arguments[0]), arguments[1:] or [platform.name for platform in DESKTOPS]
    for name in names:
        print(build(PLATFORMS[name], folder / name))


if __name__ == "__main__":
    main(sys.argv[1:])
