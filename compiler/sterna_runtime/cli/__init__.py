"""The command `sterna-runtime`: bundles on a device that has no compiler. It needs the standard library and NumPy.

`sterna run`, `inspect` and `verify --golden` do the same with the compiler around them; what both do stands in `trial`,
`files` and `reports`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from sterna_runtime.abi import MAX_THREADS
from sterna_runtime.cli.files import LAYOUTS
from sterna_runtime.cli.plain import print_errors, print_json
from sterna_runtime.cli.reports import errors_json
from sterna_runtime.cli.values import dim, numbers
from sterna_runtime.errors import SternaError, error, internal_error, system_error
from sterna_runtime.version import __version__

PROGRAM = "sterna-runtime"
#: Mistakes in the command line itself: status 2.
_USAGE = ("E0001", "E0002")


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are coded."""

    def error(self, message: str) -> NoReturn:
        raise error("E0001", message, fix=f"`{self.prog} --help` lists what there is")


def _whole(least: int, greatest: int | None = None) -> type[int]:
    """An integer within bounds, as argparse takes types."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least or (greatest is not None and value > greatest):
            bounds = f"of at least {least}" if greatest is None else f"from {least} to {greatest}"
            raise argparse.ArgumentTypeError(f"{text} is not an integer {bounds}")
        return value

    parse.__name__ = "integer"
    return parse  # type: ignore[return-value]


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return value


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    program = _Parser(PROGRAM, description="Runs compiled models, without the compiler.", allow_abbrev=False)
    program.add_argument("-V", "--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = program.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="Run a bundle, time it, profile its nodes.", allow_abbrev=False)
    run.add_argument("bundle", type=Path)
    run.add_argument("-i", "--input", dest="given", action="append", default=[], metavar="NAME=FILE",
                     help="A .npy, .npz, raw .bin or image file (images need pillow). Without NAME=: an .npz of all "
                     "inputs, or the only input.")  # fmt: skip
    run.add_argument("--random", action="store_true", help="Use random values for inputs that are not given.")
    run.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="Seed of the random values.")
    run.add_argument("--dim", dest="dims", action="append", type=dim, default=[], metavar="NAME=SIZE",
                     help="Size of an open dimension. Default: the largest.")  # fmt: skip
    run.add_argument("--mean", type=numbers("--mean"), metavar="NUMBERS",
                     help="Images become (pixel - mean) * scale. Default: what the model says.")  # fmt: skip
    run.add_argument("--scale", type=numbers("--scale"), metavar="NUMBERS")
    run.add_argument("--layout", choices=LAYOUTS, default="auto", help="Order of an image's axes.")
    run.add_argument("-n", "--repeat", type=_whole(1), default=1, metavar="N", help="Number of runs to time.")
    run.add_argument("--profile", action="store_true", help="Time every node.")
    run.add_argument("--top", type=_whole(1), metavar="K", help="Show the K largest elements of every output.")
    run.add_argument("-o", "--output", type=Path, metavar="FILE", help="Write the outputs: .npz, or .npy for one.")

    inspect = commands.add_parser("inspect", help="Show what is in a bundle, for any machine.", allow_abbrev=False)
    inspect.add_argument("bundle", type=Path)
    inspect.add_argument("--nodes", action="store_true", help="List all nodes.")

    verify = commands.add_parser("verify", help="Replay the golden sets of a bundle.", allow_abbrev=False)
    verify.add_argument("bundle", type=Path)
    verify.add_argument("--golden", action="store_true", help="What is done here anyway; `sterna verify` can do more.")
    verify.add_argument("--tolerance", type=_tolerance, metavar="NUMBER",
                        help="Largest difference of floats, relative to the output's largest magnitude.")  # fmt: skip
    for command in (run, verify):
        command.add_argument("--threads", type=_whole(1, MAX_THREADS), default=1, metavar="N",
                             help="Threads to run on, the calling one included.")  # fmt: skip
    for command in (run, inspect, verify):
        command.add_argument("--json", dest="as_json", action="store_true", help="Print JSON for scripts.")
    return program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit status: 2 for mistakes in it, 1 for all others."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="replace")  # a terminal without the character shows another
    try:
        return _guarded(given)
    except BrokenPipeError:  # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _guarded(given: list[str]) -> int:
    try:
        if any("\0" in word for word in given):
            raise error("E0001", "an argument contains a zero character, which no file's name has")
        options = parser().parse_args(given)
        status: int = importlib.import_module(f"sterna_runtime.cli.{options.command}").command(options)
        sys.stdout.flush()
        return status
    except SternaError as mistake:
        return _report(mistake, "--json" in given)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except MemoryError:
        return _report(error("E0502", "there is not enough memory for this"), "--json" in given)
    except OSError as problem:
        return _report(system_error(problem), "--json" in given)
    except Exception as problem:
        if os.environ.get("STERNA_DEBUG", "") not in ("", "0"):
            traceback.print_exc()
        return _report(internal_error(f"internal error: {type(problem).__name__}: {problem}"), "--json" in given)


def _report(mistake: SternaError, as_json: bool) -> int:
    print_errors(mistake)
    if as_json:
        print_json({"errors": errors_json(mistake)})
    return 2 if all(code in _USAGE for code in mistake.codes) else 1
