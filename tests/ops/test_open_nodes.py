"""Every ONNX operator with an open first dimension: compiled once, equal to the reference at several sizes, or refused
by an error that `sterna.frontends.onnx.open_sizes` records."""

from __future__ import annotations

import numpy as np
import onnx.reference
import onnxruntime
import pytest
from onnx import defs

import sterna
from sterna.frontends.onnx import read, structure
from sterna.frontends.onnx.nodes import schema
from sterna.frontends.onnx.open_sizes import CONSTANT_SIZES, LIMITS
from sterna.frontends.onnx.operators import translators
from sterna.frontends.onnx.sequences import OPERATORS as SEQUENCES
from support.open_nodes import BOUNDS, OPEN_NODES, SIZES, OpenNode, feeds_of, model_of

NEWEST = 25
#: Different numbers in every runtime: only their shapes are compared.
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
#: Operators of strings, which `tests/ops/test_strings.py` has.
OF_STRINGS = ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")
TOGETHER = 16


def _groups() -> list[list[str]]:
    by_opset: dict[int, list[str]] = {}
    for name, node in OPEN_NODES.items():
        if name not in CONSTANT_SIZES:
            by_opset.setdefault(node.opset, []).append(name)
    return [names[n : n + TOGETHER] for names in by_opset.values() for n in range(0, len(names), TOGETHER)]


def _expected(node: OpenNode, size: int) -> list[np.ndarray]:
    model, feeds = model_of([node]), feeds_of([node], size)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    except Exception:  # no kernel there
        return [np.asarray(a) for a in onnx.reference.ReferenceEvaluator(model).run(None, feeds)]


@pytest.mark.parametrize("names", _groups(), ids=lambda names: f"{names[0]}-{names[-1]}")
def test_right_at_every_size(names: list[str]) -> None:
    nodes = [OPEN_NODES[name] for name in names]
    model = model_of(nodes)
    assert any(value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input)
    with sterna.compile(model, dims={"n": BOUNDS}, generator="llvm") as bundle:
        for size in SIZES:
            found = iter(bundle.run(feeds_of(nodes, size)).values())
            for node in nodes:
                for wanted in _expected(node, size):
                    got = next(found)
                    assert got.shape == wanted.shape, (node.op, size)
                    if node.op not in RANDOM:
                        np.testing.assert_allclose(got, wanted, 1e-4, 1e-4, err_msg=f"{node.op} at {size}")


@pytest.mark.parametrize("name", CONSTANT_SIZES)
def test_refused_with_advice(name: str) -> None:
    with pytest.raises(sterna.SternaError) as problem:
        read(OPEN_NODES[name].model(), dims={"n": BOUNDS})
    assert problem.value.codes == (CONSTANT_SIZES[name],)
    assert name in str(problem.value)
    assert 'dims={"n": <size>}' in str(problem.value)


def test_every_operator_is_here() -> None:
    names = {s.name for s in defs.get_all_schemas_with_history() if s.domain == ""}
    left_out = {*structure.CONTROL, *SEQUENCES, *OF_STRINGS}
    missing = []
    for name in sorted(names - left_out - set(OPEN_NODES)):
        declared = schema(name, NEWEST, "")
        function = declared is not None and (declared.has_function or declared.has_context_dependent_function)
        if declared is not None and not declared.deprecated and (("", name) in translators() or function):
            missing.append(name)
    assert not missing
    assert set(CONSTANT_SIZES) | set(LIMITS) <= set(OPEN_NODES)
