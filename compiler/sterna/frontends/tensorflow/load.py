"""Frozen graphs and SavedModels as a `Model`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.source import Source
from sterna.frontends.tensorflow.checkpoint import Checkpoint
from sterna.frontends.tensorflow.files import META, SAVED_MODEL, Files, files_of
from sterna.frontends.tensorflow.graph_json import first_model, graph_model
from sterna.frontends.tensorflow.model import RESOURCE, Function, Model, Node, Port, Signature, Type, tensor_of
from sterna.frontends.tensorflow.schema import parsed
from sterna.frontends.tensorflow.tensors import array_of, sizes_of

_INIT = "__saved_model_init_op"
_PARTS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")


def load(source: Source) -> Model:
    """The model of a file, folder or archive.

    Raises:
        SternaError: E0101, E0103, E0111 to E0113: it is none, or damaged.
    """
    files = files_of(source)
    content = files.read(files.main)
    if content is None:
        raise error("E0101", f"{files.main} cannot be read")
    if files.main.endswith(".json") or content[:1] == b"{":
        return graph_model(content, files, partial(decoded, where=files.main))
    if files.main == SAVED_MODEL:
        return _saved(content, files)
    if files.main.endswith(META):
        return _trained(content, files)
    return first_model(decoded(parsed("Graph", content, files.main), files.main), files)


def decoded(graph: Any, where: str, kind: str = "TensorFlow frozen graph") -> Model:
    """A GraphDef."""
    if not graph.node:
        raise error("E0101", f"{where} holds no graph of TensorFlow", fix="name the model file itself")
    producer = f"GraphDef {graph.versions.producer}" if graph.versions.producer else ""
    return Model(where, kind, producer, _nodes(graph.node, where), _functions(graph.library, where), {})


def _nodes(nodes: Iterable[Any], where: str) -> dict[str, Node]:
    made: dict[str, Node] = {}
    for node in nodes:
        if node.name in made or not node.name:
            raise error("E0103", f'{where} has two nodes "{node.name}"' if node.name else f"{where}: a nameless node")
        data = tuple(name for name in node.input if not name.startswith("^"))
        control = tuple(name[1:] for name in node.input if name.startswith("^"))
        made[node.name] = Node(
            node.name, node.op, data, control, {entry.key: _attribute(entry.value) for entry in node.attr}
        )
    return made


def _attribute(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        for part in _PARTS:
            if items := getattr(value.list, part):
                return tuple(_single(part, item) for item in items)
        return ()
    return _single(kind, getattr(value, kind))


def _single(kind: str, value: Any) -> Any:
    if kind == "type":
        return Type(int(value))
    if kind == "shape":
        return sizes_of(value)
    return value.name if kind == "func" else value


def _functions(library: Any, where: str) -> dict[str, Function]:
    made = {}
    for function in library.function:
        name = function.signature.name
        returned = {entry.key: entry.value for entry in function.ret}
        made[name] = Function(
            name,
            _nodes(function.node_def, f"{where}, function {name}"),
            tuple(arg.name for arg in function.signature.input_arg),
            tuple(int(arg.type) for arg in function.signature.input_arg),
            tuple(returned.get(arg.name, "") for arg in function.signature.output_arg),
        )
    return made


# ---------------------------------------------------------------- SavedModel
def _saved(content: bytes, files: Files) -> Model:
    saved = parsed("SavedModel", content, files.main)
    if not saved.meta_graphs:
        raise error("E0101", f"{files.main} holds no graph", fix="export the model again: tf.saved_model.save")
    meta = next((m for m in saved.meta_graphs if "serve" in m.meta_info_def.tags), saved.meta_graphs[0])
    where = files.archive.name if files.archive is not None else files.folder.name or files.main
    index = files.read("variables/variables.index")
    weights = Checkpoint(index, lambda name, *part: files.part(f"variables/{name}", *part)) if index else None
    return _with_variables(meta, where, "TensorFlow SavedModel", weights)


def _trained(content: bytes, files: Files) -> Model:
    """What `tf.train.Saver` keeps of training: the graph in a file of its own, beside the variables."""
    stem = files.main.removesuffix(META)
    index = files.read(f"{stem}.index")
    if index is None:
        raise error("E0101", f'the file "{stem}.index" of the model is missing', f"{files.main} has no variables")
    meta = parsed("Meta", content, files.main)
    return _with_variables(meta, files.main, "TensorFlow checkpoint", Checkpoint(index, files.part, stem))


def _with_variables(meta: Any, where: str, kind: str, weights: Checkpoint | None) -> Model:
    graph = decoded(meta.graph_def, where)
    signatures = {
        entry.key: Signature(_ports(entry.value.inputs), _ports(entry.value.outputs))
        for entry in sorted(meta.signature_def, key=lambda entry: entry.key)
        if entry.key != _INIT
    }
    version = meta.meta_info_def.tensorflow_version
    return Model(
        where,
        kind,
        f"TensorFlow {version}" if version else "",
        graph.nodes,
        graph.functions,
        signatures,
        (lambda _: None) if weights is None else weights.weight,
        _restored(graph),
    )


def _ports(entries: Iterable[Any]) -> tuple[Port, ...]:
    return tuple(
        Port(e.key, e.value.name, int(e.value.dtype), sizes_of(e.value.tensor_shape))
        for e in sorted(entries, key=lambda e: e.key)
    )


def _restored(model: Model) -> dict[str, str]:
    """Variable -> its name in the checkpoint: what the graph that restores it assigns to it."""
    found = _assigned(model.nodes, {})
    for node in model.nodes.values():
        function = model.functions.get(str(node.attributes.get("f")))
        if function is None or "PartitionedCall" not in node.op:
            continue
        handles = {}
        for argument, kind, tensor in zip(function.arguments, function.argument_types, node.inputs, strict=False):
            if kind == RESOURCE:
                handles[argument] = tensor_of(tensor)[0]
        found |= _assigned(function.nodes, handles)
    return found


def _assigned(nodes: Mapping[str, Node], handles: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for node in nodes.values():
        if node.op not in ("AssignVariableOp", "Assign") or len(node.inputs) < 2:
            continue
        variable = _origin(nodes, node.inputs[0])[0]
        origin, position = _origin(nodes, node.inputs[1])
        restore = nodes.get(origin)
        if restore is None or restore.op != "RestoreV2" or len(restore.inputs) < 2:
            continue
        names = nodes.get(_origin(nodes, restore.inputs[1])[0])
        try:
            keys = [] if names is None else array_of(names.attributes["value"]).reshape(-1).tolist()
        except (SternaError, KeyError, AttributeError):
            continue
        if position < len(keys):
            key = keys[position]
            found[handles.get(variable, variable)] = key.decode("utf-8", "replace") if isinstance(key, bytes) else ""
    return found


def _origin(nodes: Mapping[str, Node], tensor: str) -> tuple[str, int]:
    name, position = tensor_of(tensor)
    for _ in range(16):
        node = nodes.get(name)
        if node is None or node.op not in ("Identity", "NoOp") or not node.inputs:
            break
        name, position = tensor_of(node.inputs[0])
    return name, position
