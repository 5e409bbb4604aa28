"""The Java runtime: Maven's build with its own tests, in Java and Kotlin; libraries for Android; arm64 under qemu."""

from __future__ import annotations

import os
import re
import struct
import zipfile
from pathlib import Path

import pytest

from sterna.package import natives
from support import elf
from support.golden import BUNDLES, write_bundles
from support.java import RUNTIME, arm64_jre, maven
from support.tools import ZIG, need, run

pytestmark = pytest.mark.family("java")

#: What glibc has under other names than Android's libraries.
SHIM = "extern int *__errno_location(void);\nint *__errno(void) { return __errno_location(); }\n"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundles(tmp_path_factory.mktemp("java") / "bundles")


@pytest.fixture(scope="module")
def built(bundles: Path) -> Path:
    """Maven's `target` folder, after all of its tests."""
    need("javac", "compiles the Java runtime")
    folder = bundles.parent
    natives.build(natives.PLATFORMS["linux-x86_64"], folder / "natives" / "linux-x86_64")
    places = {"target": folder / "target", "natives": folder / "natives", "bundles": bundles}
    maven("verify", *(f"-Dsterna.{name}={place}" for name, place in places.items()))
    return folder / "target"


def jar(built: Path) -> Path:
    return built / "sterna-runtime-0.1.0.jar"


def test_maven_builds_and_tests_everything(built: Path) -> None:
    reports = "".join(path.read_text() for path in (built / "surefire-reports").glob("*.txt"))
    assert sorted(re.findall(r"Test set: dev\.sterna\.(\w+)", reports)) == ["KotlinTest", "ModelTest"]
    for name in ("", "-sources", "-javadoc"):
        with zipfile.ZipFile(built / f"sterna-runtime-0.1.0{name}.jar") as archive:
            assert {entry.date_time for entry in archive.infolist()} == {(2024, 1, 1, 0, 0, 0)}, name


def test_the_classes_are_small(built: Path) -> None:
    with zipfile.ZipFile(jar(built)) as archive:
        classes = [entry for entry in archive.infolist() if entry.filename.endswith(".class")]
        assert all(archive.read(entry)[4:8] == struct.pack(">HH", 0, 55) for entry in classes), "not of Java 11"
    remote = [entry for entry in classes if "/Rpc" in entry.filename]  # an app that makes no device drops them
    assert sum(entry.compress_size for entry in classes if entry not in remote) < 27_000
    assert sum(entry.compress_size for entry in remote) < 20_000


def test_jni_is_used_as_it_should_be(built: Path, bundles: Path) -> None:
    said = golden(["java", "-Xcheck:jni"], built, bundles)
    assert "WARNING" not in said
    assert "FATAL" not in said


def golden(java: list[str], built: Path, bundles: Path, *options: str) -> str:
    """What the replay of every bundle's golden sets prints."""
    path = os.pathsep.join(map(str, (jar(built), built / "test-classes")))
    names = [bundles / name for name in BUNDLES]
    said = run(*java, *options, "-cp", path, "dev.sterna.Golden", *names)
    assert said.endswith("passed\n")
    return said


@pytest.fixture(scope="module")
def android(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    need("javac", "has jni.h")
    place = tmp_path_factory.mktemp("android")
    return {platform.name: natives.build(platform, place / platform.name) for platform in natives.ANDROID}


@pytest.mark.parametrize("abi", [platform.name for platform in natives.ANDROID])
def test_libraries_for_android(abi: str, android: dict[str, Path]) -> None:
    """What Google Play asks for, and nothing that Android does not have."""
    library = elf.read(android[abi].read_bytes())
    assert library.machine == elf.MACHINES[abi]
    assert library.soname == "libsterna_jni.so"
    assert library.needed == ["libc.so", "libdl.so"]
    assert library.exported == ["JNI_OnLoad"]
    known = {name for names in natives.functions().values() for name in names}
    assert set(library.imported) <= known, "neither a function of Android's C library nor compiled in"
    assert library.page == natives.PAGE
    assert not library.writable_code
    assert android[abi].stat().st_size < 52_000
    if abi == "armeabi-v7a":
        assert not library.hard_float


@pytest.mark.parametrize(
    "target", ["arm-linux-musleabihf", "x86-linux-musl", "x86_64-linux-musl", "aarch64-linux-musl"]
)
def test_files_have_the_kernels_layout(target: str, tmp_path: Path) -> None:
    """Android's `struct stat` is the kernel's (of 32-bit machines, its stat64)."""
    kernel = "#define stat stat64\n" if target.startswith("x86_64") or target.startswith("aarch64") else ""
    both = '_Static_assert(offsetof(struct {0}, st_size) == {1} && offsetof(struct {0}, st_mode) == {2}, "");\n'
    size, mode = {"arm": (48, 16), "x86": (44, 16), "x86_64": (48, 24), "aarch64": (48, 16)}[target.partition("-")[0]]
    (tmp_path / "theirs.c").write_text(
        f"#include <stddef.h>\n{kernel}#include <asm/stat.h>\n" + both.format("stat64", size, mode)
    )
    (tmp_path / "ours.c").write_text("#include <stddef.h>\n#include <sys/stat.h>\n" + both.format("stat", size, mode))
    run(*ZIG, "cc", "-target", target, "-c", tmp_path / "theirs.c", "-o", tmp_path / "theirs.o")
    run(
        *ZIG,
        "cc",
        "-target",
        target,
        "-ffreestanding",
        f"-I{RUNTIME / 'bionic'}",
        "-c",
        tmp_path / "ours.c",
        "-o",
        tmp_path / "ours.o",
    )


def shims(place: Path, target: str) -> Path:
    """Libraries under the names of Android's; what they lack is in the glibc that the JVM has loaded."""
    place.mkdir()
    (place / "shim.c").write_text(SHIM)
    for name in natives.functions():
        run(
            *ZIG,
            "cc",
            "-target",
            target,
            "-shared",
            "-fPIC",
            "-nostdlib",
            f"-Wl,-soname,{name}",
            place / "shim.c",
            "-o",
            place / name,
        )
    return place


def test_the_library_for_x86_64_android_runs_here(
    built: Path, bundles: Path, android: dict[str, Path], tmp_path: Path
) -> None:
    folder = shims(tmp_path / "lib", "x86_64-linux-gnu.2.17")
    java = ["env", f"LD_LIBRARY_PATH={folder}", need("java", "runs the Java runtime")]
    golden(java, built, bundles, f"-Ddev.sterna.library={android['x86_64']}")


def test_the_library_for_arm64_android_runs_on_an_arm64_jvm(
    built: Path, android: dict[str, Path], tmp_path: Path
) -> None:
    java = arm64_jre()
    folder = shims(tmp_path / "lib", "aarch64-linux-gnu.2.17")
    bundles = write_bundles(tmp_path / "bundles", "arm64")
    golden(
        ["env", f"QEMU_SET_ENV=LD_LIBRARY_PATH={folder}", *java],
        built,
        bundles,
        f"-Ddev.sterna.library={android['arm64-v8a']}",
    )


def test_the_readme_names_what_there_is() -> None:
    text = (RUNTIME / "README.md").read_text()
    for folder in re.findall(r"^- `([\w/.-]+)`", text, re.M):
        assert (RUNTIME / folder).exists(), folder
