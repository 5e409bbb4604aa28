"""Mutated models: each is read and compiled through every Python stage, and a few are compiled to machine code and run.

A model is right or refused. A process of its own reads and compiles some hundreds of them; another watches it, so that
a crash of a native library is one finding. What is done with a model besides (target, generator, whether it runs)
follows from its bytes, so that a saved one shows what it showed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import numpy as np

from frame import Budget, Finding, Fuzzer
from model_mutations import mutated
from model_seeds import SHARES, seeds
from sterna.bundle.graph_json import graph_json
from sterna.bundle.writer import write_bundle
from sterna.codegen import llvm
from sterna.debug.interpret import interpret
from sterna.driver import Compiled, Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.ir import dtypes
from sterna.ir.graph import Graph, has_regions
from sterna.passes.winograd import TILES, filters
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna_runtime import load

#: Names of formats (`model_seeds.SHARES`), with commas between them, that alone are mutated; empty: all.
FORMATS = "STERNA_FUZZ_FORMATS"
SECONDS = 10.0  # of processor time that one model may take
STUCK = 90.0  # seconds without progress after which the process is ended from outside: a native library hangs
MEMORY = 2 << 30  # bytes beyond what the process has when it begins
BATCH = 400  # models of one process
#: One of so many models is interpreted before and after the passes; is compiled to machine code and run.
COMPARED, RUN = 6, 40
#: Targets that models are compiled for without machine code: vectors of several widths, products of bytes, firmware.
TARGETS = ("x86-64-v3", "x86-64-v4-vnni", "x86-64-v4-amx", "arm64-dotprod", "browser-relaxed", "cortex-m4", "c99")
_MOST_ELEMENTS = 20_000  # of a tensor in a model that is interpreted
_OPEN = b"open_n"  # a dimension of this name is left open


class _HangError(BaseException):
    """Not to be taken for an ordinary failure by anyone between."""


@dataclass(frozen=True)
class _Bad:
    """What a model showed."""

    kind: str
    text: str


# ---------------------------------------------------------------- one model
def execute(content: bytes, folder: Path) -> _Bad | None:
    """Reads and compiles one model.

    Args:
        folder: for its file and bundle.
    """
    caught: list[warnings.WarningMessage]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bad = _guarded(content, folder)
    if bad is None and caught:
        first = caught[0]
        bad = _Bad("warning", f"{first.category.__name__}: {first.message} ({_short(first.filename)}:{first.lineno})")
    return bad


def _guarded(content: bytes, folder: Path) -> _Bad | None:
    try:
        return _compile(content, folder)
    except SternaError as refusal:
        if "E0901" in refusal.codes:
            ours = next(d for d in refusal.diagnostics if d.code == "E0901")
            return _Bad("uncaught error", f"E0901 {ours.title} {' '.join(ours.where)}"[:600])
        if "E0117" in refusal.codes:
            return _Bad("memory", str(refusal)[:600])
        str(refusal)
        return None
    except _HangError as problem:
        return _Bad("hang", _place(problem))
    except MemoryError as problem:
        return _Bad("memory", _place(problem))
    except Exception as problem:
        return _Bad("uncaught error", _place(problem))


def _tiles(graph: Graph) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Tiles for every convolution that can have some, worth it or not."""
    found = ((node.output.name, weights) for node in graph.nodes if (weights := filters(node)) is not None)
    return tuple((name, tuple(TILES[r][-1] for r in weights.shape[:-2])) for name, weights in found)


