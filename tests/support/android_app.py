"""Apps that `sterna package --for android --app` wrote, compiled and put together where no Android SDK is.

Kotlin's compiler and `dx` come from Maven Central, `aapt`, `zipalign`, `apksigner` and the framework's resources from
Debian. What Gradle would do is done here in the same steps; Gradle's own plugin is in no registry but its maker's.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sterna.package.natives import PAGE
from support.tools import ROOT, need, run

POM = ROOT / "tests" / "support" / "android" / "pom.xml"
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
ABIS = ("arm64-v8a", "armeabi-v7a", "x86_64", "x86")
#: The identifier of the field in a zip entry's header that says how its data is aligned, and fills up to there.
ALIGNED = 0xD935
#: The API level that apps are put together for here. Kotlin's library has two methods with invokedynamic, which D8
#: takes apart for older ones and dx does not; the model's and the runtime's classes have none.
LEAST = 26
_BORDER = 64  # of kernels and weights
_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def tools(folder: Path, *profiles: str) -> list[Path]:
    """The files that tests/support/android/pom.xml asks for, in these profiles too, with what they need."""
    listed = folder / "classpath.txt"
    command = [need("mvn", "fetches Kotlin's compiler and dx"), "-B", "-q", "-ntp", "-f", str(POM)]
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    done = subprocess.run(
        [*command, plugin, f"-Dmdep.outputFile={listed}", *(f"-P{profile}" for profile in profiles)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return [Path(name) for name in listed.read_text().split(os.pathsep)]


def one(files: list[Path], artifact: str) -> Path:
    """The file of an artifact."""
    (found,) = [file for file in files if file.parents[1].name == artifact]
    return found


def paths(*files: Path) -> str:
    return os.pathsep.join(map(str, files))


@dataclass(frozen=True)
class App:
    """A project with its libraries unpacked: those of the runtime and of the model, in folders of their names."""

    project: Path
    libraries: tuple[Path, ...]

    @property
    def classes(self) -> list[Path]:
        return [library / "classes.jar" for library in self.libraries]

    @property
    def sources(self) -> list[Path]:
        return sorted((self.project / "app" / "src" / "main" / "kotlin").rglob("*.kt"))


def unpacked(project: Path, folder: Path) -> App:
    """The project, with every library of its repository unpacked into a folder."""
    libraries = []
    for aar in sorted(project.rglob("*.aar")):
        libraries.append(folder / aar.parents[1].name)
        with zipfile.ZipFile(aar) as archive:
            archive.extractall(libraries[-1])
    return App(project, tuple(libraries))


def kotlin(files: list[Path], sources: list[Path], against: list[Path], output: Path) -> Path:
    """Compiles Kotlin without a warning, to classes that `dx` takes: it knows no invokedynamic."""
    command = [need("java", "runs Kotlin's compiler"), *_JAVA, "-cp", paths(*files)]
    command += ["org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-stdlib", "-no-reflect", "-Werror"]
    command += ["-jvm-target", "1.8", "-Xsam-conversions=class", "-Xlambdas=class"]
    path = paths(one(files, "kotlin-stdlib"), *against)
    run(*command, "-cp", path, "-d", output, *sources)
    return output


def dex(files: list[Path], classes: list[Path], output: Path, least: int) -> Path:
    """Folders and archives of classes as `classes.dex`, for Android from API level `least` on."""
    plain = [_classes_alone(place, output.parent / f"classes{n}.jar") for n, place in enumerate(classes)]
    command = ["java", *_JAVA, "-cp", str(one(files, "dalvik-dx")), "com.android.dx.command.Main", "--dex"]
    run(*command, f"--min-sdk-version={least}", f"--output={output}", *plain)
    return output


def _classes_alone(place: Path, output: Path) -> Path:
    """What is neither a class nor for this version of Java is left out."""
    if place.is_dir():
        found = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*.class")}
    else:
        with zipfile.ZipFile(place) as archive:
            found = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}
    with zipfile.ZipFile(output, "w") as archive:
        for name, data in found.items():
            if not name.startswith("META-INF/") and name != "module-info.class":
                archive.writestr(name, data)
    return output


def apk(app: App, code: Path, folder: Path) -> Path:
    """The app as Android installs it, signed with a key that is made for it."""
    for tool in ("aapt", "zipalign", "apksigner", "keytool"):
        need(tool, "puts an app together")
    if not FRAMEWORK.is_file():
        pytest.skip(f"needs {FRAMEWORK}: the resources of Android itself")
    assets = folder / "assets"
    main = app.project / "app" / "src" / "main"
    for place in (main, *app.libraries):
        for file in (place / "assets").rglob("*"):
            if file.is_file():
                target = assets / file.relative_to(place / "assets")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    bare, aligned = folder / "bare.apk", folder / "app.apk"
    manifest = folder / "AndroidManifest.xml"
    manifest.write_text(merged(app))
    command = ["aapt", "package", "-f", "-M", manifest, "-A", assets, "-I", FRAMEWORK, "-F", bare]
    run(*command, "-0", "jet", "--min-sdk-version", str(LEAST), "--target-sdk-version", "35")
    with zipfile.ZipFile(bare) as archive:
        entries = {
            info.filename: (archive.read(info), info.compress_type == zipfile.ZIP_STORED) for info in archive.infolist()
        }
    entries["classes.dex"] = code.read_bytes(), False
    for library in app.libraries:
        for file in sorted((library / "jni").rglob("*.so")):
            entries[f"lib/{file.parent.name}/{file.name}"] = file.read_bytes(), True
    aligned.write_bytes(packed(entries))
    run("zipalign", "-c", "-p", "4", aligned)
    key = folder / "debug.keystore"
    password = ["-storepass", "android", "-keypass", "android"]
    run(
        "keytool", "-genkeypair", "-keystore", key, "-alias", "debug", *password, "-keyalg", "RSA", "-dname", "CN=Debug"
    )
    run("apksigner", "sign", "--ks", key, "--ks-pass", "pass:android", "--min-sdk-version", str(LEAST), aligned)
    return aligned


def merged(app: App) -> str:
    """The manifest with what Gradle takes from build.gradle.kts."""
    settings = (app.project / "app" / "build.gradle.kts").read_text()
    identifier = settings.split('applicationId = "')[1].split('"')[0]
    text = (app.project / "app" / "src" / "main" / "AndroidManifest.xml").read_text()
    facts = (
        f'package="{identifier}" android:versionCode="1" android:versionName="1.0.0" android:extractNativeLibs="false"'
    )
    plain, _, library = facts.rpartition(" ")
    return text.replace("<manifest ", f"<manifest {plain} ").replace("<application ", f"<application {library} ")


def packed(entries: Mapping[str, tuple[bytes, bool]]) -> bytes:
    """A zip file; of each entry its data, and whether it is stored.

    What is stored begins on a border of 64 bytes, libraries on one of a page.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, (data, stored) in entries.items():
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            if stored:
                border = PAGE if name.endswith(".so") else _BORDER
                begin = made.tell() + 30 + len(name.encode()) + 6
                info.extra = struct.pack("<HHH", ALIGNED, 2 + -begin % border, border) + bytes(-begin % border)
            archive.writestr(info, data)
    return made.getvalue()


def offset(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Where the data of an entry begin in the file."""
    assert archive.fp is not None
    archive.fp.seek(info.header_offset + 26)
    name, extra = struct.unpack("<HH", archive.fp.read(4))
    return info.header_offset + 30 + int(name) + int(extra)
