"""XGBoost and LightGBM as front ends. What reads models is imported when there is one to read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph


class _BoostedFrontend(Frontend):
    """What the two have in common: files that become a graph of trees."""

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.boosted.reader import read

        return read(source.file(), self.name, options.sizes, options.dims)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.boosted.description import describe

        return describe(source.file(), self.name)

    def reference(self, source: Source, options: ReadOptions) -> Reference:
        def run(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return self.run(source, inputs)

        return Reference(run)

    @abstractmethod
    def run(self, source: Source, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the library predicts."""


class XgboostFrontend(_BoostedFrontend):
    """Models of XGBoost: JSON and UBJSON."""

    name = "xgboost"
    title = "XGBoost"
    suffixes = (".json", ".ubj")
    runtime = Runtime("xgboost", ("xgboost", "xgboost-cpu"))

    def detect(self, source: Source) -> Confidence:
        """Both forms begin with a brace and name the learner soon."""
        known = source.start[:1] == b"{" and b"learner" in source.start
        return Confidence.LIKELY if known else Confidence.NO

    def run(self, source: Source, inputs: Mapping[str, Array]) -> dict[str, Array]:
        from sterna.frontends.boosted.reference import run_xgboost

        return run_xgboost(source.file(), inputs)


class LightgbmFrontend(_BoostedFrontend):
    """Models of LightGBM: text."""

    name = "lightgbm"
    title = "LightGBM"
    suffixes = (".txt",)
    runtime = Runtime("lightgbm", ("lightgbm",))

    def detect(self, source: Source) -> Confidence:
        """By the first two lines."""
        return Confidence.CERTAIN if source.start.startswith(b"tree\nversion=") else Confidence.NO

    def run(self, source: Source, inputs: Mapping[str, Array]) -> dict[str, Array]:
        from sterna.frontends.boosted.reference import run_lightgbm

        return run_lightgbm(source.file(), inputs)


FRONTENDS = (XgboostFrontend(), LightgbmFrontend())
