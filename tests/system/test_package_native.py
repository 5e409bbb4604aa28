"""`sterna package --for c` and `--for deb`: built, installed and run as their readers are told."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package.c import c_package
from sterna.package.c import commands as build_commands
from sterna.package.deb import RUNTIME, deb_packages
from sterna.package.native import read_native
from sterna.version import __version__
from sterna_runtime.private import cache_directory
from support import debian
from support.tools import ROOT, need, run

DEMO = Path(sterna.__file__).parent / "demo"
MODEL, IMAGE = DEMO / "digits.onnx", DEMO / "images" / "7.npy"
ADA = "Ada Lovelace <ada@example.org>"
LIBC = "Package: libc6\nVersion: 2.36-9\nArchitecture: arm64\nMulti-Arch: same\nMaintainer: x\nDescription: y\n"


def command(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("bundles")
    targets = ("host", "raspberrypi4", "raspberrypi-zero-musl", "c99", "browser")
    generators = {"c99": "c"}
    return {t: compile_to(place / t / "digits", MODEL, t, generator=generators.get(t, "llvm")) for t in targets}


@pytest.mark.parametrize(
    ("kind", "options", "made"),
    [
        ("c", (), "main.c"),
        ("npm", (), "index.js"),
        ("deb", ("-t", "raspberrypi4", "--maintainer", ADA), "sterna-digits_1.0.0_arm64.deb"),
    ],
)
def test_a_model_is_compiled_first(kind: str, options: tuple[str, ...], made: str, tmp_path: Path) -> None:
    done = command("package", MODEL, "--for", kind, "-g", "llvm", *options, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / made).is_file()


def test_what_a_bundle_or_a_kind_has_decided_is_not_asked(bundles: dict[str, Path], tmp_path: Path) -> None:
    for arguments, said in (
        ((bundles["host"], "--for", "c", "-t", "host"), "E0203"),
        ((MODEL, "--for", "ios", "-t", "host"), "E0203"),
        ((MODEL, "--for", "npm", "-t", "raspberrypi4", "-g", "llvm"), "E0507"),
        ((MODEL, "--for", "deb", "-t", "nowhere"), "E0201"),
        ((tmp_path / "none.onnx", "--for", "deb"), "none.onnx"),
        ((ROOT / "README.md", "--for", "c"), "E0101"),
    ):
        done = command("package", *arguments, "-o", tmp_path / "out")
        assert done.exit_code != 0
        assert said in done.output
        assert not (tmp_path / "out").exists()


def commands(folder: Path) -> list[list[str]]:
    """The two commands of README.md that build the program: on the machine, and by zig."""
    lines = re.findall(r"^    ((?:cc|python -m ziglang cc) .*)$", (folder / "README.md").read_text(), re.M)
    assert len(lines) == 2
    return [[sys.executable if w == "python" else w for w in shlex.split(line)] for line in lines]


def build(words: list[str], folder: Path, *flags: str) -> None:
    """A command as a shell would start it."""
    run("bash", "-c", f"{' '.join(words)} {' '.join(flags)}", cwd=folder)


@pytest.mark.family("runtime")
@pytest.mark.parametrize("target", ["host", "c99"])
def test_a_folder_of_c_is_built_by_a_compiler(target: str, bundles: dict[str, Path], tmp_path: Path) -> None:
    """With kernels in a library and in source; nothing of it causes a warning."""
    need("cc", "builds programs")
    folder = c_package(bundles[target], tmp_path / "c")
    here, _ = commands(folder)
    build(here, folder, "-Wall", "-Wextra", "-Werror")
    said = run(folder / "digits", "--repeat", "3", IMAGE, cwd=folder)
    assert re.search(r"^scores  float32\[1, 10\]\n +7 +0\.99", said, re.M)
    assert "fastest of 3 runs" in said
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
    run("cc", *strict, "-Iruntime/include", "-fsyntax-only", "main.c", cwd=folder)


@pytest.mark.family("armv6")
def test_a_folder_of_c_is_built_for_another_machine(bundles: dict[str, Path], tmp_path: Path) -> None:
    """By zig alone, as a static program, for a processor that a triple does not tell."""
    emulator = need("qemu-arm", "runs programs for 32-bit ARM")
    folder = c_package(bundles["raspberrypi-zero-musl"], tmp_path / "c", "pi")
    _, there = commands(folder)
    assert "-mcpu=arm1176jzf_s" in there
    build(there, folder)
    said = run(emulator, "-cpu", "arm1176", "./pi", IMAGE, cwd=folder)
    assert re.search(r"^ +7 +0\.99", said, re.M)


def test_the_page_of_windows_has_the_commands_of_its_folder(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "bundle", MODEL, "windows-x86-64", generator="llvm", all_variants=True)
    folder = c_package(bundle, tmp_path / "folder") / "model"
    assert sorted(file.name for file in folder.glob("*.dll")) == sorted(file.name for file in bundle.glob("*.dll"))
    _, there = build_commands(read_native(bundle), "digits")
    assert f"    {there}\n" in (ROOT / "docs" / "windows-macos.md").read_text()


@pytest.mark.family("runtime")
def test_what_no_folder_is_made_of(bundles: dict[str, Path], tmp_path: Path) -> None:
    """Coded errors, and nothing is written."""
    place = tmp_path / "c"
    for said, *words in (
        ("E0507", bundles["browser"]),
        ("E0101", tmp_path / "nothing"),
        ("E0203", bundles["host"], "--name", "a/b"),
        ("E0203", bundles["host"], "--name", "runtime"),
        ("E0203", bundles["host"], "--name", "test"),
        ("E0203", bundles["host"], "--dim", "n=1"),
        ("E0002", bundles["host"], "--maintainer", ADA),
    ):
        assert said in command("package", "--for", "c", *words, "-o", place).output
        assert not place.exists()
    place.mkdir()
    (place / "mine").touch()
    assert "E0204" in command("package", "--for", "c", bundles["host"], "-o", place).output
    assert [path.name for path in place.iterdir()] == ["mine"]


@pytest.fixture(scope="module")
def packages(bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The runtime's and the model's."""
    place = tmp_path_factory.mktemp("deb") / "packages"
    made = command("package", "--for", "deb", bundles["raspberrypi4"], "-o", place, "--maintainer", ADA)
    assert made.exit_code == 0, made.output
    return [place / f"{RUNTIME}_{__version__}_arm64.deb", place / "sterna-digits_1.0.0_arm64.deb"]


