"""Mutated models: each is read and compiled through every Python stage, and a few are compiled to machine code and run.

A model is right or refused. A process of its own reads and compiles some hundreds of them; another watches it, so that
a crash of a native library is one finding. What is done with a model besides (target, generator, whether it runs)
follows from its bytes, so that a saved one shows what it showed. `read` (read_fuzzer.py) has many more of them, and
reads them only.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
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
from watched import STUCK, Bad, batch, guarded, note

#: Names of formats (`model_seeds.SHARES`), with commas between them, that alone are mutated; empty: all.
FORMATS = "STERNA_FUZZ_FORMATS"
BATCH = 400  # models of one process
#: One of so many models is interpreted before and after the passes; is compiled to machine code and run.
COMPARED, RUN = 6, 40
#: Targets that models are compiled for without machine code: vectors of several widths, products of bytes, firmware.
TARGETS = ("x86-64-v3", "x86-64-v4-vnni", "x86-64-v4-amx", "arm64-dotprod", "browser-relaxed", "cortex-m4", "c99")
_MOST_ELEMENTS = 20_000  # of a tensor in a model that is interpreted
_OPEN = b"open_n"  # a dimension of this name is left open


# ---------------------------------------------------------------- one model
def execute(content: bytes, folder: Path) -> Bad | None:
    """Reads and compiles one model.

    Args:
        folder: for its file and bundle.
    """
    return guarded(_compile, content, folder)


def _tiles(graph: Graph) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Tiles for every convolution that can have some, worth it or not."""
    found = ((node.output.name, weights) for node in graph.nodes if (weights := filters(node)) is not None)
    return tuple((name, tuple(TILES[r][-1] for r in weights.shape[:-2])) for name, weights in found)


def _compile(content: bytes, folder: Path) -> Bad | None:
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


def _compared(graph: Graph, compiled: Compiled, choice: int, folder: Path | None) -> Bad | None:
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
            return Bad("wrong answer", f"the passes change {wrong}")
        if folder is not None and all(v.dtype != dtypes.STRING for v in graph.outputs) and not graph.states:
            with load(write_bundle(compiled, folder / "bundle")) as bundle:
                found = bundle.run(feeds)
            if (wrong := _differing(found, expected)) is not None:
                return Bad("wrong answer", f"the bundle differs in {wrong}")
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
        for place, bad in batch(source, range(number, number + BATCH), execute, budget, work):
            number = place + 1
            if bad is not None:
                note(found, bad, source[place], budget)
    return list(found.values())


def replay(content: bytes, work: Path) -> list[Finding]:
    """Executes one saved model, in a process of its own."""
    os.environ["STERNA_NO_CACHE"] = "1"
    bad = [bad for _, bad in batch([content], range(1), execute, Budget(STUCK, 1), work) if bad is not None]
    return [Finding(each.kind, each.text, content) for each in bad]


def _warm(source: _Source, work: Path) -> None:
    """Lets everything be imported and every cache be filled before the first process is forked."""
    _host()
    for pool in source.pools.values():
        for content in pool[:: max(len(pool) // 5, 1)]:
            execute(content, work)
    gc.collect()
    gc.freeze()


FUZZER = Fuzzer("models", "mutated models of most formats are compiled", fuzz, replay)
