"""What the front end takes of an ONNX operator, found out on ONNX's own test cases of it: element types, open sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.frontends.onnx.file import ELEMENT_TYPES
from sterna.ir import dtypes
from sterna.pipeline import optimize

EACH = 6  # test cases that are tried, of every rank of the first operand


@dataclass(frozen=True)
class Sample:
    """A model of one node, and the values of its inputs."""

    model: onnx.ModelProto
    values: tuple[np.ndarray, ...]

    @property
    def node(self) -> onnx.NodeProto:
        (node,) = self.model.graph.node
        return node

    @property
    def opset(self) -> int:
        domain = _domain(self.node.domain)
        return next(o.version for o in self.model.opset_import if _domain(o.domain) == domain)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


@lru_cache
def samples() -> Mapping[tuple[str, str], list[Sample]]:
    """Test cases of one node that take tensors, by domain and operator: a few small ones of the newest operator
    set for every rank of the first operand."""
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 (takes seconds)

    found: dict[tuple[str, str], list[Sample]] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1 or not case.data_sets or not case.model.graph.input:
            continue
        values = [_array(value) for value in case.data_sets[0][0]]
        if all(value is not None for value in values):
            sample = Sample(case.model, tuple(np.asarray(value) for value in values))
            found.setdefault((_domain(sample.node.domain), sample.node.op_type), []).append(sample)
    return {key: _chosen(group) for key, group in found.items()}


def _array(value: Any) -> np.ndarray | None:
    """The value of an input; None for sequences and optionals."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None


def _chosen(group: list[Sample]) -> list[Sample]:
    by_rank: dict[int, list[Sample]] = {}
    for sample in sorted(group, key=lambda s: (-s.opset, sum(v.size for v in s.values))):
        by_rank.setdefault(sample.values[0].ndim, []).append(sample)
    return [sample for rank in sorted(by_rank, reverse=True) for sample in by_rank[rank][:EACH]]


def _formal(schema: defs.OpSchema, position: int) -> str:
    """The type parameter of an operand; the last operand of a schema may stand for several."""
    return schema.inputs[min(position, len(schema.inputs) - 1)].type_str


def _model(sample: Sample, alone: bool, element: int | None = None, axes: tuple[int, ...] = ()) -> onnx.ModelProto:
    """The sample with constants in the place of all inputs that have neither the type nor the shape of the first one.

    Args:
        alone: all inputs but the first are constants.
        element: another element type for those that have.
        axes: of the first input, and of those like it, that stay open, named `d0`, `d1` ...
    """
    model = onnx.ModelProto()
    model.CopyFrom(sample.model)
    schema = defs.get_schema(sample.node.op_type, sample.opset, _domain(sample.node.domain))
    values = {i.name: v for i, v in zip(model.graph.input, sample.values, strict=True)}
    names = list(sample.node.input)
    kind, shape = _formal(schema, 0), values[names[0]].shape if names[0] in values else None
    same = {n for p, n in enumerate(names) if n in values and (p == 0 or (not alone and _formal(schema, p) == kind))}
    like = same | {n for n in names if n in values and not alone and shape and values[n].shape == shape}
    for name, value in values.items():
        if name not in like:
            model.graph.initializer.append(numpy_helper.from_array(value, name))
    kept = [i for i in model.graph.input if i.name in like]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for value in model.graph.input:
        if element is not None and value.name in same:
            value.type.tensor_type.elem_type = element
        if values[value.name].shape == shape:
            for axis in axes:
                dim = value.type.tensor_type.shape.dim[axis]
                dim.Clear()
                dim.dim_param = f"d{axis}"
    outputs = [o.name for o in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    return model


def types(domain: str, op: str) -> list[str]:
    """The element types that its first operand may have."""
    accepted: set[str] = set()
    for sample in samples().get((domain, op), []):
        for name, element in _element_types(sample):
            if name not in accepted and _reads(sample, element=element):
                accepted.add(name)
    return [name for name in (*dtypes.ALL, *dtypes.NARROW, dtypes.STRING) if name in accepted]


def _element_types(sample: Sample) -> Iterator[tuple[str, int]]:
    """Name and ONNX's number of every element type that the operator's schema allows its first operand."""
    schema = defs.get_schema(sample.node.op_type, sample.opset, _domain(sample.node.domain))
    kind = _formal(schema, 0)
    allowed = next((set(c.allowed_type_strs) for c in schema.type_constraints if c.type_param_str == kind), {kind})
    for name, number in onnx.TensorProto.DataType.items():
        if f"tensor({name.lower()})" in allowed and number in ELEMENT_TYPES:
            yield ELEMENT_TYPES[number], number


def open_axes(domain: str, op: str) -> tuple[tuple[int, ...], int] | None:
    """(axes of its first operand that may stay open, its rank); None if no test case has such an operand."""
    best: tuple[tuple[int, ...], int] | None = None
    for sample in samples().get((domain, op), []):
        names = [i.name for i in sample.model.graph.input]
        if not sample.node.input or sample.node.input[0] not in names:
            continue
        shape = sample.values[names.index(sample.node.input[0])].shape
        if not shape or 0 in shape:
            continue
        every = tuple(range(len(shape)))
        limits = {f"d{n}": (size, 2 * size) for n, size in enumerate(shape)}
        if _reads(sample, limits, axes=every):
            return every, len(shape)
        found = tuple(n for n in every if _reads(sample, {f"d{n}": limits[f"d{n}"]}, axes=(n,)))
        if best is None or len(found) * best[1] > len(best[0]) * len(shape):
            best = found, len(shape)
    return best


def _reads(sample: Sample, dims: Mapping[str, tuple[int, int]] | None = None, **change: Any) -> bool:
    for alone in (False, True):
        try:
            with np.errstate(all="ignore"):
                optimize(read(_model(sample, alone, **change), dims=dims))
        except SternaError:
            continue
        return True
    return False
