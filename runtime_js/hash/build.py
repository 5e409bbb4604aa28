"""Compiles hash.c into ../src/hash-module.js: python runtime_js/hash/build.py [--check]."""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
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
LINK = ["-Wl,--no-entry", "-Wl,-z,stack-size=16", "-Wl,--strip-all"]


def module_text() -> str:
    """The contents of hash-module.js."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "hash.wasm"
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *LINK, str(HERE / "hash.c"), "-o", str(out)]
        subprocess.run(command, check=True)
        text = base64.b64encode(out.read_bytes()).decode()
    return f'// Made from hash/hash.c by hash/build.py.\nexport default "{text}";\n'


if __name__ == "__main__":
    made = module_text()
    if "--check" in sys.argv and MODULE.read_text() != made:
        sys.exit(f"{MODULE} is not what hash.c makes: run {Path(__file__).name}")
    MODULE.write_text(made)
