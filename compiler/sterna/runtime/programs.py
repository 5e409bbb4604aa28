"""Static programs for Linux on many processors: the C runtime with a tool of its own, built by zig once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.codegen.render import resource
from sterna.errors import error
from sterna.scratch import scratch_folder
from sterna.toolchain.compilers import compiler_version, run
from sterna.toolchain.zig import zig
from sterna_runtime.private import MODE, close, make_private, scratch_directory

#: How zig is told of a processor, by the first word of LLVM's triples.
MACHINES: dict[str, tuple[str, ...]] = {
    "aarch64": ("-target", "aarch64-linux-musl"),
    "armv7": ("-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+neon+vfp4"),
    "armv6": ("-target", "arm-linux-musleabihf", "-mcpu=arm1176jzf_s"),
    "i686": ("-target", "x86-linux-musl"),
    "x86_64": ("-target", "x86_64-linux-musl"),
    "riscv64": ("-target", "riscv64-linux-musl"),
}
_FOLDERS = ("include", "src", "port")
#: How all of them are built. For other ways to optimize or to unwind zig builds the C library anew, a minute each.
FLAGS = ("-std=c99", "-Os", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-sanitize=all", "-g0")
#: Further flags of a program that is copied to boards.
SMALL = ("-fno-stack-protector", "-ffunction-sections", "-s")


def command(architecture: str, sources: Sequence[Path], output: Path, flags: Sequence[str] = ()) -> list[str]:
    """How zig builds a static program of the C runtime that can still open kernel libraries.

    Args:
        architecture: the first word of an LLVM triple.
        sources: what the program has besides the runtime; flags: further ones.

    Raises:
        SternaError: E0402 there is no zig; E0507 no program of qemu-user runs that architecture.
    """
    if architecture not in MACHINES:
        known = ", ".join(MACHINES)
        raise error("E0507", f"no emulator is known for {architecture or 'source code'}", fix=f"one for {known}")
    root = resource("runtime_c")
    runtime = [*sorted((root / "src").glob("*.c")), root / "port" / "posix.c", root / "tools" / "static_dlopen.c"]
    folders = [f"-I{root / name}" for name in _FOLDERS]
    files = [str(path) for path in (*sources, *runtime)]
    return [*zig("cc", *MACHINES[architecture]), "-static", *FLAGS, *flags, *folders, *files, "-o", str(output)]


def sources() -> list[Path]:
    """All files that such programs are made of."""
    root = resource("runtime_c")
    return [path for name in (*_FOLDERS, "tools", "rpc") for path in sorted((root / name).glob("*.[ch]"))]


def built(name: str, architecture: str, own: Sequence[Path], flags: Sequence[str] = ()) -> bytes:
    """A program, built once of the same sources.

    Raises:
        SternaError: as `command`; E0403 it does not compile.
    """
    words = command(architecture, own, Path(name), flags)

    def make() -> bytes:
        with scratch_folder("programs") as scratch:
            run(words, scratch, f"{name} for {architecture}")
            return (scratch / name).read_bytes()

    contents = [path.read_bytes() for path in (*own, *sources())]
    key = caching.key("programs", compiler_version(zig()[0]), *words, *contents)
    return Cache("libraries", cache_directory()).get_or_make(key, make)


def placed(name: str, architecture: str, own: Sequence[Path], flags: Sequence[str] = ()) -> Path:
    """The same as a file that this process can start, until it ends."""
    place = scratch_directory() / f"{name}-{architecture}"
    if not place.is_file():
        data = built(name, architecture, own, flags)
        make_private(place.parent)
        place.write_bytes(data)
        close(place)
        place.chmod(MODE)
    return place
