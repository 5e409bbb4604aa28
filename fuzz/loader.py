"""Bundles through the C loader: graph.json changed by its structure and by its bytes, under a right hash."""

from __future__ import annotations

from native import fuzzer

FUZZER = fuzzer("loader", "mutated bundles through the C loader")
