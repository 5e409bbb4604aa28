"""`sterna.tune`: the tuner for programs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sterna.api import Settings, TargetName, options_of
from sterna.driver import reading
from sterna.emulate.counting import MARKERS
from sterna.emulate.devices import check_devices, device, known, machine_of
from sterna.emulate.devices import device_of as device_for
from sterna.emulate.engines import ENGINES
from sterna.emulate.machines import target_named, why_not_emulated
from sterna.errors import error
from sterna.firmware.machines import MACHINES
from sterna.frontends.formats import Model, read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.quantize.samples import Data
from sterna.records import Database, default_place
from sterna.runtime.here import why_not_here
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.tuning.algorithms import feeds_of
from sterna.tuning.cluster import LOCAL, cluster
from sterna.tuning.counted import Counting
from sterna.tuning.explorers import EXPLORERS
from sterna.tuning.farm import Farm
from sterna.tuning.farm_worker import HERE
from sterna.tuning.measure import Local, Measurer
from sterna.tuning.tuner import Report, Tuner
from sterna.tuning.worker import counts
from sterna_runtime.advice import Advice, Option
from sterna_runtime.arguments import Dims, Shapes
from sterna_runtime.devices import describe

if TYPE_CHECKING:
    from typing_extensions import Unpack


def tune(
    model: Model,
    target: TargetName = "host",
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    generator: str = "c",
    *,
    on: str | Sequence[str] | None = None,
    dask: str | None = None,
    trials: int = 500,
    seconds: float = float("inf"),
    records: str | os.PathLike[str] | None = None,
    explorer: str = "evolution",
    seed: int = 0,
    max_error: float | None = None,
    data: Data | None = None,
    watch: Callable[[Tuner], None] | None = None,
    **settings: Unpack[Settings],
) -> Report:
    """Tries other schedules of a model's kernels and keeps what is faster, for `compile` to take.

    Args:
        on: a device: "rpc://HOST", "node", "chromium", or "qemu:NAME" of a target or a microcontroller's board, whose
            instructions are counted; None: this machine. With `dask` several of one kind.
        dask: "local", or the address of a scheduler of Dask, whose workers build and have the devices (docs/tuning.md).
        trials, seconds: when to end.
        records: the file of records; None: `STERNA_TUNING`, else the user's own.
        explorer: "evolution", "annealing", "genetic", "tpe", "random" or "grid".
        max_error: the largest error that an output may have, relative to its largest magnitude, for the sake of
            algorithms that are faster; None: `math` of the settings, which computes all as the model says by default.
        data: samples to measure errors on, as `quantize` takes them; None: the inputs of golden sets.
        watch: called after every trial.

    Returns:
        What every kernel cost before and after.

    Raises:
        SternaError: everything that is wrong, at once; E0507, the target does not run there.
    """
    options = replace(options_of(target, shapes, dims, generator, **settings), tuning=None)
    if explorer not in EXPLORERS:
        raise error("E0203", f'there is no explorer "{explorer}"', fix=f"one of {', '.join(EXPLORERS)}")
    if max_error is not None:
        options = within(options, max_error, "E0203")
    names = (on,) if isinstance(on, str) else tuple(on or ())
    with measurer(names, dask, options) as found:
        graph = read_model(Source.of(model), reading(options))
        feeds = None if data is None else feeds_of(graph, data)
        place = default_place() if records is None else Path(records)
        with Database(place) as database:
            tuner = Tuner(
                graph, options, database, explorer=explorer, seed=seed, measurer=found, watch=watch, feeds=feeds
            )
            return tuner.run(trials, seconds)


def within(options: Options, bound: float, code: str) -> Options:
    """The options with a bound of errors.

    Raises:
        SternaError: of that code, it is not between 0 and 1.
    """
    if not 0 < bound < 1:
        raise error(code, f"the largest error {bound:g} is not between 0 and 1", fix="1e-3")
    return replace(options, math=bound)


def _told(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@contextlib.contextmanager
def measurer(on: Sequence[str], dask: str | None, options: Options) -> Iterator[Measurer]:
    """What measures on the devices that --on names, by the cluster that --dask names.

    Raises:
        SternaError: as of `device_of` and `cluster`.
    """
    if dask is None:
        if len(on) > 1:
            raise error("E0002", "several devices need workers", fix=Option("dask", "local"))
        name = device_of(on[0] if on else None, options)
        if _is_counted(name, options):
            yield Counting(load_target(machine_of(name)), name)
            return
        yield Local(name)
        return
    if any(_is_counted(name, options) for name in on):
        title = "workers of Dask count no instructions of processors"
        raise error("E0002", title, fix=Advice("leave out ", Option("dask")))
    for name in on or (HERE,):
        if name == HERE and dask != LOCAL:
            continue  # Its workers are of other machines.
        device_of(name, options, reached=False)
    names = tuple(dict.fromkeys(on)) or (HERE,)
    if len({counts(name) for name in names}) > 1:
        raise error("E0002", "some devices count instructions, others measure time", fix="name those of one kind")
    with cluster(dask, names) as workers:
        yield Farm(workers, names, told=_told)


def _is_counted(on: str, options: Options) -> bool:
    """Whether instructions are counted in an emulator of a processor: not those of a board's firmware."""
    return counts(on) and not options.target.static and options.target.device is None


