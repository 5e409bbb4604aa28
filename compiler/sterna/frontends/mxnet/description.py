"""What an MXNet model holds, without compiling it."""

from __future__ import annotations

from collections import Counter

from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.mxnet.operators import is_translated
from sterna.frontends.mxnet.outputs import output_names
from sterna.frontends.mxnet.reader import load, problems_of, weights_of
from sterna.frontends.mxnet.symbol import VARIABLE
from sterna.frontends.source import Source


def describe(source: Source) -> Description:
    """Inputs as far as their shapes are known, outputs, operators and weights.

    Raises:
        SternaError: E0101, E0103, E0109 or E0111, its files cannot be read.
    """
    info = load(source)
    operators = [info.symbol.nodes[n] for n in info.needed if info.symbol.nodes[n].op != VARIABLE]
    counts = Counter(node.op for node in operators)
    weights = weights_of(info)
    return Description(
        info.where,
        f"MXNet {info.symbol.version}" if info.symbol.version else "",
        {},
        tuple(ModelTensor(each.name, each.dtype, each.declared) for each in info.inputs.values()),
        tuple(ModelTensor(name, "float32", None) for name in output_names(info.symbol)),
        tuple(OperatorUse(op, count, "yes" if is_translated(op) else "no") for op, count in counts.most_common()),
        len(operators),
        sum(array.size for array in weights.values()),
        sum(array.nbytes for array in weights.values()),
        tuple(problems_of(info)),
        format="MXNet",
    )
