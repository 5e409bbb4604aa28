"""Sterna: trained models, compiled ahead of time and packaged.

    import sterna
    bundle = sterna.compile("mobilenet.onnx")
    outputs = bundle.run({"image": x})

Only what is used is imported: running a bundle does not load the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sterna.errors import Diagnostic, SternaError
from sterna.version import __version__

if TYPE_CHECKING:
    from sterna.api import compile, compile_to
    from sterna.runtime import Bundle, NodeTime, TensorSpec, load

__all__ = [
    "Bundle",
    "Diagnostic",
    "NodeTime",
    "SternaError",
    "TensorSpec",
    "__version__",
    "compile",
    "compile_to",
    "load",
]

_HOMES = {
    "compile": "sterna.api",
    "compile_to": "sterna.api",
    "Bundle": "sterna.runtime",
    "NodeTime": "sterna.runtime",
    "TensorSpec": "sterna.runtime",
    "load": "sterna.runtime",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sterna' has no attribute {name!r}")
