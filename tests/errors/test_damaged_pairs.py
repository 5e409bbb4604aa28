"""Broken files of MXNet, Caffe, DarkNet, TensorFlow and Keras: a code, where, and what to do, never a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.caffe_networks import drawn, layer
from support.caffe_networks import network as caffe
from support.darknet_networks import network as darknet
from support.graph_defs import GraphWriter, Kind
from support.mxnet_symbols import parameters

Make = Callable[[Path], Path]
CONVOLUTION = layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }")
WEIGHTS = {"arg:w": drawn(4, 3, 3, 3)}
JOINED = "_contrib_quantized_concat"
SECTION = "[convolutional]\nfilters=3\nsize=3\npad=1\nactivation=leaky\n"


def node(op: str, name: str, *inputs: int, **said: str) -> dict[str, Any]:
    return {"op": op, "name": name, "inputs": [[n, 0, 0] for n in inputs], "attrs": said}


def symbol(*nodes: dict[str, Any], heads: Any = None, cut: int = 0, weights: bytes | None = b"") -> Make:
    """An MXNet model: `cut`: bytes that its symbol lacks; `weights`: None: without the file, b"": with plain ones."""

    def make(folder: Path) -> Path:
        path = folder / "m-symbol.json"
        text = json.dumps(
            {"nodes": nodes, "arg_nodes": [0], "heads": [[len(nodes) - 1, 0, 0]] if heads is None else heads}
        )
        path.write_text(text[: len(text) - cut])
        if weights is not None:
            (folder / "m-0000.params").write_bytes(weights or parameters(WEIGHTS))
        return path

    return make


def mxnet_convolution(**said: str) -> tuple[dict[str, Any], ...]:
    settings = {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True", **said}
    return node("null", "data"), node("null", "w"), node("Convolution", "c", 0, 1, **settings)


def changed(make: Make, change: Callable[[Path], object], suffix: str = "") -> Make:
    """A model, one of whose files is changed after it was written."""

    def made(folder: Path) -> Path:
        path = make(folder)
        change(path.with_suffix(suffix) if suffix else path)
        return path

    return made


def cut_to(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def of_caffe(text: str = CONVOLUTION, sizes: tuple[int, ...] = (1, 3, 8, 8), wide: int = 3) -> Make:
    return lambda folder: caffe(folder, text, {"l": [drawn(4, wide, 3, 3), drawn(4)]}, sizes)


def of_darknet(text: str = SECTION, sizes: tuple[int, ...] = (4, 6, 8)) -> Make:
    return lambda folder: darknet(folder, text, [drawn(3), drawn(3, 4, 3, 3)], sizes)


def graph(build: Callable[[GraphWriter], object]) -> Make:
    def make(folder: Path) -> Path:
        writer = GraphWriter()
        writer.input("x", (2, 3))
        build(writer)
        return writer.write(folder)

    return make


def relu(name: str, source: str) -> Callable[[GraphWriter], object]:
    return lambda g: g.node("Relu", (source,), name, T=Kind("float32"))


def reshaped(sizes: Any) -> Callable[[GraphWriter], object]:
    return lambda g: g.node("Reshape", ("x", g.constant(sizes, name="s")), "y", T=Kind("float32"))


def noise(name: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(np.random.default_rng(1).bytes(600))
        return path

    return make


def a_circle(g: GraphWriter) -> None:
    relu("a", "b")(g)
    relu("b", "a")(g)


BROKEN: dict[str, tuple[Make, str]] = {
    "mxnet: no weights": (symbol(*mxnet_convolution(), weights=None), "E0110"),
    "mxnet: weights cut off": (symbol(*mxnet_convolution(), weights=parameters(WEIGHTS)[:200]), "E0101"),
    "mxnet: weights of another model": (symbol(*mxnet_convolution(), weights=parameters({"arg:v": drawn(3)})), "E0103"),
    "mxnet: other sizes": (symbol(*mxnet_convolution(), weights=parameters({"arg:w": drawn(4, 2, 3, 3)})), "E0108"),
    "mxnet: no number": (symbol(*mxnet_convolution(kernel="(nan, 3)")), "E0109"),
    "mxnet: backwards": (symbol(*mxnet_convolution(stride="(-1, 1)")), "E0109"),
    "mxnet: circle": (symbol(node("null", "data"), node("relu", "a", 2), node("relu", "b", 1)), "E0103"),
    "mxnet: itself": (symbol(node("null", "data"), node("relu", "a", 1)), "E0103"),
    "mxnet: no results": (symbol(*mxnet_convolution(), heads=[]), "E0101"),
    "mxnet: result of nothing": (symbol(*mxnet_convolution(), heads=[[9, 0, 0]]), "E0103"),
    "mxnet: symbol cut off": (symbol(*mxnet_convolution(), cut=30), "E0101"),
    "mxnet: joins nothing": (symbol(node("null", "data"), node(JOINED, "c", 0, num_args="0")), "E0109"),
    "caffe: no weights": (changed(of_caffe(), Path.unlink, ".caffemodel"), "E0101"),
    "caffe: weights cut off": (changed(of_caffe(), cut_to(200), ".caffemodel"), "E0103"),
    "caffe: nothing in them": (changed(of_caffe(), cut_to(0), ".caffemodel"), "E0103"),
    "caffe: other sizes": (of_caffe(wide=2), "E0108"),
    "caffe: circle": (of_caffe('layer { name: "a" type: "ReLU" bottom: "z" top: "z2" }\n'), "E0103"),
    "caffe: cut off": (changed(of_caffe(), lambda p: p.write_text(p.read_text()[:-25])), "E0103"),
    "caffe: no number": (of_caffe(CONVOLUTION.replace("4", "nan")), "E0109"),
    "caffe: stands still": (of_caffe(layer("Pooling", "pooling_param { kernel_size: 2 stride: 0 }")), "E0109"),
    "caffe: window too large": (of_caffe(layer("Pooling", "pooling_param { kernel_size: 99 }")), "E0108"),
    "caffe: empty input": (of_caffe(sizes=(1, 0, 8, 8)), "E0105"),
    "caffe: endless input": (of_caffe(sizes=(1, 3, 10**9, 10**9)), "E0105"),
    "darknet: no weights": (changed(of_darknet(), Path.unlink, ".weights"), "E0101"),
    "darknet: weights cut off": (changed(of_darknet(), cut_to(60), ".weights"), "E0103"),
    "darknet: no header": (changed(of_darknet(), cut_to(0), ".weights"), "E0103"),
    "darknet: no number": (of_darknet(SECTION.replace("=3", "=nan")), "E0109"),
    "darknet: reads ahead": (of_darknet("[route]\nlayers=5\n"), "E0103"),
    "darknet: reads itself": (of_darknet("[route]\nlayers=0\n"), "E0103"),
    "darknet: nothing before": (of_darknet("[shortcut]\nfrom=-9\n"), "E0103"),
    "darknet: cut off": (changed(of_darknet(), lambda p: p.write_text(p.read_text()[:-9])), "E0103"),
    "darknet: no [net]": (changed(of_darknet(), lambda p: p.write_text(SECTION)), "E0103"),
    "darknet: empty input": (of_darknet(sizes=(4, 0, 8)), "E0103"),
    "darknet: stands still": (of_darknet("[maxpool]\nsize=2\nstride=0\n"), "E0109"),
    "tensorflow: cut off": (changed(graph(reshaped([3, 2])), cut_to(50)), "E0101"),
    "tensorflow: circle": (graph(a_circle), "E0103"),
    "tensorflow: itself": (graph(relu("a", "a")), "E0103"),
    "tensorflow: nothing there": (graph(relu("a", "nope")), "E0103"),
    "tensorflow: no such result": (graph(relu("a", "x:5")), "E0103"),
    "tensorflow: no number": (graph(reshaped(np.array([np.nan, 2], np.float32))), "E0109"),
    "tensorflow: less than nothing": (graph(reshaped([-5, 2])), "E0108"),
    "tensorflow: endless": (graph(reshaped(np.array([2**31, 2**31]))), "E0108"),
    "tensorflow: a size below nothing": (graph(lambda g: g.input("z", (-7, 2))), "E0103"),
    "tensorflow: twice": (graph(lambda g: (relu("y", "x")(g), relu("y", "x")(g))), "E0103"),
    "tensorflow: one operand": (graph(lambda g: g.node("Add", ("x",), "y", T=Kind("float32"))), "E0108"),
    "keras: noise": (noise("m.keras"), "E0101"),
    "keras: noise named .h5": (noise("m.h5"), "E0101"),
    "mxnet: noise": (noise("m-symbol.json"), "E0101"),
    "tensorflow: noise": (noise("m.pb"), "E0101"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said(tmp_path: Path, name: str) -> None:
    make, code = BROKEN[name]
    options = ReadOptions(shapes={"data": (1, 3, 8, 8)}) if name.startswith("mxnet") else ReadOptions()
    with pytest.raises(SternaError) as caught:
        read_model(make(tmp_path), options)
    (problem, *_) = caught.value.diagnostics
    assert problem.code == code, str(caught.value)
    assert problem.where or problem.fix or ".json" in problem.title or ".pb" in problem.title, str(caught.value)
    assert not any(word in str(caught.value) for word in ("codec", "Traceback", "internal error")), str(caught.value)
