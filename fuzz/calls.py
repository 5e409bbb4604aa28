"""Calls of the C runtime in any order: load, run, copy, set_dims, bind ...; on graphs with computed sizes."""

from __future__ import annotations

from native import fuzzer

FUZZER = fuzzer("calls", "sequences of calls of the C runtime")