@pytest.mark.family("arm64")
def test_packages_are_installed_by_dpkg_and_run(packages: list[Path], bundles: dict[str, Path], tmp_path: Path) -> None:
    """With their dependencies; a model without the runtime is not configured. ci/deb does it in whole roots."""
    need("dpkg", "installs packages of Debian")
    root = tmp_path / "root"
    debian.know(root, "arm64", [LIBC])
    with pytest.raises(AssertionError, match=rf"{RUNTIME} \(>= {__version__}\)"):
        debian.install(root, packages[1:])
    debian.install(root, packages)
    cached = cache_directory()
    libraries = None if cached is None else cached / "arm64-jre" / "root"
    if libraries is None or not libraries.is_dir():
        pytest.skip("needs arm64-jre: its C library runs what was installed")
    np.load(IMAGE).tofile(tmp_path / "in.bin")
    (folder,) = root.glob("usr/lib/*/sterna/sterna-digits")
    run_program = (root / "usr" / "bin" / "sterna-run", folder, tmp_path / "in.bin", "--out", tmp_path / "out")
    assert "median" in debian.emulated("arm64", root, *run_program, libraries=libraries)
    with sterna.load(bundles["host"]) as here:
        wanted = here.run({"image": np.load(IMAGE)})["scores"]
    got = np.fromfile(tmp_path / "out0.bin", np.float32)
    assert np.abs(got - wanted.reshape(-1)).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.family("arm64")
def test_lintian_finds_no_error(packages: list[Path]) -> None:
    need("lintian", "knows Debian's policy")
    found = run("lintian", "--fail-on", "error", *packages)
    assert not re.search(r"^E:", found, re.M)


