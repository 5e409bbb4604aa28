"""Writes docs/operators.md: which ONNX and TensorFlow Lite operators there are and how each is compiled, and the core
operators.

python docs/operators.py            # rewrites the page
python docs/operators.py --check    # fails if it is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from measure import open_axes, types
from onnx import defs

from sterna.codegen.generators import GENERATORS
from sterna.errors import SternaError
from sterna.frontends.formats import frontends
from sterna.frontends.frontend import Support
from sterna.frontends.onnx.operators.microsoft_quantized import APPROXIMATED
from sterna.ir import dtypes
from sterna.ir.graph import tensor_type
from sterna.ops import Operator, operators

PAGE = Path(__file__).resolve().parent / "operators.md"
OPSET = 28  # the newest that the page speaks of, so that it does not depend on the installed onnx package
HEAD = """# Operators

Written by `docs/operators.py` from the declarations in `compiler/sterna/ops` and from what the compiler does with
ONNX's own test cases; a test checks that it is up to date. Every core operator runs in the reference interpreter and
with both code generators, C and LLVM.

## ONNX operators
Operator sets 1 to {opset}, which is the newest of `onnx` 1.23 ({count} operators).
- *opsets*: the operator sets that changed the operator; `tests/ops/test_opset_versions.py` runs it with each.
- *how*: *core*: the operator is this core operator; *translated*: into core operators; *function*: expanded from
  ONNX's own definition; *control flow*: nodes with graphs inside; *compile time*: sequences and optionals, which
  become tensors while compiling.
- *types* of its first operand, and axes of that operand whose size may stay *open* (`any`, or which of how many), as
  far as ONNX's test cases show it. An empty field means that no test case shows it, or that the operand is a constant
  there.
- *generators* that render its kernels.

| operator | opsets | how | types | open | generators |
| --- | --- | --- | --- | --- | --- |
"""
PYTORCH = """## PyTorch operators
{count} operators of exported programs, by the overloads that are translated ({overloads} in all), of the training-level
and of the core set. The forms that write in place (`add_`) are translated as well: what is written to a view reaches
the tensor that it is a view of. Products of two tensors that are quantized (`quantized_decomposed`, `torchao`) are made
of their integers.

| operator | overloads | how |
| --- | --- | --- |
"""

KERAS = """## Keras layers
{count} layers are translated, with all of their settings that mean something for inference:

"""

TFLITE = """## TensorFlow Lite operators
Builtin operators in every version ({supported} of {count}). Integer results equal those of the runtime's reference
kernels, bit for bit: int8 and uint8 with a scale per tensor or per channel, int16 activations, weights of 4 bits. Float
layers may have weights of 16 bits, weights of 8 bits (activations are then quantized while the model runs) and sparse
weights, which are made dense. *translated*: into core operators; *control flow*: nodes with graphs inside; *variables*:
values that are kept from run to run. Unsupported settings are refused with E0113, which names them.

Not supported: hash tables and operators on strings (HASHTABLE*, LSH_PROJECTION, SKIP_GRAM), random numbers (RANDOM_*,
MULTINOMIAL), operators that converters no longer write or that the runtime itself does not run (CALL,
CONCAT_EMBEDDINGS, EMBEDDING_LOOKUP_SPARSE), and DILATE and REDUCE_WINDOW. Complex numbers are supported between RFFT2D
and the operators that take their parts or magnitudes, but not as inputs or outputs of a model. Types that the
reference kernels lack (HARD_SWISH and L2_NORMALIZATION with 16 bits) are refused too.

| operator | how |
| --- | --- |
"""


def covered(format_: str) -> list[Support]:
    """The operators that a format itself has, as its front end says."""
    return [each for each in frontends()[format_].operators() if not each.custom]


def keras_layers() -> list[str]:
    """The layers of Keras that are translated."""
    return [each.operator for each in covered("keras") if "." not in each.operator]


def overloads(format_: str) -> list[str]:
    """A row per operator whose overloads are translated, by its name."""
    found: dict[str, list[str]] = {}
    ways: dict[str, str] = {}
    for each in covered(format_):
        name, _, overload = each.operator.rpartition(".")
        name, overload = (name, overload) if name.count(".") else (each.operator, "")
        found.setdefault(name, []).append(overload)
        ways[name] = each.how
    return [f"| {name} | {', '.join(filter(None, which)) or '-'} | {ways[name]} |" for name, which in found.items()]


def custom(format_: str) -> str:
    """Those of others that are supported, without their domain."""
    return ", ".join(each.operator.rpartition(".")[2] for each in frontends()[format_].operators() if each.custom)


def onnx_rows() -> list[str]:
    """A row per operator of ONNX and ONNX-ML."""
    rows = []
    history = defs.get_all_schemas_with_history()
    for operator in covered("onnx"):
        domain, _, name = operator.operator.rpartition(".")
        versions = sorted({s.since_version for s in history if (s.domain, s.name) == (domain, name)})
        versions = [v for v in versions if v <= OPSET]
        if not versions:
            continue
        cells = [operator.operator, ", ".join(map(str, versions)), operator.how]
        if operator.how in ("not supported", "compile time"):
            cells += ["", "", ""]
        else:
            cells += [
                _shortened(types(domain, name)),
                _axes(domain, name),
                ", ".join(generator.title for generator in GENERATORS.values()),
            ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _axes(domain: str, name: str) -> str:
    found = open_axes(domain, name)
    if found is None:
        return ""
    axes, rank = found
    return "any" if len(axes) == rank else f"{', '.join(map(str, axes))} of {rank}" if axes else "none"


def types_of(operator: Operator) -> str:
    """The element types that the first operand of the operator's test cases may have in the place of its own."""
    accepted: dict[str, None] = {}
    for case in operator.cases:
        inputs = case.arrays()
        first = next((a.dtype for a in inputs if a is not None), None)
        for dtype in (*dtypes.ALL, *dtypes.NARROW) if first is not None else ():
            kinds = tuple(
                None if a is None else tensor_type(dtype if a.dtype == first else dtypes.from_numpy(a.dtype), a.shape)
                for a in inputs
            )
            try:
                operator.types(kinds, operator.complete(case.attributes))
            except SternaError:
                continue
            accepted[dtype] = None
    return _shortened([dtype for dtype in (*dtypes.ALL, *dtypes.NARROW) if dtype in accepted])


