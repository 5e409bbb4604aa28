"""The inputs of an MXNet model: variables of its symbol that are neither weights nor labels.

A symbol says little of their shapes: `__shape__`, where the writer knew, and what the weights of a convolution show.
Open dimensions are called `batch`, `height`, `width` ..., another at position n `dim<n>`; a size that is given for one
(`--dim`) comes before that of a shape (`--shape`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.inputs import Shapes, add_expressions, of_known, open_size, size_text
from sterna.frontends.mxnet.symbol import VARIABLE, SymbolInfo, users
from sterna.ir.graph import Array, TensorType, tensor_type
from sterna.ir.integer import Int, as_int
from sterna.ops.builder import is_too_large
from sterna_runtime.advice import Advice
from sterna_runtime.advice import dims as dims_given
from sterna_runtime.advice import shapes as shapes_given
from sterna_runtime.arguments import Dims

#: Operators with a label among their operands, which inference has no use for: how many come before it.
LOSSES = {
    "SoftmaxOutput": 1, "Softmax": 1, "LinearRegressionOutput": 1, "LogisticRegressionOutput": 1,
    "MAERegressionOutput": 1, "SVMOutput": 1,
}  # fmt: skip
#: Positions of operands that are weights: a variable there is none of the model's inputs.
WEIGHTS = {
    "Convolution": (1, 2), "Convolution_v1": (1, 2), "Deconvolution": (1, 2), "FullyConnected": (1, 2),
    "BatchNorm": (1, 2, 3, 4), "BatchNorm_v1": (1, 2, 3, 4), "_contrib_SyncBatchNorm": (1, 2, 3, 4),
    "LayerNorm": (1, 2), "InstanceNorm": (1, 2), "GroupNorm": (1, 2), "Embedding": (1,), "RNN": (1,),
    "_contrib_BatchNormWithReLU": (1, 2, 3, 4), "_contrib_DeformableConvolution": (2, 3),
    "_contrib_quantized_rnn": (1,), "_contrib_ModulatedDeformableConvolution": (3, 4),
}  # fmt: skip
_NUMPY_NAMES = {
    "_npx_convolution": "Convolution", "_npx_deconvolution": "Deconvolution", "_npx_batch_norm": "BatchNorm",
    "_npx_fully_connected": "FullyConnected", "_npx_layer_norm": "LayerNorm", "_npx_embedding": "Embedding",
    "_npx_rnn": "RNN", "_npx_batch_norm_with_relu": "_contrib_BatchNormWithReLU",
    "_npx_deformable_convolution": "_contrib_DeformableConvolution", "_npx_group_norm": "GroupNorm",
    "_npx_instance_norm": "InstanceNorm",
    "_npx_modulated_deformable_convolution": "_contrib_ModulatedDeformableConvolution",
    "_npx_sync_batch_norm": "_contrib_SyncBatchNorm",
}  # fmt: skip
#: Operators whose result has the shape of their first operand: what it goes to says the operand's shape.
_SAME_SHAPE = frozenset(
    (
        "BatchNorm", "BatchNorm_v1", "identity", "_copy", "Cast", "cast", "Activation", "LeakyReLU", "Dropout", "relu",
        "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "BlockGrad", "clip", "LRN",
        "_PlusScalar", "_MinusScalar", "_MulScalar", "_DivScalar", "broadcast_sub", "broadcast_div", "broadcast_add",
        "broadcast_mul", "InstanceNorm", "L2Normalization", "amp_cast",
        "_contrib_quantize", "_contrib_quantize_v2",
    )
)  # fmt: skip
_SPATIAL = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_FLOATING = ("float16", "float64")
_FARTHEST = 16  # operators that a shape is looked for behind


@dataclass(frozen=True)
class InputInfo:
    """An input; `declared`: sizes and names of open dimensions, as far as the symbol or its weights show; or None."""

    name: str
    dtype: str
    declared: tuple[int | str, ...] | None
    is_firm: bool = False


def plain(op: str) -> str:
    """The classic name of a layer that NumPy's interface has too."""
    return _NUMPY_NAMES.get(op, op)


