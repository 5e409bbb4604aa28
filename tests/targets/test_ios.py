"""`sterna package --for ios`: what the packages hold, and that the code of every slice computes what it does here."""

from __future__ import annotations

import json
import plistlib
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.api import options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package import ios
from sterna.package.slices import slices
from sterna.toolchain.check import undefined_symbols
from sterna.toolchain.mach_o import MachO, read_mach_o
from sterna.toolchain.zig import zig
from sterna_runtime.random_inputs import random_inputs
from support import mach_o_objects
from support.frameworks import FEATURES, PARTS, library, objects, of_processor
from support.string_models import labels
from support.swift import compile_packages, need_swift
from support.tflite_builder import Scale
from support.tflite_metadata import means_of_channels
from support.tools import ROOT, need, run
from support.trained import digits

pytestmark = pytest.mark.family("apple")

MODELS = {"digits": "Digits", "gulls": "Gulls"}
#: Platform and oldest system of objects: the simulator on an Apple processor came with version 14.
SYSTEMS = {
    "ios-arm64, arm64": ("ios", (13, 0)),
    "ios-arm64_x86_64-simulator, arm64": ("ios-simulator", (14, 0)),
    "ios-arm64_x86_64-simulator, x86_64": ("ios-simulator", (13, 0)),
    "macos-arm64_x86_64, arm64": ("macos", (11, 0)),
    "macos-arm64_x86_64, x86_64": ("macos", (11, 0)),
}
#: https://developer.apple.com/documentation/bundleresources/describing-use-of-required-reason-api: what of C is there.
WANT_REASONS = frozenset(
    ("stat", "fstat", "lstat", "fstatat", "getattrlist", "fgetattrlist", "getattrlistat", "getattrlistbulk", "statfs",
     "statvfs", "fstatfs", "fstatvfs", "mach_absolute_time", "mach_continuous_time")
)  # fmt: skip


