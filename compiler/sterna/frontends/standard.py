"""ONNX's operators as building blocks of every front end.

What an operator is made of (a convolution's padding and layouts, the directions of an LSTM, the conventions of Resize)
is written once, where ONNX's operators are translated. A front end of another format says which of them its node is:

    y = standard(t, "Conv", x, weight, bias, strides=(2, 2), pads=(1, 1, 1, 1))

Nodes that are a core operator as they stand are made by `Emitter.op`.
"""

from __future__ import annotations

from typing import Any

from onnx.helper import make_node

from sterna.frontends.emitter import Emitter
from sterna.frontends.onnx.nodes import decode
from sterna.frontends.onnx.reader import applied
from sterna.ir.graph import Value

#: The operator set that `standard` means, whatever the installed package of ONNX knows.
OPSET = 22


def standard(t: Emitter, operator: str, *inputs: Value | None, domain: str = "", **attributes: Any) -> Value:
    """The first result of an operator of ONNX, operator set 22.

    Args:
        inputs: its operands; None where one is left out.
        domain: "" or "com.microsoft".
        attributes: as ONNX's schema has them: integers, floats, text, sequences of them that are not empty; those that
            are left out or None have the schema's default.

    Raises:
        SternaError: E0103 to E0114, as for a model of ONNX.
    """
    return standard_results(t, operator, *inputs, results=1, domain=domain, **attributes)[0]


def standard_results(
    t: Emitter, operator: str, *inputs: Value | None, results: int, domain: str = "", **attributes: Any
) -> tuple[Value, ...]:
    """The first `results` results of an operator of ONNX; otherwise as `standard`."""
    operands = list(inputs)
    while operands and operands[-1] is None:
        operands.pop()
    names = ["" if value is None else f"input{n}" for n, value in enumerate(operands)]
    made = [f"output{n}" for n in range(results)]
    given = {key: value for key, value in attributes.items() if value is not None}
    node = make_node(operator, names, made, domain=domain, **given)
    return applied(decode(node, {"": OPSET, domain: 1} if domain else {"": OPSET}, t.name, None), operands, t)
