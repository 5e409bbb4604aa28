"""Small models of every format that mutations begin with, made in code: the same ones every time."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import TensorProto, defs, helper, numpy_helper, parser

from format_seeds import SEEDS
from sterna.frontends.onnx.operators import translators
from support import keras_files
from support.exported_samples import samples
from support.nodes import STRATEGIES
from support.small_models import residual_network

#: Formats, and the share of executions that each gets.
SHARES = {
    "onnx": 10, "grown": 4, "tflite": 6, "xgboost": 1, "ubjson": 1, "lightgbm": 1, "pt2": 4, "keras": 3, "darknet": 2,
    "h5": 2, "caffe": 2, "mxnet": 2, "tensorflow": 3, "tensorflow_js": 2, "coreml": 2,
    "saved_model": 2, "mlpackage": 2,
}  # fmt: skip
_EXAMPLES = 4  # models of each ONNX operator
_CASES = 4  # models of each TensorFlow Lite operator
_LARGEST = 20_000  # bytes of a seed


def seeds() -> dict[str, list[bytes]]:
    """The seeds by format; models of TensorFlow Lite only where its schema is installed."""
    xgboost = [json.dumps(document).encode() for document in _boosted()]
    return {
        "onnx": [*_nodes(), *(m.SerializeToString() for m in (*_texts(), residual_network(), _stored_outside()))],
        "tflite": _tflite(),
        "xgboost": xgboost,
        "ubjson": [ubjson(json.loads(text)) for text in xgboost],
        "lightgbm": [_LIGHTGBM.encode()],
        "pt2": [content for program in samples() for content in (program.content(), program.old_content())],
        "keras": keras_files.samples(),
        "h5": keras_files.hdf5_samples(),
        **{form: make() for form, make in SEEDS.items()},
    }


# ---------------------------------------------------------------- ONNX
def _nodes() -> list[bytes]:
    """Models of one operator each, over its attributes and awkward shapes."""
    made: list[bytes] = []
    for strategy in STRATEGIES.values():
        seed(11)(_SETTINGS(given(st.data())(_collector(strategy, made))))()
    return [model for model in made if len(model) < _LARGEST]


_SETTINGS = settings(
    max_examples=_EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def _collector(strategy: Callable[..., Any], made: list[bytes]) -> Callable[[st.DataObject], None]:
    def collect(data: st.DataObject) -> None:
        made.append(strategy(data.draw).model().SerializeToString())

    return collect


#: What models begin with that do not say it themselves.
_HEAD = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3, "com.microsoft" : 1]>\n'


def _texts() -> list[onnx.ModelProto]:
    """Control flow, sequences, functions, quantized and classical models; empty lines stand between them."""
    texts = Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n\n")
    return [parser.parse_model(text if text.startswith("<") else _HEAD + text) for text in texts]


def _stored_outside() -> onnx.ModelProto:
    """Weights that the model says lie in another file."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    w = numpy_helper.from_array(np.ones(2, np.float32), "w")
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w])
    onnx.external_data_helper.set_external_data(w, "weights.bin", 0, 8)
    w.ClearField("raw_data")
    graph.initializer[0].CopyFrom(w)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


#: Operators that have a translator.
_OPERATORS = sorted(translators())
_RARE = ("INT8", "UINT8", "INT32", "BOOL", "FLOAT16", "DOUBLE", "STRING", "BFLOAT16")
_ELEMENTS = ("FLOAT",) * 8 + ("INT64",) * 4 + _RARE
_NUMBERS = (-(2**63), -(2**31), -5, -1, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 8, 16, 2**20, 2**31 - 1, 2**40, 2**63 - 1)
_FLOATS = (float("nan"), float("inf"), -1e38, -1.0, 0.0, 1e-30, 0.5, 1.0, 2.0, 3e38)


