"""What TensorFlow itself makes of a model, for `sterna verify`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sterna.frontends.frontend import ReadOptions
from sterna.frontends.runtimes import cannot_run
from sterna.frontends.source import Source
from sterna.frontends.tensorflow.files import META, SAVED_MODEL
from sterna.frontends.tensorflow.load import load
from sterna.frontends.tensorflow.model import PAGE, Signature, tensor_of
from sterna.frontends.tensorflow.ports import signature_of
from sterna.ir.graph import Array

Runner = Callable[[Mapping[str, Array]], dict[str, Array]]


def runner(source: Source, options: ReadOptions) -> Runner | None:
    """From inputs to outputs by name; None for the models of TensorFlow.js and archives.

    Raises:
        SternaError: E0009, TensorFlow cannot load the model.
    """
    path = source.file()
    folder = path if path.is_dir() else path.parent
    is_saved = (folder / SAVED_MODEL).is_file() and (path.is_dir() or path.name == SAVED_MODEL)
    if source.is_archive or (not is_saved and (path.is_dir() or source.start.lstrip()[:1] == b"{")):
        return None
    model = load(source)
    if model.kind == PAGE:
        return None
    signature = signature_of(model, options.signature)
    fixed = {name.removesuffix(":0"): value for name, value in (options.values or {}).items()}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        tf = import_module("tensorflow")
        if is_saved:
            names = {id(each): name for name, each in model.signatures.items()}
            return _saved(tf, str(folder), names[id(signature)], fixed)
        content = _frozen(tf, path, signature) if path.name.endswith(META) else path.read_bytes()
        return _session(tf, content, signature, fixed)
    except Exception as problem:  # its errors have no common type
        raise cannot_run("tensorflow", problem) from None


def _saved(tf: Any, folder: str, name: str, fixed: Mapping[str, Any]) -> Runner:
    loaded = tf.saved_model.load(folder)
    function = loaded.signatures[name]
    kinds = {key: each.dtype for key, each in function.structured_input_signature[1].items()}

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = {key: tf.constant({**fixed, **inputs}[key], dtype=kind) for key, kind in kinds.items()}
        results = {key: np.asarray(value) for key, value in function(**given).items()}
        return results if loaded is not None else {}  # the signature does not keep the variables alive

    return run


def _frozen(tf: Any, path: Path, signature: Signature) -> bytes:
    """A checkpoint's graph as far as the outputs need it, with its variables as constants: what trained it may be of a
    TensorFlow that this one does not understand."""
    meta = tf.compat.v1.MetaGraphDef()
    meta.ParseFromString(path.read_bytes())
    outputs = [tensor_of(port.tensor)[0] for port in signature.outputs]
    graph = tf.compat.v1.graph_util.extract_sub_graph(meta.graph_def, outputs)
    values = tf.compat.v1.train.NewCheckpointReader(str(path).removesuffix(META))
    for node in graph.node:
        node.device = ""
        if node.op in ("VariableV2", "Variable"):
            value, kind = values.get_tensor(node.name), node.attr["dtype"].type
            node.ClearField("attr")
            node.op = "Const"
            node.attr["dtype"].type = kind
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return bytes(graph.SerializeToString())


def _session(tf: Any, content: bytes, signature: Signature, fixed: Mapping[str, Any]) -> Runner:
    """A frozen graph in a session."""
    graph, definition = tf.Graph(), tf.compat.v1.GraphDef()
    definition.ParseFromString(content)
    with graph.as_default():
        tf.compat.v1.import_graph_def(definition, name="")
    session = tf.compat.v1.Session(graph=graph)

    def tensor(text: str) -> str:
        return text if ":" in text else f"{text}:0"

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = {**fixed, **inputs}
        feeds = {tensor(port.tensor): given[port.name] for port in signature.inputs}
        results = session.run([tensor(port.tensor) for port in signature.outputs], feeds)
        return {port.name: np.asarray(each) for port, each in zip(signature.outputs, results, strict=True)}

    return run
