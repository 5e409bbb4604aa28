"""The pages that a newcomer types from: every file is saved, every command is run, and the output looks as on the page.

A page is read from top to bottom. "Save this as `NAME`:" before a fenced block makes a file. The lines of a `console`
block that begin with "$ " are run by one shell, and the lines below one are what it prints. Numbers, units and bars may
differ; "..." stands for the rest of a line, or alone for any number of lines.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tools import need

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
FILE = re.compile(r"[Ss]ave this as `([\w.]+)`:\s*\Z")
SAYS = re.compile(r"The page says `([^`]+)`")
HEXADECIMAL = r"(?<!\S)(?=[a-f]*\d)(?=\d*[a-f])[\da-f]+(?!\S)"
NUMBER = re.compile(HEXADECIMAL + r"|\d[\d.,]*(?:e[-+]\d+)?(?: (?:B|kB|MB|ns|us|ms|s)\b)?")
BARS = re.compile(r"[\u2580-\u259f]+")
#: What a page shows of the machine that it was written on.
ELSEWHERE = ((re.compile(r"this machine, .*, in"), "this machine, ..., in"), (re.compile(r"/home/me/"), "..."))
MARK = "=== the next command ==="
SECONDS = 300


@dataclass(frozen=True)
class File:
    name: str
    content: str


@dataclass(frozen=True)
class Command:
    line: str
    output: tuple[str, ...]


@dataclass(frozen=True)
class Served:
    """A server that runs until it is stopped, and what the browser shows then."""

    line: str
    says: str


def steps(page: str) -> Iterator[File | Command | Served]:
    """What a reader does, in order."""
    for block in FENCE.finditer(page):
        language, content = block.groups()
        named = FILE.search(page[: block.start()])
        if named is not None:
            yield File(named[1], content)
        elif language == "console":
            parts = re.split(r"^\$ ", content, flags=re.M)
            assert parts[0] == "", f"output before the first command: {parts[0]}"
            for part in parts[1:]:
                line, *output = part.rstrip("\n").split("\n")
                if "http.server" in line or line.startswith("sterna serve"):
                    says = SAYS.search(page, block.end())
                    assert says is not None, f"what does the page of `{line}` say?"
                    yield Served(line, says[1])
                else:
                    yield Command(line, tuple(output))


def pattern(output: tuple[str, ...]) -> re.Pattern[str]:
    """Matches what a command prints, if it looks like this."""
    lines = []
    shown = "\n".join(output)
    for here, anywhere in ELSEWHERE:
        shown = here.sub(anywhere, shown)
    for line in shown.split("\n") if output else ():
        if line.strip() == "...":
            lines.append(r"(?:[^\n]*\n)*?")
            continue
        words = BARS.sub("...", NUMBER.sub("0", line)).split()
        parts = [re.escape(word).replace(r"\.\.\.", "[^\n]*") for word in words]
        lines.append(r"[^\S\n]*" + r"[^\S\n]*".join(parts) + r"[^\S\n]*\n")
    return re.compile("".join(lines) + r"\s*")


def normal(text: str) -> str:
    return BARS.sub("", NUMBER.sub("0", text)).rstrip("\n") + "\n"


def environment(folder: Path) -> dict[str, str]:
    """Of somebody who has installed this checkout: `sterna` and `python` are commands."""
    commands = folder.parent / "bin"
    commands.mkdir()
    for name, start in {"python": (), "sterna": ("-m", "sterna")}.items():
        words = shlex.join([sys.executable, *start])
        (commands / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        (commands / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "compiler"),
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
    }


def check(page: Path, folder: Path) -> int:
    """Does what the page says, in an empty folder; returns how many commands were run."""
    folder.mkdir()
    variables, count = environment(folder), 0
    with subprocess.Popen(
        ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        env=variables, encoding="utf-8",
    ) as shell:  # fmt: skip
        assert shell.stdin is not None
        assert shell.stdout is not None
        for step in steps(page.read_text("utf-8")):
            if isinstance(step, File):
                (folder / step.name).write_text(step.content, "utf-8")
                continue
            if isinstance(step, Served):
                serve(step, folder, variables)
                continue
            if step.line.startswith("pip install"):  # ci/wheels installs what is built
                continue
            shell.stdin.write(f'{step.line}\necho; echo "{MARK} $?"\n')
            shell.stdin.flush()
            text, status = until_mark(shell.stdout)
            assert status == 0, f"$ {step.line}\n{text}"
            assert pattern(step.output).fullmatch(normal(text)), f"$ {step.line}\n{text}\nthe page has:\n" + "\n".join(
                step.output
            )
            count += 1
        shell.stdin.close()
    return count


def until_mark(stream: Iterable[str]) -> tuple[str, int]:
    """What a command printed, and its exit status."""
    lines: list[str] = []
    for line in stream:
        if line.startswith(MARK):
            return "".join(lines).rstrip("\n"), int(line.rsplit(" ", 1)[1])
        lines.append(line)
    return "".join(lines), -1


def serve(step: Served, folder: Path, variables: dict[str, str]) -> None:
    """Starts the server on another port, looks at the page in a browser, and stops the server."""
    browser = need("chromium", "opens the page of the tutorial")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    line = step.line.replace("8000", str(port))
    with subprocess.Popen(
        ["sh", "-c", f"exec {line}"], cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(port)
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
            command += ["--virtual-time-budget=20000", f"--user-data-dir={folder.parent / 'browser'}"]
            for _ in range(5):  # on a busy machine the browser may give up before the page is done
                looked = subprocess.run(
                    [*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, timeout=SECONDS, check=True
                )
                shown = normal(looked.stdout.partition("<script")[0])
                if normal(step.says).strip() in shown:
                    return
        finally:
            server.terminate()
    raise AssertionError(f"the page shows {shown}")


def wait_for(port: int) -> None:
    for _ in range(1200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


def test_the_first_tutorial(tmp_path: Path) -> None:
    need("cc", "builds the C programs of the tutorial")
    need("node", "runs the model of the tutorial in Node")
    need("arm-none-eabi-gcc", "compiles the firmware of the tutorial")
    assert check(ROOT / "docs" / "tutorial.md", tmp_path / "empty") > 15


def test_the_readme(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    folder = tmp_path / "empty"
    assert check(readme, folder) >= 1
    shutil.copy(DIGITS, folder)
    for block in re.findall(r"^```python\n(.*?)^```$", readme.read_text("utf-8"), re.S | re.M):
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
        subprocess.run([sys.executable, "-c", block], cwd=folder, env=variables, check=True, timeout=SECONDS)


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("right on 96.1% of 10", "right on 5% of 1,000", True),
        ("right on 96.1% of 10", "wrong on 96.1% of 10", False),
        ("took 1.39 s to x", "took 917 ms to x", True),
        ("a ...\n...\nz", "a b\nc\nd\nz", True),
        ("a\nb", "a", False),
        ("a", "a\nb", False),
        ("1 ██▌ x", "2 █ x", True),
        ("140 82 a.o", "1,400 8c a.o", True),
    ],
)
def test_shapes_of_outputs(expected: str, printed: str, fits: bool) -> None:
    assert (pattern(tuple(expected.split("\n"))).fullmatch(normal(printed)) is not None) == fits


def test_steps_of_a_page() -> None:
    page = "Save this as `a.py`:\n\n```python\nx = 1\n```\n\n```console\n$ python a.py\n1\n$ ls\n```\n"
    page += "\n```text\n$ no\n```\n"
    assert list(steps(page)) == [File("a.py", "x = 1\n"), Command("python a.py", ("1",)), Command("ls", ())]