def _compile(content: bytes, folder: Path) -> _Bad | None:
    choice = zlib.crc32(content)
    file = folder / "model"
    file.write_bytes(content)
    dims = {_OPEN.decode(): (1, 9)} if _OPEN in content else None
    is_run = choice % RUN == 0
    target = _host() if is_run else _target(TARGETS[choice // 64 % len(TARGETS)])
    graph = read_model(file, ReadOptions(dims=dims or {}, static=target.static))
    weights = ("fp32", "fp32", "fp32", "fp16", "bf16")[choice // 1024 % 5]
    tiles = _tiles(graph) if choice // 8192 % 4 == 0 else ()
    options = Options(target, "llvm", weights="fp32" if is_run else weights, tiles=tiles)
    compiled = compile_graph(graph, "fuzzed", options)
    if not target.static:
        graph_json(compiled, {"params.bin": compiled.params})
    if not is_run and target.llvm_triple and choice // 65536 % 2:
        llvm.module_text([kernel.function for kernel in compiled.kernels], target, "fuzzed", None)
    if (is_run or choice % COMPARED == 0) and _is_small(graph):
        return _compared(graph, compiled, choice, folder if is_run else None)
    return None


@cache
def _host() -> Target:
    """This machine; finding out what it can do takes processes of its own."""
    return load_target("host")


@cache
def _target(name: str) -> Target:
    """A target that models are compiled for up to the source."""
    return replace(load_target(name), library="", variants=())


def _is_small(graph: Graph) -> bool:
    """Whether a graph can be interpreted in no time: fixed and few elements, nothing that is repeated."""
    values = list(graph.values())
    if has_regions(graph) or not all(value.type.is_static for value in values):
        return False
    return len(values) < 200 and all(int(value.type.elements) <= _MOST_ELEMENTS for value in values)


def _compared(graph: Graph, compiled: Compiled, choice: int, folder: Path | None) -> _Bad | None:
    """The same graph before and after the passes, and what a bundle gives if a folder for it is given."""
    random = np.random.default_rng(choice)
    feeds = {}
    for value in graph.inputs:
        kind = dtypes.to_numpy(value.dtype)
        drawn = random.integers(0, 2 if value.dtype == "bool" else 3, value.type.sizes)
        if dtypes.is_float(value.dtype):
            drawn = random.standard_normal(value.type.sizes)
        if value.dtype != dtypes.STRING and value.dtype not in dtypes.NARROW:
            feeds[value.name] = np.asarray(drawn).astype(kind)
    if len(feeds) < len(graph.inputs):
        return None
    with np.errstate(all="ignore"):
        try:
            expected = interpret(graph, feeds)
        except SternaError as refusal:
            if refusal.codes == ("E0511",):
                return None
            raise
        found = interpret(compiled.graph, feeds)
        if (wrong := _differing(found, expected)) is not None:
            return _Bad("wrong answer", f"the passes change {wrong}")
        if folder is not None and all(v.dtype != dtypes.STRING for v in graph.outputs) and not graph.states:
            with load(write_bundle(compiled, folder / "bundle")) as bundle:
                found = bundle.run(feeds)
            if (wrong := _differing(found, expected)) is not None:
                return _Bad("wrong answer", f"the bundle differs in {wrong}")
    return None


def _differing(found: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Where two sets of results cannot both be right; what rounding does to numbers out of range is left aside."""
    for name, want in expected.items():
        have = found.get(name)
        if have is None or have.shape != want.shape or have.dtype != want.dtype:
            return f"{name}: {have is not None and (have.dtype, have.shape)} for {want.dtype} {want.shape}"
        if want.dtype.kind in "VO" or not want.size:
            continue
        a, b = np.asarray(have, np.float64), np.asarray(want, np.float64)
        # Large numbers have lost their digits on the way: sums of them may be anything.
        ordinary = np.isfinite(a) & np.isfinite(b) & (np.abs(b) < 1e4)
        step = 1.0 if want.dtype.kind in "iu" else 0.02
        if not ordinary.all():
            continue
        distance = np.abs(a - b)
        if (distance > step + 0.02 * np.abs(b)).any():
            place = int(np.argmax(distance))
            return f"{name}: {a.reshape(-1)[place]} for {b.reshape(-1)[place]}"
    return None


def _place(problem: BaseException) -> str:
    """An exception and the innermost places that it went through."""
    frames = traceback.extract_tb(problem.__traceback__)
    places = [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    own = [place for place in places if not place.startswith("fuzz/")]
    return f"{type(problem).__name__}: {str(problem)[:200]}\n    " + " <- ".join(reversed(own[-6:]))


def _short(path: str) -> str:
    parts = Path(path).parts
    return "/".join(parts[-3:] if "sterna" in parts else parts[-2:])


# ---------------------------------------------------------------- many of them
class _Source:
    """The inputs of a run by number: the corpus first, then mutations that the seed and the number decide."""

    def __init__(self, seed: int, corpus: Sequence[bytes]):
        self.seed, self.corpus = seed, list(corpus)
        self.pools = seeds()
        wanted = {each for each in os.environ.get(FORMATS, "").split(",") if each}
        self.forms = [
            form
            for form, share in SHARES.items()
            for _ in range(share)
            if self.pools.get(form, [b""]) and (not wanted or form in wanted)
        ]

    def __getitem__(self, number: int) -> bytes:
        if number < len(self.corpus):
            return self.corpus[number]
        random = Random(f"{self.seed}:{number}")
        form = random.choice(self.forms)
        return mutated(form, self.pools.get(form, ()), random)


def fuzz(budget: Budget, seed: int, work: Path) -> list[Finding]:
    """Executes models until the budget is spent; one finding per place that a failure comes from."""
    os.environ["STERNA_NO_CACHE"] = "1"
    source = _Source(seed, FUZZER.corpus())
    _warm(source, work)
    found: dict[str, Finding] = {}
    number = 0
    while not budget.spent:
        for place, bad in _batch(source, number, budget, work):
            number = place + 1
            if bad is not None:
                _note(found, bad, source[place])
    return list(found.values())


def replay(content: bytes, work: Path) -> list[Finding]:
    """Executes one saved model, in a process of its own."""
    os.environ["STERNA_NO_CACHE"] = "1"
    bad = [bad for _, bad in _batch([content], 0, Budget(STUCK, 1), work) if bad is not None]
    return [Finding(each.kind, each.text, content) for each in bad]


def _warm(source: _Source, work: Path) -> None:
    """Lets everything be imported and every cache be filled before the first process is forked."""
    _host()
    for pool in source.pools.values():
        for content in pool[:: max(len(pool) // 5, 1)]:
            execute(content, work)
    gc.collect()
    gc.freeze()


def _note(found: dict[str, Finding], bad: _Bad, content: bytes) -> None:
    """Keeps the smallest input of each place that a failure comes from."""
    where = bad.text.rpartition("\n    ")[2].split(" <- ")[0] if "\n" in bad.text else bad.text[:60]
    if bad.text.startswith("E0901"):
        where = bad.text.rpartition(" at ")[2]
    known = found.get(f"{bad.kind} {where}")
    if known is None:
        print(f"  found: {bad.kind}: {bad.text}", flush=True)
    if known is None or len(content) < len(known.data):
        found[f"{bad.kind} {where}"] = Finding(bad.kind, bad.text, content)


def _batch(source: _Source | list[bytes], first: int, budget: Budget, work: Path) -> Iterator[tuple[int, _Bad | None]]:
    """What each of some models shows, from one process; up to the one that ends it."""
    progress = mmap.mmap(-1, 8)
    progress[:] = struct.pack("<q", first)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            _child(source, first, progress, writing, work)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
    os.close(writing)
    last, since, done = first, time.monotonic(), first
    pending = b""
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], 1.0)
            if ready:
                data = os.read(reading, 1 << 16)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    place, kind, text = json.loads(line)
                    yield from _passed(done, place, budget)
                    done = place + 1
                    budget.count()
                    yield place, _Bad(kind, text)
            (now,) = struct.unpack("<q", progress[:])
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                os.kill(process, signal.SIGKILL)
            if budget.spent:
                os.kill(process, signal.SIGKILL)
    finally:
        os.close(reading)
        _, status = os.waitpid(process, 0)
    (now,) = struct.unpack("<q", progress[:])
    yield from _passed(done, now, budget)
    if status and not budget.spent:
        budget.count()
        stuck = time.monotonic() - since > STUCK
        yield now, _Bad("hang" if stuck else "crash", f"ended with status {status:#x}; {_last_words(work)}")


def _passed(first: int, end: int, budget: Budget) -> Iterator[tuple[int, None]]:
    for place in range(first, end):
        budget.count()
        yield place, None


def _last_words(work: Path) -> str:
    path = work / "output"
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    return "\n    ".join(lines[:12])


def _child(source: _Source | list[bytes], first: int, progress: mmap.mmap, writing: int, work: Path) -> None:
    output = os.open(work / "output", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    faulthandler.enable(2)
    base = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY, base + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _hang)
    end = first + BATCH if isinstance(source, _Source) else len(source)
    for number in range(first, end):
        progress[:] = struct.pack("<q", number)
        content = source[number]
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            bad = execute(content, work)
        except _HangError as problem:  # between two places that guard against it
            bad = _Bad("hang", _place(problem))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        if bad is None and os.fstat(output).st_size:
            bad = _Bad("warning", f"printed: {_last_words(work)}"[:400])
        os.ftruncate(output, 0)
        os.lseek(output, 0, os.SEEK_SET)
        if bad is not None:
            os.write(writing, json.dumps([number, bad.kind, bad.text]).encode() + b"\n")
        if bad is not None and bad.kind in ("memory", "hang"):
            # A process that ran into a limit is not to be judged by what it does next.
            progress[:] = struct.pack("<q", number + 1)
            os._exit(0)
    progress[:] = struct.pack("<q", end)


def _hang(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(ValueError):
        signal.setitimer(signal.ITIMER_PROF, 2.0)  # should someone swallow the exception
    raise _HangError(f"more than {SECONDS:.0f} s")


FUZZER = Fuzzer("models", "mutated models of most formats are compiled", fuzz, replay)
