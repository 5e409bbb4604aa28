"""The Java runtime's project, and Maven, which builds it."""

from __future__ import annotations

import os
import subprocess

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
