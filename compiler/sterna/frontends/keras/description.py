"""Facts about a Keras model, without compiling it."""

from __future__ import annotations

from collections import Counter

from sterna.errors import SternaError
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.keras.config import layer_of, network_of
from sterna.frontends.keras.files import load
from sterna.frontends.keras.reader import inputs_of, is_supported, layers_in, problems_of
from sterna.frontends.source import Source


def describe(source: Source) -> Description:
    """The facts of a Keras model, the layers within its models counted.

    Raises:
        SternaError: E0101 or E0103, it is not a model; E0105, it does not say what it takes.
    """
    file = load(source)
    file.close()
    try:
        top = layer_of(file.config, "the model")
        network = network_of(top)
        layers = [layer for layer in layers_in(top) if layer.kind != "InputLayer"]
        inputs = [each.info() for each in inputs_of(top)]
        problems = problems_of(top)
    except SternaError as mistake:
        raise mistake.within(source.name) from None
    counts = Counter(layer.kind for layer in layers)
    supported = {layer.kind: is_supported(layer) for layer in layers}
    names = [name or ref.layer for name, ref in network.outputs] or [
        network.layers[-1].name if network.layers else "output"
    ]
    return Description(
        source.name,
        f"Keras {file.version} ({file.form})",
        {},
        tuple(ModelTensor(each.name, each.dtype, each.declared) for each in inputs),
        tuple(ModelTensor(name, "float32", None) for name in names),
        tuple(OperatorUse(kind, count, "yes" if supported[kind] else "no") for kind, count in counts.most_common()),
        len(layers),
        *file.arrays,
        tuple(problems),
        format="Keras",
        sizes_ready=all(0 not in each.ready for each in inputs),
    )
