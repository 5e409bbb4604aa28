"""Signals that end a command."""

import signal
import subprocess
import sys

import pytest

from support.tools import ROOT

#: A command that waits for its end and takes its time over it.
COMMAND = """
import sys, time
from sterna.cli.interrupts import orderly
try:
    with orderly():
        print("ready", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.01)
    print("cleaned up", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_hail_of_signals_says_nothing() -> None:
    """Some of them come while they are being set to be ignored, which the interpreter would report."""
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND], env={"PYTHONPATH": str(ROOT / "compiler")},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2000):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("cleaned up\n", "")
        assert process.returncode == 0
