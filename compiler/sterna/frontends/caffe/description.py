"""Facts about a Caffe network, without compiling it."""

from __future__ import annotations

from collections import Counter

from sterna.errors import SternaError
from sterna.frontends.caffe.blobs import read_blobs
from sterna.frontends.caffe.layers import translator_of
from sterna.frontends.caffe.reader import files_of, inputs_of, network_in, problems_of
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.source import Source


def describe(source: Source) -> Description:
    """The facts of a network.

    Raises:
        SternaError: E0101, E0103 or E0105.
    """
    text, weights = files_of(source)
    try:
        network, blobs = network_in(text), read_blobs(weights)
        inputs = inputs_of(network)
    except SternaError as mistake:
        raise mistake.within(text.name) from None
    counts = Counter(layer.kind for layer in network.layers)
    numbers = sum(blob.size for layer in blobs.values() for blob in layer)
    return Description(
        text.name,
        "",
        {},
        tuple(ModelTensor(info.name, info.dtype, info.declared) for info in inputs),
        tuple(ModelTensor(name, "float32", None) for name in network.outputs),
        tuple(OperatorUse(k, n, "yes" if translator_of(k) is not None else "no") for k, n in counts.most_common()),
        len(network.layers),
        numbers,
        4 * numbers,
        tuple(problems_of(network)),
        format="Caffe",
        sizes_ready=True,
    )
