"""What the features of a processor allow: a target's capabilities must be among what they give.

A description says its features three times, for three readers: `cpu` for zig, `llvm_cpu` and `llvm_features` for LLVM,
`cpu_features` for the runtime, which refuses a machine without them. The three must agree, as far as the processor's
model is one whose features are known here, and every capability must be one that these features have: else kernels do
not compile, or stop a machine that the runtime let pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from sterna.targets.tables import Contradiction
from sterna.targets.target import Target

#: What a feature brings along, by LLVM's names (its X86.td, AArch64Features.td, ARM.td, WebAssembly.td), as far as a
#: capability hangs on it.
_BRINGS: dict[str, tuple[str, ...]] = {
    "sse4.2": ("sse2",),
    "avx": ("sse4.2",),
    "avx2": ("avx", "f16c"),  # f16c: LLVM does not say so, but no processor has one without the other.
    "fma": ("avx",),
    "avxvnni": ("avx2",),
    "avx512f": ("avx2", "fma"),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    "amx-int8": ("amx-tile",),
    "dotprod": ("neon",),
    "bf16": ("neon",),
    "i8mm": ("neon",),
    "fullfp16": ("neon",),
    "fp16fml": ("fullfp16",),
    "sve": ("fullfp16",),
    "sve2": ("sve",),
    "sme": ("bf16", "fullfp16"),
    "sme2": ("sme",),
    "vfp3": ("vfp2",),
    "vfp4": ("vfp3", "vfp4d16sp"),
    "d": ("f",),
    "v": ("d",),
    "relaxed-simd": ("simd128",),
    "vfp4d16sp": ("vfp2sp",),
    "fp-armv8d16sp": ("vfp4d16sp",),
    "fp-armv8d16": ("fp-armv8d16sp",),
    "mve": ("dsp",),
    "mve.fp": ("mve", "fp-armv8d16sp"),
}
#: Those of 64-bit ARM from 2021 on.
_PRODUCTS = ("dotprod", "fp16fml", "i8mm", "bf16")
#: The features of processors' models, of those that hang on nothing but their names. A model that is not here may have
#: any feature that is not taken from it.
_MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64": (),
        "x86-64-v2": ("sse4.2",),
        "x86-64-v3": ("avx2", "fma"),
        "x86-64-v4": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    },
    "aarch64": {
        "generic": (),
        **dict.fromkeys(("cortex-a53", "cortex-a57", "cortex-a72", "cortex-a73"), ()),
        "apple-a12": ("fullfp16",),
        **dict.fromkeys(("cortex-a55", "cortex-a76", "neoverse-n1", "cortex-x1"), ("dotprod", "fullfp16")),
        **dict.fromkeys(("apple-a13", "apple-a14", "apple-m1"), ("dotprod", "fp16fml")),
        **dict.fromkeys(("apple-a15", "apple-a16", "apple-a17", "apple-m2", "apple-m3"), _PRODUCTS),
        "apple-m4": (*_PRODUCTS, "sme2"),
        "neoverse-v1": (*_PRODUCTS, "sve"),
        **dict.fromkeys(("cortex-x2", "cortex-x3", "cortex-x4"), (*_PRODUCTS, "sve2")),
    },
    "arm": {"generic": (), "arm1176jzf-s": ("vfp2",), "cortex-a7": ("neon", "vfp4")},
    "riscv64": {"generic-rv64": (), "baseline-rv64": ("m", "a", "d", "c")},
    "thumb": {
        **dict.fromkeys(("cortex-m0", "cortex-m0plus", "cortex-m3"), ()),
        "cortex-m4": ("dsp", "vfp4d16sp"),
        "cortex-m7": ("dsp", "fp-armv8d16"),
        "cortex-m33": ("dsp", "fp-armv8d16sp"),
        **dict.fromkeys(("cortex-m55", "cortex-m85"), ("mve.fp", "fp-armv8d16")),
    },
    "wasm32": {"generic": (), "mvp": ()},
    "nvptx64": {},
}
#: Models that mean less to zig than to LLVM: without what a processor may be sold without.
_ZIG_MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    "thumb": {
        **dict.fromkeys(("cortex-m4", "cortex-m7", "cortex-m55", "cortex-m85"), ("dsp",)),
        "cortex-m33": (),
    }
}
#: Microcontrollers' models, and the architecture that compilers are to be told of.
_ARCHITECTURES = {
    **dict.fromkeys(("cortex-m0", "cortex-m0plus"), "thumbv6m"),
    "cortex-m3": "thumbv7m",
    **dict.fromkeys(("cortex-m4", "cortex-m7"), "thumbv7em"),
    "cortex-m33": "thumbv8m.main",
    **dict.fromkeys(("cortex-m55", "cortex-m85"), "thumbv8.1m.main"),
}
#: What every processor of an architecture has; of others nothing is known, and nothing is checked.
_ALWAYS: dict[str, tuple[str, ...]] = {
    "x86_64": ("x86_64", "sse2"), "aarch64": ("aarch64", "neon"), "arm": ("arm",),
    "riscv64": ("riscv64",), "thumb": ("thumb",), "wasm32": ("wasm32",),
    "nvptx64": ("nvptx64",),
}  # fmt: skip
#: The feature behind vector registers of a width, and behind fused multiply-adds.
_VECTORS: dict[str, dict[int, str]] = {
    "x86_64": {64: "sse2", 128: "sse2", 256: "avx2", 512: "avx512f"},
    "aarch64": {64: "neon", 128: "neon", 256: "sve", 512: "sve"},
    "arm": {64: "neon", 128: "neon"},
    "riscv64": {64: "v", 128: "v"},
    "thumb": {64: "mve", 128: "mve"},
    "wasm32": {64: "simd128", 128: "simd128"},
    "nvptx64": {},
}
_FUSED = {
    "x86_64": "fma", "aarch64": "neon", "arm": "vfp4", "riscv64": "f", "thumb": "vfp4d16sp", "wasm32": "relaxed-simd",
    "nvptx64": "nvptx64",
}  # fmt: skip
#: That behind fused multiply-adds of float64, where it is another one.
_FUSED_FLOAT64 = {**_FUSED, "riscv64": "d", "thumb": "fp-armv8d16"}
#: LLVM's names for what the runtime calls otherwise.
_LLVM_NAMES = {"threads": "atomics"}


#: The feature behind conversions between float16 and float32.
_HALVES = {"x86_64": "f16c", "aarch64": "neon", "arm": "vfp4", "nvptx64": "nvptx64"}
#: That behind rounding of floats to whole numbers, where an architecture may lack it.
_ROUNDING = {"x86_64": "sse4.2", "arm": "fp-armv8"}
#: That from which on vectors of float64 are faster than conversions one by one, and that which converts to 64 bits.
_DOUBLES = {"x86_64": ("avx2", "avx512dq"), "wasm32": ("simd128", "")}
#: That behind square roots of float32 and of float64, of the architectures of microcontrollers.
_ROOTS = {"thumb": {"float32": "vfp2sp", "float64": "fp-armv8d16"}, "riscv32": {"float32": "f", "float64": "d"}}


@lru_cache(maxsize=256)
def features(target: Target) -> frozenset[str]:
    """All that a target's kernels may use: its features, what they bring along, and the name of its architecture."""
    family = _family(target)
    always = _ALWAYS[family] if family is not None else ()
    return closure((*always, *map(plain, target.cpu_features)))


