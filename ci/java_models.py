"""Every development model through the Java runtime, on this machine's JVM and on an arm64 JVM under qemu-aarch64.

    ci/java-models                          all of them on both
    ci/java-models --on arm64 --match int8  those whose names match, on one

What Java computes must equal what Python's runtime computes here: floats within 1e-5 of an output's largest (or as far
as the reference runtimes themselves are apart), all else bit for bit. `ci/arm64-jre` unpacks the arm64 JVM. The models
(STERNA_MODELS, else ../shared/models) must be here.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sterna.errors import SternaError
from sterna.package import natives
from support import replays
from support.java import RUNTIME
from support.matrix import model_names
from support.trained import Trained, trained

JRE = Path(os.environ.get("STERNA_ARM64_JRE", Path.home() / ".cache" / "sterna" / "arm64-jre")) / "root"
#: Where Java runs: the target, the native library's platform, the command.
PLACES = {
    "desktop": ("host", "linux-x86_64", ["java"]),
    "arm64": (
        "arm64",
        "linux-aarch64",
        ["qemu-aarch64", "-L", str(JRE), str((JRE / "java").resolve()), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
    ),
}


def replay(model: Trained, place: str, classes: Path, library: Path, work: Path) -> str:
    """What the replay of a model's first case says.

    Raises:
        AssertionError: the results differ.
    """
    target, _, java = PLACES[place]
    golden, near = replays.of_this_machine(model, work)
    bundle = replays.bundle(model, target, golden, work)
    command = [
        *java,
        f"-Ddev.sterna.library={library}",
        "-cp",
        str(classes),
        "dev.sterna.Golden",
        str(bundle),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    said = (done.stdout + done.stderr).strip().splitlines()
    assert done.returncode == 0, " ".join(said)[:600]
    share = float(re.findall(r"largest error (\S+) of", said[0])[0])
    return f"{share * near:.1e} of the largest"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/java-models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=list(PLACES), help="in place of both")
    parser.add_argument("--match", default="", help="only models whose names match")
    given = parser.parse_args()
    counts = {"passed": 0, "failed": 0}
    with tempfile.TemporaryDirectory(prefix="sterna-java-") as made:
        classes = Path(made) / "classes"
        sources = [
            *(RUNTIME / "src" / "main" / "java").rglob("*.java"),
            *(RUNTIME / "src" / "test").rglob("Golden.java"),
        ]
        command = ["javac", "-nowarn", "-proc:none", "-sourcepath", str(RUNTIME / "stubs"), "-d", str(classes)]
        subprocess.run([*command, *map(str, sources)], check=True)
        for place in [given.on] if given.on else PLACES:
            library = natives.build(natives.PLATFORMS[PLACES[place][1]], Path(made) / place)
            for name in model_names():
                if not re.search(given.match, name):
                    continue
                started = time.monotonic()
                with tempfile.TemporaryDirectory(dir=made) as work:
                    try:
                        state, said = "passed", replay(trained(name), place, classes, library, Path(work))
                    except (SternaError, AssertionError, subprocess.TimeoutExpired) as problem:
                        state, said = "failed", " ".join(str(problem).split())[:600]
                counts[state] += 1
                print(f"{name} on {place}: {state} in {time.monotonic() - started:.1f} s  {said}", flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