def wanted_operands(op: str, count: int) -> int:
    """How many operands of an operator inference needs: labels of losses are left out."""
    return min(count, LOSSES.get(op, count))


def is_weight(info: SymbolInfo, number: int, taken: Mapping[tuple[int, int], Sequence[tuple[int, int]]]) -> bool:
    """Whether a variable stands where operators have weights, or says how it was initialized."""
    if "__init__" in info.nodes[number].settings:
        return True
    return any(n in WEIGHTS.get(plain(info.nodes[user].op), ()) for user, n in taken.get((number, 0), ()))


def reached(info: SymbolInfo) -> list[int]:
    """Nodes that the outputs need, in order."""
    found: set[int] = set()
    todo = [number for number, _ in info.heads]
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            node = info.nodes[number]
            todo += [source for source, _ in node.inputs[: wanted_operands(node.op, len(node.inputs))]]
    return sorted(found)


def inputs_of(info: SymbolInfo, needed: Sequence[int], weights: Mapping[str, Array]) -> dict[int, InputInfo]:
    """The inputs, in the order of the symbol, by the position of their nodes."""
    taken = users(info.nodes)
    found = {}
    for number in needed:
        node = info.nodes[number]
        if node.op != VARIABLE or node.name in weights or is_weight(info, number, taken):
            continue
        declared, is_firm = None, False
        settings = node.said
        shape = settings.integers("__shape__", ()) if settings.has("__shape__") else ()
        if shape:
            declared = tuple(size if size > 0 else dimension_name(n) for n, size in enumerate(shape))
            is_firm = True
        hint, dtype = _shown(info, number, taken, weights)
        if declared is None or (hint is not None and len(hint) == len(declared)):
            firm = declared or (None,) * len(hint or ())
            declared = (
                None if hint is None else tuple(f if isinstance(f, int) else h for f, h in zip(firm, hint, strict=True))
            )
        found[number] = InputInfo(node.name, _dtype(settings.given.get("__dtype__", ""), dtype), declared, is_firm)
    return found


def dimension_name(position: int) -> str:
    """What an open dimension is called of which nothing else is known."""
    return "batch" if position == 0 else f"dim{position}"


def _dtype(number: str, otherwise: str) -> str:
    names = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
    return names[int(number)] if number.isdecimal() and int(number) < len(names) else otherwise


def _shown(
    info: SymbolInfo, number: int, taken: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
    weights: Mapping[str, Array],
) -> tuple[tuple[int | str, ...] | None, str]:  # fmt: skip
    """The shape and the type of an input, as the weights of the layer that takes it show them."""
    todo, dtype = [((number, 0), 0)], "float32"
    while todo:
        place, depth = todo.pop(0)
        for user, position in taken.get(place, ()):
            node, op = info.nodes[user], plain(info.nodes[user].op)
            if position != 0:
                continue
            weight = weights.get(info.nodes[node.inputs[1][0]].name) if len(node.inputs) > 1 else None
            if op in WEIGHTS and op != "Embedding" and weight is not None and weight.dtype.name in _FLOATING:
                dtype = weight.dtype.name
            if op in ("Convolution", "Convolution_v1", "Deconvolution") and weight is not None:
                spatial = _SPATIAL.get(weight.ndim - 2)
                if spatial is None:
                    continue
                groups = max(_integer(node.settings.get("num_group", "1")), 1)
                if node.settings.get("layout", "NC").startswith("NC") or node.settings.get("layout") == "None":
                    channels = weight.shape[0] if op == "Deconvolution" else weight.shape[1] * groups
                    return ("batch", channels, *spatial), dtype
                channels = weight.shape[0] if op == "Deconvolution" else weight.shape[-1] * groups
                return ("batch", *spatial, channels), dtype
            if op == "FullyConnected" and weight is not None and weight.ndim == 2:
                return ("batch", weight.shape[1]), dtype
            if op in _SAME_SHAPE and depth < _FARTHEST:
                todo.append(((user, 0), depth + 1))
    return None, dtype


