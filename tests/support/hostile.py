"""Forty-three names that nobody should choose, and models that use all of them."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

#: Each is legal in a model: names there are any text. What a name attacks stands beside it.
NAMES = (
    "../../x",  # paths
    "..\\..\\x",
    "/etc/passwd",
    "C:\\x:y",
    "a\tb",  # ends of lines
    "a\nb",
    "a\r\nerror[E0901]: bug",
    "line\\\n#include <x>",
    "\u2028a\u2029",
    "\x1b[31mred\x1b[0m",  # terminals
    "\x1b]0;title\x07",
    "\x9b2J\x85",
    "a\b\b\x7f",
    "\u202egnp.exe",  # what is read
    "\u2066a\u2069",
    "a\u200bb\ufeff",
    "שלום",
    "🐦\u200d🔥",
    "*/ int x; /*",  # comments, strings and markup
    "// a",
    "-->",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt;&amp;",
    "```\n# a",
    "`rm -rf x`",
    "${x}$(x)",
    "\"'",
    "\u201c\u201d\u2018\u2019«»",
    "\\",
    "a\\\\",
    "??/ %s %n",
    "[bold]x[/bold][/]",
    "[x](javascript:alert(1))",
    "|a|b|",
    "{{ x }}{% raw %}",
    '{"a": [1]},',
    "__proto__",  # words of languages and systems
    "constructor",
    "int",
    "CON",
    "--help",
    "n" * 5000,
)


def model() -> onnx.ModelProto:
    """Every name is an input's (with -in), an output's, a node's and, of an even one, a dimension's (with -dim)."""
    nodes, inputs, outputs = [], [], []
    for number, name in enumerate(NAMES):
        shape = [f"{name}-dim"] if number % 2 == 0 else [3]
        inputs.append(helper.make_tensor_value_info(f"{name}-in", TensorProto.FLOAT, shape))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        nodes.append(helper.make_node("Neg", [f"{name}-in"], [name], name=name))
    return helper.make_model(helper.make_graph(nodes, "hostile", inputs, outputs), ir_version=9)


def dims() -> dict[str, tuple[int, int]]:
    return {f"{name}-dim": (1, 4) for name in NAMES[::2]}


def broken_model() -> onnx.ModelProto:
    """Everything in it is wrong, and has such a name: operators, missing tensors, domains."""
    made = model()
    for node, name in zip(made.graph.node, NAMES, strict=True):
        node.input[0] = f"{name}-missing"
        node.op_type, node.domain = f"Op{name}", "example.org"
    made.opset_import.append(helper.make_opsetid("example.org", 1))
    return made
