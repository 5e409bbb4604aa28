"""Devices: machines that run bundles for this one, found by an address and opened with a token."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from sterna.errors import error
from sterna.rpc.frames import DEFAULT_PORT, LEAST_TOKEN_BYTES, MOST_STATUS_BYTES, Kind, Request
from sterna.rpc.functions import DeviceFunctions
from sterna.rpc.link import Link, Refused
from sterna.rpc.timing import MOST_RUNS, Timing, timed
from sterna_runtime import Bundle, library, load
from sterna_runtime.private import read_private

_ADDRESS = re.compile(r"rpc://(?:\[(?P<wide>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[\w.-]+))(?::(?P<port>\d{1,5}))?/?", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `rpc://host`, `rpc://host:9190` or `rpc://[::1]:9190`.

    Raises:
        SternaError: E0002, it is not of that form.
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found is not None else 0
    if found is None or not 0 < port < 1 << 16:
        hidden = " (a token does not belong there: others see it)" if "@" in text else ""
        shown = re.sub(r"//.*@", "//...@", text)
        raise error("E0002", f'"{shown}" is no address of a device{hidden}', fix="rpc://pi:9190, or rpc://[::1]:9190")
    return found["wide"] or found["host"], port


def find_token(given: str | None = None) -> bytes | None:
    """The token that was given, or that of STERNA_RPC_TOKEN, or of the file that STERNA_RPC_TOKEN_FILE names.

    It is any bytes, without white space at its end. A variable that is set to nothing is none.

    Raises:
        SternaError: E0802, the file cannot be read, others may write it, or the token is too short.
    """
    where, token = "the token", os.fsencode(os.environ.get("STERNA_RPC_TOKEN", "") if given is None else given)
    name = os.environ.get("STERNA_RPC_TOKEN_FILE")
    if given is None and not token and name:
        where, token = name, _read_token(name)
    elif not token:
        return None
    found = token.rstrip(b" \t\r\n")
    if len(found) < LEAST_TOKEN_BYTES:
        raise error("E0802", f"{where} has {len(found)} bytes; a device's has at least {LEAST_TOKEN_BYTES}")
    return found


def _read_token(name: str) -> bytes:
    data = read_private(Path(name))
    if data is None:
        fix = "STERNA_RPC_TOKEN_FILE names the file with the token that the server was started with"
        try:
            if stat.S_ISREG(os.lstat(name).st_mode):
                fix = f"chmod 600 {name}"
            why = "it is no file that this user alone can write and that can be read"
        except OSError as problem:
            why = problem.strerror or str(problem)
        raise error("E0802", f"the token cannot be read from {name}: {why}", fix=fix)
    if os.name != "nt" and Path(name).stat().st_mode & 0o077:
        warnings.warn(f"other users may read the token in {name}", stacklevel=3)
    return data


class Device:
    """A device, for as long as the connection lasts; made by `connect`. It runs one bundle at a time.

    The device is this client's alone from the first bundle that is loaded until `close`, or the end of the `with`
    block: others wait. `status` needs no turn.
    """

    def __init__(self, address: str, link: Link, wait: float, told: Callable[[int], None] | None):
        self.address = address
        self._link, self._wait, self._told = link, wait, told
        self._functions = DeviceFunctions(link)
        self._has_turn = False
        self._link.be_patient(self.status()["limits"]["milliseconds"] / 1000)

    def status(self) -> dict[str, Any]:
        """What the device is and how it is: docs/rpc.md names the entries.

        Raises:
            SternaError: E0805, the connection is lost.
        """
        with self._named():
            data = self._link.ask(Request(Kind.STATUS, most=MOST_STATUS_BYTES))
        try:
            found = json.loads(data)
            if isinstance(found, dict) and isinstance(found["limits"]["milliseconds"], int):
                return found
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        raise error("E0805", "what the device says of itself is malformed", self.address)

    def has(self, feature: str) -> bool | None:
        """Whether its processor has a feature, by LLVM's name for it; None if it does not know the name."""
        with self._named():
            found = self._functions.has(feature.encode())
        return None if found < 0 else bool(found)

    def take_turn(self) -> None:
        """Waits until the device is this client's alone.

        Raises:
            SternaError: E0803, others use it for longer than this client waits.
        """
        if not self._has_turn:
            with self._named():
                self._link.wait_for_turn(self._wait, self._told)
            self._has_turn = True

    def loading(self) -> AbstractContextManager[None]:
        """Within it, `sterna.load` loads bundles into the device; they run there afterwards, too."""
        self.take_turn()
        return library.replaced_by(self._functions)

    def load(self, directory: str | os.PathLike[str], threads: int = 1) -> Bundle:
        """Sends what the device lacks of a bundle's files, and loads it there. A bundle from before is lost.

        Raises:
            SternaError: as of `sterna.load`, whose E0507 is then about the device; E0803 to E0810 of the device.
        """
        with self.loading():
            return load(directory, threads)

    def time(
        self, bundle: Bundle, warmup: int = 1, repeats: int = 10, least: float = 0.0, most: int = MOST_RUNS
    ) -> Timing:
        """Times a bundle of this device, on its current inputs, without the network.

        Args:
            warmup: runs that are not timed.
            repeats: runs at least; most: at most.
            least: seconds that the timed runs take at least in sum, unless `most` comes first.

        Raises:
            SternaError: E0501, a number is out of bounds; E0807, E0808, a kernel crashed or did not end.
        """
        if not (0 <= warmup <= MOST_RUNS and 1 <= repeats <= most <= MOST_RUNS and 0 <= least <= 3600):
            title = "a device runs 1 to 100,000 times, at least as often as at most, for up to 3600 seconds"
            raise error("E0501", title, f"warmup={warmup}, repeats={repeats}, most={most}, least={least}")
        if bundle.of_runtime()[0] is not self._functions:
            raise error("E0501", "the bundle is not one of this device", str(bundle.directory), fix="device.load(...)")
        with self._named():
            return timed(self._functions, bundle, (warmup, repeats, most), least)

    def limit(self, seconds: float) -> None:
        """How long one request (a run, the times of many) may take from now on; a kernel that takes longer is ended.

        Raises:
            SternaError: E0805, it is above the most that the device allows (`limits` of its status).
        """
        self.take_turn()
        with self._named():
            self._link.ask(Request(Kind.LIMIT, struct.pack("<I", max(1, round(seconds * 1000)))))
        self._link.be_patient(seconds)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """What the device refuses within it is an error of the user's."""
        try:
            yield
        except Refused as problem:
            raise problem.as_error(self.address) from None

    def close(self) -> None:
        """Ends the connection; the next client has its turn. The bundles of this device are lost."""
        self._link.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sterna.rpc.Device {self.address}{', closed' if self._link.ended else ''}>"


