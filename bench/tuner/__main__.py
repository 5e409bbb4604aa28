"""Measures the tuner itself.

    ci/bench-tuner curves                        # six kernels on four devices, every explorer, five seeds
    ci/bench-tuner curves --devices arm64 --seeds 1 --only learned,random
    ci/bench-tuner curves --picture docs/tuning-curves.svg
    ci/bench-tuner space                         # before: measures all schedules, then the fastest in turns
    ci/bench-tuner networks mtcnn_rnet_f32 model.onnx -t x86-64-v4 --trials 100
    ci/bench-tuner networks detector.onnx --shape image=1,3,320,320 -t arm64 --on counted
    ci/bench-tuner transfer mtcnn_rnet_f32 -t x86-64-v4
    ci/bench-tuner prior -o compiler/sterna/tuning/priors
    ci/bench-tuner prediction                    # CPU time of a candidate

`curves` measures each schedule that an explorer asks for once, into a table that is kept (--table), and replays the
explorers on it: the same command goes on where it was ended. It ends with 1 where the learned explorer's best of 170
trials is behind random's best of 512 on any kernel.

`networks` tunes whole networks (files, or trained models by name) and measures each in turns by the rules and as tuned;
1 where one is below 0.99x. `transfer` takes its records: what the first batch of a network's kernels reaches with those
of all other networks, beside the network's own best; 1 where that is less than 0.95 as a geometric mean.

`prior` writes what the records say of each family of targets into a folder, for the cost model to begin with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from models import SUFFIXES, TRAINED
from sterna.api import options_of
from sterna.bundle.install import write_file
from sterna.cli.options import shape, value
from sterna.errors import SternaError
from sterna.options import Options
from sterna.records import Database, default_place
from sterna.tuning.prior import to_bytes
from sterna_runtime.cli.values import dim
from tuner.counted import measurer
from tuner.curves import compared, panels, table_of
from tuner.kernels import DEVICES, KERNELS, Device, kernel_of
from tuner.kernels import options_of as options_of_device
from tuner.networks import priors, transferred, tuned
from tuner.picture import svg
from tuner.prediction import predicted
from tuner.replay import WAYS, replayed
from tuner.space import measure_space
from tuner.table import Table

#: What a tuned network may lose to noise, and the share of its own best that a first batch has to reach.
LEAST_GAIN, LEAST_SHARE = 0.99, 0.95


def _curves(asked: argparse.Namespace) -> int:
    began = time.monotonic()
    ways = [
        way for way in WAYS if any(word in way.title.split(",") for word in asked.only.split(",")) or not asked.only
    ]
    with closing(Table(Path(asked.table))) as table:
        for seed in range(asked.seeds):
            for way in ways:
                for device, name in _pairs(asked):
                    if time.monotonic() - began > asked.minutes * 60:
                        break
                    curve = replayed(table, device, name, way, seed, not asked.measured)
                    said = f"{device.title}, {name}, {way.title}, seed {seed}: {curve[0] / curve[-1]:.3f} x the rules"
                    print(f"{time.monotonic() - began:6.0f} s  {table.measured():6} measured  {said}", flush=True)
        found = [*panels(table, asked.seeds)]
    print("\n".join([*table_of(found), "", *compared(found)]))
    if asked.picture:
        Path(asked.picture).write_text(svg(found))
    there = sum(each.reaches for each in found)
    print(f"\nthe learned explorer is there in time on {there} of {len(found)}")
    if found:
        ratio = statistics.geometric_mean(each.random_best / each.learned_within for each in found)
        print(f"its best of 170 trials is {ratio:.3f} times as fast as random's best of 512, as a geometric mean")
    return 0 if there == len(found) == len(DEVICES) * len(KERNELS) else 1


def _space(asked: argparse.Namespace) -> int:
    began = time.monotonic()
    with closing(Table(Path(asked.table))) as table:
        for device, name in _pairs(asked):
            until = began + asked.minutes * 60
            start = partial(measurer, device.on, options_of_device(device).target)
            found = measure_space(table, device, name, start, asked.most, until)
            table.forget(device.title, name)
            passed = time.monotonic() - began
            print(f"{passed:6.0f} s  {device.title}, {name}: {found.measured} of {found.schedules}", flush=True)
    return 0


def _pairs(asked: argparse.Namespace) -> list[tuple[Device, str]]:
    """The devices and kernels that are asked for."""
    devices = [d for d in DEVICES if any(word in d.title for word in asked.devices.split(","))]
    return [(d, name) for d in devices for name in KERNELS if any(word in name for word in asked.kernels.split(","))]


def _file(name: str) -> Path:
    """A file, or a trained model by its name."""
    found = [place for suffix in SUFFIXES if (place := TRAINED / name / f"model{suffix}").is_file()]
    return found[0] if found else Path(name)


def _options(asked: argparse.Namespace) -> Options:
    """How networks are compiled: by LLVM, in this process, with the sizes that are given."""
    sizes, dims, values = (dict(each) for each in (asked.shape, asked.dim, asked.value))
    return options_of(asked.target, sizes, dims, "llvm", values=values or None)


def _networks(asked: argparse.Namespace) -> int:
    gains, options = [], _options(asked)
    print("| network | target | kernels | trials | seconds | kernels gain | whole |\n" + "| --- " * 7 + "|")
    with Database(Path(asked.records)) as records:
        for name in asked.models:
            try:
                report = tuned(_file(name), options, asked.on, asked.trials, records)
            except SternaError as problem:
                why = str(problem).split("\n", 1)[0]
                print(f"| {name} | {asked.target} | - | - | - | - | {why} |", flush=True)
                gains.append(0.0)
                continue
            whole = report.whole
            # Without a confirmed choice, or with those dropped, the bundle is the rules' own.
            kept = whole is not None and not whole.is_slower and not whole.why
            gains.append(whole.before / whole.after if whole is not None and kept else 1.0)
            said = f"{gains[-1]:.3f}" if whole is None or kept else f"1 ({whole.why or 'dropped: slower as a whole'})"
            kernels = len(report.kernels)
            row = (name, asked.target, kernels, report.trials, f"{report.seconds:.0f}", f"{report.gain:.3f}", said)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    if min(gains):
        print(f"geometric mean {statistics.geometric_mean(gains):.3f}, least {min(gains):.3f}")
    return 0 if min(gains) >= LEAST_GAIN else 1


def _transfer(asked: argparse.Namespace) -> int:
    shares = []
    print("| network | kernel | with records | without | rules |\n" + "| --- " * 5 + "|")
    with Database(Path(asked.records)) as records:
        for name in asked.models:
            for each in transferred(_file(name), _options(asked), asked.on, records):
                shares.append(tuple(each.own / cost for cost in (each.first, each.alone, each.rules)))
                print(f"| {name} | {each.name} | {' | '.join(f'{s:.3f}' for s in shares[-1])} |", flush=True)
    if not shares:
        print("no kernel of these has been searched: ci/bench-tuner networks")
        return 1
    with_records, without, rules = (statistics.geometric_mean(each) for each in zip(*shares, strict=True))
    print(
        f"first batch: {with_records:.3f} of the network's own best, {without:.3f} without records, rules {rules:.3f}"
    )
    return 0 if with_records >= LEAST_SHARE else 1


def _prior(asked: argparse.Namespace) -> int:
    folder = Path(asked.output)
    folder.mkdir(parents=True, exist_ok=True)
    with Database(Path(asked.records), create=False) as records:
        for name, rows in priors(records).items():
            data = to_bytes(rows)
            write_file(folder / f"{name}.npz", data)
            print(f"{name}: {len(rows.groups)} kernels, {len(rows.grades)} trials, {len(data):,} bytes")
    return 0


def _prediction(asked: argparse.Namespace) -> int:
    print("| kernel | device | drawing, ms | features, ms | trees, ms |\n" + "| --- " * 5 + "|")
    for device in DEVICES:
        for name in KERNELS:
            each = predicted(kernel_of(name, device), asked.candidates)
            row = (name, device.title, f"{each.drawing:.2f}", f"{each.features:.2f}", f"{each.trees:.3f}")
            print(f"| {' | '.join(row)} |", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/bench-tuner", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    curves = commands.add_parser("curves", help="explorers on six kernels and four devices")
    space = commands.add_parser("space", help="all schedules of these kernels on these devices")
    for own in (curves, space):
        own.add_argument("--devices", default="", help="parts of their names")
        own.add_argument("--kernels", default="", help="parts of their names")
        own.add_argument("--minutes", type=float, default=float("inf"), help="when to begin nothing more")
        own.add_argument(
            "--table", default=str(default_place().with_name("bench-tuner.db")), help="of what was measured"
        )
    space.add_argument("--most", type=int, default=1 << 30, help="schedules of a kernel, drawn at random")
    space.set_defaults(run=_space)
    curves.add_argument("--only", default="", help="explorers, by what the picture calls them")
    curves.add_argument("--seeds", type=int, default=5)
    curves.add_argument("--measured", action="store_true", help="spaces are what the table has; nothing is measured")
    curves.add_argument("--picture", metavar="FILE", help="an SVG of what is in the table")
    curves.set_defaults(run=_curves)
    for name, run, text in (
        ("networks", _networks, "whole networks, tuned"),
        ("transfer", _transfer, "the first batch, from the records of other networks"),
    ):
        own = commands.add_parser(name, help=text)
        own.add_argument("models", nargs="+", help="files, or trained models by name")
        own.add_argument("-t", "--target", default="x86-64-v3")
        own.add_argument("--on", default="", help="a device, as sterna tune has it, or counted: instructions")
        own.add_argument("--shape", type=shape, action="append", default=[], help="as sterna compile has it")
        own.add_argument("--dim", type=dim, action="append", default=[], help="as sterna compile has it")
        own.add_argument("--value", type=value, action="append", default=[], help="as sterna compile has it")
        own.add_argument("--trials", type=int, default=1000, help="of each network")
        own.add_argument(
            "--records", default=str(default_place().with_name("bench-networks.db")), help="where they are kept"
        )
        own.set_defaults(run=run)
    prior = commands.add_parser("prior", help="what records say of families of targets, as sterna tune ships it")
    prior.add_argument("--records", default=str(default_place().with_name("bench-networks.db")))
    prior.add_argument("-o", "--output", required=True, metavar="FOLDER")
    prior.set_defaults(run=_prior)
    prediction = commands.add_parser("prediction", help="CPU time of ranking a candidate, of six kernels")
    prediction.add_argument("--candidates", type=int, default=200, help="of each kernel")
    prediction.set_defaults(run=_prediction)
    asked = parser.parse_args()
    run: int = asked.run(asked)
    return run


if __name__ == "__main__":
    sys.exit(main())
