"""What the libraries of devices declare by hand of their drivers, against the drivers' own headers: types of functions
as they are passed, records, and numbers. NVIDIA's `cuda.h` comes with nvcc from pip, Khronos' `CL/cl.h` with the
package opencl-c-headers; OpenCL's numbers are also those of pyopencl."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.tools import ROOT, need, run

DEVICES = ROOT / "runtime_c" / "devices"

#: Whether two functions take and give the same as machines pass it: pointers are pointers, to things of one size.
_ALIKE = """
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <class T, class = void> struct size_of : std::integral_constant<std::size_t, 0> {};
template <class T>
struct size_of<T, std::enable_if_t<!std::is_void_v<T> && !std::is_function_v<T> && (sizeof(T) > 0)>>
    : std::integral_constant<std::size_t, sizeof(T)> {};
template <class A, class B> constexpr bool alike() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    constexpr std::size_t a = size_of<std::remove_pointer_t<A>>::value, b = size_of<std::remove_pointer_t<B>>::value;
    return a == 0 || b == 0 || a == b;
  } else if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    return sizeof(A) == sizeof(B) && std::is_signed_v<A> == std::is_signed_v<B>;
  } else {
    return std::is_integral_v<A> && std::is_enum_v<B> && sizeof(A) == sizeof(B);
  }
}
template <class F, class G> struct same : std::false_type {};
template <class R, class... A, class S, class... B> struct same<R (*)(A...), S (*)(B...)> {
  static constexpr bool find() {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return alike<R, S>() && (alike<A, B>() && ...);
  }
  static constexpr bool value = find();
};
"""


def names_of(text: str) -> list[str]:
    """The numbers of a header's enumerations."""
    return [name for block in re.findall(r"enum \{(.*?)\};", text, re.DOTALL) for name in re.findall(r"(\w+) =", block)]


def compiles(lines: list[str], folder: Path, *flags: str) -> None:
    compiler = need("g++", "compares declarations")
    (folder / "check.cpp").write_text("\n".join([_ALIKE, *lines, "int main() {}"]))
    run(compiler, "-std=c++17", "-fsyntax-only", "-w", *flags, folder / "check.cpp")


# ---------------------------------------------------------------- CUDA
#: Ours of NVIDIA's names, by how they begin.
_CUDA_NAMES = (
    ("CUDA_ATTRIBUTE_", "CU_DEVICE_ATTRIBUTE_"),
    ("CUDA_FUNC_", "CU_FUNC_"),
    ("CUDA_POINTER_", "CU_POINTER_"),
    ("CUDA_JIT_COMPIL", "CUDA_ERROR_JIT_COMPIL"),
    ("CUDA_JIT_", "CU_JIT_"),
    ("CUDA_STREAM_", "CU_STREAM_"),
    ("CUDA_MEMORY_", "CU_MEMORYTYPE_"),
    ("CUDA_SUCCESS", "CUDA_SUCCESS"),
    ("CUDA_", "CUDA_ERROR_"),
)
_LAUNCH = ("func", "gridDimX", "blockDimX", "sharedMemBytes", "kernelParams", "extra")
_SIDE = (
    ("x_bytes", "XInBytes"), ("y", "Y"), ("z", "Z"), ("lod", "LOD"), ("memory", "MemoryType"), ("host", "Host"),
    ("device", "Device"), ("array", "Array"), ("pitch", "Pitch"), ("height", "Height"),
)  # fmt: skip


def cuda_header() -> Path:
    places = (Path(place) for place in sys.path)
    found = next((each for place in places for each in place.glob("nvidia/*/include/cuda.h")), None)
    if found is None:
        pytest.skip("needs cuda.h: pip install nvidia-cuda-nvcc")
    return found


def their_name(name: str) -> str:
    return next(their + name.removeprefix(own) for own, their in _CUDA_NAMES if name.startswith(own))


def cuda_checks(ours: str) -> list[str]:
    functions = re.findall(r'X\((\w+), "(\w+)"', ours)
    assert len(functions) > 40
    checks = [f"static_assert(ours::{name} == {their_name(name)});" for name in names_of(ours)]
    for member, symbol in functions:
        checks.append(
            f'static_assert(same<decltype(ours::cuda_api::{member}), decltype(&{symbol})>::value, "{symbol}");'
        )
    pairs = [
        ("cuda_launch", own, "CUDA_KERNEL_NODE_PARAMS_v1", their)
        for own, their in zip(
            ("function", "grid", "block", "shared_bytes", "parameters", "extra"), _LAUNCH, strict=True
        )
    ]
    for side, prefix in (("from", "src"), ("to", "dst")):
        pairs += [("cuda_copy", f"{side}.{own}", "CUDA_MEMCPY3D_v2", prefix + their) for own, their in _SIDE]
    pairs += [
        ("cuda_copy", own, "CUDA_MEMCPY3D_v2", their)
        for own, their in (("width_bytes", "WidthInBytes"), ("height", "Height"), ("depth", "Depth"))
    ]
    for own, member, their, field in pairs:
        checks.append(f"static_assert(offsetof(ours::{own}, {member}) == offsetof({their}, {field}));")
        if member not in ("grid", "block"):  # arrays of three here
            sizes = f"sizeof(ours::{own}::{member}) == sizeof({their}::{field})"
            checks.append(f"static_assert({sizes});" if "." not in member else "")
    for own, their in (("cuda_launch", "CUDA_KERNEL_NODE_PARAMS_v1"), ("cuda_copy", "CUDA_MEMCPY3D_v2")):
        checks.append(f"static_assert(sizeof(ours::{own}) == sizeof({their}));")
    return checks


