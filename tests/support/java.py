"""The Java runtime's project, and Maven, which builds it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.tools import ROOT, need

RUNTIME = ROOT / "runtime_android"


def maven(*arguments: str, timeout: int = 500) -> str:
    """Runs Maven in a copy of nothing: the project itself, whose `target` is the caller's to name."""
    program = need("mvn", "builds the Java runtime")
    need("javac", "compiles the Java runtime")
    done = subprocess.run(
        [program, "-B", "-ntp", "-f", str(RUNTIME / "pom.xml"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def arm64_jre() -> list[str]:
    """The command of an arm64 JVM under qemu, as far as `-cp`."""
    qemu = need("qemu-aarch64", "runs programs for 64-bit ARM")
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sterna" / "arm64-jre"
    root = Path(os.environ.get("STERNA_ARM64_JRE", default)) / "root"
    if not (root / "java").exists():
        pytest.skip("needs arm64-jre: `ci/arm64-jre ~/.cache/sterna/arm64-jre` unpacks one")
    return [qemu, "-L", str(root), str((root / "java").resolve()), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
