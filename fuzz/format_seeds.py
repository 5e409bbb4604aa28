"""Small models of formats in several files, and of TensorFlow and Core ML, that mutations begin with.

Models in two files, or with shards beside them, are a zip archive of both: an archive is one model.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import folder_seeds
from sterna.frontends.coreml import schema
from support import caffe_networks, darknet_networks, keras_files
from support.caffe_networks import layer
from support.graph_defs import Function, GraphWriter, Kind
from support.mxnet_symbols import parameters

Files = dict[str, bytes]


def archive(files: Files) -> bytes:
    """A zip file of some files, uncompressed and without times: the same bytes every time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as written:
        for name, content in files.items():
            written.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


# ---------------------------------------------------------------- DarkNet
_CONV = "[convolutional]\nbatch_normalize=1\nfilters=6\nsize=3\nstride=1\npad=1\nactivation=leaky\n"
_DARKNET = (
    (_CONV + "[maxpool]\nsize=2\nstride=2\n" + _CONV + "[convolutional]\nfilters=14\nsize=1\nactivation=linear\n"
     "[yolo]\nmask=0,1\nanchors=1,2,3,4\nclasses=2\nnum=2\nscale_x_y=1.05\n", (3, 6, 6)),
    (_CONV + _CONV.replace("leaky", "mish") + "[shortcut]\nfrom=-2\nactivation=linear\nweights_type=per_channel\n"
     "weights_normalization=relu\n[route]\nlayers=-1,-3\n[upsample]\nstride=2\n[reorg]\nstride=2\n", (3, 4, 4)),
    (_CONV.replace("filters=6", "filters=6\ngroups=3") + "[avgpool]\n[connected]\noutput=5\nactivation=relu\n"
     "[dropout]\n[softmax]\ngroups=1\n", (3, 5, 5)),
    (("[convolutional]\nfilters=16\nsize=1\nactivation=linear\n[region]\nanchors=1,2,3,4\nclasses=3\ncoords=4\nnum=2\n"
     "softmax=1\n"), (3, 4, 4)),
    (("[local]\nfilters=2\nsize=3\nstride=1\npad=1\nactivation=elu\n[sam]\nfrom=-1\n"
     "[scale_channels]\nfrom=-1\n"), (2, 4, 4)),
    ("[rnn]\nhidden=4\noutput=3\nactivation=tanh\n[gru]\noutput=4\n[lstm]\noutput=2\nbatch_normalize=1\n", (5,)),
    (("[crnn]\nhidden=3\noutput=2\nsize=3\npad=1\nactivation=relu\n[normalization]\nsize=3\n[crop]\ncrop_width=2\n"
     "crop_height=2\n"), (2, 4, 4)),
)  # fmt: skip