def cuda_text(ours: str, folder: Path) -> list[str]:
    """Names without the suffix of a version are those that the library exports, older ones too."""
    (folder / "ours.h").write_text(ours)
    return [
        "#define __CUDA_API_VERSION_INTERNAL",
        "#include <cuda.h>",
        "namespace ours {",
        f'#include "{folder / "ours.h"}"',
        "}",
        *cuda_checks(ours),
    ]


def test_cuda(tmp_path: Path) -> None:
    header = cuda_header()
    ours = (DEVICES / "cuda_api.h").read_text()
    compiles(cuda_text(ours, tmp_path), tmp_path, f"-I{header.parent}")
    # What is compared is: each kind of mistake is found.
    for before, after in (
        ("CUDA_ILLEGAL_ADDRESS = 700", "CUDA_ILLEGAL_ADDRESS = 701"),
        ("SHARED_MEMORY_PER_BLOCK_OPTIN = 97", "SHARED_MEMORY_PER_BLOCK_OPTIN = 96"),
        ("DYNAMIC_SHARED_SIZE_BYTES = 8", "DYNAMIC_SHARED_SIZE_BYTES = 9"),
        ('"cuFuncSetAttribute", (cuda_object, int, int)', '"cuFuncSetAttribute", (cuda_object, int)'),
        ('"cuMemAlloc_v2", (cuda_memory *, size_t)', '"cuMemAlloc_v2", (cuda_memory *, unsigned)'),
        ('"cuStreamSynchronize", (cuda_object)', '"cuStreamSynchronize", (cuda_object, int)'),
        ('"cuMemGetInfo_v2"', '"cuMemGetInfo_v9"'),
        ("unsigned grid[3], block[3], shared_bytes;", "unsigned grid[3], block[2], shared_bytes;"),
        ("size_t pitch, height;", "size_t height, pitch;"),
    ):
        assert before in ours
        with pytest.raises(AssertionError, match=r"error: "):
            compiles(cuda_text(ours.replace(before, after), tmp_path), tmp_path, f"-I{header.parent}")


# ---------------------------------------------------------------- OpenCL
#: Of no specification.
_OPENCL_OWN = ("CL_LOST_BY_NVIDIA",)


def opencl_text(ours: str, folder: Path) -> list[str]:
    """Khronos' numbers are macros: ours are kept under other names before these are known."""
    (folder / "ours.h").write_text(ours)
    names = [name for name in names_of(ours) if name not in _OPENCL_OWN]
    functions = re.findall(r"X\(\w+, ([A-Z]\w+),", ours)
    assert len(functions) > 25
    return [
        "namespace ours {",
        f'#include "{folder / "ours.h"}"',
        *(f"constexpr long long number_{name} = {name};" for name in names),
        "}",
        "#define CL_TARGET_OPENCL_VERSION 300",
        "#define CL_USE_DEPRECATED_OPENCL_1_2_APIS",
        "#include <CL/cl.h>",
        *(f"static_assert(ours::number_{name} == (long long){name});" for name in names),
        *(
            f'static_assert(same<decltype(ours::opencl_api::{name}), decltype(&cl{name})>::value, "cl{name}");'
            for name in functions
        ),
        "static_assert(same<ours::opencl_subgroup_info, decltype(&clGetKernelSubGroupInfo)>::value);",
    ]


def test_opencl(tmp_path: Path) -> None:
    compiler = need("g++", "compares declarations")
    (tmp_path / "is_there.cpp").write_text("#if !__has_include(<CL/cl.h>)\n#error\n#endif\n")
    try:
        run(compiler, "-fsyntax-only", tmp_path / "is_there.cpp")
    except AssertionError:
        pytest.skip("needs CL/cl.h: declarations are compared with it: apt install opencl-c-headers")
    ours = (DEVICES / "opencl_api.h").read_text()
    compiles(opencl_text(ours, tmp_path), tmp_path)
    for before, after in (
        ("CL_DEVICE_NAME = 0x102B", "CL_DEVICE_NAME = 0x102C"),
        ("X(cl_int, SetKernelArg, (cl_object, cl_uint, size_t", "X(cl_int, SetKernelArg, (cl_object, cl_uint, cl_uint"),
    ):
        assert before in ours
        with pytest.raises(AssertionError, match=r"error: "):
            compiles(opencl_text(ours.replace(before, after), tmp_path), tmp_path)


def test_numbers_of_opencl() -> None:
    """pyopencl has most of them, compiled from Khronos' headers."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    text = (DEVICES / "opencl_api.h").read_text()
    ours = dict(re.findall(r"(CL_\w+) = ([-\w]+(?: << \d+)?)", text))
    theirs = {
        f"{prefix}{name}": getattr(kind, name)
        for prefix, kind in (
            ("CL_", cl.status_code), ("CL_PLATFORM_", cl.platform_info), ("CL_DEVICE_", cl.device_info),
            ("CL_", cl.device_info),
            ("CL_DEVICE_TYPE_", cl.device_type), ("CL_FP_", cl.device_fp_config),
            ("CL_CONTEXT_", cl.context_properties),
            ("CL_QUEUE_", cl.command_queue_properties), ("CL_MEM_", cl.mem_flags), ("CL_MEM_", cl.mem_info),
            ("CL_PROGRAM_", cl.program_info), ("CL_PROGRAM_", cl.program_build_info),
            ("CL_KERNEL_", cl.kernel_work_group_info), ("CL_PROFILING_COMMAND_", cl.profiling_info),
        )
        for name in dir(kind) if name.isupper()
    }  # fmt: skip
    compared = [name for name in ours if name in theirs]
    assert len(compared) > 30
    for name in compared:
        number, _, shift = ours[name].partition(" << ")
        assert int(number, 0) << int(shift or 0) == theirs[name], name
