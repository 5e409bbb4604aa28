"""Compiles hash.c into ../src/hash-module.js: python runtime_js/hash/build.py [--check]."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULE = HERE.parent / "src" / "hash-module.js"
FLAGS = [
    "-target",
    "wasm32-freestanding",
    "-mcpu=mvp",
    "-Oz",
    "-g0",
    "-nostdlib",
    "-ffreestanding",
    "-fno-sanitize=all",
]
LINK = ["--no-entry", "--strip-all", "--export-memory=m", "-O2", "--compress-relocations", "-z", "stack-size=16"]
#: Sections that the linker writes whether code needs them or not: a table of functions, and a pointer to the stack.
UNUSED = (4, 6)


def without_unused(module: bytes) -> bytes:
    """The module without the sections that nothing refers to; an engine would refuse it otherwise."""
    kept, at = [module[:8]], 8
    while at < len(module):
        end, size, bits = at + 1, 0, 0
        while True:
            size |= (module[end] & 127) << bits
            bits, end = bits + 7, end + 1
            if module[end - 1] < 128:
                break
        kept += [] if module[at] in UNUSED else [module[at : end + size]]
        at = end + size
    return b"".join(kept)


def module_text() -> str:
    """The contents of hash-module.js."""
    zig = [sys.executable, "-m", "ziglang"]
    with tempfile.TemporaryDirectory() as directory:
        object_file, out = Path(directory) / "hash.o", Path(directory) / "hash.wasm"
        subprocess.run([*zig, "cc", *FLAGS, "-c", str(HERE / "hash.c"), "-o", str(object_file)], check=True)
        subprocess.run([*zig, "wasm-ld", *LINK, str(object_file), "-o", str(out)], check=True)
        # Compressed, hexadecimal digits are shorter than a list of numbers, and than base64, which hides what repeats.
        lines = [f'  "{digits}"' for digits in textwrap.wrap(without_unused(out.read_bytes()).hex(), 112)]
    text = " +\n".join(lines)
    return f"// Made from hash/hash.c by hash/build.py.\nexport default (\n{text}\n);\n"


if __name__ == "__main__":
    made = module_text()
    if "--check" in sys.argv and MODULE.read_text() != made:
        sys.exit(f"{MODULE} is not what hash.c makes: run {Path(__file__).name}")
    MODULE.write_text(made)
