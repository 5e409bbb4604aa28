"""The C generator: loop programs to files of C.

The printer writes what stands between a kernel's braces; the Jinja templates under `templates/c` own the file, the
kernels' frames and the helper functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects import dialect
from sterna.codegen.dialects.c99 import C99
from sterna.codegen.dialects.vector_c import VectorC
from sterna.codegen.generators import KernelSet
from sterna.codegen.render import render_template
from sterna.codegen.source import helper_facts, idiom_headers, kernel_texts
from sterna.errors import error
from sterna.loops.program import Function
from sterna.targets.target import Target
from sterna.timing import timed
from sterna.toolchain.compilers import compile_many

#: Kernels per translation unit: a model's units are compiled side by side, and do not depend on the machine.
UNIT = 12


def makes(target: Target) -> bool:
    """Whether the target's dialect is one of C's."""
    return target.dialect in (C99.name, VectorC.name)


def objects(kernels: KernelSet, target: Target, compiler: str) -> list[bytes]:
    """Object files of the kernels, by a C compiler.

    Raises:
        SternaError: E0203 the target has no machine, E04xx the compiler is missing or failed.
    """
    if not target.triple and compiler == "zig":
        raise error(
            "E0203",
            f"the target {target.name} has no machine to compile for",
            fix="take the generated kernels.c, or name a target with a triple",
        )
    with timed("C text"):
        units = generate_units(kernels.functions, target, kernels.model, kernels.comments, UNIT)
    return compile_many(units, target, compiler)


def source(kernels: KernelSet, target: Target) -> str:
    """The kernels as one file."""
    return generate(kernels.functions, target, kernels.model, kernels.comments)


def generate(functions: Sequence[Function], target: Target, model: str, comments: Sequence[Sequence[str]] = ()) -> str:
    """The source file of a model's kernels: types, helpers, one function per kernel, the exported table.

    Args:
        comments: lines to stand above each kernel: the nodes of the source model.
    """
    return _unit(functions, target, model, comments, table=True, bodies=True, shared=False)


def generate_units(
    functions: Sequence[Function], target: Target, model: str, comments: Sequence[Sequence[str]], size: int
) -> list[str]:
    """The same kernels as several translation units of at most `size` kernels; the first holds the table."""
    if len(functions) <= size:
        return [generate(functions, target, model, comments)]
    starts = range(0, len(functions), size)
    units = [_unit(functions[s : s + size], target, model, comments[s : s + size]) for s in starts]
    return [_unit(functions, target, model, (), table=True), *units]


def _unit(
    functions: Sequence[Function],
    target: Target,
    model: str,
    comments: Sequence[Sequence[str]],
    table: bool = False,
    bodies: bool | None = None,
    shared: bool = True,
) -> str:
    """One source file: bodies of kernels, the exported table, or both; kernels of several files are `shared`."""
    d = dialect(target)
    bodies = not table if bodies is None else bodies
    kernels = kernel_texts(functions, d, comments, bodies)
    declared = [d.function(i) for i in d.intrinsics.values() if not i.template]
    helpers = helper_facts(d)
    return render_template(
        "c/kernels.c.j2",
        model=model,
        kernels=kernels,
        helpers=helpers,
        conditional_headers=idiom_headers(helpers),
        headers=sorted(d.headers),
        intrinsics=[(i, d.operand_types(i)) for i in d.intrinsics.values() if i.template],
        declared=declared,
        features=" ".join(target.cpu_features),
        vector=d.vectors,
        target=target,
        table=table,
        bodies=bodies,
        shared=shared,
    )
