"""What OpenCV, which reads Caffe's files up to its version 4, makes of a model, for `sterna verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from sterna.frontends.caffe.reader import files_of, network_in
from sterna.frontends.source import Source
from sterna.ir.graph import Array


def runner(source: Source) -> Callable[[Mapping[str, Array]], dict[str, Array]] | None:
    """From inputs to outputs by name; None where OpenCV cannot read the network, or an output is one of several of a
    layer, which it does not tell apart by name."""
    text, weights = files_of(source)
    network = network_in(text)
    makers: dict[str, str] = {}
    for layer in network.layers:
        makers |= dict.fromkeys(layer.tops, layer.name if len(layer.tops) == 1 else "")
    ends = {name: makers.get(name, "") for name in network.outputs}
    if not all(ends.values()):
        return None
    try:
        cv2: Any = import_module("cv2")
        net = cv2.dnn.readNetFromCaffe(str(text), str(weights))
        for switch in ("enableFusion", "enableWinograd"):
            getattr(net, switch)(False)
    except Exception:  # whatever it does: then there is no reference
        return None

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        for name, array in inputs.items():
            net.setInput(np.ascontiguousarray(array, np.float32), name)
        results = net.forward(list(ends.values()))
        return {name: np.asarray(each) for name, each in zip(ends, results, strict=True)}

    return run
