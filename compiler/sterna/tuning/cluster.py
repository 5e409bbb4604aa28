"""A cluster of Dask: one that runs, or one of this machine, with builders and a worker for each device."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sterna.errors import error
from sterna.tuning.farm_worker import installed
from sterna.version import __version__
from sterna_runtime.advice import Advice, Option

#: The resource of workers that compile.
BUILD = "build"
#: In place of a scheduler's address: a cluster of this machine.
LOCAL = "local"
#: Seconds in which a scheduler has to answer.
CONNECT = 10.0
#: For which a worker is waited for that should answer at once.
_SECONDS = 2.0
#: Dask's log has nothing that an error does not say.
_QUIET = logging.CRITICAL
#: Of a scheduler: Dask knows no other port where none is named.
_ADDRESS = re.compile(r"(?P<scheme>tcp|tls|ws|wss)://([^\s:/@\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


def resource(device: str) -> str:
    """Of the worker that has a device."""
    return f"device-{device}"


class Cluster:
    """The workers behind a scheduler.

    Args:
        address: of the scheduler, or an object of Dask that has one.
        owned: what is closed with it.
    """

    def __init__(self, address: Any, owned: Any = None):
        distributed, self._owned = _distributed(), owned
        try:
            self._client = distributed.Client(address, set_as_default=False, timeout=CONNECT)
        except (OSError, ValueError, TimeoutError) as problem:
            fix = "dask scheduler, and workers as docs/tuning.md says"
            raise error("E0801", f"no scheduler of Dask answers at {address}: {problem}", fix=fix) from None

    def submit(self, function: Callable[..., object], *words: object, needs: str) -> Any:
        """A future of what a worker with the resource `needs` makes of it; it is the client's to hold."""
        return self._client.submit(function, *words, resources={needs: 1}, pure=False)

    def result(self, future: Any, seconds: float = _SECONDS) -> Any:
        """Of a future that has finished; None where it does not come in time: its worker is gone."""
        try:
            return future.result(timeout=seconds)
        except (TimeoutError, asyncio.TimeoutError):
            return None

    def finish(self, futures: Sequence[Any]) -> None:
        """Waits for these, not for long."""
        until = time.monotonic() + _SECONDS
        for future in futures:
            with contextlib.suppress(Exception):  # The worker may end meanwhile, in any way.
                future.result(timeout=max(0.0, until - time.monotonic()))

    def cancel(self, futures: Sequence[Any]) -> None:
        """What has not begun of them is not begun."""
        if futures:
            self._client.cancel([*futures], force=True)

    def resources(self) -> set[str]:
        """Of all workers that are there."""
        workers = self._client.scheduler_info()["workers"].values()
        return {name for worker in workers for name, n in worker.get("resources", {}).items() if n}

    def check(self, devices: Sequence[str]) -> None:
        """Raises:
        SternaError: E0801, no worker builds or has one of the devices; E0804, one has another Sterna.
        """
        there = self.resources()
        for needed in (BUILD, *map(resource, devices)):
            if needed not in there:
                fix = f'start a worker of Dask with the resources "{needed}=1" (docs/tuning.md)'
                raise error("E0801", f'no worker of the cluster has the resource "{needed}"', fix=fix)
        versions = self._client.run(installed, on_error="return")
        for worker, version in versions.items():
            if version != __version__:
                title = f"the worker {worker} has not Sterna {__version__}: {version}"
                raise error("E0804", title, fix="install the same version on all machines")

    def close(self) -> None:
        self._client.close()
        if self._owned is not None:
            self._owned.close()


def _check_address(asked: str) -> None:
    """Refuses what Dask's client cannot connect to whoever listens: it would not end in order.

    Raises:
        SternaError: E0002, it is no address; E0801, TLS has no certificates.
    """
    found = _ADDRESS.fullmatch(asked)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        fix = Advice(Option("dask", "tcp://HOST:8786"), ", or ", Option("dask", LOCAL))
        raise error("E0002", f'"{asked}" names no scheduler of Dask', fix=fix)
    secured = found["scheme"] in ("tls", "wss")
    if secured and _distributed().Security().get_connection_args("client").get("ssl_context") is None:
        title, where = f"certificates are needed for {asked}, and Dask has none", "cert and key of tls.client"
        raise error("E0801", title, fix=f"name them in Dask's settings: distributed.comm.tls.ca-file, and {where}")


@contextlib.contextmanager
def cluster(asked: str, devices: Sequence[str]) -> Iterator[Cluster]:
    """The cluster that --dask names, with workers for these devices.

    Raises:
        SternaError: E0002, it names none; E0004, Dask is not installed; as of `_check_address` and `Cluster`.
    """
    if asked != LOCAL:
        _check_address(asked)
    owned = local(devices) if asked == LOCAL else None
    found = Cluster(owned or asked, owned)
    try:
        found.check(devices)
        yield found
    finally:
        found.close()


def local(devices: Sequence[str], builders: int | None = None, processes: bool = True) -> Any:
    """A cluster of this machine that only this machine reaches: builders, by default one for each processor, and a
    worker for each device.

    Args:
        processes: whether each worker is one that is started again where it ends; else they are threads of this one.
    """
    distributed = _distributed()
    names = {f"builder-{n}": BUILD for n in range(builders or os.cpu_count() or 1)}
    names |= {f"on-{device}": resource(device) for device in devices}
    kind = distributed.Nanny if processes else distributed.Worker
    options = {"nthreads": 1, "memory_limit": 0, "host": "127.0.0.1", "dashboard": False, "silence_logs": _QUIET}
    workers = {name: {"cls": kind, "options": {**options, "resources": {needs: 1}}} for name, needs in names.items()}
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": None},
    }
    with _without_interrupts():
        return distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=_QUIET)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started within it do not end by Ctrl-C: what it ends is confirmed with them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _distributed() -> Any:
    """Raises:
    SternaError: E0004, it is not installed.
    """
    try:
        import distributed  # noqa: PLC0415 (an extra)
    except ImportError:
        raise error("E0004", "Dask is not installed", fix="pip install sterna[tune]") from None
    return distributed
