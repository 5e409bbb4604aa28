"""Fuzzing: hostile models, bundles, call sequences, packages and requests, for as long as asked.

    ci/fuzz --minutes 10                       # ten minutes of each fuzzer, one after another
    ci/fuzz --minutes 60 --only models         # one of them
    ci/fuzz --minutes 999 --executions 1e7 --only loader
    ci/fuzz --only models --replay fuzz-findings/models/hang-0123456789abcdef

What may not happen: a crash, a hang of more than 10 s, more than 2 GB of memory, an uncaught error, a wrong answer.
Inputs that show one are kept in fuzz-findings/; a mended one goes to fuzz/corpus/, which every run begins with. The
same seed makes the same inputs. docs/security.md says what is promised.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import FrameType

from frame import Budget, Finding, Fuzzer
from sterna.cli.interrupts import orderly

#: Module of each fuzzer, imported only when it runs; each defines FUZZER.
FUZZERS: dict[str, str] = {
    "models": "model_fuzzer",
    "read": "read_fuzzer",
    "loader": "loader",
    "calls": "calls",
    "devices": "devices",
    "javascript": "javascript",
    "package": "package",
    "serve": "serve",
}
MOST_SHOWN = 5


def load(name: str) -> Fuzzer:
    """The fuzzer of that name."""
    fuzzer = import_module(FUZZERS[name]).FUZZER
    assert isinstance(fuzzer, Fuzzer)
    return fuzzer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ci/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="of each fuzzer; default 1")
    parser.add_argument("--executions", type=float, help="of each fuzzer at most; may be written 1e7")
    parser.add_argument("--only", help=f"names, separated by commas, of: {', '.join(FUZZERS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where bad inputs are kept")
    parser.add_argument("--replay", type=Path, help="execute one saved input of the fuzzer that --only names")
    return parser


def _report(fuzzer: Fuzzer, findings: list[Finding], folder: Path) -> None:
    for number, finding in enumerate(findings):
        path = finding.save(folder / fuzzer.name)
        if number < MOST_SHOWN:
            print(f"  {finding.kind}: {finding.text.strip()}\n  input: {path}")
    if len(findings) > MOST_SHOWN:
        print(f"  and {len(findings) - MOST_SHOWN} more in {folder / fuzzer.name}")


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    parser = _parser()
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(FUZZERS)
    if unknown := [name for name in names if name not in FUZZERS]:
        parser.error(f"there is no fuzzer {', '.join(unknown)}; there are: {', '.join(FUZZERS)}")
    if given.replay is not None and len(names) != 1:
        parser.error("--replay needs --only with the one fuzzer that found it")
    for number in (signal.SIGTERM, signal.SIGHUP):  # ended from outside: temporary folders go, counts are printed
        signal.signal(number, _end)
    failed = skipped = 0
    for name in names:
        fuzzer = load(name)
        if missing := [program for program in fuzzer.needs if shutil.which(program) is None]:
            print(f"{name}: skipped, needs {', '.join(missing)}")
            skipped += 1
            continue
        executions = None if given.executions is None else int(given.executions)
        budget = Budget(given.minutes * 60, executions, given.findings / name)
        with tempfile.TemporaryDirectory(prefix=f"sterna-fuzz-{name}-") as work:
            if given.replay is not None:
                findings = list(fuzzer.replay(given.replay.read_bytes(), Path(work)))
                budget.count()
            else:
                findings = list(fuzzer.fuzz(budget, given.seed, Path(work)))
        print(f"{name}: {budget.made:,} executions, {len(findings)} findings  ({fuzzer.about})", flush=True)
        _report(fuzzer, findings, given.findings)
        failed += bool(findings)
    print(f"{len(names) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        with orderly():
            sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("ended")
