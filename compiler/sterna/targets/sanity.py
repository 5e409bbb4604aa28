"""What a target's description may say at all: sizes that a machine can have, names that go together.

`features` looks at what the processor's features allow; here is what holds of every machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from sterna.intrinsics import DOTS_OF_WORDS, FRAGMENTS
from sterna.intrinsics import INTRINSICS as PROVIDED
from sterna.targets.tables import Contradiction
from sterna.targets.target import CODE, Target

#: Architectures by how zig and LLVM begin their triples, and bits of a pointer; others are not judged.
_FAMILIES: tuple[tuple[str, str, int], ...] = (
    ("x86_64|amd64", "x86_64", 64),
    ("x86|i[3-6]86", "x86", 32),
    ("aarch64|arm64", "aarch64", 64),
    ("arm|armv[0-9]\\w*|thumb|thumbv[0-9]\\w*", "arm", 32),
    ("wasm32", "wasm32", 32),
    ("wasm64", "wasm64", 64),
    ("riscv32", "riscv32", 32),
    ("riscv64", "riscv64", 64),
    ("nvptx64", "nvptx64", 64),
)
_LIBRARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(so|dylib|dll|wasm|a)")
#: Threads of a subgroup.
_SUBGROUPS = (4, 8, 16, 32, 64, 128)
_KIND = re.compile(r"[a-z][a-z0-9]{0,31}")
#: Files with the kernels of a device; those that a bundle may have (sterna_runtime.ownership).
_MODULE = re.compile(r"kernels\.(cl|ptx|metal|wgsl)")
_RATES = ("multiply_adds_per_ns", "bytes_per_ns")
#: Key -> least and greatest number that makes sense.
_RANGES: dict[str, tuple[float, float]] = {
    "vector_registers": (1, 1024),
    "integer_registers": (0, 1024),
    "tile_registers": (0, 1024),
    "loads_per_cycle": (0.01, 64),
    "multiply_adds_per_cycle": (0, 64),
    "unrolled_products": (1, 65536),
    "float_products": (0, 65536),
    "cores": (1, 65536),
    "share_cycles": (0, 1e9),
    "l1_bytes": (0, 1 << 30),
    "l1_ways": (1, 1024),
    "l2_bytes": (0, 1 << 34),
    "l2_ways": (1, 1024),
    "line_bytes": (1, 4096),
}


def nonsense(target: Target) -> Iterator[Contradiction]:
    """What no machine is."""
    for key, (least, greatest) in _RANGES.items():
        value = getattr(target, key)
        if not (math.isfinite(value) and least <= value <= greatest):
            yield Contradiction(key, f"{key} is {value}", f"a number from {least:g} to {greatest:g}")
    for key in ("vector_bits", "fma_bits"):
        bits = getattr(target, key)
        if bits != 0 and not (8 <= bits <= 16384 and bits & (bits - 1) == 0):
            yield Contradiction(key, f"{key} is {bits}", "0, or a power of two from 8 on, such as 128")
    if target.code not in CODE:
        yield Contradiction("code", f'code is "{target.code}"', " or ".join(f'"{each}"' for each in CODE))
    yield from _caches(target)
    if target.pointer_bits not in (32, 64):
        yield Contradiction("pointer_bits", f"pointer_bits is {target.pointer_bits}", "32 or 64")
    if target.library and not _LIBRARY.fullmatch(target.library):
        fix = "model.so, model.dylib, model.dll, model.wasm or model.a; empty for source only"
        yield Contradiction("library", f'library is "{target.library}"', fix)
    yield from _triples(target)
    yield from _vectors(target)
    yield from _devices(target)
    yield from _flash(target)


def _flash(target: Target) -> Iterator[Contradiction]:
    """Whether what is said of the memory of weights can be."""
    flash = target.flash
    if flash is None:
        return
    if not target.static:
        yield Contradiction("flash", "weights are fetched by firmware alone", "static = true, or no table [flash]")
    if not (math.isfinite(flash.bytes_per_cycle) and flash.bytes_per_cycle > 0):
        problem = f"bytes_per_cycle is {flash.bytes_per_cycle}"
        yield Contradiction("bytes_per_cycle", problem, "a number greater than 0")
    for key in ("fetched_bytes_per_cycle", "fetch_cycles", "cache_bytes", "panel_bytes"):
        value = getattr(flash, key)
        if not (math.isfinite(value) and value >= 0):
            yield Contradiction(key, f"{key} is {value}", "a number that is not negative")


def _devices(target: Target) -> Iterator[Contradiction]:
    """Whether groups of threads and the device that has them can be."""
    if (threads := target.threads) is not None and not 1 <= threads.preferred <= threads.most <= 1024:
        problem = f"preferred is {threads.preferred} and most is {threads.most}"
        yield Contradiction("threads", problem, "1 <= preferred <= most <= 1024")
    if threads is not None and not 1 <= threads.multiprocessors <= 1 << 16:
        problem = f"multiprocessors is {threads.multiprocessors}"
        yield Contradiction("threads", problem, "a number from 1 to 65536")
    if threads is not None and not 0 <= threads.cache_bytes <= 1 << 34:
        yield Contradiction("threads", f"cache_bytes is {threads.cache_bytes}", "a number from 0 to 2^34")
    if threads is not None and not 0 <= threads.registers <= 1 << 24:
        yield Contradiction("registers", f"registers is {threads.registers}", "a number from 0 to 2^24")
    if threads is not None and threads.asynchronous_bytes not in (0, 4, 8, 16):
        problem = f"asynchronous_bytes is {threads.asynchronous_bytes}"
        yield Contradiction("threads", problem, "4, 8 or 16; 0 without asynchronous copies")
    if threads is not None and threads.subgroup not in (1, *_SUBGROUPS):
        yield Contradiction("subgroup", f"subgroup is {threads.subgroup}", "a power of two from 4 to 128; 1 without")
    optional = () if threads is None else threads.optional_subgroups
    if not {*optional} <= {*_SUBGROUPS} or [*optional] != sorted({*optional}, reverse=True):
        problem = f"optional_subgroups is {[*optional]}"
        yield Contradiction("optional_subgroups", problem, "powers of two from 4 to 128, the greatest first")
    if threads is not None and threads.access_bytes not in (0, 4, 8, 16):
        problem = f"access_bytes is {threads.access_bytes}"
        yield Contradiction("access_bytes", problem, "4, 8 or 16; 0 for an element at a time")
    if threads is not None and (unknown := sorted({*threads.fragments} - FRAGMENTS.keys())):
        problem = f"there is no intrinsic {unknown[0]} of fragments"
        yield Contradiction("fragments", problem, f"fragments takes {', '.join(FRAGMENTS)}")
    single = [name for name, intrinsic in DOTS_OF_WORDS.items() if intrinsic.lanes == 1]
    if threads is not None and (unknown := sorted({*threads.dots} - {*single})):
        problem = f"dots: there is no intrinsic {unknown[0]} of words of one lane"
        yield Contradiction("dots", problem, f"dots takes {', '.join(single)}")
    device = target.device
    if device is None:
        return
    if not _KIND.fullmatch(device.kind):
        yield Contradiction("kind", f'kind is "{device.kind}"', "a word of a to z, such as opencl")
    if not _MODULE.fullmatch(device.module):
        yield Contradiction(
            "module", f'module is "{device.module}"', "kernels.cl, kernels.ptx, kernels.metal or kernels.wgsl"
        )
    others = ("fragment_multiply_adds_per_ns", "buffers", "cache_bytes_per_ns", "copied_bytes_per_ns")
    waits = ("latency_ns", "launch_ns", "barrier_ns", "copy_ns")
    for key in (*_RATES, *(f"thread_{rate}" for rate in _RATES), *others, *waits):
        value = getattr(device, key)
        if not (math.isfinite(value) and value > 0):
            yield Contradiction(key, f"{key} is {value}", "a number greater than 0")
    if target.library or target.static:
        yield Contradiction("device", "a target with a device has a library", 'library = "", and static = false')


def _vectors(target: Target) -> Iterator[Contradiction]:
    """Whether the dialect can write the vectors that the target names."""
    if target.dialect not in ("plain", "packed"):
        return
    if target.vector_bits:
        problem = f'vector_bits is {target.vector_bits}; the dialect "{target.dialect}" has no vectors'
        yield Contradiction("vector_bits", problem, 'vector_bits = 0, or dialect = "vector"')
    for key in ("int_dot", "float_dot"):
        for name in getattr(target, key):
            intrinsic = PROVIDED.get(name)
            if intrinsic is None or (target.dialect == "packed" and intrinsic.elements == 1):
                continue
            other = "packed" if intrinsic.elements == 1 else "vector"
            problem = f'{key}: {name} has operands that the dialect "{target.dialect}" cannot write'
            yield Contradiction(key, problem, f'take {name} out of {key}, or dialect = "{other}"')


def _caches(target: Target) -> Iterator[Contradiction]:
    """Whether the caches are made of whole sets of lines; sizes that no machine has are told of before."""
    line = target.line_bytes
    if min(line, target.l1_ways, target.l2_ways) < 1:
        return
    if line & (line - 1):
        yield Contradiction("line_bytes", f"line_bytes is {line}", "a power of two, such as 64")
        return
    for level in ("l1", "l2"):
        size, ways = getattr(target, f"{level}_bytes"), getattr(target, f"{level}_ways")
        if size > 0 and size % (ways * line):
            problem = f"{level}_bytes is {size}: no whole number of sets of {ways} lines of {line} bytes"
            yield Contradiction(f"{level}_bytes", problem, f"a multiple of {ways * line}, or another {level}_ways")
    if 0 < target.l2_bytes < target.l1_bytes:
        problem = f"l2_bytes is {target.l2_bytes}, less than l1_bytes, {target.l1_bytes}"
        yield Contradiction("l2_bytes", problem, "give what one core uses; 0 without a level 2 cache")


def _triples(target: Target) -> Iterator[Contradiction]:
    """Whether both triples name the same architecture, and pointers are as wide as its own."""
    zig, llvm = _family(target.triple), _family(target.llvm_triple)
    if zig is not None and llvm is not None and zig != llvm:
        problem = f'triple "{target.triple}" is of another architecture than llvm_triple "{target.llvm_triple}"'
        yield Contradiction("triple", problem, "give both for the same machine")
        return
    family = zig or llvm
    if family is not None and target.pointer_bits in (32, 64) and target.pointer_bits != family[1]:
        triple = target.triple or target.llvm_triple
        problem = f'pointer_bits is {target.pointer_bits}; those of "{triple}" have {family[1]}'
        yield Contradiction("pointer_bits", problem, f"pointer_bits = {family[1]}, or another triple")


def _family(triple: str) -> tuple[str, int] | None:
    first = triple.partition("-")[0]
    return next(((name, bits) for pattern, name, bits in _FAMILIES if re.fullmatch(pattern, first)), None)
