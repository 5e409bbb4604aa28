"""What records say of where something was measured: the processor or device, and what made its code."""

from __future__ import annotations

import platform
from pathlib import Path

from sterna.emulate.engines import ENGINES
from sterna.options import Options
from sterna.toolchain.compilers import toolchain
from sterna_runtime.devices import describe


def machine(options: Options, on: str = "") -> str:
    """The name of what kernels run on: of a device that is driven from here, as its driver says it; of this processor,
    as the system tells it, and of the engine if they run in one; else as `on` names it: that end alone knows more.

    Args:
        on: as `emulate.devices` has it, "" for this machine.

    Raises:
        SternaError: E0507, the device of the target is not here.
    """
    device = options.target.device
    if on in ENGINES:
        return f"{ENGINES[on].title} on {_processor()}"
    return on or (_processor() if device is None else describe(device.kind))


def maker(options: Options, on: str = "") -> str:
    """What makes kernels' code, for people: a compiler and its version; for a device its driver, which has that of the
    device's name. The arguments and errors are those of `machine`."""
    device = options.target.device
    return toolchain(options.generator, options.compiler) if device is None else "" if on else describe(device.kind)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model", "Hardware")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