GROUPS = (
    ("all types", (*dtypes.ALL, *dtypes.NARROW)),
    ("numbers and bool", dtypes.ALL),
    ("numbers", (*dtypes.FLOATS, *dtypes.SIGNED, *dtypes.UNSIGNED)),
    ("floats, signed integers", (*dtypes.FLOATS, *dtypes.SIGNED)),
    ("integers", (*dtypes.SIGNED, *dtypes.UNSIGNED)),
    ("floats", dtypes.FLOATS),
)


def _shortened(found: list[str]) -> str:
    """Groups of types by their names, and those that are left."""
    left, parts = list(found), []
    for name, group in GROUPS:
        if set(group) <= set(left):
            parts.append(name)
            left = [dtype for dtype in left if dtype not in group]
    return ", ".join([*parts, *left])


COREML = """## Core ML
Operations of programs, layers of networks (`layer:`) and models of other kinds (`model:`).

| operator | how it is compiled |
| --- | --- |
"""


def core_rows(table: Iterable[Operator]) -> list[str]:
    rows = []
    for operator in sorted(table, key=lambda o: o.name):
        settings = ", ".join(attribute.name for attribute in operator.attributes) or "-"
        doc = operator.doc.replace("|", "\\|")
        rows.append(
            f"| `{operator.name}` | {doc} | {types_of(operator) or '-'} | {operator.fusion.value} | {settings} |"
        )
    return rows


def page() -> str:
    rows = onnx_rows()
    programs = overloads("pytorch")
    lite = [f"| {each.operator} | {each.how} |" for each in covered("tflite")]
    parts = [
        HEAD.format(count=len(rows), opset=OPSET) + "\n".join(rows),
        "Of `com.microsoft`, which ONNX Runtime's optimizer and quantizer emit: " + custom("onnx") + ".",
        "\n".join(f"By design, {how}; `verify` says so where results differ." for how in APPROXIMATED.values()),
        TFLITE.format(count=len(lite), supported=sum("not supported" not in row for row in lite)) + "\n".join(lite),
        "Custom operators: " + custom("tflite") + ".",
        PYTORCH.format(count=len(programs), overloads=len(covered("pytorch"))) + "\n".join(programs),
        "Of other packages: " + ", ".join(e.operator for e in frontends()["pytorch"].operators() if e.custom) + ".",
        KERAS.format(count=len(keras_layers())) + ", ".join(f"`{name}`" for name in keras_layers()) + ".",
        "Operations between them, by their names in `keras.ops`: "
        + ", ".join(f"`{e.operator.removeprefix('keras.ops.')}`" for e in covered("keras") if "." in e.operator)
        + ".",
        "## DarkNet layers\n" + ", ".join(f"`{e.operator}`" for e in covered("darknet")) + ".",
        "## Caffe layers\n" + ", ".join(f"`{e.operator}`" for e in covered("caffe")) + ".",
        "## MXNet operators\n" + ", ".join(f"`{e.operator}`" for e in covered("mxnet")) + ".",
        "## TensorFlow\nFrozen graphs, SavedModels and TensorFlow.js graph models: "
        + ", ".join(each.operator for each in covered("tensorflow"))
        + ".",
        COREML + "\n".join(f"| {each.operator} | {each.how} |" for each in covered("coreml")),
        "## Core operators\nTypes are those of the first operand.\n\n"
        "| operator | what it computes | types | fusion | settings |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(core_rows(operators().values())),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    new = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text("utf-8") != new:
            print("docs/operators.md is not up to date: run python docs/operators.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
