"""MXNet as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Support
from sterna.frontends.source import Source
from sterna.ir.graph import Graph

_SYMBOL = "-symbol.json"
_WEIGHTS = b"\x12\x01" + bytes(14)


class MxnetFrontend(Frontend):
    """MXNet models: a symbol (`-symbol.json`) with its weights (`.params`) beside it."""

    name = "mxnet"
    title = "MXNet"
    takes = frozenset({"weights_file"})
    suffixes = (".json", ".params")
    named_classes = True

    def detect(self, source: Source) -> Confidence:
        """By the first node of a symbol, or the magic number of the weights."""
        if source.is_folder:
            return Confidence.LIKELY if any(name.endswith(_SYMBOL) for name in source.names) else Confidence.NO
        if source.path is None:
            return Confidence.NO
        if source.start.startswith(_WEIGHTS):
            return Confidence.CERTAIN
        start = b"".join(source.start.split())
        # Nodes come first, or last but for an ordered writer; what tells them from other graphs is `"op": "null"`.
        if start.startswith(b"{") and b'"op":' in start and (b'"nodes":[' in start or b'"arg_nodes":[' in start):
            return Confidence.CERTAIN if b'"op":"null"' in start else Confidence.POSSIBLE
        return Confidence.NAMED if source.name.endswith(_SYMBOL) else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.mxnet.reader import read

        return read(source, options.sizes, options.dims)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.mxnet.description import describe

        return describe(source)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.mxnet.coverage import coverage

        return coverage()


FRONTENDS = (MxnetFrontend(),)
