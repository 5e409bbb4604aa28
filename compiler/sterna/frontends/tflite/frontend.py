"""TensorFlow Lite as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph

_MAGIC = b"TFL3"  # the file identifier of its flatbuffers


class TfliteFrontend(Frontend):
    """TensorFlow Lite models: a file."""

    name = "tflite"
    title = "TensorFlow Lite"
    suffixes = (".tflite",)
    takes = frozenset(("signature",))
    runtime = Runtime("litert", ("ai-edge-litert",))

    def detect(self, source: Source) -> Confidence:
        """By the file identifier of its flatbuffer."""
        if source.start[4:8] == _MAGIC:
            return Confidence.CERTAIN
        return Confidence.NAMED if source.suffix in self.suffixes and not source.is_folder else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.tflite.reader import read

        return read(source.file(), options.sizes, options.dims, options.signature)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.tflite.description import describe

        return describe(source.file(), options.signature)

    def reference(self, source: Source, options: ReadOptions) -> Reference:
        from sterna.frontends.tflite.reference import check_litert, run_litert

        check_litert(source.file())

        def run(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return run_litert(source.file(), inputs, tensors, options.signature)

        return Reference(run)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.tflite.coverage import coverage

        return coverage()


FRONTENDS = (TfliteFrontend(),)