def _integer(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 1


# ---------------------------------------------------------------- what the user says
def input_types(inputs: Sequence[InputInfo], shapes: Shapes, dims: Dims) -> tuple[list[TensorType], list[Diagnostic]]:
    """The type of every input, and what is unknown or wrong with what is given: E0105, E0106, E0112."""
    names = [info.name for info in inputs]
    problems = [
        Diagnostic("E0106", f'the model has no input "{name}"', (), f"its inputs: {', '.join(names) or 'none'}")
        for name in shapes
        if name not in names
    ]
    rows = [_row(info, shapes.get(info.name), problems) for info in inputs]
    # What the first dimension is called is what people call it.
    named = [(name, dimension_name(n)) for row in rows for n, (name, _) in enumerate(row or ())]
    every = {each for name, by_place in named for each in ((name,) if name in dims else (name, by_place))}
    sizes = _given(dims if None in rows else of_known(dims, every, problems), problems)
    types: list[TensorType] = []
    for info, row in zip(inputs, rows, strict=True):
        if row is None:
            continue
        known = []
        for n, (name, size) in enumerate(row):
            label = next((each for each in (name, dimension_name(n)) if each in sizes), None)
            known.append(size if label is None else sizes[label])
        if any(size is None for size in known):
            problems.append(_unknown(info, [name if s is None else s for (name, _), s in zip(row, known, strict=True)]))
            continue
        kind = tensor_type(info.dtype, [size for size in known if size is not None])
        if is_too_large(kind):
            problems.append(Diagnostic("E0112", f'the input "{info.name}" of {kind} is too large'))
        types.append(kind)
    return types, problems


def _given(dims: Dims, problems: list[Diagnostic]) -> dict[str, Int]:
    sizes: dict[str, Int] = {}
    for name, size in dims.items():
        if isinstance(size, str):
            continue
        if (found := open_size(name, size)) is None:
            problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {size_text(size)}"))
        else:
            sizes[name] = found
    add_expressions(dims, sizes, problems)
    return sizes


def _row(
    info: InputInfo, shape: Sequence[int] | None, problems: list[Diagnostic]
) -> list[tuple[str, Int | None]] | None:
    """(name, size if it is known) of every dimension; None where not even their number is."""
    if shape is not None:
        if any(size < 1 for size in shape):
            problems.append(Diagnostic("E0106", f'the shape {list(shape)} given for "{info.name}" is not one'))
            return None
        if info.is_firm and info.declared is not None and len(shape) != len(info.declared):
            text = f'the input "{info.name}" is {_text(info.declared)}, which {list(shape)} does not fit'
            problems.append(Diagnostic("E0106", text))
            return None
        declared = info.declared if info.declared is not None and len(info.declared) == len(shape) else None
        names = declared or tuple(dimension_name(n) for n in range(len(shape)))
        return [
            (name if isinstance(name, str) else dimension_name(n), as_int(size))
            for n, (name, size) in enumerate(zip(names, shape, strict=True))
        ]
    if info.declared is None:
        text = f'the shape of the input "{info.name}" is unknown: a symbol of MXNet does not say it'
        problems.append(Diagnostic("E0105", text, (), shapes_given({info.name: ("<size>", "<size>", "...")})))
        return None
    return [
        (size if isinstance(size, str) else dimension_name(n), None if isinstance(size, str) else as_int(size))
        for n, size in enumerate(info.declared)
    ]


def _unknown(info: InputInfo, row: Sequence[str | Int]) -> Diagnostic:
    example = ["1" if n == 0 else "<size>" if isinstance(size, str) else str(size) for n, size in enumerate(row)]
    by_dims = dims_given({d: "1" if n == 0 else "<size>" for n, d in enumerate(row) if isinstance(d, str)})
    fix = Advice(shapes_given({info.name: example}), "  or  ", by_dims)
    return Diagnostic("E0105", f'the input "{info.name}" has dimensions of unknown size: {_text(row)}', (), fix)


def _text(row: Sequence[object]) -> str:
    return f"[{', '.join(map(str, row))}]"


__all__ = ["InputInfo", "SternaError", "input_types", "inputs_of", "is_weight", "reached", "wanted_operands"]
