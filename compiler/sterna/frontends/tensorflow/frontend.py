"""TensorFlow as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from pathlib import Path

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.runtimes import JAVASCRIPT
from sterna.frontends.source import Source
from sterna.ir.graph import Graph

_SAVED_MODEL, _FIRST_MODEL = "saved_model.pb", "tensorflowjs_model.pb"
#: The first node of a GraphDef: field 1, a length, then the node's field 1, its name.
_NODE, _NAME = 0x0A, 0x0A


class TensorFlowFrontend(Frontend):
    """SavedModels (a folder, a zip, or the .pb inside), frozen graphs, and TensorFlow.js graph models."""

    name = "tensorflow"
    title = "TensorFlow"
    suffixes = (".pb",)
    named_classes = True
    runtime = Runtime("tensorflow", ("tensorflow", "tensorflow-cpu"))
    takes = frozenset(("signature", "values"))

    def detect(self, source: Source) -> Confidence:
        """By names in a folder or archive, by the field numbers of a GraphDef, or what JSON says of itself."""
        if source.path is None:
            return Confidence.NO
        if source.is_folder or source.names:
            if any(name.rpartition("/")[2] in (_SAVED_MODEL, _FIRST_MODEL) for name in source.names):
                return Confidence.CERTAIN
            return self._of_text(source.path / "model.json") if source.is_folder else Confidence.NO
        if source.start.lstrip()[:1] == b"{":
            return self._of_text(source.path)
        if source.path.name == _SAVED_MODEL or _is_beside_variables(source.path):
            return Confidence.LIKELY
        if _is_graph(source.start):
            return Confidence.LIKELY
        return Confidence.NAMED if source.suffix in self.suffixes else Confidence.NO

    @staticmethod
    def _of_text(path: object) -> Confidence:
        try:
            with Path(str(path)).open("rb") as file:
                text = file.read(1 << 24)
        except OSError:
            return Confidence.NO
        if b'"modelTopology"' not in text:
            return Confidence.NO
        if b'"graph-model"' in text:
            return Confidence.CERTAIN
        return Confidence.LIKELY if b'"node"' in text and b'"model_config"' not in text else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.tensorflow.load import load
        from sterna.frontends.tensorflow.reader import read

        return read(load(source), options)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.tensorflow.describing import describe

        return describe(source, options)

    def without_reference(self, source: Source) -> str:
        path = source.path
        if path is None or any(name.endswith(_SAVED_MODEL) for name in source.names):
            return ""
        file = path / "model.json" if source.is_folder else path
        return JAVASCRIPT if self._of_text(file) is not Confidence.NO else ""

    def reference(self, source: Source, options: ReadOptions) -> Reference | None:
        from sterna.frontends.tensorflow.reference import runner

        run = runner(source, options)
        return None if run is None else Reference(lambda inputs, _tensors: run(inputs))

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.tensorflow.describing import coverage

        return coverage()


def _is_beside_variables(path: Path) -> bool:
    """Whether a file is the graph of a checkpoint of TensorFlow 1: its name says so, and the variables lie there."""
    return path.name.endswith(".meta") and path.with_name(path.name.removesuffix(".meta") + ".index").is_file()


def _is_graph(start: bytes) -> bool:
    """Whether bytes begin with a node that has a name and an operator, as a GraphDef does."""
    if len(start) < 6 or start[0] != _NODE:
        return False
    place = 1
    while place < 6 and start[place] & 128:
        place += 1
    place += 1
    if start[place : place + 1] != bytes([_NAME]) or place + 2 >= len(start) or start[place + 1] > 127:
        return False
    end = place + 2 + start[place + 1]
    return start[end : end + 1] == b"\x12" and start[end + 2 : end + 3].isalpha()


FRONTENDS = (TensorFlowFrontend(),)