def _check_counted(name: str, target: Target) -> None:
    """Raises E0507 where instructions of a target cannot be counted in the emulator of that target or board."""
    if name in MACHINES:
        title = f"{name} runs firmware, and {target.name} is no target for it"
        raise error(
            "E0507", title, fix=Advice(Option("target", "cortex-m4"), ", or ", Option("on", f"qemu:{target.name}"))
        )
    machine = target_named(name)
    own, wanted = (each.llvm_triple.partition("-")[0] for each in (machine, target))
    if own != wanted:
        title = f"qemu:{name} runs kernels for {own}, and those of {target.name} are for {wanted or 'none'}"
        raise error("E0507", title, fix=Option("target", name))
    if own not in MARKERS:
        title = f"no emulator of processors runs kernels of {name}, whose instructions could be counted"
        raise error("E0507", title, fix=Advice(Option("on", " or ".join(ENGINES)), ", which are timed"))
    if (why := why_not_emulated(machine)) is not None:
        raise error("E0507", f"instructions of {name} cannot be counted here: {why}", fix="apt-get install qemu-user")


def _elsewhere(target: Target) -> Advice:
    """Where kernels of a target that this machine does not run can be measured."""
    engine, emulated = target.runs_on in ENGINES, device_for(target)
    words: list[str | Option] = []
    if engine:
        words += [Option("on", target.runs_on), ", or "]
    elif target.static:
        words += [Option("on", "serial:BOARD.toml"), ", or "]
    elif target.library or target.device is not None:
        drives = "" if target.device is None else ", whose server drives such a device"
        words += [Option("on", "rpc://HOST"), f"{drives}, or "]
    if emulated is not None and not engine and target.device is None:
        words += [Option("on", emulated[1]), ", or "]
    return Advice(*words, Option("target", "host"))


def device_of(on: str | None, options: Options, reached: bool = True) -> str:
    """What --on names, for this target: "" for this machine, or the device.

    Args:
        reached: whether it is this machine that reaches the device, which then has to answer.

    Raises:
        SternaError: E0002, it is of no known form; E0507, the target's kernels cannot be measured there.
    """
    target = options.target
    if target.device is not None and not target.device.host and on in (None, "host"):
        describe(target.device.kind)  # What is wrong with its driver is said before anything is compiled.
        return ""
    if on is None or on == "host":
        if (why := why_not_here(target)) is not None:
            title = f"kernels of the target {target.name} cannot be measured here: {why}"
            raise error("E0507", title, fix=_elsewhere(target))
        return ""
    check_devices(on, () if target.device is None else (target.device.kind,))
    if _is_counted(on, options):
        _check_counted(machine_of(on), target)
        return on
    if on.startswith("qemu:"):
        machine_of(on)
    if not reached:
        known(on)
        return on
    with device(on):  # What is wrong with the device is said before anything is compiled.
        return on
