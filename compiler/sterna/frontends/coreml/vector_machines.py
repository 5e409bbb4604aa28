"""Support vector machines of Core ML, which holds what libsvm does: decisions are sums over the vectors less `rho`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Array, Value

_DOMAIN = "ai.onnx.ml"
_LEAST = 1e-7  # probability of a class of a pair
_MOST = 1 << 26  # numbers of all support vectors


def _kernel(p: Any) -> dict[str, Any]:
    """ONNX's settings: gamma, what is added, the degree."""
    kind = p.kernel.WhichOneof("kernel")
    if kind == "rbfKernel":
        return {"kernel_type": "RBF", "kernel_params": [p.kernel.rbfKernel.gamma, 0.0, 0.0]}
    if kind in ("polyKernel", "sigmoidKernel"):
        own = getattr(p.kernel, kind)
        degree = float(own.degree) if kind == "polyKernel" else 0.0
        return {"kernel_type": kind[:-6].upper(), "kernel_params": [own.gamma, own.c, degree]}
    if kind != "linearKernel":
        raise error("E0103", "a support vector machine without a kernel")
    return {"kernel_type": "LINEAR"}


def _vectors(p: Any, features: int) -> Array:
    """(vectors, features). Sparse ones count their features from 1."""
    which = p.WhichOneof("supportVectors")
    held = list(getattr(p, which).vectors) if which else []
    if not held or len(held) * features > _MOST:
        raise error("E0109", f"{len(held)} support vectors of {features} features")
    made = np.zeros((len(held), features), np.float32)
    for row, vector in zip(made, held, strict=True):
        if which == "denseSupportVectors":
            if len(vector.values) != features:
                raise error("E0109", f"a support vector has {len(vector.values)} features, not {features}")
            row[:] = vector.values
            continue
        for node in vector.nodes:
            if not 1 <= node.index <= features:
                raise error("E0109", f"a support vector has a feature {node.index} of {features}")
            row[node.index - 1] = node.value
    return made


def regressed(t: Emitter, x: Value, p: Any) -> Value:
    """(1, 1): the machine's value of a row."""
    vectors = _vectors(p, t.extent(x, 1))
    return standard(
        t, "SVMRegressor", x, domain=_DOMAIN, coefficients=list(p.coefficients.alpha), rho=[-p.rho],
        support_vectors=vectors.ravel().tolist(), n_supports=len(vectors), **_kernel(p),
    )  # fmt: skip


def odds_of(t: Emitter, x: Value, p: Any, classes: int) -> Value:
    """(1, classes): probabilities of the classes; of a machine without them 1 for the class with most votes."""
    vectors, sizes = _vectors(p, t.extent(x, 1)), list(p.numberOfSupportVectorsPerClass)
    if sum(sizes) != len(vectors) or len(sizes) != classes or min(sizes) < 0 or len(p.probA) != len(p.probB):
        raise error("E0109", f"{len(vectors)} support vectors for classes of {sizes[:8]}")
    # Two classes have the probability of their one pair; more are coupled.
    coupled = classes > 2 and bool(p.probA)
    places, found = standard_results(
        t, "SVMClassifier", x, results=2, domain=_DOMAIN, classlabels_ints=list(range(classes)),
        coefficients=[alpha for row in p.coefficients for alpha in row.alpha], rho=[-value for value in p.rho],
        support_vectors=vectors.ravel().tolist(), vectors_per_class=sizes, prob_a=list(p.probA) if coupled else None,
        prob_b=list(p.probB) if coupled else None, **_kernel(p),
    )  # fmt: skip
    if coupled:
        return found
    if p.probA:
        decision = t.op("slice", found, starts=(0, 1), sizes=(1, 1), steps=(1, 1))
        slope, shift = (t.scalar(-float(held[0]), "float32") for held in (p.probA, p.probB))
        first = t.op("sigmoid", t.op("add", t.op("mul", decision, slope), shift))
        first = t.op("clip", first, min=_LEAST, max=1 - _LEAST)
        return t.op("concat", first, t.op("sub", t.scalar(1.0, "float32"), first), axis=1)
    return t.cast(t.op("equal", t.reshape(places, (1, 1)), t.counting(classes)), "float32")
