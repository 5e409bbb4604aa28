"""Builds the wheels `sterna-runtime`, reads them and runs them, in the environment that ci/runtime-wheels makes.

With --models the wheels for ARM also run every development model (STERNA_MODELS, else ../shared/models): what they
compute is compared as ci/all-models does it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np

from sterna.api import compile_to
from sterna.errors import SternaError
from sterna_runtime.recipe import WHEELS, Platform, devices_of, library_name, this_platform
from sterna_runtime.version import __version__
from support.matrix import Place, model_names, near_this_machine
from support.trained import Trained, agree, trained

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "wheelhouse-runtime"
LARGEST = 300_000
MOST_SECONDS = 1800
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
        places = sorted(n for n in names if "/_lib/" in n)
        own = f"sterna_runtime/_lib/{library_name(platform.system)}"
        drivers = [f"sterna_runtime/_lib/{library_name(platform.system, kind)}" for kind in devices_of(platform.system)]
        _same(f"{wheel.name}: libraries", places, sorted([own, *drivers]))
        library = archive.read(own)
    needs = [need for need in metadata.get_all("Requires-Dist", []) if "extra" not in need]
    tags = sorted(f"py3-none-{tag}" for tag in platform.tag.split("."))
    _same(f"{wheel.name}: dependencies", needs, ["numpy>=1.24"])
    _same(f"{wheel.name}: tags", sorted(facts.get_all("Tag", [])), tags)
    _same(f"{wheel.name}: not pure", facts["Root-Is-Purelib"], "false")
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


def emulated(architecture: str, work: Path) -> list[tuple[Platform, str, list[str | Path]]]:
    """What of the wheels runs on a machine: platform, target, and the command of its Python with the wheel."""
    emulator, triple, pairs = EMULATED[architecture]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "sterna" / f"python-{architecture}" / "root"
    libraries = ":".join(str(root / "usr" / "lib" / triple / name) for name in ("blas", "lapack"))
    [python] = [p for p in (root / "usr" / "bin").glob("python3.*") if not p.is_symlink()]
    commands = []
    for platform, target in pairs:
        site = work / "sites" / platform.machine
        with zipfile.ZipFile(OUT / name_of(platform)) as archive:
            archive.extractall(site)
        path = f"{site}:{root / 'usr' / 'lib' / 'python3' / 'dist-packages'}"
        command: list[str | Path] = [emulator, "-cpu", "max", "-L", root, "-E", f"LD_LIBRARY_PATH={libraries}", "-E"]
        commands.append((platform, target, [*command, f"PYTHONPATH={path}", python, "-m", "sterna_runtime"]))
    return commands


def in_qemu(architecture: str, models: list[Path], host: dict[Path, dict[str, np.ndarray]], work: Path) -> None:
    """The same under another machine's Python."""
    for platform, target, command in emulated(architecture, work):
        for model in models:
            print(f"  {name_of(platform)}, {target}", flush=True)
            bundle = compiled(model, target, work)
            equal(f"{model.name} on {target}", tried(command, None, bundle, work / "there.npz"), host[model])


def every_model(match: str, work: Path) -> int:
    """Every development model whose name matches, by a wheel of every machine; returns how many are wrong."""
    places = [emulated(architecture, work)[0] for architecture in EMULATED]
    counts = {"passed": 0, "failed": 0}
    for name in filter(re.compile(match).search, model_names()):
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            for _, target, command in places:
                started = time.monotonic()
                place = Place(Path(scratch) / target, Path(scratch))
                state, said = _judged(trained(name), target, command, place)
                counts[state] += 1
                print(f"{name} on {target}: {state} in {time.monotonic() - started:.1f} s  {said}", flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return counts["failed"]


def _judged(model: Trained, target: str, command: list[str | Path], place: Place) -> tuple[str, str]:
    """ "passed" or "failed", and how far this machine is away or what is wrong."""
    place.work.mkdir()
    given, out = place.work / "inputs.npz", place.work / "outputs.npz"
    try:
        bundle = compile_to(place.work / "bundle", model.file, target, shapes=model.shapes(), generator="llvm")
        np.savez(given, **model.cases[0].inputs)
        words = [*map(str, command), "run", str(bundle), "--input", str(given), "--output", str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
        if done.returncode != 0:
            return "failed", " ".join((done.stdout + done.stderr).split())[:600]
        with np.load(out) as archive:
            found = [archive[name] for name in archive.files]
        error = near_this_machine(found, model, place)
        agree(model, 0, found)
    except (SternaError, AssertionError, subprocess.TimeoutExpired) as problem:
        return "failed", " ".join(str(problem).split())[:600]
    return "passed", f"error {error:.1e}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/runtime-wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("more", nargs="*", type=Path, metavar="MODEL", help="tried as the demo's network is")
    parser.add_argument("--no-emulation", action="store_true", help="run only this machine's wheel")
    parser.add_argument("--models", nargs="?", const="", metavar="MATCH", help="also every development model, or those")
    given = parser.parse_args()
    work, models = given.work, [ROOT / "compiler" / "sterna" / "demo" / "digits.onnx", *map(Path.resolve, given.more)]
    python = work / "build" / "bin" / "python"
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    print("   wheel  library", flush=True)
    for platform in WHEELS:
        print(read(build(python, platform, ROOT / "runtime_python", OUT), platform, work), flush=True)
    sdist_gives_the_same(python, work)
    print(f"installed alone, {name_of(this_platform())}", flush=True)
    host = in_a_clean_environment(models, work)
    if given.no_emulation:
        return 0
    for architecture in EMULATED:
        print(f"in qemu-user, Debian's Python for {architecture}", flush=True)
        in_qemu(architecture, models, host, work)
    return int(given.models is not None and every_model(given.models, work) > 0)


if __name__ == "__main__":
    sys.exit(main())
