"""Roots of Debian for other processors: dpkg installs packages in them, and qemu-user runs what it installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.tools import need, run

#: By Debian's architectures, the emulator of one that has no more than the least processor.
EMULATORS = {"arm64": ("qemu-aarch64", "-cpu", "cortex-a53"), "armhf": ("qemu-arm", "-cpu", "cortex-a7")}
_LIBC = ("libc6", "libgcc-s1", "libcrypt1", "gcc-12-base")


def download(folder: Path, architecture: str) -> None:
    """Unpacks the C library of Debian into a folder, and has dpkg know it as installed."""
    state, debs = folder / "apt", folder / "debs"
    for each in (state / "lists" / "partial", state / "archives" / "partial", debs):
        each.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = [f"APT::Architecture={architecture}", f"APT::Architectures={architecture}", f"Dir::State={state}",
               f"Dir::State::lists={state / 'lists'}", f"Dir::State::status={state / 'status'}", f"Dir::Cache={state}",
               f"Dir::Cache::archives={state / 'archives'}", "APT::Sandbox::User=root"]  # fmt: skip
    apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    # A mirror that is just being renewed has some lists wrong; what is missing then, the download says.
    subprocess.run([*apt, "update"], cwd=debs, capture_output=True, check=False)
    run(*apt, "download", *_LIBC, cwd=debs)
    stanzas = []
    for deb in sorted(debs.glob("*.deb")):
        run("dpkg-deb", "-x", deb, folder / "root")
        stanzas.append(run("dpkg-deb", "-f", deb))
    know(folder / "root", architecture, stanzas)
    shutil.rmtree(state)


def know(root: Path, architecture: str, stanzas: Sequence[str]) -> None:
    """Makes the database of dpkg in a root: these packages are installed."""
    database = root / "var" / "lib" / "dpkg"
    for name in ("info", "updates", "triggers"):
        (database / name).mkdir(parents=True, exist_ok=True)
    own = run("dpkg", "--print-architecture").strip()
    (database / "arch").write_text("".join(f"{name}\n" for name in dict.fromkeys((own, architecture))))
    installed = [f"{text.rstrip()}\nStatus: install ok installed\n\n" for text in stanzas]
    (database / "status").write_text("".join(installed))
    for text in stanzas:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and line[0] != " ")
        suffix = f":{architecture}" if fields.get("Multi-Arch") == "same" else ""
        (database / "info" / f"{fields['Package']}{suffix}.list").write_text("/.\n")
    (database / "info" / "format").write_text("1\n")


def install(root: Path, packages: Sequence[Path]) -> None:
    """Installs packages as `apt install` does in the end: dependencies count, nothing is forced."""
    need("dpkg", "installs packages of Debian")
    dpkg = ["dpkg", f"--root={root}", "--force-script-chrootless", "--force-not-root"]
    run(*dpkg, "--install", *packages)
    for package in packages:
        name = run("dpkg-deb", "-f", package, "Package").strip()
        assert run(*dpkg, "--verify", name) == ""
        assert "install ok installed" in run(*dpkg, "--status", name)


def emulated(architecture: str, root: Path, *words: str | Path, libraries: Path | None = None) -> str:
    """What a program of a root prints; it finds its libraries there.

    Args:
        libraries: a root with the C library, where `root` has none.
    """
    emulator, *options = EMULATORS[architecture]
    need(emulator, "runs programs for other processors")
    # qemu 7.2 asks this machine, not the root, whether a folder of libraries is there.
    places = {root, libraries or root}
    folders = [
        folder for place in places for name in ("lib", "usr/lib") for folder in place.glob(f"{name}/*-linux-gnu*")
    ]
    options += ["-E", f"LD_LIBRARY_PATH={':'.join(map(str, folders))}"]
    return run(emulator, *options, "-L", libraries or root, *words)
