"""`sterna doctor`."""

from __future__ import annotations

import platform
from typing import Any

import click

from sterna.cli.failures import print_errors
from sterna.cli.options import json_option
from sterna.cli.output import console, print_json, table
from sterna.emulate.engines import ENGINES
from sterna.errors import SternaError
from sterna.escape import rich as escape
from sterna.frontends.formats import frontends
from sterna.frontends.frontend import installed_version
from sterna.targets.description import load_target
from sterna.toolchain.doctor import Tool, program, toolchain_report
from sterna.version import __version__
from sterna_runtime import devices, library
from sterna_runtime.private import cache_state
from sterna_runtime.recipe import devices_of, this_machine

#: Devices by kind: their name in prose, and how to get one.
_DEVICES = {
    "opencl": ("OpenCL", "install the GPU's driver with its OpenCL, or pocl-opencl-icd"),
    "cuda": ("CUDA", "install NVIDIA's driver"),
    "metal": ("Metal", "it is a part of macOS"),
}
#: What engines of JavaScript are for.
_ENGINES = {
    "node": "runs and tests WebAssembly bundles here",
    "chromium": "runs and tests bundles for web pages here, those of the target webgpu too",
}
_NEEDED = ("ziglang", "llvmlite")


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Show what is installed here, and what each missing program would give.

    The exit status is 1 if models cannot be compiled or run on this machine.
    """
    tools = [*toolchain_report(), *_engines(), *_optional()]
    runtime, problem = _runtime()
    host = load_target("host")
    cache, no_cache = cache_state()
    good = problem is None and all(tool.found for tool in tools if tool.name in _NEEDED)
    machine = {
        "sterna": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {this_machine()}",
        "host_target": host.description,
        "runtime": runtime,
        "cache": str(cache) if cache is not None else f"not used: {no_cache}",
    }
    if as_json:
        print_json({"ok": good, **machine, "tools": [_json(tool) for tool in tools]})
        return 0 if good else 1
    out = console()
    rows = table("", "")
    rows.show_header = False
    for key, value in machine.items():
        rows.add_row(key.replace("_", " "), escape(str(value) if value is not None else "none"))
    out.print(rows)
    found = table("tool", "version", "what it gives here, or how to get it")
    for tool in tools:
        if tool.found:
            found.add_row(tool.name, tool.version or "yes", escape(tool.gives))
        else:
            found.add_row(tool.name, "[yellow]missing[/]", escape(f"{tool.gives}: {tool.fix}"))
    out.print(found)
    if problem is not None:
        print_errors(problem)
    click.echo("models can be compiled and run here" if good else "models cannot be compiled and run here")
    return 0 if good else 1


def _runtime() -> tuple[str | None, SternaError | None]:
    """The C runtime's version and place, or why there is none."""
    try:
        path = library.find()
        version = library.load().sterna_version().decode()
    except SternaError as problem:
        return None, problem
    return f"{version}, {path.stat().st_size:,} bytes, {path}", None


def _engines() -> list[Tool]:
    """What runs bundles for browsers."""
    return [program(name, each.program(), _ENGINES[name], each.fix) for name, each in ENGINES.items()]


def _optional() -> list[Tool]:
    """Packages that are not part of the toolchain."""
    tools = []
    for frontend in frontends().values():
        for extra in frontend.extras:
            tools.append(Tool(extra.module, extra.is_installed, "", f"reads models of {frontend.title}", extra.install))
        if frontend.runtime is not None:
            gives = f"the reference of `sterna verify` for models of {frontend.title}"
            tools.append(_package(gives, *frontend.runtime.distributions))
    tools += [_device(kind) for kind in devices_of()]
    return [*tools, _package("images as inputs of `sterna run`", "pillow", install='pip install "sterna[image]"')]


def _device(kind: str) -> Tool:
    """What drives a device here, and which."""
    title, fix = _DEVICES[kind]
    gives = f"runs bundles of the targets {kind}... here"
    try:
        return Tool(title, True, devices.describe(kind), gives, fix)
    except SternaError as problem:
        return Tool(title, False, "", f"{gives} ({problem.diagnostics[0].title})", fix)


def _package(gives: str, name: str, *others: str, install: str = "") -> Tool:
    """A distribution, or one of others that bring the same."""
    version = installed_version(name, *others)
    return Tool(name, version is not None, version or "", gives, install or f"pip install {name}")


def _json(tool: Tool) -> dict[str, Any]:
    row = {"name": tool.name, "found": tool.found, "version": tool.version, "gives": tool.gives, "path": tool.path}
    return {**row, **({} if tool.found else {"fix": tool.fix})}
