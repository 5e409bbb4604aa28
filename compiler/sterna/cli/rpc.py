"""`sterna rpc serve` and `sterna rpc doctor`."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from sterna.bundle.install import write_file
from sterna.cli.options import json_option, size_option
from sterna.cli.output import console, print_json, steps, table
from sterna.errors import error, system_error
from sterna.escape import rich as escape
from sterna.rpc.device import connect
from sterna.rpc.frames import DEFAULT_PORT
from sterna.rpc.program import architecture_here, architecture_of, server, server_here
from sterna.targets.description import load_target
from sterna.web.relay import relay

T = TypeVar("T")
_SECONDS_TO_END = 5


@click.group("rpc")
def command() -> None:
    """Make this machine a device that runs bundles for others, or ask a device what it is.

    docs/rpc.md describes what a device protects and the protocol. The token is read from STERNA_RPC_TOKEN, or from the
    file that STERNA_RPC_TOKEN_FILE names.
    """


@command.command("serve")
@click.option("--listen", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to listen on. One that others reach needs a token; 0.0.0.0 is all.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, metavar="N",
              help="Port to listen on; 0 for any.")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE",
              help="File with the token, which this user alone can read.")  # fmt: skip
@click.option("--scratch", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Folder for the files that clients send. Default: a temporary one of this user.")  # fmt: skip
@size_option("--quota", "What those files may take. Default: 4096M.")
@click.option("--limit", type=click.FloatRange(0.001, 1e6), default=60.0, show_default=True, metavar="SECONDS",
              help="What a request may take; a kernel that takes longer is ended.")  # fmt: skip
@click.option("--web", is_flag=True,
              help="The device is a page of a browser here, at the address that is printed.")  # fmt: skip
@click.option("--target", "-t", metavar="NAME|FILE", help="Build the server for that machine, with -o.")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the server's program, to be copied to a board, and do not start it.")  # fmt: skip
@click.pass_context
def serve(
    context: click.Context,
    listen: str,
    port: int,
    token_file: Path | None,
    scratch: Path | None,
    quota: int | None,
    limit: float,
    web: bool,
    target: str | None,
    output: Path | None,
) -> int:
    """Run bundles for other machines, until Ctrl-C; or write the program that does so on a board.

    The server is a static program without dependencies, built by ziglang. Whoever knows the token may run code here.
    """
    if web:
        _refuse_others(context, ("web", "port"), "--web: the device is a page")
        return _serve_page(port)
    if output is not None:
        _refuse_others(context, ("output", "target"), "-o: the program takes it where it is started")
    if target is not None and output is None:
        raise error("E0002", "--target builds the server for another machine, to be written", fix="-o sterna_rpc")
    if output is not None:
        architecture = architecture_here() if target is None else architecture_of(load_target(target))
        _write(output, _built(lambda: server(architecture)))
        click.echo(f"{output}: the server for Linux on {architecture}; there: ./{output.name} --help")
        return 0
    words = ["--listen", listen, "--port", str(port), "--limit", str(limit)]
    for flag, value in (("--token-file", token_file), ("--scratch", scratch), ("--quota", quota)):
        words += [] if value is None else [flag, str(value)]
    return _run([str(_built(server_here)), *words])


def _built(build: Callable[[], T]) -> T:
    """The server, which takes a minute to build for the first time: somebody waits, and is told what for."""
    with steps(1) as progress:
        progress("building the server, once for each processor")
        return build()


def _refuse_others(context: click.Context, taken: tuple[str, ...], why: str) -> None:
    """Refuses options that are given and would not count.

    Raises:
        SternaError: E0002, there are some.
    """
    given = context.get_parameter_source
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params if parameter.name is not None}
    others = [flag for name, flag in names.items() if name not in taken and given(name) is ParameterSource.COMMANDLINE]
    if others:
        raise error("E0002", f"{', '.join(others)} is of no use with {why}", fix="leave it out")


def _serve_page(port: int) -> int:
    """Passes clients on to a page of a browser.

    Raises:
        SternaError: E0010, a port is taken.
    """
    with relay(port) as running:
        click.echo(f"open {running.page} in a browser; then it is the device rpc://127.0.0.1:{running.port}", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


def _run(words: list[str]) -> int:
    """Runs the server until it ends, or this process is told to."""
    process = subprocess.Popen(words)
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_END)
            process.kill()


def _write(output: Path, data: bytes) -> None:
    try:
        write_file(output, data)
        output.chmod(0o755)
    except OSError as problem:
        raise system_error(problem) from None


@command.command("doctor")
@click.argument("address", metavar="rpc://HOST[:PORT]")
@json_option
def doctor(address: str, as_json: bool) -> None:
    """Say what a device is: processor, features, cores, memory, clock, versions, and whether others wait for it."""
    with connect(address) as device:
        found = device.status()
    if as_json:
        print_json(found)
        return
    rows = table("", "")
    rows.show_header = False
    for key, value in found.items():
        rows.add_row(escape(str(key).replace("_", " ")), escape(_text(key, value)))
    console().print(rows)


def _text(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(name, each)}" for name, each in value.items())
    if isinstance(value, list):
        return " to ".join(map(str, value)) if key == "protocol" else " ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _UNITS.get(key, "{:,}").format(value) if key not in _SCALED else _SCALED[key](value)
    return str(value)


_UNITS = {"milliseconds": "{:,} for a request", "used": "{:,} bytes", "quota": "{:,} bytes", "free": "{:,} bytes"}
_SCALED = {
    "memory": lambda value: f"{value / 2**30:.1f} GiB",
    "kilohertz": lambda value: f"{value / 1e6:.2f} GHz",
    "kilohertz_most": lambda value: f"{value / 1e6:.2f} GHz",
    "millidegrees": lambda value: f"{value / 1000:.1f} °C",
}
