"""Build hook of `sterna-runtime`: takes the package from the checkout around this folder, or from the sdist, and
compiles the C runtime into the wheel with ziglang. STERNA_BUILD_PLATFORM, a wheel's platform tag, builds for another
machine.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _parts(root: Path) -> tuple[Path, Path]:
    """The Python package and the C runtime: in an sdist beside this file, in a checkout one folder up."""
    if (root / "sterna_runtime").is_dir():
        return root / "sterna_runtime", root / "runtime_c"
    return root.parent / "compiler" / "sterna_runtime", root.parent / "runtime_c"


def _recipe(package: Path) -> ModuleType:
    """The module without its package, whose dependencies are not installed here."""
    spec = importlib.util.spec_from_file_location("sterna_recipe", package / "recipe.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"cannot load {package / 'recipe.py'}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels and for sdists."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        package, sources = _parts(Path(self.root))
        included = build_data["force_include"]
        if version == "editable":
            raise RuntimeError("install the repository itself as editable: it has both packages")
        if package.parent != Path(self.root):  # in an sdist hatchling finds it
            included[str(package)] = "sterna_runtime"
        if self.target_name == "sdist":
            for part in ("devices", "include", "port", "src"):
                included[str(sources / part)] = f"runtime_c/{part}"
            return
        recipe = _recipe(package)
        made_for = recipe.platform_of_build()
        self._scratch = tempfile.TemporaryDirectory()
        self.app.display_info(f"compiling the C runtime for {made_for.target}")
        for kind in ("", *recipe.devices_of(made_for.system)):
            library = recipe.compile_for(made_for, sources, Path(self._scratch.name), kind)
            included[str(library)] = f"sterna_runtime/_lib/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{made_for.tag}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
