"""Every declared operator on its own test cases: against ONNX Runtime where it is ONNX's own, and for form.

Nothing here names an operator: a new declaration is tested by being in the table.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from onnx import defs, helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ir.printer import print_graph
from sterna.ir.verifier import verify
from sterna.ops import Builder, Case, Onnx, Operator, infer, operators
from sterna.ops.evaluate import evaluate
from sterna.pipeline import optimize
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, placeholder

CASES = [
    pytest.param(operator, case, id=f"{operator.name}-{number}")
    for operator in operators().values()
    for number, case in enumerate(operator.cases)
]
DIRECT = [
    pytest.param(operator, mapping, case, id=f"{operator.name}-{number}")
    for operator in operators().values()
    for mapping in operator.onnx
    for number, case in enumerate(operator.cases)
]


@pytest.mark.parametrize("operator", operators().values(), ids=lambda operator: operator.name)
def test_declaration_is_complete(operator: Operator) -> None:
    assert operator.doc
    assert operator.cases, "an operator without cases is an operator without tests"
    assert all(attribute.kind for attribute in operator.attributes)


@pytest.mark.parametrize(("operator", "case"), CASES)
def test_formula_agrees_with_the_type_rule(operator: Operator, case: Case) -> None:
    arrays, attributes = case.arrays(), operator.complete(case.attributes)
    types = tuple(None if a is None else tensor_type(dtypes.from_numpy(a.dtype), a.shape) for a in arrays)
    outputs = operator.types(types, attributes)
    if operator.program is not None:
        computed = evaluate(operator.name, arrays, attributes)
        assert [tensor_type(dtypes.from_numpy(a.dtype), a.shape) for a in computed] == list(outputs)
        return
    tensors = [
        None if t is None else placeholder(f"x{n}", t.shape, dtypes.storage(t.dtype)) for n, t in enumerate(types)
    ]
    results = operator.compute(tensors, attributes, outputs, "y")
    assert [(t.shape, t.dtype) for t in results] == [(t.shape, dtypes.storage(t.dtype)) for t in outputs]
    kernel = Kernel("k", tuple(t for t in tensors if t is not None), (), results)
    names = [stage.name for stage in kernel.stages]
    assert len(set(names)) == len(names)
    assert all(name.startswith("y") and name.isidentifier() for name in names)
    computed = run_kernel(kernel, {f"x{n}": dtypes.stored(a) for n, a in enumerate(arrays) if a is not None})
    if operator.view is not None and arrays[0] is not None:
        np.testing.assert_array_equal(computed["y"], operator.view(arrays[0], attributes))


@pytest.mark.parametrize(("operator", "case"), CASES)
def test_a_graph_of_one_node_survives_every_pass(operator: Operator, case: Case) -> None:
    arrays = case.arrays()
    builder = Builder()
    inputs = [
        None if a is None else Value(builder.name(f"x{n}"), tensor_type(dtypes.from_numpy(a.dtype), a.shape))
        for n, a in enumerate(arrays)
    ]
    results = builder.add_all(operator.name, *inputs, **case.attributes)
    graph = Graph("one", tuple(v for v in inputs if v is not None), results, tuple(builder.nodes))
    feeds = {v.name: a for v, a in zip(inputs, arrays, strict=True) if v is not None and a is not None}
    before = interpret(verify(graph, infer), feeds)
    optimized = optimize(graph, check=True)
    assert operator.name in print_graph(graph)
    after = interpret(optimized, feeds)
    for one, other in zip(before.values(), after.values(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def model_of(mapping: Onnx, operator: Operator, case: Case, arrays: list[np.ndarray]) -> onnx.ModelProto:
    """The ONNX model of one node that the declaration says is this operator."""
    schema = defs.get_schema(mapping.op, defs.onnx_opset_version(), mapping.domain)
    theirs = {ours: name for name, ours in mapping.attributes.items()}
    kinds = {attribute.name: attribute.kind for attribute in operator.attributes}
    attributes = {}
    for name, value in operator.complete(case.attributes).items():
        given = int(value) if kinds[name] == "bool" else value
        if given is not None and theirs.get(name, name) in schema.attributes:
            attributes[theirs.get(name, name)] = given
    node = helper.make_node(mapping.op, [f"x{n}" for n in range(len(arrays))], ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(f"x{n}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in enumerate(arrays)
    ]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "one", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("operator", "mapping", "case"), DIRECT)
def test_equals_onnx(operator: Operator, mapping: Onnx, case: Case) -> None:
    arrays = [np.asarray(a) for a in case.arrays()]
    model = model_of(mapping, operator, case, arrays)
    feeds = {f"x{n}": a for n, a in enumerate(arrays)}
    try:
        model = onnx.shape_inference.infer_shapes(model)
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    except Exception:  # not every type is implemented there
        try:
            expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
        except Exception as problem:
            pytest.skip(f"neither ONNX Runtime nor ONNX's reference runs it: {problem}")
    try:
        graph = read(model)
    except SternaError as mistake:
        pytest.skip(f"ONNX does not have it so: {mistake.diagnostics[0].title}")
    found = interpret(graph, feeds)["y"]
    assert found.shape == np.shape(expected)
    tolerance = 2e-3 if "float16" in str(found.dtype) else 2e-6
    np.testing.assert_allclose(
        found.astype(np.float64), np.asarray(expected).astype(np.float64), rtol=tolerance, atol=tolerance
    )


def test_a_wrong_attribute_is_refused() -> None:
    with pytest.raises(SternaError, match="E0109"):
        operators()["clip"].complete({"least": 0})
    with pytest.raises(SternaError, match="E0109"):
        operators()["softmax"].types(
            (tensor_type("float32", (2,)),),
            operators()["pad"].complete({"before": (), "after": (), "mode": "sideways"}),
        )


def test_views_of_constants_copy_nothing() -> None:
    data = np.arange(24.0).reshape(2, 3, 4)
    (turned,) = evaluate("transpose", [data], {"order": (2, 0, 1)})
    assert np.shares_memory(turned, data)
