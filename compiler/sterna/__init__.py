"""Sterna: trained models, compiled ahead of time and packaged.

    import sterna
    bundle = sterna.compile("mobilenet.onnx")
    outputs = bundle.run({"image": x})

What runs bundles is imported at once, so that loading the first one does not wait for it; the compiler when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sterna.errors import Diagnostic, SternaError
from sterna.version import __version__
from sterna_runtime import Bundle, NodeTime, TensorSpec, load

if TYPE_CHECKING:
    from sterna import frontends
    from sterna.api import compile, compile_to
    from sterna.tuning.tune import tune

__all__ = [
    "Bundle",
    "Diagnostic",
    "NodeTime",
    "SternaError",
    "TensorSpec",
    "__version__",
    "compile",
    "compile_to",
    "frontends",
    "load",
    "tune",
]


def _page(bundle: Bundle) -> str:
    """A report, which notebooks show of a bundle."""
    page: str = import_module("sterna.report.notebook").page_of(bundle)
    return page


Bundle.page = _page


def __getattr__(name: str) -> Any:
    if name in ("compile", "compile_to"):
        return getattr(import_module("sterna.api"), name)
    if name == "tune":
        return import_module("sterna.tuning.tune").tune
    if name == "frontends":
        return import_module("sterna.frontends")
    from difflib import get_close_matches  # noqa: PLC0415 (only for a mistake)

    close = get_close_matches(name, __all__, 1) if not name.startswith("__") else []
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"module 'sterna' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """The interface, and nothing of what it is made of."""
    return sorted(__all__)
