"""Debian packages in Debian roots; `ci/deb` says what is needed.

ci/deb                               arm64 and armhf
ci/deb arm64 --folder /tmp/roots     one of them; roots are kept there, and made once
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np

import sterna
from sterna.api import compile_to
from sterna.package.deb import deb_packages
from sterna_runtime.random_inputs import random_inputs
from support import debian
from support.tools import run

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"
TARGETS = {"arm64": "raspberrypi3", "armhf": "raspberrypi-32"}
NEAR = 1e-5


def check(architecture: str, kept: Path, work: Path) -> None:
    """Packages, installs, runs and compares. Raises AssertionError."""
    if not (kept / "root" / "var" / "lib" / "dpkg" / "status").is_file():
        debian.download(kept, architecture)
    root = work / "root"
    shutil.copytree(kept / "root", root, symlinks=True)
    bundle = compile_to(work / "digits", MODEL, TARGETS[architecture])
    packages = sorted(deb_packages(bundle, work / "packages", maintainer="Ada Lovelace <ada@example.org>").iterdir())
    run("lintian", "--fail-on", "error", *packages)
    debian.install(root, packages)
    with sterna.load(compile_to(work / "here", MODEL)) as here:
        inputs = random_inputs(here.inputs, 0)
        wanted = here.run(inputs)["scores"]
    inputs["image"].tofile(work / "in.bin")
    (folder,) = root.glob("usr/lib/*/sterna/sterna-digits")
    said = debian.emulated(
        architecture, root, root / "usr/bin/sterna-run", folder, work / "in.bin", "--out", work / "out"
    )
    got = np.fromfile(work / "out0.bin", np.float32)
    assert np.abs(got - wanted.reshape(-1)).max() <= NEAR * np.abs(wanted).max()
    version = run("pkg-config", "--define-prefix", "--modversion", next(root.glob("usr/lib/*/pkgconfig/sterna.pc")))
    print(f"{architecture}: installed, ran: {said.strip()}; pkg-config says {version.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="ci/deb", description=__doc__)
    parser.add_argument(
        "architectures", nargs="*", metavar="ARCHITECTURE", help=f"of {', '.join(TARGETS)}; default: all"
    )
    parser.add_argument("--folder", type=Path, help="keep the roots there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sterna-deb-") as temporary:
        for name in given.architectures or TARGETS:
            work = Path(temporary) / name
            work.mkdir()
            check(name, (given.folder or Path(temporary) / "roots") / name, work)


if __name__ == "__main__":
    main()