def converts_halves(target: Target) -> bool:
    """Whether a target is known to have instructions that convert float16 to float32 and back."""
    family = _family(target)
    return family is not None and _HALVES.get(family) in features(target)


def rounds(target: Target) -> bool:
    """Whether a target may have an instruction that rounds floats to whole numbers.

    The compilers' own libraries have no function that rounds to even.
    """
    family = _family(target)
    return family not in _ROUNDING or _ROUNDING[family] in features(target)


def without_roots(target: Target) -> frozenset[str]:
    """The types of floats whose square roots are a function of libm on a target, and no instruction."""
    family = _family(target) or target.llvm_triple.split("-")[0]
    has = features(target) | {plain(name[1:]) for name in target.llvm_features if name.startswith("+")}
    has -= {plain(name[1:]) for name in target.llvm_features if name.startswith("-")}
    return frozenset(dtype for dtype, feature in _ROOTS.get(family, {}).items() if feature not in closure(has))


def converts_longs(target: Target) -> bool:
    """Whether a target is known to convert vectors of integers of 64 bits to floats and back, and to multiply them."""
    return "avx512dq" in features(target)


def splits_longs(target: Target) -> bool:
    """Whether a target computes with vectors of float64 and has no instruction that converts them to integers of 64
    bits, which are then made of two words."""
    rounds, converts = _DOUBLES.get(_family(target) or "", ("", ""))
    return rounds in features(target) and converts not in features(target)


