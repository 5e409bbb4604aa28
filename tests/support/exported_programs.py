"""Small exported programs of PyTorch, written by hand: no PyTorch is needed for them."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sterna.frontends.pytorch.tensors import SCALAR_TYPES

_CODES = {name: code for code, name in SCALAR_TYPES.items()}
Size = int | str


def size(value: Size) -> dict[str, Any]:
    """A size as the schema spells it; text is a symbol, or an expression of some."""
    if isinstance(value, int):
        return {"as_int": value}
    if not value.isidentifier():
        return {"as_expr": {"expr_str": value, "hint": None}}
    return {"as_expr": {"expr_str": f"Symbol('{value}', positive=True, integer=True)", "hint": {"as_int": 2}}}


def product(sizes: Sequence[Size]) -> Size:
    """How many elements there are of these sizes."""
    known = math.prod(n for n in sizes if isinstance(n, int))
    open_sizes = [n for n in sizes if isinstance(n, str)]
    return "*".join((str(known), *open_sizes)) if open_sizes else known


def argument(value: Any) -> dict[str, Any]:
    """An argument: `Name` for a tensor, `Number` for a computed number, a dict for one that is spelled out."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Name):
        return {"as_tensor": {"name": str(value)}}
    if isinstance(value, Number):
        return {"as_sym_int": {"as_name": str(value)}}
    if isinstance(value, Type):
        return {"as_scalar_type": _CODES[str(value)]}
    if value is None:
        return {"as_none": True}
    for kind, key in ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string")):
        if isinstance(value, kind):
            return {key: value}
    items = list(value)
    if items and all(isinstance(item, Name) for item in items):
        return {"as_tensors": [{"name": str(item)} for item in items]}
    if any(isinstance(item, Name) or item is None for item in items):
        return {"as_optional_tensors": [argument(item) for item in items]}
    if any(isinstance(item, Number) for item in items):
        names = [{"as_name": str(item)} if isinstance(item, Number) else {"as_int": item} for item in items]
        return {"as_sym_ints": names}
    kinds = {type(item) for item in items}
    return {{float: "as_floats", bool: "as_bools"}.get(next(iter(kinds), int), "as_ints"): items}


class Name(str):
    """The name of a tensor."""


class Number(str):
    """The name of a number that is computed."""


class Type(str):
    """An element type."""


