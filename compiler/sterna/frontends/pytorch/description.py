"""Facts about an exported program, without compiling it."""

from __future__ import annotations

from collections import Counter

from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.inputs import declared_dims, fed, info_of
from sterna.frontends.pytorch.models import load
from sterna.frontends.pytorch.program import Program
from sterna.frontends.pytorch.support import is_supported, problems_of
from sterna.frontends.source import Source


def describe(source: Source, options: ReadOptions) -> Description:
    """The facts of a program, all of its graphs counted.

    Raises:
        SternaError: as of `models.load`.
    """
    model = load(source, options)
    program = model.program
    nodes = list(program.graph.all_nodes())
    counts = Counter(node.target for node in nodes)
    version = f", PyTorch {program.torch_version}" if program.torch_version else ""
    return Description(
        source.name,
        f"torch.export, schema {program.version}{version}",
        {},
        tuple(_tensor(program, name, name) for _, name in fed(program)),
        _outputs(program),
        tuple(OperatorUse(op, count, "yes" if is_supported(op) else "no") for op, count in counts.most_common()),
        len(nodes),
        sum(array.size for array in model.tensors.values()),
        sum(array.nbytes for array in model.tensors.values()),
        tuple(problems_of(program, source.name)),
        format="PyTorch",
        signatures=model.models if len(model.models) > 1 else (),
        sizes_ready=all(program.ranges.get(name, (0, None))[1] is not None for name in _open(program)),
    )


def _open(program: Program) -> set[str]:
    return {d for _, name in fed(program) for d in declared_dims(info_of(program, name)) if isinstance(d, str)}


def _tensor(program: Program, name: str, shown: str) -> ModelTensor:
    info = info_of(program, name)
    return ModelTensor(shown, info.dtype, declared_dims(info))


def _outputs(program: Program) -> tuple[ModelTensor, ...]:
    found = []
    names = iter(program.output_names)
    for spec, (kind, value) in zip(program.outputs, program.graph.outputs, strict=True):
        if spec.kind not in ("user_output", "loss_output"):
            continue
        called = next(names, "")
        if kind == "as_tensor":
            found.append(_tensor(program, str(value), called or str(value)))
    return tuple(found)
