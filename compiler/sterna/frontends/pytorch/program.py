"""What a file says of an exported program (torch/_export/serde/schema.py, versions 5 to 8), checked for its form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.pytorch.tensors import scalar_type

MOST_NODES = 1 << 18
DEEPEST = 32  # graphs inside each other
_NEWEST = 8  # major version of the schema
_MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration, RecursionError)
Arg = tuple[str, Any]  #: the kind of an argument, as `as_tensor`, and what it holds


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the file declares it: sizes are integers, or expressions as text; `offset`: of its first element in
    the memory that it is a view of."""

    dtype: str
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...]
    offset: int | str = 0


@dataclass(frozen=True)
class NodeInfo:
    """A call of an operator.

    Args:
        target: `aten.add.Tensor`; without `torch.ops.`.
        inputs: names (maybe empty) and arguments.
        outputs: what is named.
        module: the path of the module in whose forward it stands.
    """

    target: str
    inputs: tuple[tuple[str, Arg], ...]
    outputs: tuple[Arg, ...]
    name: str = ""

    @property
    def graphs(self) -> Iterator[GraphInfo]:
        for _, (kind, value) in self.inputs:
            if kind == "as_graph":
                yield value


@dataclass(frozen=True)
class GraphInfo:
    """Calls in order, and what goes in and out; `numbers`, `conditions`: what the file says of computed ones."""

    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    nodes: tuple[NodeInfo, ...]
    tensors: Mapping[str, TensorInfo]
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)

    def all_nodes(self) -> Iterator[NodeInfo]:
        """The nodes of the graph and of those in it."""
        for node in self.nodes:
            yield node
            for inner in node.graphs:
                yield from inner.all_nodes()


@dataclass(frozen=True)
class Spec:
    """What an input or an output of the graph is.

    Args:
        kind: `user_input`, `parameter`, `buffer` ...; `user_output`, `buffer_mutation` ...
        arg: what stands for it in the graph.
        target: the name of the parameter, buffer or constant.
    """

    kind: str
    arg: Arg
    target: str = ""


@dataclass(frozen=True)
class Program:
    """An exported program.

    Args:
        ranges: symbol -> least and greatest size; None: not bounded.
        output_names: what the outputs are called in the structure that the module returns; empty where it says nothing.
    """

    graph: GraphInfo
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    ranges: Mapping[str, tuple[int, int | None]]
    version: str
    torch_version: str
    output_names: tuple[str, ...] = ()


def program_of(document: Any, where: str) -> Program:
    """The program that a JSON document says.

    Raises:
        SternaError: E0102, it is of another version; E0103, it has not the form of one.
    """
    try:
        return _program(document)
    except SternaError as mistake:
        raise mistake.within(where) from None
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        StopIteration,
        RecursionError,
    ) as problem:
        title = f"{where} does not hold an exported program in the form that PyTorch writes"
        raise error("E0103", title, f"{type(problem).__name__}: {problem}", fix="export the model again") from None


def _program(document: Any) -> Program:
    version = document["schema_version"]
    major, minor = int(version["major"]), int(version["minor"])
    if not 3 <= major <= _NEWEST:
        title = f"the schema version {major}.{minor} is not known; versions 3 to {_NEWEST} are"
        raise error("E0102", title, fix="export the model with another version of PyTorch")
    module = document["graph_module"]
    graph = _Graphs().graph(module["graph"])
    signature = module["signature"]
    inputs = tuple(_spec(*_union(spec)) for spec in signature["input_specs"])
    outputs = tuple(_spec(*_union(spec)) for spec in signature["output_specs"])
    if len(inputs) != len(graph.inputs) or len(outputs) != len(graph.outputs):
        raise ValueError("the signature has another length than the graph")
    ranges = {}
    for name, limits in document["range_constraints"].items():
        low, high = (_bound(limits.get(key)) for key in ("min_val", "max_val"))
        ranges[str(name)] = (max(low or 0, 0), high)
    returned = sum(spec.kind in ("user_output", "loss_output") for spec in outputs)
    names = _output_names(
        module.get("module_call_graph") or [], returned, module.get("treespec_namedtuple_fields") or {}
    )
    return Program(graph, inputs, outputs, ranges, f"{major}.{minor}", str(document.get("torch_version", "")), names)


def _bound(value: Any) -> int | None:
    """A limit; None for one that is not finite."""
    return value if type(value) is int and abs(value) < 1 << 60 else None


def _union(value: Any) -> Arg:
    """The one entry of a tagged union; older files write the others too, as null."""
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:80]} is no argument")
    chosen = [(key, item) for key, item in value.items() if item is not None]
    if not chosen:
        return "as_none", None
    if len(chosen) > 1:
        raise ValueError(f"an argument is {' and '.join(str(key) for key, _ in chosen)}"[:200])
    return chosen[0]


def _spec(kind: str, value: Any) -> Spec:
    target = ""
    for key in (
        "parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name", "user_input_name"
    ):  # fmt: skip
        target = value.get(key) or target
    if kind == "constant_input":
        return Spec(kind, _union(value["value"]), _text(value["name"]))
    arg = value["arg"]
    return Spec(kind, ("as_tensor", _text(arg["name"])) if "name" in arg else _decoded(arg), str(target))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:80]} is no name")
    return value


def _decoded(value: Any) -> Arg:
    """An argument that holds no graph."""
    return _Graphs().argument(value)


