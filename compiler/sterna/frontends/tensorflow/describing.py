"""Facts about a TensorFlow model, without compiling it; and the operators that are known."""

from __future__ import annotations

from collections import Counter

from sterna.errors import SternaError
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.frontend import ReadOptions, Support
from sterna.frontends.source import Source
from sterna.frontends.tensorflow.load import load
from sterna.frontends.tensorflow.model import OTHERS, Port, dtype_of, tensor_of
from sterna.frontends.tensorflow.operators import is_translated, translators
from sterna.frontends.tensorflow.ports import declared, signature_of
from sterna.frontends.tensorflow.reader import HANDLES, WRITTEN_HERE, missing, needed_nodes
from sterna.frontends.tensorflow.tensors import array_of


def describe(source: Source, options: ReadOptions) -> Description:
    """The facts of a model, of what its signature needs.

    Raises:
        SternaError: E0101 or E0103, it is not a model; E0106, it has no such signature.
    """
    model = load(source)
    signature = signature_of(model, options.signature)
    ends = [tensor_of(port.tensor)[0] for port in signature.outputs]
    nodes = [node for _, node in needed_nodes(model, ends)]
    counts = Counter(node.op for node in nodes if node.op not in ("Const", "Placeholder"))
    weights = size = 0
    for node in nodes:
        try:
            array = None
            if node.op == "Const":
                value = node.attributes.get("value")
                array = value if hasattr(value, "nbytes") else array_of(value)
            elif node.op in HANDLES and node.op != "ReadVariableOp":
                array = model.weight(model.restored.get(node.name, node.name))
        except (SternaError, AttributeError):
            continue
        if array is not None and array.dtype != object:
            weights, size = weights + array.size, size + array.nbytes
    uses = tuple(
        OperatorUse(op, count, "yes" if _is_known(op, model.functions) else "no") for op, count in counts.most_common()
    )
    return Description(
        source.name,
        model.producer,
        {},
        tuple(map(_tensor, signature.inputs)),
        tuple(map(_tensor, signature.outputs)),
        uses,
        sum(counts.values()),
        weights,
        size,
        tuple(missing(model, ends)),
        format=model.kind,
        signatures=tuple(model.signatures),
    )


def _is_known(op: str, functions: object) -> bool:
    return op in WRITTEN_HERE or is_translated(op) or op in functions  # type: ignore[operator]


def _tensor(port: Port) -> ModelTensor:
    try:
        kind = dtype_of(port.dtype) if port.dtype else "?"
    except SternaError:
        kind = OTHERS.get(port.dtype, "?")
    return ModelTensor(port.name, kind, declared(port))


def coverage() -> tuple[Support, ...]:
    """All operators that are translated."""
    table = dict.fromkeys(translators(), "translated")
    table |= {name: "variables" if name in HANDLES else "control flow" for name in WRITTEN_HERE}
    table |= {"Const": "translated", "Placeholder": "translated", "PlaceholderV2": "translated"}
    return tuple(Support(name, how) for name, how in sorted(table.items()))