def connect(
    address: str,
    token: str | None = None,
    *,
    wait: float = 60.0,
    timeout: float = 10.0,
    told: Callable[[int], None] | None = None,
) -> Device:
    """Connects to a device that `sterna rpc serve` made.

    Args:
        address: rpc://host:port; the port is 9190 where none is given.
        token: None: that of STERNA_RPC_TOKEN, or of the file that STERNA_RPC_TOKEN_FILE names.
        wait: seconds to wait for one's turn, while others use the device.
        timeout: seconds for the connection.
        told: called with the position in the queue, whenever it changes.

    Raises:
        SternaError: E0002 of the address, E0801 nobody answers there, E0802 the token is wrong or missing, E0804 the
            versions do not fit, E0805 the connection is lost.
    """
    host, port = parse_address(address)
    secret = find_token(token)
    try:
        connected = socket.create_connection((host, port), timeout)
    except OSError as problem:
        reason = "nobody answers in time" if isinstance(problem, TimeoutError) else problem.strerror or str(problem)
        fix = "start `sterna rpc serve` there, and see that a firewall lets the port through"
        raise error("E0801", f"there is no device at {address}: {reason}", fix=fix) from None
    try:
        return Device(address, Link(address, connected, secret, timeout), wait, told)
    except Refused as problem:
        connected.close()
        raise problem.as_error(address) from None
    except BaseException:
        connected.close()
        raise
