"""A signal that comes while a folder is being made ends the command after the folder is known, so that none stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sterna_runtime.interruption import whole
from support.tools import ROOT

#: A signal that comes when the folder exists and nobody has noted it: the worst moment.
WORST = """
import os, signal, sys, tempfile
make = tempfile.mkdtemp

def signalled(*args, **named):
    folder = make(*args, **named)
    os.kill(os.getpid(), signal.SIGTERM)
    return folder

tempfile.mkdtemp = signalled
from sterna.cli.interrupts import orderly
try:
    with orderly():
        {step}
        print("not ended")
except KeyboardInterrupt:
    print("ended")
"""
STEPS = {
    "with": "from sterna.scratch import scratch_folder\n        with scratch_folder('x'): print('within')",
    "kept": "from sterna.scratch import temporary_directory\n        f = temporary_directory('x')",
    "cache": "from sterna_runtime.private import scratch_directory\n        scratch_directory()",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("step", STEPS)
def test_no_folder_stays(step: str, tmp_path: Path) -> None:
    program = WORST.format(step=STEPS[step])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")
    assert list(tmp_path.iterdir()) == []


def test_steps_within_steps_and_threads() -> None:
    ends: list[str] = []
    with whole:
        with whole:
            assert whole.postponed(lambda: ends.append("end"))
        assert ends == []
        # A thread's step neither delays the main thread's end nor brings it about.
        thread = threading.Thread(target=lambda: whole.__enter__() or whole.__exit__(None, None, None))
        thread.start()
        thread.join()
        assert ends == []
    assert ends == ["end"]
    assert not whole.postponed(lambda: ends.append("never"))
