"""The machines of Android: four ABIs, one set of weights.

The ABIs' libraries of a model read the same weights by one plan of memory: those with fewer registers by loops of their
own where these read them in that form, else by the first one's. What an ABI's better processors run by shares those
weights that it reads in the same form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sterna.package.natives import PAGE
from sterna.targets.description import load_target
from sterna.targets.target import Target


@dataclass(frozen=True)
class Abi:
    """An ABI.

    Args:
        name: Android's.
        target: what kernels are generated for it; alternatives: what its better processors run by, best first.
    """

    name: str
    target: Target
    alternatives: tuple[Target, ...] = ()


def abis() -> tuple[Abi, ...]:
    """All of them. The first one's schedules say how weights lie: nearly every phone has it."""
    arm64, armv7, x86 = load_target("arm64"), load_target("armv7"), load_target("x86-64-v2")
    # The ABI promises neither fused multiply-adds on ARM nor anything after SSSE3 on x86.
    softfp = replace(
        armv7, triple="arm-linux-androideabi", llvm_triple="armv7-unknown-linux-gnueabi", fma=False,
        cpu="generic+v7a+neon-soft_float", llvm_features=("+v7", "+neon"), cpu_features=("neon",),
        c_flags=(*armv7.c_flags, "-mfloat-abi=softfp"),
    )  # fmt: skip
    narrow = replace(
        x86, triple="x86-linux-gnu.2.17", llvm_triple="i686-unknown-linux-gnu", cpu="i686+ssse3", llvm_cpu="i686",
        llvm_features=("+sse2", "+ssse3"), cpu_features=("ssse3",), pointer_bits=32, vector_registers=8,
        run_time_functions=True,
    )  # fmt: skip
    rows = {"arm64-v8a": arm64, "armeabi-v7a": softfp, "x86_64": x86, "x86": narrow}
    return tuple(
        Abi(name, _paged(name, target), tuple(_paged(better, load_target(better)) for better in target.variants))
        for name, target in rows.items()
    )


def _paged(name: str, target: Target) -> Target:
    flags = (*target.link_flags, f"-Wl,-z,max-page-size={PAGE}")
    return replace(
        target,
        name=f"android-{name}",
        description=f"Android, {name}",
        link_flags=flags,
        runs_on="",
        variants=(),
        own_graphs=True,
    )
