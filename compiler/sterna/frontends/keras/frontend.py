"""Keras as a front end, with layers models of TensorFlow.js. What reads models is imported when there is one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.runtimes import JAVASCRIPT
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph

_HDF5 = b"\x89HDF\r\n\x1a\n"
#: What a layers model of TensorFlow.js begins with, one of each.
_TOPOLOGY, _LAYERS = b'"modelTopology"', (b'"model_config"', b'"layers-model"', b'"class_name"')


#: What the JSON of `to_json` begins with.
_ARCHITECTURE = re.compile(rb'\s*\{\s*("module":\s*"keras[\w.]*",\s*)?"class_name":\s*"(Functional|Sequential|Model)"')


class KerasFrontend(Frontend):
    """Keras models: `.keras`, HDF5, JSON with weights, `model.json` of TensorFlow.js, and models in memory."""

    name = "keras"
    title = "Keras"
    suffixes = (".keras", ".h5", ".hdf5")
    named_classes = True
    takes = frozenset({"weights_file"})
    runtime = Runtime("keras", ("keras",))
    objects = "a keras.Model"

    def detect(self, source: Source) -> Confidence:
        """By what an archive holds, by the first bytes of HDF5, by the members of a JSON text."""
        if source.path is None:
            keras = sys.modules.get("keras")
            known = keras is not None and isinstance(source.model, getattr(keras, "Model", ()))
            return Confidence.CERTAIN if known else Confidence.NO
        if {"config.json", "model.weights.h5"} <= set(source.names) and not source.is_folder:
            return Confidence.CERTAIN
        if source.start.startswith(_HDF5):
            return Confidence.LIKELY
        start = source.start
        if start.lstrip()[:1] == b"{" and _TOPOLOGY in start and b'"graph-model"' not in start:
            return Confidence.LIKELY if any(word in start for word in _LAYERS) else Confidence.NO
        if _ARCHITECTURE.match(start):
            return Confidence.LIKELY
        return Confidence.NAMED if source.suffix in self.suffixes and not source.is_folder else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.keras.reader import read

        return read(source, options.sizes, options.dims)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.keras.description import describe

        return describe(source)

    def without_reference(self, source: Source) -> str:
        start = source.start
        return JAVASCRIPT if start.lstrip()[:1] == b"{" and _TOPOLOGY in start else ""

    def reference(self, source: Source, options: ReadOptions) -> Reference | None:
        from sterna.frontends.keras.reference import runner

        run = runner(source)
        if run is None:
            return None

        def results(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return run(inputs)

        return Reference(results)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.keras.layers import own_translators
        from sterna.frontends.keras.layers.operations import known_operations

        layers = [Support(name, "translated") for name in sorted(own_translators()) if name != "Lambda"]
        operations = [Support(f"keras.ops.{name}", "translated") for name in known_operations()]
        return (*layers, *operations)


FRONTENDS = (KerasFrontend(),)
