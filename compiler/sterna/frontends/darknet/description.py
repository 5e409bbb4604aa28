"""Facts about a DarkNet network, without compiling it."""

from __future__ import annotations

from collections import Counter

from sterna.errors import SternaError
from sterna.frontends.darknet.layers import translator_of
from sterna.frontends.darknet.reader import files_of, input_of, name_of, outputs_of, problems_of, sections_of
from sterna.frontends.darknet.weights import Weights
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.source import Source


def describe(source: Source) -> Description:
    """The facts of a network.

    Raises:
        SternaError: E0101 or E0103.
    """
    config, weights = files_of(source)
    try:
        net, layers = sections_of(config)
        info, numbers = input_of(net), Weights(weights).left // 4
    except SternaError as mistake:
        raise mistake.within(config.name) from None
    counts = Counter(section.kind for section in layers)
    return Description(
        config.name,
        "",
        {},
        (ModelTensor(info.name, info.dtype, info.declared),),
        tuple(ModelTensor(name_of(s), "float32", None) for s in outputs_of(layers)),
        tuple(OperatorUse(k, n, "yes" if translator_of(k) is not None else "no") for k, n in counts.most_common()),
        len(layers),
        numbers,
        4 * numbers,
        tuple(problems_of(layers)),
        format="DarkNet",
        sizes_ready=True,
    )