def contradictions(target: Target) -> list[Contradiction]:
    """What does not go together in a target."""
    family = _family(target)
    if family is None:
        return []
    found = [*_processor_contradictions(target, family), *_microcontroller_contradictions(target, family)]
    has = features(target)
    found += _vector_contradictions(target, family, has)
    if target.fma and (needed := _FUSED[family]) not in has:
        found.append(_lacking("fma", "a fused multiply-add", (needed,)))
    elif target.fma and target.fma_float64 and (needed := _FUSED_FLOAT64[family]) not in has:
        found.append(_lacking("fma_float64", "a fused multiply-add of float64", (needed,)))
    for key, names in _listed_intrinsics(target):
        for name in names:
            intrinsic = target.known_intrinsics[name]
            if not any(has >= set(way) for way in intrinsic.needs):
                found.append(_lacking(key, name, intrinsic.needs[0]))
            elif intrinsic.vector_bits > target.vector_bits:
                problem = (
                    f"{key}: {name} takes vectors of {intrinsic.vector_bits} bits, vector_bits is {target.vector_bits}"
                )
                found.append(Contradiction(key, problem, f"take {name} out of {key}"))
    found += (_lacking("intrinsics", d.name, d.needs) for d in target.intrinsics if not has >= {*map(plain, d.needs)})
    return found


def _listed_intrinsics(target: Target) -> list[tuple[str, tuple[str, ...]]]:
    """The names of intrinsics that a target lists, by key."""
    return [("int_dot", target.int_dot), ("float_dot", target.float_dot), ("int_tile", target.int_tile)]


def supported(target: Target) -> dict[str, Any]:
    """The values that capabilities of a target have to be cut down to, by key: to what its features give."""
    family = _family(target)
    if family is None:
        return {}
    values: dict[str, Any] = {}
    has, known = features(target), target.known_intrinsics
    width = max((bits for bits in widths(target) if bits <= target.vector_bits), default=0)
    if width < target.vector_bits:
        values["vector_bits"] = width
    if target.fma and _FUSED[family] not in has:
        values |= {"fma": False, "fma_bits": 0}
    elif target.fma and target.fma_float64 and _FUSED_FLOAT64[family] not in has:
        values["fma_float64"] = False
    for key, names in _listed_intrinsics(target):
        kept = tuple(n for n in names if any(has >= set(way) for way in known[n].needs))
        kept = tuple(n for n in kept if known[n].vector_bits <= width)
        if kept != names:
            values[key] = kept
    return values


def widths(target: Target) -> list[int]:
    """The vectors that a target's features give, in bits, whatever it says of its own; none of an unknown family."""
    family, has = _family(target), features(target)
    return [] if family is None else [bits for bits, feature in _VECTORS[family].items() if feature in has]


