"""Which operations, layers and models of Core ML there are, and how each is compiled."""

from __future__ import annotations

from sterna.frontends.coreml.classical import TRANSLATORS
from sterna.frontends.coreml.layers.operators import translators as layers
from sterna.frontends.coreml.mil.operators import MISSING, STRUCTURE
from sterna.frontends.coreml.mil.operators import translators as operations
from sterna.frontends.frontend import Support

#: Layers and models that no translator is there for.
_MISSING_LAYERS = (
    "NonMaximumSuppression", "categoricalDistribution", "convolution3d", "cropResize", "custom", "globalPooling3d",
    "loop", "loopBreak", "loopContinue", "pooling3d", "randomBernoulliDynamic", "randomBernoulliLike",
    "randomBernoulliStatic", "randomNormalDynamic", "randomNormalLike", "randomNormalStatic", "randomUniformDynamic",
    "randomUniformLike", "randomUniformStatic", "sliceBySize",
)  # fmt: skip
_MISSING_MODELS = (
    "audioFeaturePrint", "categoricalMapping", "dictVectorizer",
    "bayesianProbitRegressor", "classConfidenceThresholding", "customModel", "gazetteer",
    "itemSimilarityRecommender", "kNearestNeighborsClassifier", "linkedModel", "nonMaximumSuppression",
    "serializedModel", "soundAnalysisPreprocessing", "textClassifier", "visionFeaturePrint", "wordEmbedding",
    "wordTagger",
)  # fmt: skip


def coverage() -> tuple[Support, ...]:
    """Operations of programs, layers of networks (`layer:`) and other models (`model:`)."""
    known = [(name, "translated") for name in operations()]
    known += [(name, "control flow" if name in ("cond", "while_loop") else "translated") for name in STRUCTURE]
    known += [(f"layer:{name}", "translated") for name in layers()]
    known += [(f"model:{name}", "translated") for name in TRANSLATORS]
    missing = (*MISSING, *(f"layer:{n}" for n in _MISSING_LAYERS), *(f"model:{n}" for n in _MISSING_MODELS))
    known += [(name, "not supported") for name in missing]
    return tuple(Support(name, how) for name, how in sorted(known))
