"""The graphs that the fuzzers of the C runtime start from: by hand with one of everything, and from the compiler.

Kernels are not run, so a base is graph.json, the number of bytes of params.bin, and what the table of kernels says.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna_runtime.library import hash64
from support import handmade_bundle, handmade_dims

ANY_TASKS = 2**32 - 1
BARRIER = 1


def params(size: int) -> bytes:
    """What the program takes for params.bin."""
    return bytes(i * 37 % 251 for i in range(size))


def _kernels(graph: dict[str, Any], barriers: frozenset[int]) -> str:
    """Tasks, scratch and flags of every kernel, as the nodes want them."""
    tasks: dict[int, int] = {}
    for node in graph["nodes"]:
        tasks[node["kernel"]] = node["tasks"] if isinstance(node["tasks"], int) else ANY_TASKS
    rows = (
        f"{tasks.get(kernel, 1)}:{graph['scratch_bytes']}:{BARRIER if kernel in barriers else 0}"
        for kernel in range(len(graph["kernels"]))
    )
    return ",".join(rows) or "-"


def base(graph: dict[str, Any], params_bytes: int, barriers: frozenset[int] = frozenset()) -> bytes:
    """A base as fuzz_input.c reads it. What graph.json says of the library and of this machine is made to fit."""
    members = json.loads(json.dumps(graph))
    for key in ("sterna", "hash", "library", "producer"):
        members.pop(key, None)
    members["target"] = {"triple": "", "pointer_bits": struct.calcsize("P") * 8, "cpu_features": []}
    members["files"] = {"params.bin": {"bytes": params_bytes, "hash": hash64(params(params_bytes))}}
    text = json.dumps(members, separators=(",", ":")).encode()[1:]
    head = f"sterna-fuzz {params_bytes} - {_kernels(members, barriers)}\n"
    first_line = f'{{"sterna":{2 if "control" in members else 1},"hash":"{hash64(text)}",\n'
    return head.encode() + first_line.encode() + text


def _value(name: str, kind: str, dims: list[Any], nbytes: int, dtype: str = "int32", **storage: Any) -> dict[str, Any]:
    dense = [1] * len(dims)
    for axis in reversed(range(len(dims) - 1)):
        right = dims[axis + 1]
        dense[axis] = right if dense[axis + 1] == 1 else ["*", right, dense[axis + 1]]
    place = {"class": kind, "offset": 0, "bytes": nbytes, "origin": 0, "strides": dense, **storage}
    return {"name": name, "dtype": dtype, "dims": dims, "storage": place}


def _graph(values: list[dict[str, Any]], nodes: list[dict[str, Any]], arena: int, **members: Any) -> dict[str, Any]:
    names = sorted({f"k{node['kernel']}" for node in nodes})
    return {
        "abi": 1,
        "model": "by_hand",
        "arena": {"bytes": arena, "live_bytes": arena},
        "scratch_bytes": 0,
        "kernels": [{"name": name} for name in names],
        "values": values,
        "inputs": [i for i, v in enumerate(values) if v["storage"]["class"] == "input"],
        "outputs": [i for i, v in enumerate(values) if v["storage"]["class"] == "output"],
        "nodes": nodes,
        **members,
    }


def _node(kernel: int, inputs: list[int], outputs: list[int], tasks: Any = 1) -> dict[str, Any]:
    return {"name": f"n{kernel}", "kernel": kernel, "in": inputs, "out": outputs, "tasks": tasks}


def computed() -> dict[str, Any]:
    """One size that the model computes: which of x are not 0."""
    n = ["d", 0]
    values = [
        _value("x", "input", [8], 32),
        _value("n", "arena", [], 8, "int64"),
        _value("places", "arena", [n], 32, offset=64),
        _value("y", "output", [2, n], 64),
    ]
    nodes = [_node(0, [0], [1, 2]), _node(1, [0, 2], [3], n)]
    return _graph(values, nodes, 128, symbols=[{"name": "found", "lo": 0, "hi": 8, "value": 1}])


def computed_twice() -> dict[str, Any]:
    """A size of the caller and two that follow from each other, within a choice and a loop, beside a state."""
    batch, n, m = ["d", 0], ["d", 1], ["d", 2]
    values = [
        _value("x", "input", [batch, 4], 64),
        _value("n", "arena", [], 8, "int64"),
        _value("m", "arena", [], 8, "int64", offset=8),
        _value("some", "arena", [batch, n], 64, offset=64),
        _value("fewer", "output", [m, n], 64),
        _value("rest", "arena", [["+", n, ["*", -1, ["min", n, m]]]], 16, offset=128),
        _value("if", "arena", [], 1, "bool", offset=16),
        _value("trips", "arena", [], 8, "int64", offset=24),
        _value("number", "arena", [], 8, "int64", offset=32),
        _value("memory", "state", [4], 16, offset=192),
        _value("weights", "param", [4, 4], 64),
        _value("y", "output", [batch, n, ["max", m, 1]], 256, "float32"),
    ]
    nodes = [
        _node(0, [0, 10], [1, 3, 6, 7]),
        _node(1, [3, 1], [2, 4]),
        _node(2, [3, 9], [5, 9], ["/", ["+", n, 1], 2]),
        _node(3, [4, 5, 8], [11], m),
        _node(4, [0], [11]),
    ]
    symbols = [
        {"name": "batch", "lo": 1, "hi": 4},
        {"name": "n", "lo": 0, "hi": 4, "value": 1},
        {"name": "m", "lo": 0, "hi": 4, "value": 2},
    ]
    control = [
        {"op": "if", "name": "choice", "nodes": [1, 4, 5], "condition": 6},
        {"op": "loop", "name": "loop", "nodes": [2, 4], "trips": 7, "number": 8, "limit": 5},
    ]
    states = [{"value": 9, "initial_at": 16}]
    values[0]["quantization"] = {"scale": [0.5, 1e-3, 2, 0.25], "zero_point": [0, -3, 128, 7], "axis": 1}
    values[4]["quantization"] = {"scale": [0.0078125], "zero_point": [128]}
    metadata = {"labels": {"y": ["tern", "\u00e9", ""]}, "normalization": {"x": {"mean": [1], "std": [2.5]}}}
    return _graph(values, nodes, 256, symbols=symbols, control=control, states=states, metadata=metadata)


def _onnx(nodes: list[Any], inputs: list[Any], outputs: list[Any], *constants: Any) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "small", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _float(name: str, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _found() -> onnx.ModelProto:
    """What a mask lets through, by rows: sizes that the caller sets and sizes that the model computes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["found"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = ("w", np.ones((3, 4), np.float32))
    return _onnx(nodes, [_float("x", ["n", 3])], [_float("found", ["k"]), _float("y", ["n", 4])], weights)


def _looped() -> onnx.ModelProto:
    """A Loop over x with a condition that its body computes."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("ReduceMax", ["next"], ["most"], keepdims=0),
            helper.make_node("Less", ["most", "ten"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            _float("state", [2, 3]),
        ],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), _float("next", [2, 3])],
        [numpy_helper.from_array(np.float32(10), "ten")],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    return _onnx([loop], [_float("x", [2, 3])], [_float("y", [2, 3])], ("trips", np.int64(7)))


def _written(model: Any, folder: Path, **options: Any) -> bytes:
    """What the compiler writes for a model: source only, so that no compiler of C is needed."""
    directory = sterna.compile_to(folder, model, "c99", **options)
    graph = json.loads((directory / "graph.json").read_text())
    return base(graph, (directory / "params.bin").stat().st_size)


def bases(work: Path) -> Iterator[tuple[str, bytes]]:
    """Every base with a name."""
    weights = handmade_bundle.params()
    yield "handmade", base(handmade_bundle.graph(weights, b""), len(weights), frozenset({2}))
    yield "dims", base(handmade_dims.graph(b""), 0)
    yield "computed", base(computed(), 0)
    yield "computed-twice", base(computed_twice(), 128)
    digits = Path(sterna.__file__).parent / "demo" / "digits.onnx"
    for name, model, options in (
        ("digits", str(digits), {}),
        ("found", _found(), {"dims": {"n": (1, 5)}}),
        ("looped", _looped(), {}),
    ):
        file: Any = model
        if not isinstance(model, str):
            file = work / f"{name}.onnx"
            onnx.save(model, file)
        yield name, _written(file, work / name, **options)