def darknet() -> list[bytes]:
    """Detectors, classifiers and recurrent networks; there are more weights than any of them takes."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for text, sizes in _DARKNET:
            path = darknet_networks.network(Path(folder), text, [darknet_networks.drawn(3000) * np.float32(0.1)], sizes)
            made.append(archive({each.name: each.read_bytes() for each in (path, path.with_suffix(".weights"))}))
    return made


# ---------------------------------------------------------------- Caffe
def _named(text: str, name: str) -> str:
    return text.replace('name: "l"', f'name: "{name}"')


_CAFFE = (
    _named(layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }", ("x",), ("a",)), "c")
    + _named(layer("BatchNorm", "batch_norm_param { eps: 0.001 }", ("a",), ("a",)), "n")
    + _named(layer("Scale", "scale_param { bias_term: true }", ("a",), ("a",)), "s")
    + _named(layer("PReLU", "", ("a",), ("a",)), "p")
    + _named(layer("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }", ("a",), ("b",)), "m")
    + _named(layer("InnerProduct", "inner_product_param { num_output: 3 }", ("b",), ("d",)), "i")
    + _named(layer("Softmax", "", ("d",), ("e",)), "o"),
    layer("Deconvolution", "convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2 }").replace(
        '"l"', '"t"')
    + _named(layer("Crop", "crop_param { axis: 2 offset: 1 }", ("y", "x"), ("z",)), "u"),
    layer("Slice", "slice_param { axis: 1 slice_point: 1 }", ("x",), ("a", "b"))
    + _named(layer("Concat", "concat_param { axis: 1 }", ("b", "a"), ("y",)), "q")
    + _named(layer("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -2 }", ("y", "x"), ("z",)), "r")
    + _named(layer("LRN", "lrn_param { local_size: 3 }", ("z",), ("w",)), "v"),
    layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }")
    + _named(layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 2 } }", ("y",), ("z",)), "q")
    + _named(layer("Flatten", "", ("z",), ("w",)), "r"),
    _named(layer("Flatten", "", ("x",), ("f",)), "g")
    + _named(layer("PriorBox", "prior_box_param { min_size: 2 aspect_ratio: 2 }", ("x", "x"), ("p",)), "h")
    + _named(layer("Interp", "interp_param { zoom_factor: 2 }", ("x",), ("k",)), "j")
    + _named(layer("MVN", "", ("k",), ("m",)), "n"),
)  # fmt: skip


def caffe() -> list[bytes]:
    """Classifiers, decoders, what detectors are made of."""
    random = np.random.default_rng(3)

    def drawn(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    weights = {
        "c": [drawn(4, 2, 3, 3), drawn(4)], "n": [drawn(4), np.abs(drawn(4)), np.ones(1, np.float32)],
        "s": [drawn(4), drawn(4)], "p": [drawn(4)], "i": [drawn(3, 16), drawn(3)], "t": [drawn(2, 2, 4, 4), drawn(4)],
    }  # fmt: skip
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for text in _CAFFE:
            path = caffe_networks.network(Path(folder), text, weights, (1, 2, 4, 4))
            made.append(archive({each.name: each.read_bytes() for each in (path, path.with_suffix(".caffemodel"))}))
    return made


# ---------------------------------------------------------------- MXNet
_SHAPES = {"data": "(1, 2, 4, 4)", "x": "(3, 4)"}


def _symbol(*nodes: tuple[str, str, list[str], dict[str, str]]) -> bytes:
    """A symbol: operators by name, what they read by name; what nothing makes is a variable."""
    rows: list[dict[str, Any]] = []
    places: dict[str, int] = {}

    def place(name: str) -> int:
        if name not in places:
            places[name] = len(rows)
            shape = {"attrs": {"__shape__": _SHAPES[name]}} if name in _SHAPES else {}
            rows.append({"op": "null", "name": name, "inputs": [], **shape})
        return places[name]

    for op, name, inputs, attributes in nodes:
        read = [[place(each), 0, 0] for each in inputs]
        places[name] = len(rows)
        rows.append({"op": op, "name": name, "attrs": attributes, "inputs": read})
    variables = [n for n, row in enumerate(rows) if row["op"] == "null"]
    graph = {
        "nodes": rows,
        "arg_nodes": variables,
        "heads": [[len(rows) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    return json.dumps(graph).encode()  # fmt: skip


def mxnet() -> list[bytes]:
    """Convolutions, dense layers, a recurrent layer, boxes."""
    random = np.random.default_rng(4)

    def drawn(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    convolutional = _symbol(
        ("Convolution", "c", ["data", "c_weight", "c_bias"], {"kernel": "(3, 3)", "num_filter": "4", "pad": "(1, 1)"}),
        ("BatchNorm", "n", ["c", "n_gamma", "n_beta", "n_mean", "n_var"], {"eps": "0.001", "fix_gamma": "False"}),
        ("LeakyReLU", "l", ["n"], {"act_type": "leaky", "slope": "0.1"}),
        ("Pooling", "p", ["l"], {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "max"}),
        ("Flatten", "f", ["p"], {}),
        ("FullyConnected", "d", ["f", "d_weight", "d_bias"], {"num_hidden": "3"}),
        ("SoftmaxOutput", "softmax", ["d", "softmax_label"], {}),
    )
    weights = {
        "arg:c_weight": drawn(4, 2, 3, 3), "arg:c_bias": drawn(4), "arg:n_gamma": drawn(4), "arg:n_beta": drawn(4),
        "aux:n_mean": drawn(4), "aux:n_var": np.abs(drawn(4)), "arg:d_weight": drawn(3, 16), "arg:d_bias": drawn(3),
    }  # fmt: skip
    moved = _symbol(
        ("transpose", "t", ["x"], {"axes": "(1, 0)"}),
        ("slice_axis", "s", ["t"], {"axis": "0", "begin": "0", "end": "2"}),
        ("elemwise_add", "a", ["s", "w"], {}),
        ("Reshape", "r", ["a"], {"shape": "(-1, 0)"}),
        ("mean", "m", ["r"], {"axis": "1", "keepdims": "True"}),
        ("broadcast_mul", "b", ["m", "r"], {}),
    )
    named = {"model-symbol.json": convolutional, "model-0000.params": parameters(weights)}
    other = {"model-symbol.json": moved, "model-0000.params": parameters({"arg:w": drawn(2, 3)})}
    return [archive(named), archive(other)]


# ---------------------------------------------------------------- TensorFlow
def _tensorflow_graphs() -> list[GraphWriter]:
    random = np.random.default_rng(6)

    def drawn(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    images = GraphWriter()
    images.input("x", (1, 6, 6, 2))
    images.node("Conv2D", ["x", images.constant(drawn(3, 3, 2, 4))], "c", strides=(1, 1, 1, 1), padding="SAME")
    images.node("BiasAdd", ["c", images.constant(drawn(4))], "b")
    images.node("FusedBatchNormV3", ["b", *(images.constant(np.abs(drawn(4))) for _ in range(4))], "n", epsilon=0.001)
    images.node("Relu6", ["n"], "r")
    images.node("MaxPool", ["r"], "p", ksize=(1, 2, 2, 1), strides=(1, 2, 2, 1), padding="VALID")
    images.node("ResizeBilinear", ["p", images.constant(np.array([5, 4], np.int32))], "z", half_pixel_centers=True)
    images.node("Mean", ["z", images.constant(np.array([1, 2], np.int32))], "m", keep_dims=False)
    images.node("MatMul", ["m", images.constant(drawn(4, 3))], "d")
    images.node("Softmax", ["d"], "y")

    moved = GraphWriter()
    moved.input("x", (2, 3, 4))
    moved.node("StridedSlice", ["x", *(moved.constant(np.array(v, np.int32)) for v in ([0, 1], [2, 3], [1, 1]))], "s")
    moved.node("Transpose", ["s", moved.constant(np.array([2, 0, 1], np.int32))], "t")
    moved.node("ConcatV2", ["t", "t", moved.constant(np.int32(1))], "c", N=2)
    moved.node("Shape", ["c"], "shape", out_type=Kind("int32"))
    moved.node("Reshape", ["c", "shape"], "r")
    moved.node("GatherV2", ["r", moved.constant(np.array([1, 0], np.int32)), moved.constant(np.int32(0))], "g")
    moved.node("TopKV2", ["g", moved.constant(np.int32(1))], "k")
    moved.node("Tile", ["k", moved.constant(np.array([1, 2, 1], np.int32))], "y")

    chosen = GraphWriter()
    chosen.input("x", (5,))
    chosen.node("Greater", ["x", chosen.constant(np.float32(0))], "mask")
    chosen.node("Where", ["mask"], "places")
    chosen.node("Reshape", ["places", chosen.constant(np.array([-1], np.int32))], "rows")
    chosen.node("Gather", ["x", "rows"], "y")

    loop = GraphWriter()
    loop.input("x", (3,))
    arguments = {"i": "int32", "v": "float32"}
    one = ("Const", [], "one", {"value": np.array(1, np.int32)})
    most = ("Const", [], "n", {"value": np.array(4, np.int32)})
    loop.function("test", arguments, [most, ("Less", ["i", "n:output:0"], "l", {})], {"r": ("l:z:0", "bool")})
    loop.function(
        "body", arguments, [one, ("AddV2", ["i", "one:output:0"], "j", {}), ("Square", ["v"], "w", {})],
        {"a": ("j:z:0", "int32"), "b": ("w:y:0", "float32")},
    )  # fmt: skip
    for name, op in (("yes", "Exp"), ("no", "Neg")):
        loop.function(name, {"a": "float32"}, [(op, ["a"], "made", {})], {"r": ("made:y:0", "float32")})
    loop.node("While", [loop.constant(np.int32(0)), "x"], "loop", cond=Function("test"), body=Function("body"))
    loop.input("p", (), "bool")
    loop.node("If", ["p", "loop:1"], "y", then_branch=Function("yes"), else_branch=Function("no"))

    older = GraphWriter()
    older.input("x", (3,))
    older.input("p", (), "bool")
    older.constant(np.int32(0), name="zero")
    for name, first in (("i", "zero"), ("v", "x")):
        older.node("Enter", [first], f"{name}/enter", frame_name="loop")
        older.node("Merge", [f"{name}/enter", f"{name}/next"], f"{name}/merge")
    older.node("Less", ["i/merge", older.constant(np.int32(3))], "less")
    older.node("LoopCond", ["less"], "going")
    for name in ("i", "v"):
        older.node("Switch", [f"{name}/merge", "going"], f"{name}/switch")
        older.node("Exit", [f"{name}/switch"], f"{name}/exit")
    older.node("AddV2", ["i/switch:1", older.constant(np.int32(1))], "i/after")
    older.node("Tanh", ["v/switch:1"], "v/after")
    for name in ("i", "v"):
        older.node("NextIteration", [f"{name}/after"], f"{name}/next")
    older.node("Switch", ["v/exit", "p"], "switch")
    older.node("Neg", ["switch"], "no")
    older.node("Exp", ["switch:1"], "yes")
    older.node("Merge", ["no", "yes"], "y")
    return [images, moved, chosen, loop, older]


def tensorflow() -> list[bytes]:
    """Frozen graphs: images, shapes, sizes that data decide, both kinds of control flow."""
    return [graph.content() for graph in _tensorflow_graphs()]


# ---------------------------------------------------------------- TensorFlow.js
def tensorflow_js() -> list[bytes]:
    """A layers model with quantized weights, and a graph model, each with its shard."""
    topology = keras_files.functional(keras_files.layer("Dense", "d", ["x"], units=3, activation="softmax"))
    entries = [
        {"name": "d/kernel", "shape": [4, 3], "dtype": "float32",
         "quantization": {"dtype": "uint8", "scale": 0.01, "min": -1.0, "original_dtype": "float32"}},
        {"name": "d/bias", "shape": [3], "dtype": "float32"},
    ]  # fmt: skip
    manifest = [{"paths": ["weights.bin"], "weights": entries}]
    layers = {
        "format": "layers-model", "modelTopology": {"keras_version": "2.4.0", "model_config": topology},
        "weightsManifest": manifest,
    }  # fmt: skip
    shard = bytes(range(12)) + np.arange(3, dtype="<f4").tobytes()
    node = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": {"shape": {"dim": [
            {"size": "-1"}, {"size": "4"}]}}}},
        {"name": "d/kernel", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}},
        {"name": "d/bias", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}},
        {"name": "y", "op": "_FusedMatMul", "input": ["x", "d/kernel", "d/bias"], "attr": {
            "num_args": {"i": "1"}, "fused_ops": {"list": {"s": ["Qmlhc0FkZA=="]}}, "T": {"type": "DT_FLOAT"}}},
    ]  # fmt: skip
    graph = {"format": "graph-model", "modelTopology": {"node": node, "library": {}}, "weightsManifest": manifest}
    return [archive({"model.json": json.dumps(each).encode(), "weights.bin": shard}) for each in (layers, graph)]


# ---------------------------------------------------------------- Core ML
def coreml() -> list[bytes]:
    """Neural networks and a linear model; none where coremltools is not installed."""
    if find_spec("coremltools") is None:
        return []
    messages = schema.messages()

    def model(shape: tuple[int, ...]) -> Any:
        made = messages.Model(specificationVersion=4)
        x = made.description.input.add(name="x")
        x.type.multiArrayType.shape.extend(shape)
        x.type.multiArrayType.dataType = 65568
        y = made.description.output.add(name="y")
        y.type.multiArrayType.dataType = 65568
        return made

    network = model((2, 4, 4))
    layers = network.neuralNetwork.layers
    first = layers.add(name="c", input=["x"], output=["a"])
    c = first.convolution
    c.outputChannels, c.kernelChannels, c.nGroups, c.hasBias = 3, 2, 1, True
    c.kernelSize.extend((3, 3))
    c.stride.extend((1, 1))
    c.same.SetInParent()
    c.weights.floatValue.extend(float(n) / 50 for n in range(54))
    c.bias.floatValue.extend((0.5, -0.5, 1.0))
    layers.add(name="r", input=["a"], output=["b"]).activation.ReLU.SetInParent()
    p = layers.add(name="p", input=["b"], output=["d"]).pooling
    p.kernelSize.extend((2, 2))
    p.stride.extend((2, 2))
    p.valid.SetInParent()
    layers.add(name="f", input=["d"], output=["e"]).flatten.SetInParent()
    i = layers.add(name="i", input=["e"], output=["g"]).innerProduct
    i.inputChannels, i.outputChannels = 12, 2
    i.weights.floatValue.extend(float(n) / 24 for n in range(24))
    layers.add(name="s", input=["g"], output=["y"]).softmax.SetInParent()

    linear = model((3,))
    weights = linear.glmRegressor.weights.add()
    weights.value.extend((1.0, -2.0, 0.5))
    linear.glmRegressor.offset.append(0.25)
    linear.description.output[0].type.doubleType.SetInParent()
    linear.description.predictedFeatureName = "y"
    return [bytes(each.SerializeToString(deterministic=True)) for each in (network, linear)]


def saved_models() -> list[bytes]:
    """SavedModels."""
    return [archive(files) for files in folder_seeds.saved_models()]


def mlpackages() -> list[bytes]:
    """Packages of Core ML."""
    return [archive(files) for files in folder_seeds.packages()]


SEEDS = {
    "darknet": darknet, "caffe": caffe, "mxnet": mxnet, "tensorflow": tensorflow, "tensorflow_js": tensorflow_js,
    "saved_model": saved_models, "coreml": coreml, "mlpackage": mlpackages,
}  # fmt: skip
