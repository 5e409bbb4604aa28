"""DarkNet as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Support
from sterna.frontends.pairs import holds_pair
from sterna.frontends.source import Source
from sterna.ir.graph import Graph


class DarknetFrontend(Frontend):
    """DarkNet networks: a description and its weights, of which either names the other."""

    name = "darknet"
    title = "DarkNet"
    takes = frozenset({"weights_file"})
    suffixes = (".cfg", ".weights")
    named_classes = True

    def detect(self, source: Source) -> Confidence:
        """By the first section of the description; weights say nothing, but that a description lies beside them."""
        if source.path is None:
            return Confidence.NO
        if source.is_folder:
            return Confidence.LIKELY if holds_pair(source, ".cfg", ".weights") else Confidence.NO
        lines = (line.strip().lower() for line in source.start.splitlines())
        first = next((line for line in lines if line and line[:1] not in b"#;"), b"")
        if first.replace(b" ", b"").startswith((b"[net]", b"[network]")):
            return Confidence.CERTAIN
        if source.suffix == ".weights" and source.beside(".cfg") is not None:
            return Confidence.POSSIBLE
        return Confidence.NAMED if source.suffix in self.suffixes else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.darknet.reader import read

        return read(source, options.sizes, options.dims)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.darknet.description import describe

        return describe(source)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.darknet.layers import LAYERS

        return tuple(Support(f"[{name}]", "translated") for name in sorted(LAYERS))


FRONTENDS = (DarknetFrontend(),)
