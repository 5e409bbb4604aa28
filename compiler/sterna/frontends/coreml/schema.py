"""The messages of Core ML files: the generated protobuf modules of coremltools, without the rest of that package.

They are imported by their place under a name of our own: `import coremltools` brings converters, sympy and a lot more,
and takes seconds. They need nothing but protobuf, of any version.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from sterna.errors import error

_PACKAGE = "sterna.frontends.coreml._messages"
INSTALL = 'pip install "sterna[coreml]"'


@cache
def messages() -> Any:
    """The module of the message `Model`.

    Raises:
        SternaError: E0004, coremltools is not installed, or lacks them.
    """
    found = find_spec("coremltools")
    places = [Path(place) / "proto" for place in (found.submodule_search_locations or ())] if found else []
    if not places:
        raise error("E0004", "Core ML is read with coremltools, which is not installed", fix=INSTALL)
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(place) for place in places]
    sys.modules[_PACKAGE] = package
    try:
        return import_module(f"{_PACKAGE}.Model_pb2")
    except Exception as problem:  # whatever its modules raise with this protobuf
        text = f"{type(problem).__name__}: {problem}"
        raise error("E0004", "the installed coremltools cannot be used", text, fix=INSTALL) from None


def program_messages() -> Any:
    """The module of the messages of programs."""
    messages()
    return import_module(f"{_PACKAGE}.MIL_pb2")