class _Graphs:
    """Makes graphs of what the file says; counts nodes."""

    def __init__(self) -> None:
        self.count = self.depth = 0

    def graph(self, value: Any) -> GraphInfo:
        self.depth += 1
        if self.depth > DEEPEST:
            raise error("E0103", f"graphs inside each other, {DEEPEST} and more")
        nodes = tuple(self.node(node) for node in value["nodes"])
        tensors = {_text(name): _tensor(info) for name, info in value["tensor_values"].items()}
        numbers = {_text(name): _size(size) for name, size in value.get("sym_int_values", {}).items()}
        truths = {_text(name): _union(said) for name, said in value.get("sym_bool_values", {}).items()}
        self.depth -= 1
        return GraphInfo(
            tuple(map(self.argument, value["inputs"])),
            tuple(map(self.argument, value["outputs"])),
            nodes,
            tensors,
            numbers,
            {name: _text(held["expr_str"]) for name, (kind, held) in truths.items() if kind == "as_expr"},
        )

    def node(self, value: Any) -> NodeInfo:
        self.count += 1
        if self.count > MOST_NODES:
            raise error("E0112", f"the program has more than {MOST_NODES} nodes")
        target = _text(value["target"]).removeprefix("torch.ops.").removeprefix("torch._ops.")
        inputs = tuple((str(given.get("name") or ""), self.argument(given["arg"])) for given in value["inputs"])
        outputs = tuple(map(self.argument, value["outputs"]))
        return NodeInfo(target, inputs, outputs, str(value.get("name") or ""))

    def argument(self, value: Any) -> Arg:
        kind, held = _union(value)
        if kind in ("as_tensor", "as_token"):
            return "as_tensor", _text(held["name"])
        if kind == "as_tensors":
            return kind, tuple(_text(item["name"]) for item in held)
        if kind == "as_optional_tensor":
            return self.argument(held)
        if kind == "as_optional_tensors":
            return kind, tuple(self.argument(item) for item in held)
        if kind == "as_nested_tensors":
            return kind, tuple(tuple(_text(item["name"]) for item in row) for row in held)
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return kind, _symbolic(held)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return kind, tuple(_symbolic(item) for item in held)
        if kind == "as_graph":
            return kind, self.graph(held["graph"])
        if kind in ("as_float", "as_floats"):
            return kind, float(held) if kind == "as_float" else tuple(map(float, held))
        if kind in _PLAIN:
            return kind, _typed(held, _PLAIN[kind])
        if kind in _LISTS:
            return kind, tuple(_typed(item, _LISTS[kind]) for item in held)
        return kind, held


#: Kinds of arguments that are what they hold, or lists of it.
_PLAIN: dict[str, type] = {"as_int": int, "as_bool": bool, "as_string": str}
_LISTS: dict[str, type] = {"as_ints": int, "as_bools": bool, "as_strings": str}


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind or (isinstance(value, int) and abs(value) >= 1 << 64):
        raise TypeError(f"{str(value)[:80]} is no {kind.__name__}")
    return value


def _symbolic(value: Any) -> Any:
    """A number, or the name of one that is computed, as ("", name)."""
    kind, held = _union(value)
    return ("", _text(held)) if kind == "as_name" else held


def _size(value: Any) -> int | str:
    """A size: a number, or an expression over symbols as text."""
    kind, held = _union(value)
    if kind == "as_int" and type(held) is int:
        return held
    return _text(held["expr_str"])


def _tensor(value: Any) -> TensorInfo:
    sizes, strides = (tuple(_size(size) for size in value.get(key) or ()) for key in ("sizes", "strides"))
    offset = value.get("storage_offset")
    return TensorInfo(scalar_type(value["dtype"], "a tensor"), sizes, strides, _size(offset) if offset else 0)


# ---------------------------------------------------------------- names of nested outputs
def _output_names(calls: Any, count: int, namedtuples: Any) -> tuple[str, ...]:
    """Where each output stands in the structure that the module returns; empty where that says nothing."""
    try:
        signature = next(call["signature"] for call in calls if call["fqn"] == "")
        spec = json.loads(signature["out_spec"])[1]
        names = list(_leaves(spec, "", namedtuples))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError):
        return ()
    return tuple(names) if len(names) == count and any(name and not name.isdigit() for name in names) else ()


def _leaves(spec: Any, path: str, namedtuples: Any) -> Iterator[str]:
    kind, children = spec["type"], spec["children_spec"]
    if kind is None:
        yield path
        return
    keys = _keys(spec, namedtuples)
    if len(keys) != len(children):
        keys = [str(n) for n in range(len(children))]
    for key, child in zip(keys, children, strict=True):
        yield from _leaves(child, f"{path}.{key}" if path else key, namedtuples)


def _keys(spec: Any, namedtuples: Any) -> list[str]:
    """The keys of a mapping or of a class with fields, as far as the file says them."""
    kind, context = spec["type"], spec["context"]
    if kind in ("builtins.tuple", "builtins.list"):
        return []
    try:
        held = json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return []
    if kind.endswith("namedtuple"):
        return [str(key) for key in namedtuples.get(held, ())] if isinstance(held, str) else []
    while isinstance(held, (list, tuple)) and held and isinstance(held[0], list):
        held = held[0]
    return [str(key) for key in held] if isinstance(held, list) else []


__all__ = ["Arg", "GraphInfo", "NodeInfo", "Program", "Spec", "TensorInfo", "program_of"]
