"""Small models that are folders, SavedModels and Core ML packages, as archives of their files."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from support.graph_defs import GraphWriter, Kind, Shape
from support.saved_models import saved_model

Files = dict[str, bytes]


def _drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# ---------------------------------------------------------------- TensorFlow
def saved_models() -> list[Files]:
    """Variables by their own names, read in the graph; and variables that a graph restores, read in a function."""
    plain = GraphWriter()
    plain.input("x", (1, 5, 5, 2))
    for name, shape in (("kernel", (3, 3, 2, 4)), ("bias", (4,))):
        plain.node("VarHandleOp", name=name, dtype=Kind("float32"), shape=Shape(shape), shared_name=name)
        plain.node("ReadVariableOp", [name], f"{name}/read", dtype=Kind("float32"))
    plain.node("Conv2D", ["x", "kernel/read"], "c", strides=(1, 1, 1, 1), padding="SAME")
    plain.node("BiasAdd", ["c", "bias/read"], "b")
    plain.node("Relu", ["b"], "y")
    variables = {"kernel": _drawn(1, 3, 3, 2, 4), "bias/.ATTRIBUTES/VARIABLE_VALUE": _drawn(2, 4)}
    return [saved_model(plain, {"image": ("x:0", (1, 5, 5, 2))}, {"found": "y:0"}, variables), _restored()]


def _restored() -> Files:
    graph = GraphWriter()
    graph.input("x", (2, 4))
    graph.node("VarHandleOp", name="w", dtype=Kind("float32"), shape=Shape((4, 3)), shared_name="")
    for name, texts in (("prefix", [b""]), ("names", [b"layer-0/kernel"]), ("slices", [b""])):
        graph.node("Const", name=name, dtype=Kind("float32"))
        value = graph.graph.node[-1].attr.add(key="value").value
        value.tensor.dtype = 7  # DT_STRING
        value.tensor.tensor_shape.dim.add(size=1)
        value.tensor.string_val.extend(texts)
    graph.node("RestoreV2", ["prefix", "names", "slices"], "restore", dtypes=(Kind("float32"),))
    graph.node("AssignVariableOp", ["w", "restore"], "assign", dtype=Kind("float32"))
    graph.function(
        "serve", {"a": "float32", "handle": "float32"},
        [("ReadVariableOp", ["handle"], "read", {"dtype": Kind("float32")}),
         ("MatMul", ["a", "read:value:0"], "product", {}), ("Softmax", ["product:product:0"], "made", {})],
        {"r": ("made:softmax:0", "float32")},
    )  # fmt: skip
    graph.graph.library.function[0].signature.input_arg[1].type = 20  # DT_RESOURCE
    graph.node("StatefulPartitionedCall", ["x", "w"], "call")
    value = graph.graph.node[-1].attr.add(key="f").value
    value.func.name = "serve"
    return saved_model(graph, {"x": ("x:0", (2, 4))}, {"y": "call:0"}, {"layer-0/kernel": _drawn(3, 4, 3)})


# ---------------------------------------------------------------- Core ML
def packages() -> list[Files]:
    """ML programs with weights in a file beside them; none where coremltools is not installed."""
    if find_spec("coremltools") is None:
        return []
    with contextlib.redirect_stderr(io.StringIO()):  # it shows how far it is
        import coremltools as ct  # noqa: PLC0415  takes seconds, and is not installed everywhere
        from coremltools.converters.mil import Builder as mb  # noqa: N813, PLC0415

        def picture(x: Any) -> Any:
            convolved = mb.relu(x=mb.conv(x=x, weight=_drawn(4, 3, 2, 3, 3), pad_type="same"))
            flat = mb.reshape(x=mb.max_pool(x=convolved, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
                              shape=[1, 12])  # fmt: skip
            return mb.softmax(x=mb.linear(x=flat, weight=_drawn(5, 4, 12)))

        def chosen(x: Any) -> Any:
            bytes_ = np.arange(-24, 24, dtype=np.int8).reshape(12, 4)
            weight = mb.constexpr_affine_dequantize(
                quantized_data=bytes_, zero_point=np.int8(1), scale=np.full(12, 0.1, np.float32), axis=np.int32(0)
            )
            product = mb.matmul(x=x, y=weight, transpose_y=True)
            largest = mb.reduce_max(x=product, axes=[0, 1], keep_dims=False)
            return mb.cond(
                pred=mb.greater(x=largest, y=np.float32(1)), _true_fn=lambda: mb.tanh(x=product),
                _false_fn=lambda: mb.square(x=product),
            )  # fmt: skip

        return [_package(ct, mb, picture, (1, 2, 4, 4)), _package(ct, mb, chosen, (2, 4))]


def _package(ct: Any, mb: Any, function: Callable[[Any], Any], shape: tuple[int, ...]) -> Files:
    program = mb.program(input_specs=[mb.TensorSpec(shape=shape)], opset_version=ct.target.iOS17)(
        lambda x: function(x)  # noqa: PLW0108  its argument names the input
    )
    model = ct.convert(
        program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=ct.target.iOS17, pass_pipeline=ct.PassPipeline.EMPTY,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.mlpackage")
        (weights,) = Path(folder).rglob("weight.bin")
        content = weights.read_bytes()
    root = "com.apple.CoreML"
    manifest = {
        "fileFormatVersion": "1.0.0", "rootModelIdentifier": "model",
        "itemInfoEntries": {"model": {"author": root, "name": "model.mlmodel", "path": f"{root}/model.mlmodel"},
                            "weights": {"author": root, "name": "weights", "path": f"{root}/weights"}},
    }  # fmt: skip
    return {
        "Manifest.json": json.dumps(manifest).encode(),
        f"Data/{root}/model.mlmodel": bytes(model.get_spec().SerializeToString(deterministic=True)),
        f"Data/{root}/weights/weight.bin": content,
    }