def enabled(
    model: str, changes: Iterable[str], models: Mapping[str, tuple[str, ...]], family: str
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """What a model with changes such as "+avx2" has, None where it is not known; what the changes take away."""
    taken = {plain(c[1:]) for c in changes if c.startswith("-")}
    base = models.get(plain(model))
    if base is None:
        return None, frozenset(taken)
    added = (plain(c[1:]) for c in changes if c.startswith("+"))
    return closure((*_ALWAYS[family], *base, *added)) - taken, frozenset(taken)


def _processor_contradictions(target: Target, family: str) -> Iterator[Contradiction]:
    """Where `cpu`, `llvm_cpu` with `llvm_features`, and `cpu_features` disagree."""
    wanted = closure(map(plain, target.cpu_features))
    model, changes = _zig_words(target.cpu)
    for key, (has, taken) in (
        ("cpu", enabled(model, changes, {**_MODELS[family], **_ZIG_MODELS.get(family, {})}, family)),
        ("llvm_features", enabled(target.llvm_cpu, target.llvm_features, _MODELS[family], family)),
    ):
        if missing := taken & wanted if has is None else wanted - has:
            names = _listed(missing)
            yield Contradiction(
                key,
                f"{key} does not have {names}, which cpu_features names",
                f"add {names} to {key}, or take it out of cpu_features with what needs it",
            )
        if unnamed := (has or frozenset()) & CHECKED - wanted - closure(_ALWAYS[family]):
            names = _listed(unnamed)
            yield Contradiction(
                "cpu_features",
                f"cpu_features does not name {names}, which {key} lets kernels use: no runtime would look for it",
                f"add {names} to cpu_features, or take it out of {key}",
            )


def _microcontroller_contradictions(target: Target, family: str) -> Iterator[Contradiction]:
    """Where models and triples name different architectures or ways to pass floats."""
    if family != "thumb":
        return
    architecture, hard = target.llvm_triple.split("-")[0], target.llvm_triple.endswith("hf")
    for key, model in (("cpu", _zig_words(target.cpu)[0]), ("llvm_cpu", target.llvm_cpu)):
        wanted = _ARCHITECTURES.get(plain(model))
        if wanted is not None and wanted != architecture:
            problem = f'{key} is "{model}", of the architecture {wanted}; llvm_triple is "{target.llvm_triple}"'
            yield Contradiction(key, problem, f"begin llvm_triple with {wanted}, or take another {key}")
    if target.triple.endswith("hf") != hard:
        problem = f'triple is "{target.triple}" and llvm_triple "{target.llvm_triple}": floats are passed in two ways'
        yield Contradiction("triple", problem, "end both with eabihf (in registers of the FPU), or both with eabi")
    elif hard and "vfp2sp" not in features(target):
        problem = (
            f'triple is "{target.triple}": floats are passed in registers of an FPU, which cpu_features names none'
        )
        yield Contradiction("triple", problem, "end triple and llvm_triple with eabi, or name the FPU in cpu_features")


def _listed(features: Iterable[str]) -> str:
    """Features in words, but for those that another one brings along."""
    found = set(features)
    return " and ".join(sorted(found - {name for f in found for name in closure(_BRINGS.get(f, ()))}))


def _vector_contradictions(target: Target, family: str, has: frozenset[str]) -> Iterator[Contradiction]:
    if not target.vector_bits:
        return
    needed = _VECTORS[family].get(target.vector_bits)
    if needed is None:
        known = ", ".join(map(str, _VECTORS[family]))
        problem = f"vector_bits is {target.vector_bits}, a width that {family} does not have"
        yield Contradiction("vector_bits", problem, f"it has {known}; 0 is none")
    elif needed not in has:
        yield _lacking("vector_bits", f"vectors of {target.vector_bits} bits", (needed,))


def _lacking(key: str, what: str, needed: Iterable[str]) -> Contradiction:
    names = " and ".join(needed)
    problem = f"{key}: {what} needs {names}, which cpu_features does not name"
    return Contradiction(key, problem, f"change {key}, or add {names} to cpu_features, cpu and llvm_features")


def _family(target: Target) -> str | None:
    name = target.llvm_triple.split("-")[0].replace("arm64", "aarch64")
    name = "thumb" if name.startswith("thumbv") else "arm" if name.startswith("armv") else name
    return name if name in _ALWAYS else None


def _zig_words(cpu: str) -> tuple[str, list[str]]:
    """The model and the changes of zig's `model+feature-feature`; what belongs to one name is joined by underscores."""
    model, *changes = re.findall(r"(?:^|[+-])[^+-]*", cpu)
    return model, changes


def plain(name: str) -> str:
    """A feature or model in LLVM's spelling, from the runtime's or zig's."""
    name = _LLVM_NAMES.get(name, name)
    return name.replace("sse4_", "sse4.").replace("mve_fp", "mve.fp").replace("_", "-")


def closure(features: Iterable[str]) -> frozenset[str]:
    """Features with all that they bring along."""
    found: set[str] = set()
    waiting = list(features)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += _BRINGS.get(name, ())
    return frozenset(found)


#: What the runtime is asked to look for, where it is a feature of the target.
CHECKED = frozenset(_BRINGS) | {"simd128", "amx-tile", "atomics", "neon"}
