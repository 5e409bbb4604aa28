"""The inputs of an exported program: their types, with the sizes that the user gives.

A dimension that the export left open stays open within the bounds that the file says. One without an upper bound must
be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.expressions import parse, solved, symbols_of
from sterna.frontends.inputs import Shapes, add_expressions, limits_of, of_known, open_size, size_text
from sterna.frontends.pytorch.program import Program, Spec, TensorInfo
from sterna.frontends.pytorch.tensors import COMPLEX
from sterna.ir.graph import TensorType, tensor_type
from sterna.ir.integer import Int, as_int, symbol
from sterna.ops.builder import is_too_large
from sterna_runtime.advice import Advice
from sterna_runtime.advice import dims as dims_given
from sterna_runtime.arguments import Dims

#: An open dimension without an upper bound may be as large as this, which no memory would hold: it must be given.
_UNBOUNDED = 1 << 31


def fed(program: Program) -> list[tuple[Spec, str]]:
    """The inputs that the caller gives, each with its name: tensors, and numbers that are no constants."""
    named = []
    for spec, graph_input in zip(program.inputs, program.graph.inputs, strict=True):
        if spec.kind != "user_input":
            continue
        kind, value = graph_input
        if kind == "as_tensor":
            named.append((spec, str(value)))
        elif kind.startswith("as_sym") and isinstance(value, tuple):
            named.append((spec, str(value[1])))
    return named


def info_of(program: Program, name: str) -> TensorInfo:
    """What the file says of a tensor; a number counts as one without dimensions."""
    known = program.graph.tensors.get(name)
    return TensorInfo("int64", (), ()) if known is None else known


def declared_dims(info: TensorInfo) -> tuple[int | str, ...]:
    """Sizes; the symbol, or the expression, of an open one."""
    dims: list[int | str] = []
    for size in info.sizes:
        names = symbols_of(size) if isinstance(size, str) else []
        if isinstance(size, int):
            dims.append(size)
        elif len(names) == 1 and (size == names[0] or size.startswith("Symbol(")):
            dims.append(names[0])
        else:
            dims.append("?")
    return tuple(dims)


def input_types(program: Program, shapes: Shapes, dims: Dims) -> tuple[list[TensorType], dict[str, Int]]:
    """The type of every input, and the sizes of the symbols.

    Raises:
        SternaError: E0105, E0106, E0111, E0112.
    """
    names = [name for _, name in fed(program)]
    infos = {name: info_of(program, name) for name in names}
    problems = [
        Diagnostic("E0106", f'the model has no input "{name}"', (), f"its inputs: {', '.join(names) or 'none'}")
        for name in shapes
        if name not in infos
    ]
    used = [s for info in infos.values() for size in info.sizes if isinstance(size, str) for s in symbols_of(size)]
    symbols = _sizes(dict.fromkeys(used), program, infos, shapes, dims, problems)
    types: list[TensorType] = []
    for name, info in infos.items():
        if info.dtype in COMPLEX:
            problems.append(Diagnostic("E0111", f'the input "{name}" is of {info.dtype}, which is not supported'))
            continue
        try:
            sizes = [as_int(size) if isinstance(size, int) else parse(size, symbols) for size in info.sizes]
        except SternaError as mistake:
            if set(mistake.codes) != {"E0105"}:
                problems += mistake.diagnostics
            continue
        kind = tensor_type(info.dtype, sizes)
        given = shapes.get(name)
        if given is not None and not _fits(kind.shape, given):
            text = f'the input "{name}" is {list(declared_dims(info))}, which {list(given)} does not fit'
            problems.append(Diagnostic("E0106", text))
        elif is_too_large(kind):
            problems.append(Diagnostic("E0112", f'the input "{name}" of {kind} is too large'))
        types.append(kind)
    if problems:
        raise SternaError(problems)
    return types, symbols


def _fits(shape: Sequence[Int], given: Sequence[int]) -> bool:
    return len(shape) == len(given) and all(
        size == wanted for size, wanted in zip(shape, given, strict=True) if size.is_const
    )


def _sizes(
    names: Mapping[str, None],
    program: Program,
    infos: Mapping[str, TensorInfo],
    shapes: Shapes,
    dims: Dims,
    problems: list[Diagnostic],
) -> dict[str, Int]:
    """The sizes of the symbols: given, implied by given shapes, or open."""
    known: dict[str, Int] = {}
    of_data = [name for name in program.ranges if name not in names]
    sizes = of_known(dims, (*names, *of_data), problems)
    for name, size in sizes.items():
        if name in of_data:
            if not isinstance(size, tuple):
                text = f"the data decide the dimension {name}, of which only bounds can be given"
                bounds = (1, size if isinstance(size, int) else 8)
                problems.append(Diagnostic("E0106", text, (), Advice(dims_given({name: bounds}))))
            else:
                _check(name, *limits_of(size)[:2], program, problems)
            continue
        if isinstance(size, str):
            continue
        if (found := open_size(name, size)) is None:
            problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {size_text(size)}"))
            continue
        known[name] = found
        _check(name, *limits_of(size)[:2], program, problems)
    for name, given in shapes.items():
        row = declared_dims(infos[name]) if name in infos else ()
        if len(row) != len(given):
            continue
        for dim, size in zip(row, given, strict=True):
            if not isinstance(dim, str) or dim == "?":
                continue
            if known.setdefault(dim, as_int(size)) != size:
                text = f"the dimension {dim} is given as {known[dim]} and as {size}"
                problems.append(Diagnostic("E0106", text))
            _check(dim, size, size, program, problems)
    _solve(infos, shapes, known, program, problems)
    by_others = {name: size for name, size in sizes.items() if name in names and isinstance(size, str)}
    add_expressions(by_others, known, problems)
    for name in by_others.keys() & known.keys():
        least, greatest = known[name].bounds()
        _check(name, least or 0, greatest or 0, program, problems)
    missing = []
    for name in names:
        if name in known:
            continue
        least, greatest = program.ranges.get(name, (0, None))
        if greatest is None or greatest >= _UNBOUNDED:
            missing.append(name)
        else:
            known[name] = as_int(least) if least == greatest else symbol(name, least, greatest)
    if missing:
        text = f"the model has dimensions without an upper bound: {', '.join(missing)}"
        wanted = Advice(
            dims_given(dict.fromkeys(missing, "1")), ", or a range: ", dims_given(dict.fromkeys(missing, (1, 8)))
        )
        problems.append(Diagnostic("E0105", text, (), wanted))
    return known


def _solve(
    infos: Mapping[str, TensorInfo], shapes: Shapes, known: dict[str, Int], program: Program, problems: list[Diagnostic]
) -> None:
    """Takes symbols from given sizes of dimensions that are expressions of one symbol, as 8 * s."""
    for name, given in shapes.items():
        sizes = infos[name].sizes if name in infos else ()
        for text, size in zip(sizes, given, strict=False):
            inside = symbols_of(text) if isinstance(text, str) else []
            if not isinstance(text, str) or len(inside) != 1 or inside[0] in known:
                continue
            if (found := solved(text, size)) is not None:
                known[found[0]] = as_int(found[1])
                _check(*found, found[1], program, problems)
                continue
            fix = f"sizes as {text} gives them" if len(text) < 40 else None
            problems.append(Diagnostic("E0106", f'no size of {inside[0]} makes {size} of the input "{name}"', (), fix))


def _check(name: str, low: int, high: int, program: Program, problems: list[Diagnostic]) -> None:
    """Refuses sizes beyond what the program was exported for."""
    least, greatest = program.ranges.get(name, (0, None))
    if low < least or (greatest is not None and high > greatest):
        limits = f"from {least}" + ("" if greatest is None else f" to {greatest}")
        text = f"the dimension {name} was exported for sizes {limits}, not {low if low == high else f'{low}..{high}'}"
        problems.append(Diagnostic("E0106", text, (), "give one within, or export the model for others"))
