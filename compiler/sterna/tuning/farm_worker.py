"""What the workers of a farm (`tuning.farm`) do: builders compile, and those that have a device run kernels on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sterna.bundle.directory import write_files
from sterna.choices import Choice
from sterna.scratch import temporary_directory
from sterna.tuning.kernels import Task
from sterna.tuning.measure import Local
from sterna.tuning.worker import Built, Trial, build
from sterna.version import __version__

#: As --on names the machine of the worker itself.
HERE = "host"


class Device(Protocol):
    """Runs kernels that were built elsewhere; it stays open from one to the next."""

    def time(self, kernel: str, rules: Built, built: Built) -> Trial:
        """What a kernel costs.

        Args:
            kernel: its fingerprint; rules: what is right; built: by a choice.
        """
        ...

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        """As of `measure.Measurer`."""
        ...

    def close(self) -> None: ...


#: Opens a device by its name; what it runs may take so many seconds.
Opener = Callable[[str, float], Device]

_open: dict[tuple[str, str], Device] = {}
_lock = threading.Lock()


def open_device(name: str, seconds: float) -> Device:
    """This machine, or what it reaches under that name."""
    return Local("" if name == HERE else name, seconds)


def held(task: Task) -> Task:
    """The task, kept by the workers: it is sent once, and again where the worker that held it is gone."""
    return task


def built(task: Task, choice: Choice) -> Built:
    """A builder's work."""
    return build(task, choice)


def timed(opener: Opener, farm: str, name: str, seconds: float, kernel: str, rules: Built, what: Built) -> Trial:
    """The work of a worker with a device.

    Args:
        farm: who asks; each has the device opened for itself.
    """
    if what.error or rules.error:
        return what.trial(error=what.error or rules.error)
    return _device(opener, farm, name, seconds).time(kernel, rules, what)


def turned(
    opener: Opener, farm: str, name: str, seconds: float, bundles: Sequence[Mapping[str, bytes]], part: bool
) -> Sequence[Sequence[float]] | str:
    """Bundles, each by its files, measured in turns."""
    with temporary_directory("whole") as folder:
        places = [write_files(dict(files), Path(folder) / str(n)).directory for n, files in enumerate(bundles)]
        return _device(opener, farm, name, seconds).turns(places, part)


def _device(opener: Opener, farm: str, name: str, seconds: float) -> Device:
    with _lock:
        return _open.get((farm, name)) or _open.setdefault((farm, name), opener(name, seconds))


def closed(farm: str, name: str) -> None:
    """Closes the device of a farm that ends."""
    with _lock:
        device = _open.pop((farm, name), None)
    if device is not None:
        device.close()


def installed() -> str:
    """The version of Sterna on a worker."""
    return __version__
