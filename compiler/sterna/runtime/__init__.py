"""Running bundles from Python, through the same C library that everyone else uses."""

from sterna.runtime.bundle import Bundle
from sterna.runtime.inputs import TensorSpec
from sterna.runtime.library import cpu_has, hash64
from sterna.runtime.profile import NodeTime
from sterna.runtime.strings import load

__all__ = ["Bundle", "NodeTime", "TensorSpec", "cpu_has", "hash64", "load"]
