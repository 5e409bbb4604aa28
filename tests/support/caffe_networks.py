"""Networks of Caffe for tests: descriptions written layer by layer, and their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sterna.frontends.caffe.blobs import _net_parameter

Array = np.ndarray


def drawn(*shape: int, seed: int = 2) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def network(folder: Path, layers: str, blobs: dict[str, list[Array]], sizes: tuple[int, ...]) -> Path:
    dims = " ".join(f"dim: {size}" for size in sizes)
    path = folder / "net.prototxt"
    path.write_text(f'name: "net" # a comment\ninput: "x"\ninput_shape {{ {dims} }}\n{layers}')
    net = _net_parameter()()
    for name, arrays in blobs.items():
        layer = net.layer.add(name=name)
        for array in arrays:
            blob = layer.blobs.add()
            blob.shape.dim.extend(array.shape)
            blob.data.extend(array.reshape(-1).tolist())
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    return path


def layer(kind: str, settings: str = "", bottoms: tuple[str, ...] = ("x",), tops: tuple[str, ...] = ("y",)) -> str:
    ends = "".join(f' bottom: "{b}"' for b in bottoms) + "".join(f' top: "{t}"' for t in tops)
    return f'layer {{ name: "l" type: "{kind}"{ends} {settings} }}\n'
