"""Core ML as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

import re

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Extra, Frontend, ReadOptions, Support
from sterna.frontends.source import Source
from sterna.ir.graph import Graph

#: A small version, then a message of some length that begins with its first field, a message too: an input. An ONNX
#: model has its producer's name in the place of that message, and no name begins with a line feed.
_MODEL = re.compile(rb"\x08[\x01-\x3f]\x12(?:[\x80-\xff]{0,4}[\x00-\x7f])\x0a", re.DOTALL)


class CoremlFrontend(Frontend):
    """Models of Core ML: a file, a package as a folder, or a package in a zip archive."""

    name = "coreml"
    title = "Core ML"
    suffixes = (".mlmodel", ".mlpackage")
    named_classes = True
    takes = frozenset(("signature",))
    extras = (Extra("coremltools", 'pip install "sterna[coreml]"'),)

    def detect(self, source: Source) -> Confidence:
        """A file begins with its version, a varint of field 1, and its description, field 2."""
        from sterna.frontends.coreml.package import is_package

        if source.is_folder or source.start.startswith(b"PK\x03\x04"):
            if is_package(source.names):
                return Confidence.CERTAIN
            return Confidence.NAMED if source.suffix in self.suffixes else Confidence.NO
        if _MODEL.match(source.start):
            return Confidence.CERTAIN if source.suffix in self.suffixes else Confidence.LIKELY
        return Confidence.NAMED if source.suffix in self.suffixes else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.coreml.reader import read

        return read(source, options.sizes, options.dims, options.signature)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.coreml.description import describe

        return describe(source, options.signature)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.coreml.coverage import coverage

        return coverage()


FRONTENDS = (CoremlFrontend(),)
