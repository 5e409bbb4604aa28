"""Every trained model on every target, by both generators: compiled, run where this machine can, and compared.

    ci/all-models                                   all of it: hours of one core
    ci/all-models --part 3/20                       the pairs whose names' hash leaves 3 when divided by 20
    ci/all-models --match 'int8 browser' --show     those whose "MODEL TARGET GENERATOR" matches
    ci/all-models --targets arm --show              64-bit ARM of three kinds, armv7 and armv6, beside this machine
    ci/all-models --targets boards --show           Raspberry Pis with 64 and 32 bits, and 64-bit RISC-V
    ci/all-models --formats --show                  models of PyTorch, Keras, TensorFlow, Core ML and the others, here,
                                                    on 64-bit ARM and in WebAssembly (--targets names others)
    ci/all-models --math fast --show                every model on this machine by fast arithmetic, and its error
    ci/all-models --results all-models.jsonl        notes every outcome; what passed there before is not done again

What is compared with what, and where things run, is said in tests/support/matrix.py; tests/targets/test_matrix.py does
a sample of it. The development models (STERNA_MODELS, else ../shared/models; those of other formats
STERNA_FRONTEND_MODELS, else ../shared/models_frontends) must be here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import pytest
from children import Children, Ended

from sterna.cli.interrupts import orderly
from sterna.errors import SternaError
from support.frontend_models import frontend_model_names
from support.matrix import GROUPS, Pair, Place, check, pairs

LIMIT = 1200  # seconds of one pair
INTERRUPTED = 130  # the exit status, as of a shell
SHARED = "shared"  # programs that pairs share, in the folder of a run
#: States that need not be tried again: it computes the reference outputs; it compiles, and nothing here can run it.
DONE = ("passed", "compiled")


def outcome_of(pair: Pair, folder: Path) -> tuple[str, str]:
    """(state, detail) of a pair that is tried in this process; everything lies in the folder of the whole run."""
    work = Path(tempfile.mkdtemp(dir=folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = check(pair, Place(work, folder / SHARED))
    except SternaError as mistake:
        return "refused", str(mistake)[:2000]
    except AssertionError as problem:
        return "wrong", " ".join(str(problem).split())[:2000]
    except pytest.skip.Exception as missing:
        return "compiled", str(missing)
    except BaseException:
        return "crashed", traceback.format_exc()[-2000:]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if pair.math != "exact":
        return "passed", reason or "nothing traded"
    return ("compiled", reason) if reason else ("passed", "")


def earlier(results: Path | None) -> dict[str, str]:
    """The last state of every pair that the file of results has."""
    if results is None or not results.is_file():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["pair"]: row["state"] for row in rows}


def chosen(part: tuple[int, int], match: str, done: dict[str, str], of: list[Pair]) -> list[Pair]:
    """The pairs that this run is asked for and that are still to do."""
    of_part = [p for p in of if zlib.crc32(str(p).encode()) % part[1] == part[0]]
    return [p for p in of_part if re.search(match, str(p)) and done.get(str(p)) not in DONE]


def part_of(text: str) -> tuple[int, int]:
    """K/N, of which K is less. Raises ValueError."""
    first, _, parts = text.partition("/")
    if not 0 <= int(first) < int(parts):
        raise ValueError(text)
    return int(first), int(parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/all-models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part",
        type=part_of,
        default="0/1",
        metavar="K/N",
        help="the pairs whose names' hash leaves K when divided by N",
    )
    parser.add_argument("--match", default="", help='only pairs whose "MODEL TARGET GENERATOR" matches')
    parser.add_argument("--targets", default="", metavar="A,B", help=f"in place of all; or {', '.join(GROUPS)}")
    parser.add_argument("--formats", action="store_true", help="models of formats other than ONNX and TensorFlow Lite")
    parser.add_argument("--math", default="exact", help="fast[=BOUND]: beside exact arithmetic, on the models' inputs")
    parser.add_argument("--results", type=Path, help="a file that outcomes are added to, and taken from")
    parser.add_argument("--jobs", type=int, default=2, help="how many pairs are tried at a time")
    parser.add_argument("--show", action="store_true", help="print every outcome")
    given = parser.parse_args()
    words = given.targets or ("formats" if given.formats and given.math == "exact" else "")
    names = [n for word in words.split(",") if word for n in GROUPS.get(word, (word,))]
    if names and given.math != "exact":
        parser.error("--math is tried on this machine alone: leave out --targets")
    try:
        every = pairs(given.math, names, frontend_model_names() if given.formats else None)
    except SternaError as mistake:
        parser.error(str(mistake))
    if not every:
        parser.error("the development models are not here; STERNA_MODELS names their folder")
    todo = chosen(given.part, given.match, earlier(given.results), every)
    outcomes: list[Ended[Pair]] = []
    started = time.monotonic()

    def keep(end: Ended[Pair]) -> None:
        outcomes.append(end)
        if given.show or end.state not in DONE:
            print(f"{end.item}: {end.state} in {end.seconds:.1f} s  {end.detail}", flush=True)
        if given.results is not None:
            row = {"pair": str(end.item), "state": end.state, "detail": end.detail, "seconds": round(end.seconds, 2)}
            with given.results.open("a") as file:
                file.write(json.dumps(row) + "\n")

    with orderly(), tempfile.TemporaryDirectory(prefix="sterna-models-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        (folder / SHARED).mkdir()
        with Children(lambda pair: outcome_of(pair, folder), given.jobs, LIMIT) as children:
            for pair in todo:
                for end in children.start(pair):
                    keep(end)
            for end in children.rest():
                keep(end)
    count = Counter(end.state for end in outcomes)
    for reason, times in Counter(end.detail for end in outcomes if end.state == "compiled").most_common():
        print(f"{times} compiled only: {reason}")
    print(f"{time.monotonic() - started:.0f} s, {os.times().children_user:.0f} s of processor time")
    failed = sum(times for state, times in count.items() if state not in DONE)
    print(f"{count['passed']} passed, {failed} failed, {count['compiled']} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
