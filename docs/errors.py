"""Writes docs/errors.md: every error code with its cause, what to do about it, and a real message.

python docs/errors.py            # rewrites the page
python docs/errors.py --check    # fails if it is not up to date

The codes are declared in compiler/sterna_runtime/error_codes.py; the messages come from running `error_examples.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import error_examples
import numpy as np
from click.testing import CliRunner
from error_examples import DIGITS, EXAMPLES, Example

import sterna
from sterna.cli import program
from sterna.codegen import c
from sterna.errors import SternaError
from sterna.export.onnx import to_onnx
from sterna.frontends.formats import read_model
from sterna.ir.limits import memory_for
from sterna.ir.memory import Memory
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.loops.verify import verify
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.link import link_library
from sterna_runtime import building, library
from sterna_runtime.error_codes import CODES, GROUPS

PAGE = Path(__file__).resolve().parent / "errors.md"
HEAD = """# Error codes

Written by `docs/errors.py` from the declarations in `compiler/sterna_runtime/error_codes.py`; a test holds it to them.
The messages are real: the test runs every example.

Every message has a code, says what is wrong and where, and how to fix it where that is known. `sterna explain E0105`
prints what this page says. In Python, a `sterna.SternaError` has the same facts in `codes` and `diagnostics`; in C,
`sterna_status_code` gives the code; in JavaScript, `SternaError` has it as `code`. With `--json`, commands print
`{"errors": [...]}`.
"""
_VARYING = (
    (r"(command: ).*", r"\1..."),
    (r"/\S*sterna-bundle-\w+/", ""),
    (rf"\b{re.escape(platform.machine())}\b", "x86_64"),
    (r"(the installed onnx package knows) \d+", r"\1 28"),
    (r", line \d+,", ","),
    (r"by \S+ of its largest element\n  at .*", "by 1.7e-07 of its largest element"),
)
"""What differs from machine to machine, or with every change of the code: a pattern and what stands for it."""
_WIDTH = 116
_LINES = 9


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A folder with `digits.onnx` and its bundle, as the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "digits.onnx").write_bytes(DIGITS.read_bytes())
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def message(example: Example, folder: Path) -> str:
    """What Sterna says to the example, without what differs from machine to machine."""
    sterna.compile_to(folder / "digits", DIGITS, "host", generator="llvm")
    example.prepare(folder)
    with example.during():
        text = example.run() if example.run else _said(example.shown)
    text = text.replace(f"{folder}{os.sep}", "").replace(str(folder), ".")
    for varying, fixed in _VARYING:
        text = re.sub(varying, fixed, text)
    lines = [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 4]} ..." for line in text.strip().split("\n")]
    return "\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "  ..."])


def _said(shown: str) -> str:
    return _of_command(shown) if shown.startswith("$ ") else _of_python(shown)


def _of_command(line: str) -> str:
    result = CliRunner().invoke(program, shlex.split(line)[2:], env={"STERNA_DEBUG": "", "COLUMNS": "80"})
    if result.exit_code == 0:
        raise AssertionError(f"{line} did not fail: {result.output}")
    return result.stderr


def _of_python(lines: str) -> str:
    names: dict[str, Any] = {
        "np": np, "sterna": sterna, "Schedule": Schedule, "saved": saved, "Step": Step,
        "lower": lower, "finish": finish,
        "kernel": error_examples.doubled(), "row_sums": error_examples.row_sums, "beyond": error_examples.beyond,
        "reversed_in_place": error_examples.reversed_in_place, "verify_threads": verify_threads,
        "stray_operand": error_examples.stray_operand, "verify": verify,
        "building": building, "library": library, "sources": error_examples.ROOT / "runtime_c",
        "Memory": Memory, "c": c, "compile_c": compile_c, "load_target": load_target, "link_library": link_library,
        "memory_for": memory_for, "to_onnx": to_onnx, "read_model": read_model, "x": np.zeros((1, 1, 8, 8), np.float32),
    }  # fmt: skip
    if "bundle" in lines:
        names["bundle"] = sterna.load("digits")
    try:
        exec(lines, names)
    except SternaError as mistake:
        return str(mistake)
    raise AssertionError(f"{lines} did not fail")


def entry(code: str) -> str:
    """A code's part of the page."""
    declared, example = CODES[code], EXAMPLES[code]
    with workshop() as folder:
        said = message(example, folder)
    if f"error[{code}]" not in said:
        raise AssertionError(f"the example of {code} says: {said}")
    language = "console" if example.shown.startswith("$ ") else "text"
    return (
        f"### {code}\n\n{declared.meaning[0].upper()}{declared.meaning[1:]}.\n\n**Cause.** {declared.cause}\n\n"
        f"**Fix.** {declared.fix}\n\n```{language}\n{example.shown}\n{said}\n```\n"
    )


def page() -> str:
    """All of it."""
    parts = [HEAD]
    for group, heading in GROUPS.items():
        parts += [f"## {heading}\n", *(entry(code) for code in CODES if code.startswith(group))]
    return "\n".join(parts)


def main() -> int:
    written = PAGE.read_text("utf-8") if PAGE.exists() else ""
    made = page()
    if "--check" in sys.argv[1:]:
        if made != written:
            sys.stderr.writelines(
                difflib.unified_diff(written.splitlines(True), made.splitlines(True), "docs/errors.md", "now")
            )
            print("docs/errors.md is not up to date: run python docs/errors.py", file=sys.stderr)
        return int(made != written)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
