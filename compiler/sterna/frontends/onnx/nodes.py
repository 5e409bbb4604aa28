"""ONNX nodes, decoded and checked against ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, defs

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.onnx.file import OLDEST_OPSET, to_array

ML = "ai.onnx.ml"

_KINDS = {value: key.lower() for key, value in AttributeProto.AttributeType.items()}


@dataclass(frozen=True, eq=False)
class Source:
    """A node of the source model.

    Args:
        op, domain: the operator; the domain of standard operators is "".
        version: the operator set that the model imports for the domain.
        name: its name, made up where the model gives none.
        attributes: those given, decoded, and the defaults of the schema.
        given: names of those that the model gives.
    """

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    proto: onnx.NodeProto | None = None

    @property
    def label(self) -> str:
        """How messages call the operator."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def place(self) -> str:
        return f'{self.label} "{self.name}"'


@cache
def schema(op: str, version: int, domain: str) -> Any:
    """ONNX's declaration of an operator, or None."""
    if not 0 < version < 1 << 31:
        return None
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


@cache
def newest(domain: str) -> int:
    """The newest operator set of a domain that the installed package knows; 0 for an unknown domain."""
    versions = defs.onnx_opset_version() if domain == "" else 0
    if domain == ML:
        versions = max((s.since_version for s in defs.get_all_schemas_with_history() if s.domain == ML), default=0)
    return int(versions)


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """The operator sets that a model imports.

    Raises:
        SternaError: E0102, one of them is older than 1 or newer than the installed package knows, or there are two of
            one domain.
    """
    result: dict[str, int] = {}
    problems = []
    for item in imports:
        domain = "" if item.domain == "ai.onnx" else item.domain
        if result.setdefault(domain, int(item.version)) != item.version:
            text = f"the model uses {domain or 'ai.onnx'} {result[domain]} and {item.version}"
            problems.append(Diagnostic("E0102", text, (), "export it with one version of every operator set"))
    for domain, version in result.items():
        label = domain or "ai.onnx"
        limit = newest(domain)
        if domain == "" and version < OLDEST_OPSET:
            fix = f"convert it: onnx.version_converter.convert_version(model, {limit})"
            problems.append(
                Diagnostic(
                    "E0102", f"the model uses {label} {version}; the oldest supported is {OLDEST_OPSET}", (), fix
                )
            )
        elif domain in ("", ML) and version > limit:
            text = f"the model uses {label} {version}; the installed onnx package knows {limit}"
            problems.append(Diagnostic("E0102", text, (), "pip install --upgrade onnx"))
    if not result:
        problems.append(Diagnostic("E0102", "the model does not say which operator set it uses"))
    if problems:
        raise SternaError(problems)
    return result


def broken(nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], where: str) -> list[Diagnostic]:
    """What nodes, and those of the graphs within them, say that their operators do not know: too few or too many
    operands, attributes of another kind. What follows may rely on it."""
    problems: list[Diagnostic] = []
    for position, proto in enumerate(nodes):
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        label = f'{proto.op_type} "{proto.name or f"{proto.op_type}_{position}"}"'
        version = versions.get(domain, 0)
        try:
            if any(attribute.ref_attr_name for attribute in proto.attribute):
                raise error("E0103", f"{label} refers to an attribute of a function, but is not in one")
            check_node(proto, schema(proto.op_type, version, domain) if version else None, label)
        except SternaError as mistake:
            place = f"{where}, node {position}, {label}"
            problems += [replace(d, where=(place, *d.where)) for d in mistake.diagnostics]
        for attribute in proto.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                problems += broken(graph.node, versions, where)
    return problems


def check_node(proto: onnx.NodeProto, declared: Any, label: str) -> None:
    """Refuses a node with too few or too many operands or results, or attributes of another kind than declared.

    Args:
        declared: the operator's schema, None where there is none.

    Raises:
        SternaError: E0103 or E0109.
    """
    if not proto.output:
        raise error("E0103", f"{label} has no outputs")
    seen: set[str] = set()
    for attribute in proto.attribute:
        if attribute.name in seen:
            raise error("E0109", f"{label} has the attribute {attribute.name} twice")
        seen.add(attribute.name)
        if declared is None or attribute.ref_attr_name:
            continue
        expected = declared.attributes.get(attribute.name)
        if expected is None:
            raise error("E0109", f"{label} has an attribute {attribute.name}, which {proto.op_type} does not know")
        if int(expected.type.value) != attribute.type:
            wanted, found = _KINDS.get(int(expected.type.value)), _KINDS.get(attribute.type)
            raise error("E0109", f"{label}: the attribute {attribute.name} is of kind {found}, not {wanted}")
    if declared is None:
        return
    taken, given = _count(proto.input), _count(proto.output)
    if not declared.min_input <= taken <= declared.max_input:
        range_ = f"{declared.min_input} to {declared.max_input}"
        raise error("E0103", f"{label} has {taken} inputs; {proto.op_type} takes {range_}")
    if given > declared.max_output:
        raise error("E0103", f"{label} has {given} outputs; {proto.op_type} gives at most {declared.max_output}")


def _count(names: Sequence[str]) -> int:
    """How many there are up to the last one that is not left out."""
    return max((n for n, name in enumerate(names, 1) if name), default=0)


def decode(proto: onnx.NodeProto, versions: Mapping[str, int], name: str, folder: Path | None) -> Source:
    """A node with its attributes.

    Raises:
        SternaError: E0102, E0103 or E0109, the node does not follow its schema.
    """
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    version = versions.get(domain, 0)
    outputs = list(proto.output)
    while outputs and not outputs[-1]:
        outputs.pop()
    inputs = list(proto.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    attributes: dict[str, Any] = {}
    declared = schema(proto.op_type, version, domain) if version else None
    label = f'{proto.op_type} "{name}"'
    check_node(proto, declared, label)
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            raise error("E0103", f"{label} refers to an attribute of a function, but is not in one")
        attributes[attribute.name] = _value(attribute, label, folder)
    given = frozenset(attributes)
    if declared is not None:
        for key, expected in declared.attributes.items():
            if key in attributes:
                continue
            if expected.required:
                raise error("E0109", f"{label} lacks the attribute {key}")
            if expected.default_value.type:
                attributes[key] = _value(expected.default_value, label, folder)
    return Source(proto.op_type, domain, version, name, tuple(inputs), tuple(outputs), attributes, given, proto)


def _value(attribute: onnx.AttributeProto, label: str, folder: Path | None) -> Any:
    kind = attribute.type
    what = f"{label}: the attribute {attribute.name}"
    try:
        if kind == AttributeProto.INT:
            return int(attribute.i)
        if kind == AttributeProto.FLOAT:
            return float(attribute.f)
        if kind == AttributeProto.STRING:
            return attribute.s.decode()
        if kind == AttributeProto.INTS:
            return tuple(int(v) for v in attribute.ints)
        if kind == AttributeProto.FLOATS:
            return tuple(float(v) for v in attribute.floats)
        if kind == AttributeProto.STRINGS:
            return tuple(v.decode() for v in attribute.strings)
    except UnicodeDecodeError:
        raise error("E0109", f"{what} is not text") from None
    if kind == AttributeProto.TENSOR:
        return to_array(attribute.t, folder, what)
    if kind == AttributeProto.GRAPH:
        return attribute.g
    return attribute


__all__ = ["ML", "Source", "broken", "check_node", "decode", "newest", "opsets", "schema"]
