"""What OpenCV, which reads Caffe's files up to its version 4, makes of a model, for `sterna verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from sterna.frontends.caffe.reader import files_of, network_in
from sterna.frontends.runtimes import cannot_run
from sterna.frontends.source import Source
from sterna.ir.graph import Array


def runner(source: Source) -> Callable[[Mapping[str, Array]], dict[str, Array]] | None:
    """From inputs to outputs by name; None where an output is one of several of a layer: OpenCV has no name for it.

    Raises:
        SternaError: E0009, OpenCV cannot read the network.
    """
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
    except Exception as problem:  # its errors have no common type
        raise cannot_run("opencv", problem) from None
    # Some versions of OpenCV call a layer as it is called, some as its blob.
    called = set(net.getLayerNames())
    ends = {name: name if name in called else layer for name, layer in ends.items()}

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            for name, array in inputs.items():
                net.setInput(np.ascontiguousarray(array, np.float32), name)
            results = net.forward(list(ends.values()))
        except Exception as problem:  # layers that OpenCV does not have are missed as late as here
            raise cannot_run("opencv", problem) from None
        return {name: np.asarray(each) for name, each in zip(ends, results, strict=True)}

    return run
