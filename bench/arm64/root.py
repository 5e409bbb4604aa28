"""A root of arm64 Linux with Python and the peers' wheels, for qemu-aarch64 -L, on Debian or Ubuntu.

    FOLDER/base        Debian's arm64 packages, unpacked          FOLDER/site    the wheels: PYTHONPATH
    FOLDER/root.CPU    the same by hard links, with a /proc/cpuinfo of that processor

The peers read /proc/cpuinfo. qemu's user mode shows them that of this machine, with which ONNX Runtime 1.31 crashes and
XNNPACK knows no core; it takes a path from below -L where it exists there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sterna.errors import error

PYTHON = "3.11"
_PACKAGES = (
    *("libc6", "libstdc++6", "libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libssl3"),
    "libuuid1",
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
)
_WHEELS = (
    *("numpy", "onnxruntime", "ai-edge-litert", "flatbuffers", "packaging", "typing_extensions", "tqdm"),
    *("backports.strenum", "protobuf", "ml_dtypes"),
)
_PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{n}_aarch64" for n in (17, 27, 28)), "any")


@dataclass(frozen=True)
class Processor:
    """What /proc/cpuinfo says of a processor, and qemu's name of it, the options apart."""

    part: str
    variant: str
    revision: str
    features: str


_V8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32"
_V82 = f"{_V8} atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs"
_V84 = f"{_V82} jscvt fcma sha3 sm3 sm4 sha512 asimdfhm dit uscat ilrcpc flagm"
_V86 = f"{_V84} sb paca pacg dcpodp flagm2 frint i8mm bf16 bti"
_CPUINFO = "proc/cpuinfo"  # of a root, the last that is made
PROCESSORS = {
    "cortex-a72": Processor("0xd08", "0x0", "3", f"{_V8} cpuid"),
    "neoverse-n1": Processor("0xd0c", "0x3", "1", _V82),
    "max": Processor("0xd48", "0x2", "0", _V86),
}


def make_root(folder: Path) -> None:
    """Downloads and unpacks everything, unless it was done before; what was broken off is done anew.

    Raises:
        SternaError: E0004, with what apt or pip said.
    """
    if all((folder / f"root.{name}" / _CPUINFO).is_file() for name in PROCESSORS):
        return
    for name in ("apt/state/lists/partial", "apt/cache/archives/partial", "debs", "base", "wheels", "site"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "apt" / "state" / "status").touch()
    places = {"State": "state", "State::status": "state/status", "Cache": "cache"}
    lines = ['APT::Architecture "arm64";', 'APT::Architectures { "arm64"; };']
    lines += [f'Dir::{key} "{folder / "apt" / place}";' for key, place in places.items()]
    (folder / "apt" / "apt.conf").write_text("\n".join(lines))
    settings = {**os.environ, "APT_CONFIG": str(folder / "apt" / "apt.conf")}
    _run(["apt-get", "-qq", "update"], folder, settings)
    _run(["apt-get", "-qq", "download", *_PACKAGES], folder / "debs", settings)
    for package in sorted((folder / "debs").glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), "base"], folder)
    tags = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    tags += ["--abi", f"cp{PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none", "--implementation", "cp"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    _run([*pip, "--python-version", PYTHON, *tags, "-d", "wheels", *_WHEELS], folder)
    for wheel in sorted((folder / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
    for name, processor in PROCESSORS.items():
        root = folder / f"root.{name}"
        shutil.rmtree(root, ignore_errors=True)
        _run(["cp", "-al", "base", root.name], folder)
        (root / _CPUINFO).parent.mkdir()
        (root / _CPUINFO).write_text("".join(_cpuinfo(n, processor) for n in range(2)))


def emulated(runs_on: str) -> str:
    """The processor of those above that a target's emulator is told to be; empty for another one."""
    emulator, *words = runs_on.split()
    cpu = words[words.index("-cpu") + 1].split(",")[0]
    return cpu if emulator == "qemu-aarch64" and cpu in PROCESSORS else ""


def versions(folder: Path) -> str:
    """The peers' wheels, for the names of what is kept."""
    found = sorted((folder / "wheels").glob("*.whl"))
    return " ".join("-".join(w.name.split("-")[:2]) for w in found if w.name.startswith(("onnxruntime", "ai_edge")))


def _cpuinfo(number: int, processor: Processor) -> str:
    rows = {
        "processor": number, "BogoMIPS": "100.00", "Features": processor.features, "CPU implementer": "0x41",
        "CPU architecture": 8, "CPU variant": processor.variant, "CPU part": processor.part,
        "CPU revision": processor.revision,
    }  # fmt: skip
    return "".join(f"{key}\t: {value}\n" for key, value in rows.items()) + "\n"


def _run(command: list[str], folder: Path, settings: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise error("E0004", f"{command[0]} cannot be started: {problem.strerror or problem}") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.lower().startswith(("error", "e:"))] or ["it failed"]
        raise error("E0004", f"the peers' root: {said[0]}", fix=" ".join(command))
