"""Builds the wheels `sterna-runtime`, reads them and runs them, in the environment that ci/runtime-wheels makes."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np

from sterna_runtime.recipe import WHEELS, Platform, library_name, this_platform
from sterna_runtime.version import __version__

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "wheelhouse-runtime"
LARGEST = 300_000
#: e_machine of ELF; the CPU type of Mach-O; the machine of PE: by (system, machine).
_GLIBC = {"libc", "libpthread", "libdl", "libm", "ld-linux-armhf", "ld-linux-x86-64", "ld-linux-aarch64"}
_ELF = {"x86_64": 62, "aarch64": 183, "armv7l": 40, "armv6l": 40}
_MACH_O = {"x86_64": 0x01000007, "arm64": 0x0100000C}
#: Debian's name of a machine -> emulator, triple of its folders, (wheel's platform, target) that run there.
EMULATED = {
    "arm64": ("qemu-aarch64", "aarch64-linux-gnu", [(Platform("Linux", "aarch64"), "arm64")]),
    "armhf": (
        "qemu-arm", "arm-linux-gnueabihf",
        [(Platform("Linux", "armv7l"), "armv7"), (Platform("Linux", "armv6l"), "armv6")],
    ),
}  # fmt: skip


def run(*command: str | Path, environment: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What a program prints; it must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def name_of(platform: Platform) -> str:
    return f"sterna_runtime-{__version__}-py3-none-{platform.tag}.whl"


def build(python: Path, platform: Platform, source: Path, out: Path) -> Path:
    """The wheel for a platform, from a folder with the project."""
    tag = platform.tag.rpartition(".")[2]
    command = (python, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source)
    run(*command, environment={**os.environ, "STERNA_BUILD_PLATFORM": tag})
    return out / name_of(platform)


def read(wheel: Path, platform: Platform, work: Path) -> str:
    """Checks what a wheel says and holds; returns a line about it.

    Raises:
        SystemExit: something is not as it should be.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [facts] = [Parser().parsestr(archive.read(n).decode()) for n in names if n.endswith(".dist-info/WHEEL")]
        [metadata] = [Parser().parsestr(archive.read(n).decode()) for n in names if n.endswith("/METADATA")]
        [place] = [n for n in names if "/_lib/" in n]
        library = archive.read(place)
    needs = [need for need in metadata.get_all("Requires-Dist", []) if "extra" not in need]
    tags = sorted(f"py3-none-{tag}" for tag in platform.tag.split("."))
    _same(f"{wheel.name}: dependencies", needs, ["numpy>=1.24"])
    _same(f"{wheel.name}: tags", sorted(facts.get_all("Tag", [])), tags)
    _same(f"{wheel.name}: not pure", facts["Root-Is-Purelib"], "false")
    _same(f"{wheel.name}: library", place, f"sterna_runtime/_lib/{library_name(platform.system)}")
    _same(f"{wheel.name}: packages", {n.split("/")[0] for n in names if "dist-info" not in n}, {"sterna_runtime"})
    _same(f"{wheel.name}: machine", _machine(library), _wanted(platform))
    if wheel.stat().st_size >= LARGEST:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size} bytes, not less than {LARGEST}")
    if platform.system == "Linux":
        _check_needs(wheel, library, platform, work)
    return f"{wheel.stat().st_size:8,} {len(library):8,}  {wheel.name}"


def _check_needs(wheel: Path, library: bytes, platform: Platform, work: Path) -> None:
    """What a library for Linux needs is what its tag says that every system has."""
    file = work / "library.so"
    file.write_bytes(library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file)))
    if platform.libc == "musl":  # auditwheel looks for its libc.so on this machine, where that is a text
        _same(f"{wheel.name}: needed libraries", needed, {"libc.so"})
        return
    _same(f"{wheel.name}: needed libraries", {re.sub(r"\.so.*", "", n) for n in needed} - _GLIBC, set())
    found = re.findall(r"Name: GLIBC_2\.(\d+)", run("readelf", "-V", file))
    if not found or max(map(int, found)) > 17:
        raise SystemExit(f"{wheel.name} needs glibc 2.{max(map(int, found), default=0)}")
    if platform.machine in ("x86_64", "aarch64"):
        said = run(work / "build" / "bin" / "python", "-m", "auditwheel", "show", wheel)
        wanted = platform.tag.split(".", maxsplit=1)[0]
        if f'"{wanted}"' not in said.replace("\n", " "):
            raise SystemExit(f"auditwheel does not find {wheel.name} to be {wanted}:\n{said}")


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise SystemExit(f"{what}: {found}, not {wanted}")


def _machine(library: bytes) -> tuple[str, int]:
    if library[:4] == b"\x7fELF":
        return "ELF", struct.unpack_from("<H", library, 18)[0]
    if library[:2] == b"MZ":
        return "PE", struct.unpack_from("<H", library, struct.unpack_from("<I", library, 60)[0] + 4)[0]
    return "Mach-O", struct.unpack_from("<I", library, 4)[0]


