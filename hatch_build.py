"""Build hook: compiles the C runtime into the wheel with ziglang, so that installing needs no compiler on the machine.

The wheel holds no Python extension: it is `py3-none-<platform>`, one for all Python versions. STERNA_BUILD_PLATFORM (a
wheel's platform tag, such as manylinux2014_aarch64) builds for another machine than this one.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _module(root: Path, name: str) -> ModuleType:
    """A module below compiler without the package around it: its dependencies are not installed here."""
    path = root / "compiler" / name
    spec = importlib.util.spec_from_file_location(f"sterna_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _system_and_machine() -> tuple[str, str]:
    """What the wheel is for, as `platform` names it."""
    tag = os.environ.get("STERNA_BUILD_PLATFORM", "")
    for pattern, system in (
        (r"(?:many|musl)?linux\w*?_", "Linux"),
        (r"macosx_\d+_\d+_", "Darwin"),
        (r"win_?", "Windows"),
    ):
        found = re.fullmatch(pattern + r"(x86_64|aarch64|arm64|amd64|armv7l|riscv64)", tag)
        if found:
            return system, found[1]
    if tag:
        raise RuntimeError(f"STERNA_BUILD_PLATFORM={tag} is not a platform tag of a supported system")
    # cibuildwheel cross-compiles on macOS in this way.
    if platform.system() == "Darwin" and "arm64" in os.environ.get("ARCHFLAGS", ""):
        return "Darwin", "arm64"
    return platform.system(), platform.machine()


def _platform_tag(system: str, machine: str) -> str:
    """The tag for what the recipe builds; it must say the same oldest system as recipe.zig_target."""
    machine = machine.lower()
    if system == "Linux":
        return (
            f"manylinux_2_27_{machine}" if machine == "riscv64" else f"manylinux_2_17_{machine}.manylinux2014_{machine}"
        )
    if system == "Darwin":
        return f"macosx_11_0_{'arm64' if machine in ('arm64', 'aarch64') else 'x86_64'}"
    if system == "Windows":
        return "win_arm64" if machine in ("arm64", "aarch64") else "win_amd64"
    return re.sub(r"[^a-z0-9]", "_", sysconfig.get_platform().lower())


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs when a wheel is built, not for the sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install runs from the checkout, where the runtime is built when it is first needed.
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        recipe = _module(root, "sterna_runtime/recipe.py")
        system, machine = _system_and_machine()
        # Not in the checkout: a library left there would hide later changes of the sources.
        self._scratch = tempfile.TemporaryDirectory()
        library = Path(self._scratch.name) / recipe.library_name(system)
        target = recipe.zig_target(system, machine)
        command = recipe.compile_command(root / "runtime_c", library, target)
        self.app.display_info(f"compiling the C runtime for {target}")
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._scratch.name)
        if result.returncode != 0:
            sys.stderr.write(result.stderr)
            raise RuntimeError(f"ziglang could not compile the C runtime for {target}")
        build_data["force_include"][str(library)] = f"sterna_runtime/_lib/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag(system, machine)}"
        bill = Path(self._scratch.name) / "sterna.cdx.json"
        bill.write_text(self._bill(root, library), encoding="utf-8")
        build_data["sbom_files"].append(str(bill))  # into .dist-info/sboms, as PEP 770 has it

    def _bill(self, root: Path, library: Path) -> str:
        """The software bill of materials: what the wheel holds, and what it needs."""
        cyclonedx = _module(root, "sterna/bundle/cyclonedx.py")
        resources = {name: root / name for name in cyclonedx.VENDORED}
        core = self.metadata.core
        bill = cyclonedx.wheel_document(self.metadata.version, resources, [library], core.dependencies)
        return str(cyclonedx.text(bill))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
