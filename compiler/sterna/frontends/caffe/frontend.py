"""Caffe as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

import re

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.pairs import holds_pair
from sterna.frontends.source import Source
from sterna.ir.graph import Graph

#: A layer, or an input, at the beginning of a line of a description.
_LAYER = re.compile(rb"^\s*(?:layers?\s*\{|input\s*:|input_dim\s*:)", re.MULTILINE)


class CaffeFrontend(Frontend):
    """Caffe networks: a description and its weights, of which either names the other."""

    name = "caffe"
    title = "Caffe"
    takes = frozenset({"weights_file"})
    suffixes = (".prototxt", ".caffemodel")
    named_classes = True
    runtime = Runtime("opencv", ("opencv-python-headless", "opencv-python", "opencv-contrib-python"))

    def detect(self, source: Source) -> Confidence:
        """By layers in the description; weights say nothing, but that a description lies beside them."""
        if source.path is None:
            return Confidence.NO
        if source.is_folder:
            return Confidence.LIKELY if holds_pair(source, ".prototxt", ".caffemodel") else Confidence.NO
        if b"\0" not in source.start and _LAYER.search(source.start):
            return Confidence.LIKELY
        if source.suffix == ".caffemodel" and source.beside(".prototxt") is not None:
            return Confidence.POSSIBLE
        return Confidence.NAMED if source.suffix in self.suffixes else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.caffe.reader import read

        return read(source, options.sizes, options.dims)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.caffe.description import describe

        return describe(source)

    def reference(self, source: Source, options: ReadOptions) -> Reference | None:
        from sterna.frontends.caffe.reference import runner

        run = runner(source)
        return None if run is None else Reference(lambda inputs, _tensors: run(inputs))

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.caffe.layers import LAYERS

        return tuple(Support(name, "translated") for name in sorted(LAYERS))


FRONTENDS = (CaffeFrontend(),)
