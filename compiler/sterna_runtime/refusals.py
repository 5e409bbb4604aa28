"""What mends an error of the C runtime: what its message advises, else what its code, the devices of the bundle and the
place where it was to run say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sterna_runtime.advice import Advice, Compile, Fix, Option

#: Codes that drivers of devices give.
OF_DEVICES = ("E0502", "E0507", "E0508", "E0511")

_HERE = Advice("compile the model for this machine: ", Option("target", "host"))
_THERE = Advice("compile the model for the processor there: `sterna targets` lists what ", Option("target"), " takes")
_FIXES: dict[str, Fix] = {
    "E0502": "compile the model for smaller sizes, take fewer threads, or let the process have more memory; "
    "`sterna inspect BUNDLE` shows what it needs",
    "E0503": Advice("check the path; `", Compile("MODEL", "DIRECTORY"), "` makes a bundle"),
    "E0504": "compile the model again",
    "E0505": "copy the bundle again, or compile the model again",
    "E0506": "compile the model again with this version of sterna, or install the version that made the bundle",
    "E0507": _HERE,
    "E0508": "compile the model again",
}
_REFUSED = "the driver refuses kernels that Sterna wrote: please report it with the model and this message; meanwhile "
#: How bundles for pages are run here.
_IN_CHROMIUM = "sterna run --on chromium"

#: How the runtimes refuse a bundle because nothing there drives its device.
_NOT_THERE = ("graph.json: needs the device ", "graph.json: compiled for ")
#: How messages of the libraries that drive devices begin, and how what they advise does.
_OF_DRIVER = re.compile(r"(?:CUDA|OpenCL|Metal)\b")
_ADVICE = re.compile(
    r": ((?:change|close|compile|if the device was lost|install|load|restart|start|take|unload|update)\b.*)\Z",
    re.DOTALL,
)
_TARGETS = re.compile(r"-{2}target ([\w-]+)(?: or ([\w-]+))?")


@dataclass(frozen=True)
class Place:
    """Where bundles are loaded that are not loaded into this process.

    Args:
        drives: the kinds of devices that are driven there; None: only the place itself knows.
        devices: what to do about a bundle for others, beside compiling the model as `processor` says.
        processor: how to compile a model that runs there without a device.
    """

    drives: tuple[str, ...] | None
    devices: Fix
    processor: Fix = _THERE


def advised(code: str, said: str, kinds: tuple[str, ...], place: Place | None = None) -> tuple[str, Fix | None]:
    """What is wrong, and what mends it.

    Args:
        said: the runtime's message.
        kinds: of the devices that the bundle needs.
        place: where it was to be loaded; None: in this process.
    """
    host = _HERE if place is None else place.processor
    if code not in OF_DEVICES or not kinds:
        return said, host if code == "E0507" else _FIXES.get(code)
    if code == "E0507" and said.startswith(_NOT_THERE):
        title, fix = not_driven(kinds, place)
        return title or said.partition("; on the server ")[0], fix
    if _OF_DRIVER.match(said) is None and kinds != ("webgpu",):
        return said, host if code == "E0507" else _FIXES.get(code)
    found = _ADVICE.search(said)
    if found is not None:
        which = ": `sterna doctor` says which device is taken then" if "_DEVICE" in found[1] and place is None else ""
        return said[: found.start()], Advice(_options(found[1], place), which)
    if code == "E0508":
        return said, Advice(_REFUSED, host)
    return said, host if code == "E0507" else _FIXES.get(code)


def not_driven(kinds: tuple[str, ...], place: Place | None = None) -> tuple[str, Fix]:
    """What is wrong with a bundle for devices of kinds that are not driven in a place, where there is more to say than
    that, and what mends it. The arguments are those of `advised`."""
    host = _HERE if place is None else place.processor
    if "webgpu" in kinds:
        title = "the bundle is for web pages: its kernels run on WebGPU"
        beside = "` runs it, and `sterna serve` beside a bundle for browsers; or "
        return title, Advice("`", _IN_CHROMIUM, beside, host)
    if place is not None:
        return "", Advice(place.devices, "; or ", host)
    if "metal" in kinds:
        return "", Advice("run it on macOS or iOS, which have Metal; or ", host)
    return "", Advice("install the version of sterna that made the bundle, which knows such devices; or ", host)


def _options(text: str, place: Place | None) -> Fix:
    """Advice of the command line as that of every surface; elsewhere the target `host` is another one."""
    parts: list[str | Option] = []
    end = 0
    for found in _TARGETS.finditer(text):
        parts += [text[end : found.start()]]
        for n, name in enumerate(filter(None, found.groups())):
            parts += [" or "] * n
            parts += [Option("target", name)] if place is None or name != "host" else [Option("target"), " of its CPU"]
        end = found.end()
    return Advice(*parts, text[end:])
