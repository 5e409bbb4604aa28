"""Measures the tuner itself.

    ci/bench-tuner curves                        # six kernels on four devices, every explorer, five seeds
    ci/bench-tuner curves --devices arm64 --seeds 1 --only learned,random
    ci/bench-tuner curves --picture docs/tuning-curves.svg

`curves` measures each schedule that an explorer asks for once, into a table that is kept (--table), and replays the
explorers on it: the same command goes on where it was ended. It ends with 1 where the learned explorer's best of 170
trials is behind random's best of 512 on any kernel.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path

from sterna.records import default_place
from tuner.curves import panels, table_of
from tuner.kernels import DEVICES, KERNELS
from tuner.picture import svg
from tuner.replay import WAYS, replayed
from tuner.table import Table


def _curves(asked: argparse.Namespace) -> int:
    began = time.monotonic()
    chosen = [d for d in DEVICES if any(word in d.title for word in asked.devices.split(","))]
    kernels = [name for name in KERNELS if any(word in name for word in asked.kernels.split(","))]
    ways = [
        way for way in WAYS if any(word in way.title.split(",") for word in asked.only.split(",")) or not asked.only
    ]
    with closing(Table(Path(asked.table))) as table:
        for seed in range(asked.seeds):
            for way in ways:
                for device in chosen:
                    for name in kernels:
                        if time.monotonic() - began > asked.minutes * 60:
                            break
                        curve = replayed(table, device, name, way, seed)
                        said = (
                            f"{device.title}, {name}, {way.title}, seed {seed}: {curve[0] / curve[-1]:.3f} x the rules"
                        )
                        print(f"{time.monotonic() - began:6.0f} s  {table.measured():6} measured  {said}", flush=True)
        found = [*panels(table, asked.seeds)]
    print("\n".join(table_of(found)))
    if asked.picture:
        Path(asked.picture).write_text(svg(found))
    there = sum(each.reaches for each in found)
    print(f"\nthe learned explorer is there in time on {there} of {len(found)}")
    if found:
        ratio = statistics.geometric_mean(each.random_best / each.learned_within for each in found)
        print(f"its best of 170 trials is {ratio:.3f} times as fast as random's best of 512, as a geometric mean")
    return 0 if there == len(found) == len(DEVICES) * len(KERNELS) else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/bench-tuner", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    curves = commands.add_parser("curves", help="explorers on six kernels and four devices")
    curves.add_argument("--devices", default="", help="parts of their names")
    curves.add_argument("--kernels", default="", help="parts of their names")
    curves.add_argument("--only", default="", help="explorers, by what the picture calls them")
    curves.add_argument("--seeds", type=int, default=5)
    curves.add_argument("--minutes", type=float, default=float("inf"), help="when to begin no further run")
    curves.add_argument(
        "--table", default=str(default_place().with_name("bench-tuner.db")), help="of what was measured"
    )
    curves.add_argument("--picture", metavar="FILE", help="an SVG of what is in the table")
    curves.set_defaults(run=_curves)
    asked = parser.parse_args()
    run: int = asked.run(asked)
    return run


if __name__ == "__main__":
    sys.exit(main())
