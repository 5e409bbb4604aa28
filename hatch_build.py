"""Build hook: compiles the C runtime into the wheel with ziglang, so that installing needs no compiler on the machine.

The wheel holds no Python extension: it is `py3-none-<platform>`, one for all Python versions. STERNA_BUILD_PLATFORM (a
wheel's platform tag, such as manylinux2014_aarch64) builds for another machine than this one.
"""

from __future__ import annotations

import importlib.util
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


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs when a wheel is built, not for the sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install runs from the checkout, where the runtime is built when it is first needed.
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        recipe = _module(root, "sterna_runtime/recipe.py")
        made_for = recipe.platform_of_build()
        # Not in the checkout: a library left there would hide later changes of the sources.
        self._scratch = tempfile.TemporaryDirectory()
        self.app.display_info(f"compiling the C runtime for {made_for.target}")
        library = recipe.compile_for(made_for, root / "runtime_c", Path(self._scratch.name))
        build_data["force_include"][str(library)] = f"sterna_runtime/_lib/{library.name}"
        for kind in recipe.devices_of(made_for.system):
            driver = recipe.compile_for(made_for, root / "runtime_c", Path(self._scratch.name), kind)
            build_data["force_include"][str(driver)] = f"sterna_runtime/_lib/{driver.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{made_for.tag}"
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
