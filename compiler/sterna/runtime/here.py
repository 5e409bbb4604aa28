"""Whether a target's kernels run on this machine, as far as that can be said before anything is compiled."""

from __future__ import annotations

from sterna.targets.description import beside, host_system
from sterna.targets.target import Target
from sterna_runtime.library import cpu_has
from sterna_runtime.recipe import this_machine

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def why_not_here(target: Target) -> str | None:
    """Why a bundle for the target cannot be loaded here; None where nothing speaks against it.

    An operating system may still refuse something, such as tiles: loading the bundle says so.
    """
    if target.device is not None:
        return why_not_here(beside(target.device)) if target.device.host else None
    if target.static:
        return "it is for firmware"
    if not target.library:
        return "it gives source code, not a library"
    if target.is_wasm:
        return "it is for browsers and other WebAssembly engines"
    machine = this_machine().lower()
    here = _ARCHITECTURES.get(machine, machine)
    wanted = target.llvm_triple.partition("-")[0]
    if _ARCHITECTURES.get(wanted, wanted) != here:
        return f"it is for {wanted}, this machine is {here}"
    if target.library != (library := host_system(machine)[2]):
        return f"its library is {target.library}; this system loads {library}"
    lacking = [feature for feature in target.cpu_features if cpu_has(feature) is False]
    return f"this processor lacks {', '.join(lacking)}" if lacking else None
