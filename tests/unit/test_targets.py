"""Targets are data: every description loads, wrong ones are refused with every problem that they have."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from sterna.codegen.generators import SOURCES
from sterna.errors import SternaError
from sterna.intrinsics import INTRINSICS
from sterna.runtime import here
from sterna.runtime.here import why_not_here
from sterna.targets import features
from sterna.targets.description import host, load_target, target_names
from sterna.targets.target import Target
from support.tools import ZIG, run


@pytest.mark.parametrize("name", target_names())
def test_every_description_loads(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.description
    assert target.dialect in SOURCES
    assert (target.device is None) == (target.dialect in ("vector", "plain", "packed"))
    assert target.vector_bits in (0, 64, 128, 256, 512)
    assert target.pointer_bits in (32, 64)
    # zig has no part in what a device runs
    assert bool(target.triple) == (bool(target.llvm_triple) and target.device is None)
    assert target.lanes(32) == max(1, target.vector_bits // 32)


def test_host_is_this_machine() -> None:
    assert host() is load_target("host")
    assert host().cores >= 1


def test_a_users_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('extends = "arm64"\ndescription = "my board"\ncores = 2\n')
    for name in (str(tmp_path / "mine.toml"), "mine"):
        monkeypatch.setenv("STERNA_TARGETS", str(tmp_path))
        target = load_target(name)
        assert (target.name, target.cores, target.vector_bits) == ("mine", 2, load_target("arm64").vector_bits)
    assert "mine" in target_names()


def test_an_unknown_target_is_told_what_is_near() -> None:
    with pytest.raises(SternaError, match=r'E0201.*"rasberrypi4"[\s\S]*did you mean raspberrypi4') as caught:
        load_target("rasberrypi4")
    assert caught.value.codes == ("E0201",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vector_bits = [", "cannot be read"),
        ('description = "x"\n', "lacks triple, llvm_triple"),
        ('extends = "arm64"\nlanes = 3\n', "unknown key lanes"),
        ('extends = "arm64"\nvector_bits = "wide"\n', "key vector_bits has a value of type str"),
        ('extends = "arm64"\nc_flags = "-O2"\n', "key c_flags has a value of type str"),
    ],
)
def test_malformed_descriptions(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SternaError, match=says) as caught:
        load_target(str(path))
    assert set(caught.value.codes) == {"E0202"}


def test_all_problems_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('extends = "arm64"\nlanes = 3\nfoo = 1\ncores = "two"\n')
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202", "E0202", "E0202")


def test_a_target_is_a_value() -> None:
    assert isinstance(hash(load_target("arm64")), int)
    assert Target("a", "b", "c", "d") == Target("a", "b", "c", "d")


@pytest.mark.parametrize("name", target_names())
def test_capabilities_are_what_the_features_give(name: str) -> None:
    assert features.contradictions(load_target(name)) == []


def test_what_a_target_loses_with_its_features(tmp_path: Path) -> None:
    """Whoever takes features away does not keep what hung on them."""
    lesser = {
        "browser": ('cpu = "generic"\nllvm_features = []\ncpu_features = []\n', (0, False, (), ())),
        "browser-relaxed": (
            'cpu = "generic+simd128"\nllvm_features = ["+simd128"]\ncpu_features = ["simd128"]\n',
            (128, False, load_target("browser").int_dot, ()),
        ),
        "x86-64-v4-amx": (
            'cpu = "x86_64_v3"\nllvm_cpu = "x86-64-v3"\nllvm_features = []\ncpu_features = ["avx2", "fma"]\n',
            (256, True, (), ()),
        ),
        "x86-64-v3": (
            'cpu = "x86_64_v2"\nllvm_cpu = "x86-64-v2"\ncpu_features = ["sse4.2"]\n', (128, False, (), ()),
        ),
        "x86-64-v4": ("vector_bits = 256\n", (256, True, load_target("x86-64-v3").int_dot, ())),
        "arm64-i8mm": (
            'cpu = "generic+dotprod"\nllvm_features = ["+dotprod"]\ncpu_features = ["neon", "dotprod"]\n',
            (128, True, ("sdot.128",), ()),
        ),
    }  # fmt: skip
    for base, (text, expected) in lesser.items():
        path = tmp_path / f"less-{base}.toml"
        path.write_text(f'extends = "{base}"\n{text}')
        target = load_target(str(path))
        assert (target.vector_bits, target.fma, target.int_dot, target.int_tile) == expected, base


def test_an_fpu_of_single_precision_loses_the_fused_float64(tmp_path: Path) -> None:
    """A Cortex-M7 may be sold with it (STM32F746)."""
    path = tmp_path / "stm32f746.toml"
    path.write_text(
        'extends = "cortex-m7"\ncpu = "cortex_m7+fp_armv8d16sp"\ncpu_features = ["dsp", "fp-armv8d16sp"]\n'
        'llvm_features = ["-fp-armv8d16", "+fp-armv8d16sp"]\n'
    )
    target = load_target(str(path))
    assert target.fuses(32, 1)
    assert not target.fuses(64, 1)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('extends = "browser-baseline"\nint_dot = ["i32x4.dot_i16x8_s.128.s8"]\n', ["int_dot"]),
        ('extends = "browser"\nfma = true\n', ["fma"]),
        ('extends = "browser"\nvector_bits = 256\n', ["vector_bits"]),
        ('extends = "browser"\ncpu = "generic"\n', ["cpu"]),
        ('extends = "browser"\nllvm_features = ["-simd128"]\n', ["llvm_features"]),
        ('extends = "browser"\ncpu_features = []\n', ["cpu_features", "cpu_features"]),
        ('extends = "x86-64-v2"\nint_tile = ["tdpbusd"]\n', ["int_tile"]),
        ('extends = "x86-64-v2"\nvector_bits = 512\n', ["vector_bits"]),
        ('extends = "x86-64-v3"\nint_dot = ["vpdpbusd.256", "sdot.128"]\n', ["int_dot", "int_dot"]),
        ('extends = "cuda"\n[threads]\ndots = ["dot4.s8.s8x4"]\n', ["dots"]),
        ('extends = "x86-64-v4-vnni"\nvector_bits = 256\nint_dot = ["vpdpbusd.512"]\n', ["int_dot"]),
        ('extends = "x86-64-v3"\ncpu = "znver3-avx2"\n', ["cpu"]),
        ('extends = "arm64"\nint_dot = ["sdot.128"]\n', ["int_dot"]),
        ('extends = "cortex-a72"\ncpu_features = ["neon", "dotprod"]\n', ["cpu", "llvm_features"]),
        ('extends = "cortex-a76"\ncpu_features = ["neon", "dotprod"]\n', ["cpu_features", "cpu_features"]),
        ('extends = "cortex-x2"\nllvm_features = []\n', ["cpu_features"]),
        ('extends = "armv6"\nvector_bits = 128\n', ["vector_bits"]),
        ('extends = "armv6"\nfma = true\n', ["fma"]),
        ('extends = "armv7"\npointer_bits = 64\n', ["pointer_bits"]),
        ('extends = "arm64"\nl1_ways = 3\n', ["l1_bytes"]),
        ('extends = "arm64"\nl2_bytes = 16384\n', ["l2_bytes"]),
        ('extends = "arm64"\nline_bytes = 48\n', ["line_bytes"]),
        ('extends = "arm64"\nline_bytes = 0\n', ["line_bytes"]),
        ('extends = "arm64"\nl1_ways = 0\nl2_ways = -1\n', ["l1_ways", "l2_ways"]),
        ('extends = "cortex-m4"\ncpu = "cortex_m0plus"\n', ["cpu", "cpu"]),
        ('extends = "cortex-m4"\nllvm_cpu = "cortex-m0plus"\n', ["llvm_features", "llvm_cpu"]),
        (
            'extends = "cortex-m4"\ncpu = "cortex_m55"\nllvm_cpu = "cortex-m55"\n',
            ["cpu", "cpu_features", "cpu", "llvm_cpu"],
        ),
        ('extends = "cortex-m55"\ncpu = "cortex_m55"\n', ["cpu"]),
        ('extends = "cortex-m55"\ncpu_features = ["dsp"]\n', ["cpu_features", "cpu_features", "triple"]),
        ('extends = "cortex-m4"\ntriple = "thumb-freestanding-eabi"\n', ["triple"]),
        (
            'extends = "cortex-m4-nofpu"\ntriple = "thumb-freestanding-eabihf"\nllvm_triple = "thumbv7em-eabihf"\n',
            ["triple"],
        ),
        ('extends = "cortex-m4-nofpu"\nfma = true\n', ["fma"]),
        ('extends = "cortex-m4"\nvector_bits = 128\n', ["vector_bits"]),
        ('extends = "cortex-m4"\nfma_float64 = true\n', ["fma_float64"]),
        ('extends = "cortex-m4"\ndialect = "plain"\n', ["int_dot"] * 4),
        ('extends = "cortex-m55"\ndialect = "packed"\n', ["vector_bits"]),
        ('extends = "c99"\nvector_bits = 128\n', ["vector_bits"]),
        ('extends = "cortex-m3"\ninteger_registers = -1\n', ["integer_registers"]),
        (
            'extends = "c99"\nllvm_triple = "wasm32-unknown-unknown"\npointer_bits = 32\nint_dot = ["sdot.128"]\n',
            ["int_dot"],
        ),
    ],
)
def test_contradictions_name_the_key(text: str, keys: list[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert caught.value.codes == ("E0202",) * len(keys)
    for problem, key in zip(caught.value.diagnostics, keys, strict=True):
        assert re.match(rf"{key}\b", problem.title), problem
        assert problem.fix
        assert problem.where[0].startswith(str(path))


def test_a_model_that_is_not_known_may_have_anything(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(
        'extends = "arm64"\ncpu = "cortex_a78"\nllvm_cpu = "cortex-a78"\ncpu_features = ["neon", "dotprod"]\n'
        'int_dot = ["sdot.128"]\n'
    )
    assert load_target(str(path)).int_dot == ("sdot.128",)


def test_every_intrinsic_names_its_features() -> None:
    """Without features no target has one; with those of any of its ways one has."""
    for intrinsic in INTRINSICS.values():
        assert all(way for way in intrinsic.needs), intrinsic.name
        owners = [t for t in map(load_target, target_names()) if t.has(intrinsic)]
        assert owners, f"no target has {intrinsic.name}"
        for target in owners:
            less = replace(target, cpu_features=())
            if not features.closure(("sse2", "neon")) >= set(intrinsic.needs[0]):
                left = features.supported(less)
                lists = [left.get(key, ()) for key in ("int_dot", "float_dot", "int_tile")]
                assert all(intrinsic.name not in names for names in lists), intrinsic.name


#: What a feature of a processor is called by compilers of C for ARM.
MACROS = {
    "neon": "__ARM_NEON",
    "dotprod": "__ARM_FEATURE_DOTPROD",
    "fullfp16": "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC",
    "fp16fml": "__ARM_FEATURE_FP16_FML",
    "i8mm": "__ARM_FEATURE_MATMUL_INT8",
    "bf16": "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC",
    "sve": "__ARM_FEATURE_SVE",
    "sve2": "__ARM_FEATURE_SVE2",
    "sme": "__ARM_FEATURE_SME",
    "sme2": "__ARM_FEATURE_SME2",
}
ARM = [name for name in target_names() if load_target(name).llvm_triple.startswith(("aarch64", "arm"))]


@pytest.mark.parametrize("name", ARM)
def test_a_processor_has_what_its_compiler_says(name: str, tmp_path: Path) -> None:
    """Features of a description are those that zig's clang knows of the processor, and no others."""
    target = load_target(name)
    if name == "host":
        pytest.skip("its processor is named by no description")
    (tmp_path / "empty.c").write_text("")
    command = [*ZIG, "cc", "-target", target.triple, f"-mcpu={target.cpu}", "-dM", "-E", tmp_path / "empty.c"]
    defined = {line.split()[1] for line in run(*command, cwd=tmp_path).splitlines() if line.startswith("#define")}
    found = {feature for feature, macro in MACROS.items() if macro in defined}
    has = features.features(target)
    assert found == has & set(MACROS)
    if target.pointer_bits == 32:
        assert ("__ARM_FEATURE_FMA" in defined) == ("vfp4" in has)


def test_this_machine_if_it_were_an_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most capable description of which the processor has every feature."""
    levels = {
        (): "arm64",
        ("dotprod",): "arm64-dotprod",
        ("dotprod", "fullfp16"): "arm64-fp16",
        ("dotprod", "i8mm"): "arm64-i8mm",
        ("dotprod", "fullfp16", "fp16fml", "i8mm", "bf16"): "arm64-bf16",
    }
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    for names, expected in levels.items():
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda names=names: dict.fromkeys(("neon", *names), True))
        found = host.__wrapped__()
        assert found.cpu_features == load_target(expected).cpu_features, names
        assert found.llvm_triple.startswith("aarch64")


@pytest.mark.parametrize(
    ("machine", "target"),
    [("aarch64", "arm64"), ("arm64", "arm64"), ("x86_64", "x86-64-v2"), ("AMD64", "x86-64-v2")],
)
def test_this_machine_is_that_of_this_python(machine: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 bits, it loads no libraries of 64 bits, whatever the kernel is."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(here, "cpu_has", lambda _: True)
    assert why_not_here(load_target(target)) is None
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    assert host.__wrapped__().library == ""
    assert "this machine is " in (why_not_here(load_target(target)) or "")
