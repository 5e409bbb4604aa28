"""Transformers of open sizes on a device, against kernels of the CPU: one bundle for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

import sterna
from support.compiling import check
from support.open_networks import decoder, encoder

NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, tuple[int, int]]]] = {
    "encoder": (lambda: encoder(width=40, layers=1), {"seq": (1, 64), "batch": (1, 3)}),
    "decoder": (lambda: decoder(layers=1, width=32), {"past": (0, 40), "step": (1, 40)}),
}
#: What their sizes are in turn: beside and at multiples of a block.
SIZES = {
    "encoder": ((1, 1), (31, 2), (32, 1), (33, 3), (64, 1)),
    "decoder": ((0, 1), (31, 1), (0, 33), (40, 40)),
}


def feeds(network: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Inputs of such sizes; of a mask every first token is there."""
    random, found = np.random.default_rng(sum(sizes.values())), dict[str, np.ndarray]()
    for value in network.graph.input:
        tensor = value.type.tensor_type
        shape = [sizes.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        if tensor.elem_type == onnx.TensorProto.FLOAT:
            found[value.name] = random.standard_normal(shape).astype(np.float32)
        else:
            found[value.name] = random.integers(0, 2, shape)
            found[value.name][:, :1] = 1
    return found


def agrees(target: str, name: str) -> None:
    """Whatever the sizes are."""
    make, dims = NETWORKS[name]
    network = make()
    with (
        sterna.compile(network, target, dims=dims, device_for={"*": target}) as there,
        sterna.compile(network, dims=dims) as here,
    ):
        for sizes in SIZES[name]:
            given = feeds(network, dict(zip(dims, sizes, strict=True)))
            check(there.run(given), here.run(given), 1e-4)
