"""What a run costs in Java beyond what it costs in C: instructions of arm64, counted under qemu on an arm64 JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.package import natives
from sterna.targets.description import load_target
from support.golden import relu
from support.java import RUNTIME, arm64_jre
from support.tools import ROOT, need, run
from support.trained import digits

pytestmark = pytest.mark.family("java")

PARTS = 5
#: Instructions that calling a native function takes a JVM; docs/android.md says about how many.
CALL = 250
#: What a JVM does by itself now and then, whatever it runs, is left out.
QUIET = ("-Xbatch", "-XX:-UsePerfData", "-XX:+UnlockDiagnosticVMOptions", "-XX:GuaranteedSafepointInterval=0")


def test_java_takes_what_c_takes_and_a_call(tmp_path: Path) -> None:
    """Within 1 % and a constant, of a model with next to no work and of one with some."""
    java = arm64_jre()
    need("javac", "compiles the Java runtime")
    sys.path.append(str(ROOT / "bench"))
    try:
        from arm64.counting import Machine, read
    finally:
        sys.path.remove(str(ROOT / "bench"))
    sources = [*(RUNTIME / "src" / "main" / "java").rglob("*.java"), ROOT / "tests/support/android/Counted.java"]
    classes = tmp_path / "classes"
    run("javac", "-nowarn", "-proc:none", "-sourcepath", RUNTIME / "stubs", "-d", classes, *sources)
    library = natives.build(natives.PLATFORMS["linux-aarch64"], tmp_path / "native")
    machine, target = Machine(tmp_path / "machine"), load_target("arm64")
    models = {"relu": (relu(), 4, 3000, 200), "digits": (digits().file, 64, 100, 50)}
    wanted, arguments = {}, []
    for name, (model, elements, before, times) in models.items():
        bundle = compile_to(tmp_path / name, model, "arm64", generator="llvm")
        counted = machine.bundle(bundle, target, [np.zeros(elements, np.float32)], tmp_path / f"{name}-c", runs=3)
        wanted[name] = counted.run.total
        arguments += [str(bundle), str(before), str(times)]
    emulator, *options, program = java[:4]
    counts = tmp_path / "counts.txt"
    plugin = ["-plugin", f"{machine.plugin},out={counts},marker=173"]
    command = [
        emulator,
        *options,
        *plugin,
        program,
        *java[4:],
        *QUIET,
        f"-Ddev.sterna.library={library}",
        "-cp",
        str(classes),
    ]
    done = subprocess.run([*command, "Counted", *arguments], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    totals = [interval.total for interval in read(counts)]
    marker = min(totals[: 2 * PARTS - 1])
    rest = totals[2 * PARTS - 1 :]
    for number, (name, (_, _, _, times)) in enumerate(models.items()):
        parts = rest[number * (PARTS + 1) + 1 : (number + 1) * (PARTS + 1)]
        print(name, wanted[name], [(part - marker) / times for part in parts])
        mine = (min(parts) - marker) / times
        assert mine <= wanted[name] * 1.01 + CALL, f"{name}: {mine} in Java, {wanted[name]} in C"
        assert mine > wanted[name] * 0.99, "something else was counted"