class Program:
    """A program that grows call by call."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.input_specs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.output_specs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.values: dict[str, Any] = {}
        self.ranges: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.truths: dict[str, Any] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.out_spec: Any = None

    def tensor(
        self, name: str, dtype: str, sizes: Sequence[Size], strides: Sequence[Size] = (), offset: int = 0
    ) -> Name:
        """Declares a tensor; `strides`: those of one that is not dense, text is an expression of symbols; `offset`: of
        the first element in the memory that it is a view of."""
        steps = strides or [product(sizes[n + 1 :]) for n in range(len(sizes))]
        self.values[name] = {
            "dtype": _CODES[dtype], "sizes": [size(n) for n in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [size(n) for n in steps],
            "storage_offset": {"as_int": offset}, "layout": 7,
        }  # fmt: skip
        return Name(name)

    def input(self, name: str, sizes: Sequence[Size], dtype: str = "float32") -> Name:
        made = self.tensor(name, dtype, sizes)
        self.inputs.append(argument(made))
        self.input_specs.append({"user_input": {"arg": argument(made)}})
        return made

    def open(self, name: str, least: int, greatest: int | None) -> str:
        """A symbol with its bounds."""
        self.ranges[name] = {"min_val": least, "max_val": greatest}
        return name

    def weight(self, name: str, data: np.ndarray, kind: str = "parameter") -> Name:
        """A parameter, or a `buffer` or `tensor_constant`."""
        made = self.tensor(f"p_{name}", data.dtype.name, data.shape)
        self.inputs.append(argument(made))
        spec: dict[str, Any] = {"arg": {"name": str(made)}, f"{kind}_name": name}
        self.input_specs.append({kind: {**spec, "persistent": True} if kind == "buffer" else spec})
        self.weights[name] = data
        return made

    def call(self, target: str, /, *results: str, **arguments: Any) -> Any:
        """A call; the names of its results (one list of names where it gives a list)."""
        names = results or (f"v{len(self.nodes)}",)
        self.nodes.append(
            {
                "target": f"torch.ops.{target}" if not target.startswith(("torch.", "_operator")) else target,
                "inputs": [{"name": key, "arg": argument(value), "kind": 1} for key, value in arguments.items()],
                "outputs": [{"as_tensor": {"name": name}} for name in names],
                "metadata": {},
                "name": names[0],
            }
        )
        made = tuple(Name(name) for name in names)
        return made if len(made) > 1 else made[0]

    def number(self, target: str, name: str, /, **arguments: Any) -> Number:
        """A call that gives a number."""
        self.call(target, name, **arguments)
        self.nodes[-1]["outputs"] = [{"as_sym_int": {"as_name": name}}]
        return Number(name)

    def parts(self, target: str, names: Sequence[str], /, **arguments: Any) -> list[Name]:
        """A call that gives a list of tensors."""
        self.call(target, names[0], **arguments)
        self.nodes[-1]["outputs"] = [{"as_tensors": [{"name": name} for name in names]}]
        return [Name(name) for name in names]

    def output(self, value: Any) -> None:
        self.outputs.append(argument(value))
        self.output_specs.append({"user_output": {"arg": argument(value)}})

    def mutation(self, buffer: str, value: Name) -> None:
        """Says what a buffer holds after a run."""
        self.outputs.insert(0, argument(value))
        self.output_specs.insert(0, {"buffer_mutation": {"arg": {"name": str(value)}, "buffer_name": buffer}})

    def graph(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, "tensor_values": self.values,
            "sym_int_values": self.numbers, "sym_bool_values": self.truths, "sym_float_values": {},
            "custom_obj_values": {}, "is_single_tensor_return": False,
        }  # fmt: skip

    def document(self) -> dict[str, Any]:
        calls = []
        if self.out_spec is not None:
            calls = [
                {"fqn": "", "signature": {"inputs": [], "outputs": [], "out_spec": json.dumps([1, self.out_spec])}}
            ]
        return {
            "graph_module": {
                "graph": self.graph(),
                "signature": {"input_specs": self.input_specs, "output_specs": self.output_specs},
                "module_call_graph": calls,
            },
            "opset_version": {"aten": 10}, "range_constraints": self.ranges,
            "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"], "torch_version": "2.15.0",
        }  # fmt: skip

    # ---------------------------------------------------------------- files
    def content(self) -> bytes:
        """The file as PyTorch 2.8 and later write it."""
        config = {}
        parts: dict[str, bytes] = {}
        for number, (name, data) in enumerate(self.weights.items()):
            config[name] = {
                "path_name": f"weight_{number}", "is_param": True, "use_pickle": False,
                "tensor_meta": {
                    "dtype": _CODES[data.dtype.name], "sizes": [{"as_int": n} for n in data.shape],
                    "strides": [{"as_int": n // data.itemsize} for n in np.array(data, order="C").strides],
                    "storage_offset": {"as_int": 0}, "requires_grad": False, "layout": 7,
                    "device": {"type": "cpu", "index": None},
                },
            }  # fmt: skip
            parts[f"data/weights/weight_{number}"] = data.tobytes()
        parts["data/weights/model_weights_config.json"] = json.dumps({"config": config}).encode()
        parts["data/constants/model_constants_config.json"] = b'{"config": {}}'
        parts["models/model.json"] = json.dumps(self.document()).encode()
        parts |= {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little"}
        return archive({f"archive/{name}": held for name, held in parts.items()})

    def old_content(self) -> bytes:
        """The file as PyTorch 2.3 to 2.7 write it."""
        document = {**self.document(), "schema_version": {"major": 5, "minor": 3}}
        return archive(
            {
                "serialized_exported_program.json": json.dumps(document).encode(),
                "serialized_state_dict.pt": saved(self.weights),
                "serialized_constants.pt": saved({}),
                "version": b"3",
            }
        )

    def write(self, path: Path) -> Path:
        path.write_bytes(self.content())
        return path


def archive(parts: Mapping[str, bytes]) -> bytes:
    """A zip archive that is not compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        for name, held in parts.items():
            made.writestr(name, held)
    return file.getvalue()


# ---------------------------------------------------------------- pickles, instruction by instruction
_STORAGE = {"float32": "FloatStorage", "int64": "LongStorage", "int8": "CharStorage", "bool": "BoolStorage"}


def _text(value: str) -> bytes:
    held = value.encode()
    return b"X" + len(held).to_bytes(4, "little") + held


def _integer(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def saved(tensors: Mapping[str, np.ndarray], call: bytes = b"") -> bytes:
    """What `torch.save` makes of a mapping of tensors.

    Args:
        call: instructions whose result stands among them as "extra".
    """
    entries, parts = [], {}
    for number, (name, data) in enumerate(tensors.items()):
        storage = _tuple(
            _text("storage"), _name("torch", _STORAGE[data.dtype.name]), _text(str(number)), _text("cpu"),
            _integer(data.size),
        ) + b"Q"  # fmt: skip
        strides = [n // data.itemsize for n in np.array(data, order="C").strides]
        layout = _tuple(
            storage, _integer(0), _tuple(*map(_integer, data.shape)), _tuple(*map(_integer, strides)), b"\x89",
            _name("collections", "OrderedDict") + b")R",
        )  # fmt: skip
        entries += [_text(name), _name("torch._utils", "_rebuild_tensor_v2") + layout + b"R"]
        parts[f"archive/data/{number}"] = data.tobytes()
    if call:
        entries += [_text("extra"), call]
    pickle = b"\x80\x02" + _name("collections", "OrderedDict") + b")R(" + b"".join(entries) + b"u."
    return archive({"archive/data.pkl": pickle, "archive/byteorder": b"little", **parts})


def hostile(path: Path) -> bytes:
    """Instructions that, if they were run, would make a file."""
    return _name("pathlib", "Path.touch") + _tuple(_name("pathlib", "Path") + _tuple(_text(str(path))) + b"R") + b"R"


def system(command: str) -> bytes:
    """Instructions that, if they were run, would run a command."""
    return _name("os", "system") + _tuple(_text(command)) + b"R"