def _wanted(platform: Platform) -> tuple[str, int]:
    if platform.system == "Linux":
        return "ELF", _ELF[platform.machine]
    return ("Mach-O", _MACH_O[platform.machine]) if platform.system == "Darwin" else ("PE", 0x8664)


def sdist_gives_the_same(python: Path, work: Path) -> None:
    """What a wheel from the sdist holds is what one from the checkout does."""
    run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", work / "sdist", ROOT / "runtime_python")
    [packed] = (work / "sdist").glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(work / "sdist", filter="data")
    here = this_platform()
    again = build(python, here, packed.with_name(packed.name.removesuffix(".tar.gz")), work / "again")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(OUT / name_of(here)) as other:
        pairs = [{i.filename: i.CRC for i in archive.infolist()} for archive in (one, other)]
    _same("the wheel from the sdist", pairs[0], pairs[1])


def compiled(model: Path, target: str, work: Path) -> Path:
    """A model with golden sets, compiled by the checkout."""
    place = work / "bundles" / target / model.stem
    run(sys.executable, "-m", "sterna", "compile", model, "-t", target, "-o", place, "--golden", "2")
    return place


def tried(
    command: list[str | Path], environment: dict[str, str] | None, bundle: Path, out: Path
) -> dict[str, np.ndarray]:
    """inspect, verify and run by a program; the outputs for random inputs."""
    run(*command, "inspect", bundle, environment=environment, cwd=out.parent)
    print(
        "   ", run(*command, "verify", bundle, "--golden", environment=environment, cwd=out.parent).strip(), flush=True
    )
    run(*command, "run", bundle, "--random", "-o", out, environment=environment, cwd=out.parent)
    with np.load(out) as archive:
        return {name: archive[name] for name in archive.files}


def equal(name: str, got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Floats within 1e-5 of the largest output, everything else the same."""
    _same(f"{name}: outputs", list(got), list(wanted))
    for key, array in wanted.items():
        if array.dtype.kind != "f":
            good = np.array_equal(got[key], array)
        else:
            good = np.allclose(got[key], array, rtol=0, atol=1e-5 * max(float(np.abs(array).max()), 1e-30))
        if not good:
            raise SystemExit(f"{name}: output {key} differs from this machine's")


def in_a_clean_environment(models: list[Path], work: Path) -> dict[Path, dict[str, np.ndarray]]:
    """Installs this machine's wheel with pip, and nothing else; what it gives for every model."""
    run(sys.executable, "-m", "venv", work / "user")
    python = work / "user" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", OUT / name_of(this_platform()))
    found = run(python, "-m", "pip", "list", "--format=freeze").split()
    _same("installed", {n.partition("==")[0] for n in found} - {"pip", "setuptools"}, {"numpy", "sterna-runtime"})
    program, clean = work / "user" / "bin" / "sterna-runtime", {"PATH": os.environ["PATH"], "HOME": str(work)}
    return {m: tried([program], clean, compiled(m, "host", work), work / "host.npz") for m in models}


def in_qemu(architecture: str, models: list[Path], host: dict[Path, dict[str, np.ndarray]], work: Path) -> None:
    """The same under another machine's Python."""
    emulator, triple, pairs = EMULATED[architecture]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "sterna" / f"python-{architecture}" / "root"
    libraries = ":".join(str(root / "usr" / "lib" / triple / name) for name in ("blas", "lapack"))
    for platform, target in pairs:
        site = work / "sites" / platform.machine
        with zipfile.ZipFile(OUT / name_of(platform)) as archive:
            archive.extractall(site)
        path = f"{site}:{root / 'usr' / 'lib' / 'python3' / 'dist-packages'}"
        [python] = [p for p in (root / "usr" / "bin").glob("python3.*") if not p.is_symlink()]
        command: list[str | Path] = [emulator, "-cpu", "max", "-L", root, "-E", f"LD_LIBRARY_PATH={libraries}", "-E"]
        command += [f"PYTHONPATH={path}", python, "-m", "sterna_runtime"]
        for model in models:
            print(f"  {name_of(platform)}, {target}", flush=True)
            bundle = compiled(model, target, work)
            equal(f"{model.name} on {target}", tried(command, None, bundle, work / "there.npz"), host[model])


def main() -> None:
    work, options, models = Path(sys.argv[1]), sys.argv[2:], [ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"]
    models += [Path(word).resolve() for word in options if not word.startswith("-")]
    python = work / "build" / "bin" / "python"
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    print("   wheel  library", flush=True)
    for platform in WHEELS:
        print(read(build(python, platform, ROOT / "runtime_python", OUT), platform, work), flush=True)
    sdist_gives_the_same(python, work)
    print(f"installed alone, {name_of(this_platform())}", flush=True)
    host = in_a_clean_environment(models, work)
    if "--no-emulation" not in options:
        for architecture in EMULATED:
            print(f"in qemu-user, Debian's Python for {architecture}", flush=True)
            in_qemu(architecture, models, host, work)


if __name__ == "__main__":
    main()
