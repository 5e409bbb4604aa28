"""Sessions of the server of devices (runtime_c/rpc/) under hostile frames.

runtime_c/test/fuzz_rpc.c says what it does. An execution is a session of about a dozen frames: 1e5 of them are more
than a million frames.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import native
from frame import Budget, Finding, Fuzzer
from sterna.api import compile_to

DIGITS = native.ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
#: Files of the server that know sockets and processes, which sessions do without.
_OUTSIDE = ("sterna_rpc.c", "connection.c")


def build(work: Path, rpc: Path = native.RUNTIME / "rpc", sanitizers: Sequence[str] = native.SANITIZERS) -> Path:
    """The program: runtime and server with sanitizers."""
    program, runtime = work / "fuzz_rpc", native.RUNTIME
    server = [path for path in sorted(rpc.glob("*.c")) if path.name not in _OUTSIDE]
    sources = [runtime / "test" / "fuzz_rpc.c", *server, *sorted((runtime / "src").glob("*.c"))]
    includes = [f"-I{folder}" for folder in (runtime / "include", runtime / "src", runtime / "port", rpc)]
    flags = ["-std=c99", "-g", "-O1", *sanitizers, *includes]
    files = [str(path) for path in (*sources, runtime / "port" / "posix.c")]
    subprocess.run(["gcc", *flags, *files, "-o", str(program), "-lpthread", "-ldl"], check=True)
    return program


def bundle_files(work: Path) -> list[Path]:
    """Those of a bundle that sessions send and load."""
    place = compile_to(work / "digits", DIGITS, generator="llvm")
    return [path for path in sorted(place.iterdir()) if path.suffix in (".json", ".bin", ".so")]


def fuzz_with(program: Path, corpus: Sequence[bytes], budget: Budget, seed: int, work: Path) -> list[Finding]:
    """With a program that is built."""
    return native.fuzz_program(program, "sessions", corpus, budget, seed, work, bundle_files(work))


def _fuzz(budget: Budget, seed: int, work: Path) -> list[Finding]:
    return fuzz_with(build(work), FUZZER.corpus(), budget, seed, work)


def _replay(data: bytes, work: Path) -> list[Finding]:
    return native.replay_with(build(work), data, work)


FUZZER = Fuzzer("devices", "frames to the server of devices", _fuzz, _replay, ("gcc",))
