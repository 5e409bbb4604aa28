"""What sterna_cuda declares of the CUDA driver's interface, beside NVIDIA's header, where a package has brought it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.tools import ROOT, need, run

OURS = ROOT / "runtime_c" / "devices" / "cuda_api.h"
#: What our numbers are called there: the first of these that the header has.
PREFIXES = ("CUDA_ERROR_", "CU_DEVICE_", "CU_", "CUDA_", "CU_MEMORYTYPE_")
#: Members of our records, and what they are there.
LAUNCH = {
    "function": "func", "grid[0]": "gridDimX", "grid[1]": "gridDimY", "grid[2]": "gridDimZ", "block[0]": "blockDimX",
    "block[1]": "blockDimY", "block[2]": "blockDimZ", "shared_bytes": "sharedMemBytes", "parameters": "kernelParams",
    "extra": "extra",
}  # fmt: skip
SIDE = {
    "x_bytes": "XInBytes", "y": "Y", "z": "Z", "lod": "LOD", "memory": "MemoryType", "host": "Host",
    "device": "Device", "array": "Array", "pitch": "Pitch", "height": "Height",
}  # fmt: skip
COPY = {f"{ours}.{a}": f"{theirs}{b}" for ours, theirs in (("from", "src"), ("to", "dst")) for a, b in SIDE.items()}
COPY |= {"width_bytes": "WidthInBytes", "height": "Height", "depth": "Depth"}

#: Parameters are alike if a caller puts the same bytes in the same kind of place.
_ALIKE = """
#define __CUDA_API_VERSION_INTERNAL /* declares the names of all versions */
#include <cuda.h>
#include <type_traits>
namespace ours {
#include "cuda_api.h"
}
template <class A, class B> constexpr bool same() {
  return sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value;
}
template <class A, class B> struct alike { enum { value = false }; };
template <class R, class S, class... A, class... B> struct alike<R (*)(A...), S (*)(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return same<R, S>() && (same<A, B>() && ...);
  }
  enum { value = check() };
};
"""


@pytest.fixture(scope="module")
def header() -> Path:
    found = (file for place in sys.path for file in Path(place).glob("nvidia/*/include/cuda.h"))
    if (file := next(found, None)) is None:
        pytest.skip("cuda.h is not installed: pip install nvidia-cuda-nvcc")
    return file


def test_the_declarations_are_the_drivers(header: Path, tmp_path: Path) -> None:
    """Every number, the places of all members, and what every function takes, under the name that is looked up."""
    text, theirs = OURS.read_text(), header.read_text()
    lines = [_ALIKE]
    for name in re.findall(r"^  CUDA_(\w+) = \d+,?$", text, re.M):
        names = [prefix + name.removeprefix("MEMORY_") for prefix in PREFIXES]
        own = next(each for each in names if re.search(rf"\b{each}\b *=", theirs))
        lines.append(f'static_assert((int)ours::CUDA_{name} == (int){own}, "{name}");')
    for record, there, members in (
        ("cuda_launch", "CUDA_KERNEL_NODE_PARAMS_v1", LAUNCH),
        ("cuda_copy", "CUDA_MEMCPY3D_v2", COPY),
    ):
        lines.append(f'static_assert(sizeof(ours::{record}) == sizeof({there}), "{record}");')
        for member, its in members.items():
            places = f"offsetof(ours::{record}, {member}) == offsetof({there}, {its})"
            lines.append(f'static_assert({places}, "{record}.{member}");')
    functions = re.findall(r'X\((\w+), "(\w+)"', text)
    assert len(functions) > 40
    for member, symbol in functions:
        kinds = f"decltype(ours::cuda_api::{member}), decltype(&{symbol})"
        lines.append(f'static_assert(alike<{kinds}>::value, "{symbol}");')
    (tmp_path / "api.cpp").write_text("\n".join(lines))
    run(
        *(need("g++", "reads NVIDIA's header"), "-std=gnu++17", "-fsyntax-only", "-Wno-invalid-offsetof"),
        *("-I", header.parent, "-I", OURS.parent, tmp_path / "api.cpp"),
    )
