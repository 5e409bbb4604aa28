"""Runs compiled models, without the compiler.

    import sterna_runtime
    bundle = sterna_runtime.load("mobilenet")
    outputs = bundle.run({"image": x})

It is the part of Sterna that a device needs: the wheel `sterna-runtime` holds nothing else, and needs NumPy alone. The
compiler's package `sterna` brings it along and imports from it: `sterna.load` is this `load`, and `sterna.Bundle` this
`Bundle`.
"""

from sterna_runtime.bundle import Bundle
from sterna_runtime.errors import Diagnostic, SternaError
from sterna_runtime.inputs import TensorSpec
from sterna_runtime.library import cpu_has, hash64
from sterna_runtime.profile import NodeTime
from sterna_runtime.strings import load
from sterna_runtime.version import __version__

__all__ = [
    "Bundle",
    "Diagnostic",
    "NodeTime",
    "SternaError",
    "TensorSpec",
    "__version__",
    "cpu_has",
    "hash64",
    "load",
]