def product() -> onnx.ModelProto:
    """A product of bytes, for which newer processors have instructions."""
    weights = np.random.default_rng(1).integers(-128, 128, (64, 32)).astype(np.int8)
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT8, [8, 64])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [8, 32])
    node = onnx.helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "gulls", [x], [y], [onnx.numpy_helper.from_array(weights, "w")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def package(*arguments: object) -> Result:
    return CliRunner().invoke(program, ["package", *map(str, arguments), "--for", "ios", "-g", "llvm"])


def packaged(place: Path, *options: str) -> Path:
    """Two models in one place."""
    onnx.save(product(), place / "gulls.onnx")
    shutil.copy(digits().file, place / "digits.onnx")
    for model in ("digits.onnx", "gulls.onnx"):
        done = package(place / model, "-o", place / "made", "--json", *options)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["for"] == "ios"
    return place / "made"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of static frameworks."""
    return packaged(tmp_path_factory.mktemp("ios"))


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of dynamic frameworks."""
    return packaged(tmp_path_factory.mktemp("dynamic"), "--dynamic")


def system_functions() -> set[str]:
    """What libSystem of macOS has, by zig's list of it."""
    stubs = Path(zig()[0]).parent / "lib" / "libc" / "darwin" / "libSystem.tbd"
    return {name[1:] for name in re.findall(r"\b_\w+", stubs.read_text())}


@pytest.mark.parametrize("key", PARTS)
def test_every_object_is_of_its_system(key: str, packages: Path) -> None:
    system = system_functions()
    exports: list[str] = []
    for package, name in (("sterna-runtime", "SternaC"), *((n, f"{kind}Kernels") for n, kind in MODELS.items())):
        read = [read_mach_o(data) for data in objects(packages, package, name, key)]
        assert {(each.platform, each.minimum) for each in read} == {SYSTEMS[key]}
        assert {each.processor for each in read} == {PARTS[key][1].processor}
        wanted = set(undefined_symbols(read))
        assert wanted <= system if package == "sterna-runtime" else not wanted
        assert wanted.isdisjoint(WANT_REASONS), "PrivacyInfo.xcprivacy gives no reasons"
        assert wanted.isdisjoint({"open", "fopen", "mmap"})
        # What drives Metal remembers how it is spoken to.
        assert not any(each.writable and "sterna_metal" not in _own(each) for each in read)
        exports += [
            s.name
            for each in read
            for s in each.symbols
            if s.defined and not s.name.startswith(("l_", "ltmp", "L")) and s.name.startswith("sterna_")
        ]
    assert len(exports) == len(set(exports)), "all of them go into one app"


@pytest.mark.parametrize("key", PARTS)
def test_no_app_has_what_drives_metal_that_does_not_call_for_it(key: str, packages: Path) -> None:
    read = [read_mach_o(data) for data in objects(packages, "sterna-runtime", "SternaC", key)]
    defined = [{symbol.name for symbol in each.symbols if symbol.defined} for each in read]
    apart = [n for n, names in enumerate(defined) if names & {"sterna_metal", "sterna_device_nodes", "system_open"}]
    assert len(apart) == 3
    others = [each for n, each in enumerate(read) if n not in apart]
    called = {symbol.name for each in others for symbol in each.symbols if not symbol.defined}
    assert called.isdisjoint({"dlopen", "dlsym"}.union(*(defined[n] for n in apart)) - set().union(*map(_own, others)))


def _own(read: MachO) -> set[str]:
    return {symbol.name for symbol in read.symbols if symbol.defined}


@pytest.mark.parametrize("system", [each.name for each in slices()])
def test_libraries_are_read_by_llvm(system: str, packages: Path) -> None:
    nm, readobj = need("llvm-nm", "reads Mach-O"), need("llvm-readobj", "reads Mach-O")
    for package, name in (("sterna-runtime", "SternaC"), ("digits", "DigitsKernels")):
        path = library(packages, package, name, system)
        found = set(re.findall(r"Platform: (\w+)\s+Version: ([\d.]+)", run(readobj, "--macho-version-min", path)))
        wanted = {
            (SYSTEMS[key][0].replace("-", ""), ".".join(map(str, SYSTEMS[key][1])))
            for key in PARTS
            if key.startswith(f"{system},")
        }
        assert found == wanted
        exported = "sterna_load_linked" if package == "sterna-runtime" else "sterna_digits_linked"
        assert re.search(rf" T _{exported}$", run(nm, "-g", "--arch=arm64", path), re.M)


def test_frameworks_are_laid_out_as_xcode_wants_them(packages: Path) -> None:
    for package, name in (("sterna-runtime", "SternaC"), ("digits", "DigitsKernels")):
        root = packages / package / f"{name}.xcframework"
        listed = plistlib.loads((root / "Info.plist").read_bytes())
        assert (listed["CFBundlePackageType"], listed["XCFrameworkFormatVersion"]) == ("XFWK", "1.0")
        for row, each in zip(listed["AvailableLibraries"], slices(), strict=True):
            assert (
                row["SupportedArchitectures"]
                == row["LibraryIdentifier"]
                .split("-")[1]
                .replace("x86_64", "x86-64")
                .replace("_", " ")
                .replace("x86-64", "x86_64")
                .split()
            )
            assert row.get("SupportedPlatformVariant", "") == each.variant
            framework = root / row["LibraryIdentifier"] / row["LibraryPath"]
            assert (root / row["LibraryIdentifier"] / row["BinaryPath"]).read_bytes()[:4] in (
                b"!<ar",
                b"\xca\xfe\xba\xbe",
            )
            resources = framework if each.flat else framework / "Resources"
            information = plistlib.loads((resources / "Info.plist").read_bytes())
            assert information["CFBundleExecutable"] == name
            assert information["MinimumOSVersion" if each.flat else "LSMinimumSystemVersion"] == each.minimum
            assert re.fullmatch(r"[A-Za-z0-9.-]+", information["CFBundleIdentifier"])
            privacy = plistlib.loads((resources / "PrivacyInfo.xcprivacy").read_bytes())
            assert privacy == {"NSPrivacyTracking": False, "NSPrivacyTrackingDomains": [],
                               "NSPrivacyCollectedDataTypes": [], "NSPrivacyAccessedAPITypes": []}  # fmt: skip
            modules = (framework / "Modules" / "module.modulemap").read_text()
            for header in re.findall(r'header "([\w.]+)"', modules):
                assert (framework / "Headers" / header).is_file()
            if not each.flat:
                assert (framework / "Versions" / "Current").readlink() == Path("A")
                assert (framework / name).readlink() == Path("Versions/Current") / name


@pytest.mark.parametrize("key", PARTS)
def test_dynamic_libraries_are_of_their_system(key: str, dynamic: Path) -> None:
    each, part = PARTS[key]
    for package, name in (("sterna-runtime", "SternaC"), *((n, f"{kind}Kernels") for n, kind in MODELS.items())):
        data = of_processor(dynamic, package, name, key)
        read = read_mach_o(data)
        assert (read.processor, read.platform, read.minimum) == (part.processor, *SYSTEMS[key])
        assert read.own_name == f"@rpath/{name}.framework/{'' if each.flat else 'Versions/A/'}{name}"
        assert read.needed == ("/usr/lib/libSystem.B.dylib",)
        wanted = set(read.undefined)
        assert wanted <= system_functions() if package == "sterna-runtime" else not wanted
        assert wanted.isdisjoint(WANT_REASONS), "PrivacyInfo.xcprivacy gives no reasons"
        assert all(symbol.startswith("sterna_") for symbol in read.exported)
        assert ("sterna_load_linked" if package == "sterna-runtime" else f"sterna_{package}_linked") in read.exported
        # A simulator or a Mac on an Apple processor loads nothing that is not signed; Xcode signs what goes to phones,
        # and has room for it behind the commands.
        commands = dict(load_commands(data))
        assert (0x1D in commands) == (part.processor == "arm64" and "ios-arm64," not in key)
        assert 32 + struct.unpack_from("<I", data, 20)[0] + 64 <= struct.unpack_from("<I", data, first_section(data))[0]
        assert (0x2C in commands) == (each.name == "ios-arm64"), "what the App Store encrypts"


def load_commands(data: bytes) -> Iterator[tuple[int, int]]:
    """Every load command of a library, and where it is."""
    at = 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        yield struct.unpack_from("<I", data, at)[0], at
        at += struct.unpack_from("<I", data, at + 4)[0]


def first_section(data: bytes) -> int:
    """Where the offset of the first section stands, of which there is one behind the first segment's command."""
    return next(at for command, at in load_commands(data) if command == 0x19) + 72 + 48


def test_the_list_of_functions_is_of_the_system(dynamic: Path) -> None:
    """Dynamic libraries are linked by a list of ours, as zig has none for iOS."""
    listed = (ROOT / "runtime_apple" / "stubs" / "libSystem.tbd").read_text()
    names = {name[1:] for name in re.findall(r"\b_\w+", listed)}
    assert names <= system_functions()
    called = {s for key in PARTS for data in objects(dynamic, "sterna-runtime", "SternaC", key)
              for s in read_mach_o(data).undefined}  # fmt: skip
    assert names - called <= {"memmove", "memset"}, "what compilers make calls of by themselves"


def test_one_place_has_frameworks_of_one_kind(packages: Path) -> None:
    """The runtime is there once."""
    done = package(packages.parent / "gulls.onnx", "-o", packages, "--dynamic")
    assert done.exit_code == 1
    assert "E0204" in done.output
    done = CliRunner().invoke(program, ["package", str(packages.parent / "gulls.onnx"), "--for", "npm", "--dynamic"])
    assert (done.exit_code, "E0203" in done.output) == (1, True)


@pytest.mark.parametrize("kind", ["packages", "dynamic"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("key", PARTS)
def test_the_code_computes_what_kernels_do_here(
    key: str, model: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The very objects or libraries of the frameworks, relocated for Linux: the runtime, and what the model is linked
    to.
    """
    packages: Path = request.getfixturevalue(kind)
    _, part = PARTS[key]
    linked = [
        *objects(packages, model, f"{MODELS[model]}Kernels", key),
        *objects(packages, "sterna-runtime", "SternaC", key),
    ]
    made = mach_o_objects.build(linked, part.processor, model, tmp_path)
    source = packages.parent / {"digits": "digits.onnx", "gulls": "gulls.onnx"}[model]
    with sterna.compile(source, generator="llvm") as here:
        given = random_inputs(here.inputs, seed=3)
        wanted = list(here.run(given).values())
    next(iter(given.values())).tofile(tmp_path / "in0.bin")
    arm = part.processor == "arm64"
    plain = "dotprod" not in part.target.cpu_features  # else every processor of the system has them
    for features in {FEATURES, *([""] if plain else [])} if arm else [""]:
        emulator = (
            [need("qemu-aarch64", "runs programs for ARM"), "-cpu", "max" if features else "cortex-a53"] if arm else []
        )
        said = run("env", f"FEATURES={features}", *emulator, made, "out", "in0.bin", cwd=tmp_path)
        assert said == "graph.json: cannot be opened: this build of the runtime has no files or libraries\n"
        for n, theirs in enumerate(wanted):
            mine = np.fromfile(tmp_path / f"out{n}.bin", theirs.dtype).reshape(theirs.shape)
            if mine.dtype == np.float32:
                assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(theirs).max()
            else:
                np.testing.assert_array_equal(mine, theirs)
    if (
        arm and plain and model == "gulls"
    ):  # a processor that lacks what the system says it has: the better graph was taken
        command = ["env", f"FEATURES={FEATURES}", "qemu-aarch64", "-cpu", "cortex-a53", str(made), "out", "in0.bin"]
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_swift_compiles(packages: Path, tmp_path: Path) -> None:
    """Without a warning; classes of pictures, too. test_golden_matrix.py runs what is compiled."""
    need_swift()
    shutil.copytree(packages, tmp_path / "packages")
    (part, *_) = slices()[0].parts
    for dtype, scale in (("int8", Scale(0.5, 3)), ("uint8", Scale(0.5, 3)), ("float32", None)):
        (tmp_path / f"{dtype}_photo.tflite").write_bytes(means_of_channels(dtype, scale, 16, 16).content())
        made = ios.source(ios.compile_part(tmp_path / f"{dtype}_photo.tflite", options_of(generator="llvm"), part))
        assert b"Fill(" in made
        own = re.sub(rb"import \w+Kernels", b"import DigitsKernels", made)  # a module of C less
        own = re.sub(rb"sterna_\w+_linked", b"sterna_digits_linked", own)
        (tmp_path / f"packages/digits/Sources/DigitsModel/{dtype}.swift").write_bytes(own)
    for version in (5, 6):
        modules = compile_packages(tmp_path, tmp_path / "packages", version)
        assert modules == ["Sterna", "DigitsModel", "GullsModel"]


def test_strings_are_linked_in(tmp_path: Path) -> None:
    onnx.save(labels(), tmp_path / "labels.onnx")
    (part, *_) = slices()[0].parts
    compiled = ios.compile_part(tmp_path / "labels.onnx", options_of(generator="llvm"), part)
    made = b"".join(ios.linked_objects(compiled, part))
    assert b'{"strings": ["tern", "gull", "auk"' in made
    assert b'"strings.json":{' in made.replace(b'": ', b'":')
    source = ios.source(compiled).decode()
    assert "public var inputX: [String]" in source
    assert "func inputXFill(strings: [String]) throws" in source


def test_swift_sources_fit_the_headers(packages: Path) -> None:
    sources = sorted(packages.rglob("*.swift"))
    assert len(sources) == 7 + 2 * 2
    digits = (packages / "digits/Sources/DigitsModel/Digits.swift").read_text()
    assert "public var inputImage: UnsafeMutableBufferPointer<Float>" in digits
    assert "public var outputScoresBest: Int" in digits
    # What the sources call is in the headers.
    headers = "".join(path.read_text() for path in packages.glob("sterna-runtime/*/ios-arm64/*/Headers/*.h"))
    for path in sources:
        for name in re.findall(r"\bsterna_\w+(?=\()", path.read_text()):
            assert re.search(rf"\b{name}\b", headers) or name.endswith("_linked"), name


def test_a_second_time_is_the_same(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in the working directory."""
    (tmp_path / "stdint.h").mkdir()
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in packages.rglob("*") if path.is_file()}
    done = package(packages.parent / "gulls.onnx", "-o", packages)
    assert done.exit_code == 0, done.output
    assert {path: path.read_bytes() for path in packages.rglob("*") if path.is_file()} == before


def test_what_cannot_be_packaged_is_said(packages: Path, tmp_path: Path) -> None:
    model = packages.parent / "gulls.onnx"
    with pytest.raises(SternaError) as caught:
        ios.ios_package(model, options_of(), tmp_path / "x", name="sterna-runtime", version="1.0-beta")
    assert list(caught.value.codes) == ["E0203", "E0203"]
    assert 'fix: version="1.0.0"' in str(caught.value)
    with pytest.raises(SternaError, match="cannot be called"):
        ios.ios_package(model, options_of(), tmp_path / "x", name="Sterna-Runtime")
    assert not (tmp_path / "x").exists()
    for options, name in ((options_of(), "gull-s"), (options_of(name="gulls"), "others")):
        with pytest.raises(SternaError, match=r"the class of gulls, which is there, is called Gulls too") as caught:
            ios.ios_package(model, options, packages, name=name)
        assert list(caught.value.codes) == ["E0204"]
    (tmp_path / "made" / "gulls").mkdir(parents=True)
    (tmp_path / "made" / "gulls" / "Package.swift").write_text("mine")
    done = package(model, "-o", tmp_path / "made")
    assert done.exit_code == 1
    assert "E0204" in done.output


def test_a_part_has_a_graph_for_better_processors(packages: Path) -> None:
    """Products of bytes have instructions on phones since 2019."""
    exports = {
        s.name
        for data in objects(packages, "gulls", "GullsKernels", "ios-arm64, arm64")
        for s in read_mach_o(data).symbols
    }
    assert {"sterna_gulls_library", "sterna_gulls_linked"} <= exports
    assert any(re.fullmatch(r"sterna_gulls_apple_a1\d_library", name) for name in exports)