def grown(random: Random) -> bytes:
    """A model of one to three operators of any kind with operands and attributes drawn at random."""
    given: list[onnx.ValueInfoProto] = []
    stored: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    names: list[str] = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        domain, op = random.choice(_OPERATORS)
        declared = _declared(op, domain)
        most = min(declared.max_input, 6) if declared else 6
        count = random.randint(min(declared.min_input, most) if declared else 1, most)
        operands = [_operand(random, given, stored, names) for _ in range(count)]
        results = [f"y{len(names)}_{n}" for n in range(random.choice((1, 1, 2, 3)))]
        if declared:
            results = results[: max(declared.max_output, 1)]
        made = helper.make_node(op, operands, results, domain=domain)
        made.attribute.extend(_attributes(random, declared))
        nodes.append(made)
        names += results
    outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "grown", given, outputs, stored)
    imports = [helper.make_opsetid(*known) for known in (("", 21), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def _declared(op: str, domain: str) -> Any:
    try:
        return defs.get_schema(op, {"": 21, "ai.onnx.ml": 3}.get(domain, 1), domain)
    except defs.SchemaError:
        return None


def _operand(random: Random, given: list[onnx.ValueInfoProto], stored: list[onnx.TensorProto], names: list[str]) -> str:
    """An earlier result, a new input or a new constant; or none."""
    if names and random.random() < 0.5:
        return random.choice(names)
    if random.random() < 0.06:
        return ""
    element = TensorProto.DataType.Value(random.choice(_ELEMENTS))
    shape = [random.choice((1, 2, 2, 3, 4, 4, 0)) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5)))]
    name = f"x{len(given) + len(stored)}"
    if random.random() < 0.6:
        given.append(helper.make_tensor_value_info(name, element, shape))
        return name
    count = int(np.prod(shape))
    if element == TensorProto.STRING:
        stored.append(helper.make_tensor(name, element, shape, [random.choice((b"a", b"bc")) for _ in range(count)]))
        return name
    numbers = [random.choice(_NUMBERS[2:15]) for _ in range(count)]
    kind = helper.tensor_dtype_to_np_dtype(element)
    stored.append(numpy_helper.from_array(np.array(numbers).astype(kind).reshape(shape), name))
    return name


def _attributes(random: Random, declared: Any) -> list[onnx.AttributeProto]:
    """Values for some of the attributes that a schema lists."""
    made = []
    for name, attribute in sorted(declared.attributes.items()) if declared else ():
        if not attribute.required and random.random() < 0.6:
            continue
        kind, value = int(attribute.type.value), onnx.AttributeProto()
        value.name, value.type = name, kind
        if kind == onnx.AttributeProto.INT:
            value.i = random.choice(_NUMBERS)
        elif kind == onnx.AttributeProto.FLOAT:
            value.f = random.choice(_FLOATS)
        elif kind == onnx.AttributeProto.STRING:
            value.s = random.choice((b"", b"linear", b"SAME_UPPER", b"constant", b"LINEAR", b"none", b"L2"))
        elif kind == onnx.AttributeProto.INTS:
            value.ints.extend(random.choice(_NUMBERS) for _ in range(random.randint(0, 5)))
        elif kind == onnx.AttributeProto.FLOATS:
            value.floats.extend(random.choice(_FLOATS) for _ in range(random.randint(0, 5)))
        elif kind == onnx.AttributeProto.STRINGS:
            value.strings.extend(random.choice((b"a", b"LEAF", b"Tanh")) for _ in range(random.randint(0, 3)))
        elif kind == onnx.AttributeProto.TENSOR:
            value.t.CopyFrom(numpy_helper.from_array(np.array([random.choice(_NUMBERS)], np.int64)))
        else:
            continue
        made.append(value)
    return made


# ---------------------------------------------------------------- TensorFlow Lite
def _tflite() -> list[bytes]:
    try:
        from support.tflite_nodes import MAKERS, model_of  # noqa: PLC0415  not installed everywhere
    except BaseException as problem:  # pytest's way to say that a package is missing is no Exception
        if type(problem).__name__ not in ("Skipped", "ImportError", "ModuleNotFoundError"):
            raise
        return []
    made = [model_of(name, number)[0].content() for name in MAKERS for number in range(_CASES)]
    return [model for model in (*made, *_tflite_graphs()) if len(model) < _LARGEST]


