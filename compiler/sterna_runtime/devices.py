"""Devices that nodes of a bundle run on: which it needs, and the libraries that drive them."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
from ctypes import POINTER, c_char, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from sterna_runtime import library
from sterna_runtime.abi import FORMAT_WITH_DEVICES, MESSAGE_BYTES
from sterna_runtime.errors import error
from sterna_runtime.private import cache_directory, make_private
from sterna_runtime.recipe import devices_of
from sterna_runtime.refusals import advised


def needed(directory: str) -> tuple[str, ...]:
    """The kinds of devices that a bundle's nodes run on; none where it has no graph.json that says so."""
    try:
        with open(os.path.join(directory, "graph.json"), "rb") as file:  # noqa: PTH118, PTH123 (every bundle: no Path)
            start = file.read(32)
            opening = re.match(rb'{"sterna":(\d+),', start)
            if opening is None or int(opening[1]) < FORMAT_WITH_DEVICES:
                return ()
            graph = json.loads(start + file.read())
        return tuple(dict.fromkeys(str(device["kind"]) for device in graph.get("devices", ())))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ()  # the C runtime says what is wrong


def drivers(kinds: tuple[str, ...]) -> ctypes.Array[c_void_p]:
    """The tables of the libraries that drive devices of these kinds, as `sterna_options.devices` takes them; a kind
    that there is no library for is left out, and the C runtime refuses the bundle by its name."""
    tables = [getattr(_library(kind), f"sterna_{kind}")() for kind in kinds if kind in devices_of()]
    return (c_void_p * len(tables))(*tables)


def cache() -> bytes | None:
    """The folder for what drivers make of kernels; None where there is no private one."""
    folder = cache_directory()
    if folder is None:
        return None
    place = folder / "devices"
    try:
        make_private(place)
    except OSError:
        return None
    return os.fsencode(place)


def describe(kind: str) -> str:
    """The device of that kind that bundles run on here.

    Raises:
        SternaError: E0507, there is none; E0521 or E0401, there is no library for it.
    """
    text, problem = ctypes.create_string_buffer(MESSAGE_BYTES), library.CError()
    if getattr(_library(kind), f"sterna_{kind}_describe")(text, len(text), problem) != 0:
        title, fix = advised("E0507", problem.message.decode("utf-8", "replace"), (kind,))
        raise error("E0507", title, fix=fix)
    return text.value.decode("utf-8", "replace")


@functools.cache
def _library(kind: str) -> Any:
    path: Path = library.find(kind)
    try:
        found = ctypes.CDLL(str(path))
    except OSError as reason:
        raise error("E0521", f"the library for devices of {kind} cannot be loaded: {reason}", str(path)) from None
    getattr(found, f"sterna_{kind}").restype = c_void_p
    describing = getattr(found, f"sterna_{kind}_describe")
    describing.restype, describing.argtypes = c_int32, (POINTER(c_char), c_size_t, POINTER(library.CError))
    return found
