"""Sterna: trained models, compiled ahead of time and packaged.

    import sterna
    bundle = sterna.compile("mobilenet.onnx")
    outputs = bundle.run({"image": x})

Only what is used is imported: running a bundle does not load the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.errors import Diagnostic, SternaError
from sterna.version import __version__

if TYPE_CHECKING:
    from sterna.api import compile, compile_to
    from sterna.runtime import Bundle, NodeTime, TensorSpec, load

__all__ = ["Bundle", "Diagnostic", "NodeTime", "SternaError", "TensorSpec", "__version__", "compile", "compile_to", "load"]

_HOMES = {"compile": "api", "compile_to": "api", "Bundle": "runtime", "NodeTime": "runtime", "TensorSpec": "runtime", "load": "runtime"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"sterna.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sterna' has no attribute {name!r}")