@pytest.mark.family("arm64")
def test_packages_are_the_same_bytes_every_time(packages: list[Path], bundles: dict[str, Path], tmp_path: Path) -> None:
    """And may be written beside others: models share the runtime's."""
    again = deb_packages(bundles["raspberrypi4"], tmp_path, maintainer=ADA)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {p.name: p.read_bytes() for p in packages}
    deb_packages(bundles["raspberrypi4"], tmp_path, "second", "2.0~rc1", ADA)
    names = {"second_2.0~rc1_arm64.deb", *(path.name for path in packages)}
    assert {path.name for path in tmp_path.iterdir()} == names
    (tmp_path / packages[1].name).write_bytes(b"another")
    with pytest.raises(SternaError, match=r"E0204.*other files"):
        deb_packages(bundles["raspberrypi4"], tmp_path, maintainer=ADA)


@pytest.mark.family("arm64")
def test_what_is_no_debian_package(bundles: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "Ada Lovelace")
    monkeypatch.setenv("DEBEMAIL", "nowhere")
    for target in ("raspberrypi-zero-musl", "c99", "browser"):
        with pytest.raises(SternaError, match="E0507"):
            deb_packages(bundles[target], tmp_path / "deb")
    with pytest.raises(SternaError) as wrong:
        deb_packages(bundles["raspberrypi4"], tmp_path / "deb", RUNTIME, "1-2 3")
    assert [each.code for each in wrong.value.diagnostics] == ["E0203"] * 3
    assert not (tmp_path / "deb").exists()


@pytest.mark.parametrize("kind", ["c", "deb"])
def test_what_is_no_package_is_said_before_anything_is_compiled(kind: str, tmp_path: Path) -> None:
    for words, code, said in (
        (("-t", "cortex-m4"), "E0507", "cortex-m4 is for firmware or browsers"),
        (("-t", "browser"), "E0507", "browser is for firmware or browsers"),
        (("--name", ""), "E0203", "an empty name"),
        (("--dynamic",), "E0203", "--dynamic is for iOS"),
    ):
        done = CliRunner().invoke(program, ["package", str(MODEL), "--for", kind, "-o", str(tmp_path / "x"), *words])
        assert done.exit_code == 1
        assert code in done.output
        assert said in " ".join(done.output.split())
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        ("deb", "metal", "runs on metal, which programs of C on Linux do not drive"),
        ("deb", "windows-x86-64", "is no Debian with glibc"),
        ("c", "webgpu", "runs on webgpu, which programs of C do not drive"),
        ("arduino", "opencl", "is for microcontrollers; opencl is for none"),
        ("esp-idf", "raspberrypi4", "fix: --target esp32s3"),
    ],
)
def test_a_target_that_a_kind_does_not_take_is_told_of_the_model(
    kind: str, target: str, said: str, tmp_path: Path
) -> None:
    """Where it is compiled to on the way is no place that users know."""
    words = ["package", str(MODEL), "--for", kind, "-t", target, "-g", "llvm", "-o", str(tmp_path / "x")]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "error[E0507]" in done.stderr
    assert "sterna-bundle" not in done.stderr
    assert str(MODEL) in done.stderr or kind in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.family("runtime")
def test_a_folder_of_c_for_windows(tmp_path: Path) -> None:
    """The port and the program's name are that system's; tests of Wine run such programs."""
    target = tmp_path / "windows.toml"
    target.write_text(
        'extends = "x86-64-v2"\ntriple = "x86_64-windows-gnu"\nllvm_triple = "x86_64-pc-windows-gnu"\n'
        'library = "model.dll"\ndescription = "Windows"\n'
    )
    folder = c_package(compile_to(tmp_path / "digits", MODEL, str(target), generator="llvm"), tmp_path / "c")
    here, there = commands(folder)
    assert "runtime/port/windows.c" in here
    assert there[-2:] == ["-o", "digits.exe"]
    assert not {"-lpthread", "-ldl"} & {*here, *there}


def test_models_of_an_architecture_share_the_runtime_s_package(tmp_path: Path) -> None:
    """Whatever processor and glibc each was compiled for: the package is for the least of them."""
    out = tmp_path / "out"
    for target in ("raspberrypi-zero", "raspberrypi-32", "armv7"):
        bundle = compile_to(tmp_path / target, MODEL, target, generator="llvm")
        deb_packages(bundle, out, f"digits-{target}", maintainer=ADA)
    assert len(list(out.iterdir())) == 4
    (runtime,) = out.glob(f"{RUNTIME}_*_armhf.deb")
    need("dpkg-deb", "reads packages of Debian")
    assert "libc6 (>= 2.17)" in run("dpkg-deb", "-f", runtime, "Depends")
