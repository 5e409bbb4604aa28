"""The JavaScript runtime under hostile graphs and calls, in Node, with the C runtime beside it as a WebAssembly module.

runtime_js/test/fuzz.js makes the cases and judges them: an error that is no SternaError, a call after dispose() that
works, or a graph that only one of the two runtimes accepts. This module builds what it needs, drives it, and finds the
case that ended it, hung or took too much memory.
"""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frame import Budget, Finding, Fuzzer

ROOT = Path(__file__).resolve().parents[1]
HARNESS = ROOT / "runtime_js" / "test" / "fuzz.js"
RUNTIME = ROOT / "runtime_c"
#: Cases between two looks at the clock and the memory.
BATCH = 200
#: Seconds of one case that are a hang, and bytes of the process that are too many.
MOST_SECONDS, MOST_BYTES = 10.0, 2 << 30


def build(folder: Path) -> Path:
    """Compiles kernels.wasm, the same for threads, and reader.wasm into a folder."""
    source = HARNESS.with_suffix(".c")
    zig = [sys.executable, "-m", "ziglang"]
    includes = [f"-I{RUNTIME / part}" for part in ("include", "src", "port")]
    flags = ["-std=c99", "-O1", "-g0", "-fno-sanitize=all", *includes]
    freestanding = [
        "-target",
        "wasm32-freestanding",
        "-ffreestanding",
        "-nostdlib",
        "-fvisibility=hidden",
        "-c",
        source,
    ]
    exports = ["--export=sterna_fuzz_library", "--export=__heap_base", "--export-table", "--import-memory"]
    link = ["--no-entry", *exports, "--stack-first", "-z", "stack-size=65536", "--strip-all"]
    shared = ["--shared-memory", "--max-memory=4294967296", "--export=__stack_pointer"]
    sources = [*sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "none.c"]
    reader = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-DREADER", "-DSTERNA_PORT_NONE"]
    one, several = folder / "one.o", folder / "several.o"
    for command in (
        [*zig, "cc", *freestanding, *flags, "-c", source, "-o", one],
        [*zig, "wasm-ld", *link, one, "-o", folder / "kernels.wasm"],
        [*zig, "cc", *freestanding, *flags, "-mcpu=generic+atomics+bulk_memory", "-c", source, "-o", several],
        [*zig, "wasm-ld", *link, *shared, several, "-o", folder / "threads.wasm"],
        [*zig, "cc", *reader, *flags, source, *sources, "-o", folder / "reader.wasm"],
    ):
        subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return folder


class Harness:
    """The program in Node: a line in, a line of JSON out. It is started again after it died."""

    def __init__(self, folder: Path, script: Path = HARNESS):
        self.folder, self.script = folder, script
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: str, seconds: float) -> dict[str, Any] | str:
        """The answer to a line, or what happened in place of one."""
        process = self.process
        if process is None or process.poll() is not None:
            command = ["node", str(self.script), str(self.folder)]
            log = (self.folder / "node.log").open("w")
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder
            )
            self.process = process
            self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
            threading.Thread(target=self._read, args=(process, self.lines), daemon=True).start()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = self.lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            return "hang"
        except OSError:
            answer = ""
        if answer:
            result: dict[str, Any] = json.loads(answer)
            return result
        self.close()
        return f"crash: {(self.folder / 'node.log').read_text(errors='replace')[-2000:]}"

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _findings(answer: dict[str, Any] | str, data: bytes) -> list[Finding]:
    """What an answer says of one case, or of several that name their own."""
    if isinstance(answer, str):
        return [Finding(answer.partition(":")[0], answer, data)]
    found = [Finding("wrong", each["text"], base64.b64decode(each["data"])) for each in answer["findings"]]
    if answer["rss"] > MOST_BYTES:
        found.append(Finding("memory", f"{answer['rss']:,} bytes", data))
    return found


def fuzz(budget: Budget, seed: int, work: Path) -> Sequence[Finding]:
    harness = Harness(build(work))
    found: list[Finding] = []
    try:
        for data in FUZZER.corpus():
            found += _replay(harness, data)
            budget.count()
        first = 0
        while not budget.spent:
            answer = harness.ask(f"cases {first} {BATCH} {seed}", 10 * MOST_SECONDS)
            if isinstance(answer, str) or answer["rss"] > MOST_BYTES:  # which one of them?
                for number in range(first, first + BATCH):
                    one = f"cases {number} 1 {seed}"
                    found += _findings(harness.ask(one, MOST_SECONDS), one.encode())
            else:
                found += _findings(answer, b"")
            first += BATCH
            budget.count(BATCH)
    finally:
        harness.close()
    return found


def _replay(harness: Harness, data: bytes) -> list[Finding]:
    """One saved case: its JSON, or the line that makes it."""
    line = data.decode() if data.startswith(b"cases ") else f"replay {base64.b64encode(data).decode()}"
    return _findings(harness.ask(line, MOST_SECONDS), data)


def replay(data: bytes, work: Path) -> Sequence[Finding]:
    harness = Harness(build(work))
    try:
        return _replay(harness, data)
    finally:
        harness.close()


FUZZER = Fuzzer(
    name="javascript",
    about="graphs and calls of the JavaScript runtime, each graph through the C runtime too",
    fuzz=fuzz,
    replay=replay,
    needs=("node",),
)
