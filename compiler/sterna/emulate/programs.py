"""Static programs for the processors that qemu-user emulates: the C runtime with a tool of its own, built by zig."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sterna.codegen.render import resource
from sterna.errors import error
from sterna.toolchain.zig import zig

#: How zig is told of a processor, by the first word of LLVM's triples.
MACHINES: dict[str, tuple[str, ...]] = {
    "aarch64": ("-target", "aarch64-linux-musl"),
    "armv7": ("-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+neon+vfp4"),
    "armv6": ("-target", "arm-linux-musleabihf", "-mcpu=arm1176jzf_s"),
    "i686": ("-target", "x86-linux-musl"),
    "riscv64": ("-target", "riscv64-linux-musl"),
}
_FOLDERS = ("include", "src", "port")
_FLAGS = ("-std=c99", "-O2", "-fno-sanitize=all", "-g0")


def command(architecture: str, sources: Sequence[Path], output: Path) -> list[str]:
    """How zig builds a static program of the C runtime that can still open kernel libraries.

    Args:
        architecture: the first word of an LLVM triple.
        sources: what the program has besides the runtime.

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
    return [*zig("cc", *MACHINES[architecture]), "-static", *_FLAGS, *folders, *files, "-o", str(output)]


def sources(own: Sequence[Path]) -> list[Path]:
    """All files that such a program is made of."""
    root = resource("runtime_c")
    runtime = [path for name in (*_FOLDERS, "tools") for path in sorted((root / name).glob("*.[ch]"))]
    return [*own, *runtime]
