"""Signals that end a command."""

import signal
import subprocess
import sys

import pytest

from support.tools import ROOT

#: A command that waits for its end and takes its time over it. It waits in short steps: signals that all come after the
#: interpreter has looked for the last time and before the system waits are seen when that returns.
COMMAND = """
import sys, time
from sterna.cli.interrupts import orderly
try:
    with orderly():
        print("ready", flush=True)
        for _ in range(6000):
            time.sleep(0.01)
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


#: A command that takes the first interrupt for a wish, and goes on until the second one.
GOES_ON = """
import sys, time
from sterna.cli.interrupts import orderly
from sterna_runtime.interruption import wish

def wait(words):
    try:
        print(words, flush=True)
        for _ in range(6000):
            time.sleep(0.01)
    except KeyboardInterrupt as problem:
        return type(problem).__name__

with orderly():
    first = wait("searches")
    wish.taken()
    print(first, wait("confirms"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("signals", "said"),
    [((signal.SIGINT, signal.SIGINT), "KeyboardInterrupt KeyboardInterrupt\n"),
     ((signal.SIGINT, signal.SIGTERM), "KeyboardInterrupt Ended\n")],
)  # fmt: skip
def test_an_interrupt_that_is_a_wish_leaves_the_next_one_to_be_heard(
    signals: tuple[signal.Signals, ...], said: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", GOES_ON], env={"PYTHONPATH": str(ROOT / "compiler")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for words, number in zip(("searches\n", "confirms\n"), signals, strict=True):
            assert process.stdout.readline() == words
            process.send_signal(number)
        assert process.communicate(timeout=30) == (said, "")