def _tflite_graphs() -> list[bytes]:
    """Conditions, loops and variables."""
    from support.tflite_builder import ModelWriter  # noqa: PLC0415  not installed everywhere

    x = np.array([[1.5, -2.0, 0.25], [4.0, 3.0, -7.5]], np.float32)

    def arithmetic(graph: Any, name: str, options: str, factor: float) -> None:
        operands = [graph.input(x), graph.constant(np.array(factor, np.float32))]
        graph.op(name, operands, [graph.output("float32", x.shape)], options)

    choice = ModelWriter()
    operands = [choice.main.input(np.array([True])), choice.main.input(x)]
    arithmetic(choice.graph("then"), "ADD", "AddOptions", 10.0)
    arithmetic(choice.graph("else"), "MUL", "MulOptions", -3.0)
    result = choice.main.output("float32", x.shape)
    choice.main.op("IF", operands, [result], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    choice.signature("chosen", 0, {"c": 0, "x": 1}, {"y": 2})

    loop = ModelWriter()
    g, one = loop.main, np.ones(1, np.int32)
    operands = [g.input(one), g.input(x)]
    results = [g.output("int32", (1,)), g.output("float32", x.shape)]
    condition, body = loop.graph("condition"), loop.graph("body")
    tested = [condition.input(one), condition.input(x)]
    limit = condition.constant(np.array([5], np.int32))
    condition.op("LESS", [tested[0], limit], [condition.output("bool", (1,))], "LessOptions")
    carried = [body.input(one), body.input(x)]
    body.op("ADD", [carried[0], body.constant(one)], [body.output("int32", (1,))], "AddOptions")
    body.op("ADD", [carried[1], carried[1]], [body.output("float32", x.shape)], "AddOptions")
    g.op("WHILE", operands, results, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)

    variable = ModelWriter()
    g, start = variable.main, variable.graph("start")
    for graph, value in ((start, None), (g, x)):
        handle = graph.tensor("resource", ())
        graph.op("VAR_HANDLE", [], [handle], "VarHandleOptions", sharedName=b"v")
        if value is None:
            graph.op("ASSIGN_VARIABLE", [handle, graph.constant(x)], [], "AssignVariableOptions")
            continue
        graph.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
        read, total = graph.tensor("float32", x.shape), graph.output("float32", x.shape)
        graph.op("READ_VARIABLE", [handle], [read], "ReadVariableOptions")
        graph.op("ADD", [read, graph.input(x)], [total], "AddOptions")
        graph.op("ASSIGN_VARIABLE", [handle, total], [], "AssignVariableOptions")
    return [model.content() for model in (choice, loop, variable)]


# ---------------------------------------------------------------- boosted trees
def _boosted() -> list[dict[str, Any]]:
    """XGBoost models: one output, several, and splits by category."""
    tree: dict[str, Any] = {
        "tree_param": {"num_nodes": "3", "size_leaf_vector": "1"}, "left_children": [1, -1, -1],
        "right_children": [2, -1, -1], "parents": [2147483647, 0, 0], "split_indices": [1, 0, 0],
        "split_conditions": [0.5, -1.0, 2.0], "default_left": [1, 0, 0], "split_type": [0, 0, 0], "categories": [],
        "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
    }  # fmt: skip
    chosen = {
        **tree, "split_type": [1, 0, 0], "categories": [1, 2], "categories_nodes": [0], "categories_segments": [0],
        "categories_sizes": [2],
    }  # fmt: skip

    def model(objective: str, trees: list[dict[str, Any]], info: list[int], classes: str) -> dict[str, Any]:
        parameters = {"base_score": "5E-1", "num_class": classes, "num_feature": "3", "num_target": "1"}
        booster = {"name": "gbtree", "model": {"trees": trees, "tree_info": info}}
        learner = {"learner_model_param": parameters, "objective": {"name": objective}, "gradient_booster": booster}
        return {"learner": learner, "version": [3, 0, 0]}

    return [
        model("reg:squarederror", [tree], [0], "0"),
        model("multi:softprob", [tree, chosen, tree], [0, 1, 2], "3"),
        model("binary:logistic", [chosen, tree], [0, 0], "0"),
    ]


def ubjson(value: Any) -> bytes:
    """A JSON value in the binary form that XGBoost writes."""
    if isinstance(value, dict):
        return b"{" + b"".join(_length(key.encode()) + ubjson(item) for key, item in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b"".join(map(ubjson, value)) + b"]"
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        return b"L" + struct.pack(">q", max(min(value, 2**63 - 1), -(2**63)))
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    return b"S" + _length(str(value).encode("utf-8", "replace"))


def _length(text: bytes) -> bytes:
    return b"L" + struct.pack(">q", len(text)) + text


_LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=2
objective=regression

Tree=0
num_leaves=3
num_cat=1
split_feature=0 2
threshold=0.5 0
decision_type=2 1
left_child=1 -1
right_child=-2 -3
leaf_value=0.25 -1 2
cat_boundaries=0 2
cat_threshold=6 1

end of trees
"""
