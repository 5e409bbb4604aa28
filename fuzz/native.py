"""The fuzzers of the C runtime: a program of C that makes its inputs itself, ten thousand a second, under sanitizers.

runtime_c/test/fuzz_runtime.c says what it does, fuzz_input.h what its inputs are. This module builds it, gives it the
bases, watches it, and turns its death into a finding: the program leaves the number of the execution at hand in a file,
from which, with the seed, it prints the input again.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bundles import bases
from frame import Budget, Finding, Fuzzer

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime_c"
#: Executions of one process; afterwards the leak checker looks at what is left, and a new one starts.
PER_PROCESS = 250_000
HANG_SECONDS = 10.0
#: After so many findings a fuzzer stops: they are most often one.
MOST_FINDINGS = 5
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=1:quarantine_size_mb=16",
}


def build(work: Path, runtime: Path = RUNTIME, sanitizers: Sequence[str] = SANITIZERS) -> Path:
    """The program: the runtime with sanitizers; what makes the inputs without, since it is not what is looked into.

    Every request for memory is one of the allocator's (`STERNA_CHUNK_BYTES`): it may fail, and its ends are watched.
    Objects that stand in the work folder are taken as they are.
    """
    test, objects = ROOT / "runtime_c" / "test", []
    includes = [f"-I{runtime / 'include'}", f"-I{runtime / 'src'}", f"-I{test}"]
    checked = ["-g", "-O2", "-DSTERNA_CHUNK_BYTES=32", *sanitizers]
    own = [test / f"fuzz_{name}.c" for name in ("runtime", "input", "check")]
    sources = [*own, *sorted((runtime / "src").glob("*.c")), runtime / "port" / "posix.c"]
    for source, flags in [(test / "fuzz_mutate.c", ["-O2"]), *((source, checked) for source in sources)]:
        objects.append(work / f"{source.stem}.o")
        if not objects[-1].exists():
            command = ["gcc", "-std=c99", *flags, *includes, "-c", str(source), "-o", str(objects[-1])]
            subprocess.run(command, check=True)
    program = work / "fuzz_runtime"
    subprocess.run(["gcc", *sanitizers, *map(str, objects), "-o", str(program), "-lpthread", "-ldl"], check=True)
    return program


class _Process:
    """One process of the program, over executions of its own."""

    def __init__(self, program: Path, mode: str, seed: int, files: Sequence[Path], work: Path):
        self.program, self.mode, self.seed, self.files = program, mode, seed, [str(f) for f in files]
        self.work = work
        self.progress, self.log = work / "progress", work / "sanitizer.log"

    def at_hand(self) -> int:
        """The number of the execution at hand."""
        data = self.progress.read_bytes()
        return struct.unpack("=Q", data)[0] if len(data) == 8 else 0

    def input_of(self, number: int) -> bytes:
        """The input of an execution."""
        command = [self.program, self.mode, str(self.seed), str(number), "print", *self.files]
        return subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT, cwd=self.work).stdout

    def run(self, first: int, count: int, deadline: float) -> tuple[int, Finding | None]:
        """Executes from number `first` on; how many were made, and what ended them early, if it was a defect."""
        self.progress.write_bytes(struct.pack("=Q", first))
        command = [self.program, self.mode, str(self.seed), str(first), str(count), self.progress, *self.files]
        with self.log.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT, cwd=self.work)
        seen, since = first, time.monotonic()
        while process.poll() is None:
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                now, at = time.monotonic(), self.at_hand()
                if at != seen:
                    seen, since = at, now
                if now >= deadline or now - since > HANG_SECONDS:
                    process.kill()
                    process.wait()
                    if now - since <= HANG_SECONDS:
                        return at - first, None
                    return at - first, Finding("hang", f"more than {HANG_SECONDS:g} s", self.input_of(at))
        if process.returncode == 0:
            return count, None
        at = self.at_hand()
        said = self.log.read_text(errors="replace")[:4000]
        return at + 1 - first, Finding("crash", said, self.input_of(at))


def fuzz(mode: str, corpus: Sequence[bytes], budget: Budget, seed: int, work: Path) -> list[Finding]:
    """Replays the corpus, then mutates until the budget is spent."""
    return fuzz_program(build(work), mode, corpus, budget, seed, work)


def write_bases(work: Path, corpus: Sequence[bytes] = ()) -> list[Path]:
    """The files that inputs are made of."""
    named = [*bases(work), *((f"corpus-{number}", data) for number, data in enumerate(corpus))]
    files = [work / f"{name}.base" for name, _ in named]
    for file, (_, data) in zip(files, named, strict=True):
        file.write_bytes(data)
    return files


def fuzz_program(
    program: Path,
    mode: str,
    corpus: Sequence[bytes],
    budget: Budget,
    seed: int,
    work: Path,
    files: Sequence[Path] | None = None,
) -> list[Finding]:
    """The same with a program that is built; `files` are what its inputs are made of, if not the bases."""
    findings = [finding for data in corpus for finding in replay_with(program, data, work)]
    budget.count(len(corpus))
    process, first = _Process(program, mode, seed, write_bases(work, corpus) if files is None else files, work), 0
    while not budget.spent and len(findings) < MOST_FINDINGS:
        count = PER_PROCESS if budget.executions is None else min(PER_PROCESS, budget.executions - budget.made)
        made, finding = process.run(first, count, budget.started + budget.seconds)
        budget.count(made)
        first += made
        findings += [] if finding is None else [finding]
    return findings


def replay_with(program: Path, data: bytes, work: Path) -> list[Finding]:
    """Executes one input."""
    path = work / "replayed"
    path.write_bytes(data)
    try:
        done = subprocess.run(
            [program, "replay", path], capture_output=True, timeout=HANG_SECONDS, env=ENVIRONMENT, check=False, cwd=work
        )
    except subprocess.TimeoutExpired:
        return [Finding("hang", f"more than {HANG_SECONDS:g} s", data)]
    if done.returncode == 0:
        return []
    return [Finding("crash", done.stderr.decode(errors="replace")[:4000], data)]


def replay(data: bytes, work: Path) -> list[Finding]:
    """Executes one input."""
    return replay_with(build(work), data, work)


def fuzzer(mode: str, about: str) -> Fuzzer:
    """The fuzzer of that mode of the program."""

    def run(budget: Budget, seed: int, work: Path) -> list[Finding]:
        return fuzz(mode, made.corpus(), budget, seed, work)

    made = Fuzzer(mode, about, run, replay, ("gcc",))
    return made
