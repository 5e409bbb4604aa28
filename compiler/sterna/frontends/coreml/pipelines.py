"""The models of a file, and which kinds of them cannot be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sterna.errors import Diagnostic, SternaError, error

PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
_DEEPEST = 16

_SYSTEM = "its weights are a part of Apple's systems, not of the file"
_PRIVATE = "its parameters are in a format that Apple does not describe"
_DICTIONARY = "it takes a dictionary, and inputs of bundles are arrays"
#: Kinds of models that are refused -> why.
REFUSED = {
    "audioFeaturePrint": _SYSTEM,
    "bayesianProbitRegressor": _DICTIONARY,
    "classConfidenceThresholding": _DICTIONARY,
    "customModel": "what it computes is a class of the app, not in the file",
    "dictVectorizer": _DICTIONARY,
    "gazetteer": _PRIVATE,
    "itemSimilarityRecommender": _DICTIONARY,
    "linkedModel": "it names a compiled model in the app, which is not in the file",
    "serializedModel": _PRIVATE,
    "soundAnalysisPreprocessing": _SYSTEM,
    "textClassifier": _PRIVATE,
    "visionFeaturePrint": _SYSTEM,
    "wordEmbedding": _PRIVATE,
    "wordTagger": _PRIVATE,
}
_FIX = "convert the network that it came from, or give the model of the pipeline behind it as a file of its own"


def parts_of(model: Any, depth: int = 0) -> Iterator[Any]:
    """The models of a pipeline, or the model.

    Raises:
        SternaError: E0103.
    """
    kind = model.WhichOneof("Type")
    if kind not in PIPELINES:
        yield model
        return
    if depth > _DEEPEST:
        raise error("E0103", f"models lie more than {_DEEPEST} deep in each other")
    part = getattr(model, kind)
    for each in (part if kind == "pipeline" else part.pipeline).models:
        yield from parts_of(each, depth + 1)


def refusal(kind: str, model: Any, where: str) -> Diagnostic:
    """The problem with a model that cannot be compiled (E0104)."""
    name = f" {model.customModel.className}" if kind == "customModel" else ""
    reason = REFUSED.get(kind, "Sterna does not know this kind of model")
    return Diagnostic("E0104", f"the operator {kind}{name} is not supported (1 node)", (where, reason), _FIX)


def refused(kind: str, model: Any, where: str) -> SternaError:
    return SternaError([refusal(kind, model, where)])
