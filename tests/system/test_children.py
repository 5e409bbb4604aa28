"""Processes that ci/all-models and ci/onnx-backend try things in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.tools import ROOT
from support.trained import FOLDER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("ci", "compiler", "tests"))}

#: Two that take their time; those that wait in a third place are told of.
WAITING = """
import time
from children import Children
from sterna.cli.interrupts import orderly

def check(item):
    time.sleep(60)
    return "passed", ""

try:
    with orderly(), Children(check, 2, 60) as children:
        for item in range(2):
            list(children.start(item))
        print(*children.running, flush=True)
        list(children.rest())
except KeyboardInterrupt:
    print("interrupted")
"""

FAILING = """
from children import Children

def check(item):
    if item == "raises":
        raise RuntimeError("no such thing")
    return "passed", item

with Children(check, 1, 60) as children:
    for item in ("one", "raises", "two"):
        for end in children.start(item):
            print(end.item, end.state, end.detail)
    for end in children.rest():
        print(end.item, end.state, end.detail)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", WAITING], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    children = [int(word) for word in process.stdout.readline().split()]
    assert len(children) == 2
    process.send_signal(number)
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.killpg(child, 0)


def test_one_that_raises_is_a_crash_and_the_others_go_on() -> None:
    done = subprocess.run([sys.executable, "-c", FAILING], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["one", "passed"], ["raises", "crashed"], ["two", "passed"]]
    assert "RuntimeError: no such thing" in done.stderr


def all_models(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "ci" / "all_models.py"), *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the development models are not here")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--targets", "arm46"), 'no target "arm46"'),
        (("--targets", "arm", "--math", "fast"), "leave out --targets"),
        (("--part", "3"), "argument --part"),
        (("--part", "2/2"), "argument --part"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], said: str) -> None:
    done = all_models(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the development models are not here")
def test_a_run_leaves_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "ci" / "all_models.py"), "--match", "^tflm_hello_world_f32 host c$", "--show"]
    done = subprocess.run(
        command, env={**ENVIRONMENT, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [p for p in tmp_path.iterdir() if p.name.startswith("sterna-models-")] == []
