"""The last stages of a compilation: the kernels' source, and their libraries for the target and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.codegen.generators import KernelSet, objects, source
from sterna.compiled import Compiled, Library
from sterna.loops.finish import without_rounding
from sterna.loops.program import Function
from sterna.options import Options
from sterna.passes.context import Ahead, PassContext
from sterna.passes.own_loops import own_loops
from sterna.passes.plan_kernels import comments_of
from sterna.passes.stages import Packed, Written
from sterna.timing import timed
from sterna.toolchain.link import link_library


def write_source(packed: Packed, context: PassContext) -> Written:
    """The kernels as the source that the bundle keeps."""
    comments = comments_of(packed.sequence.calls, packed.kernel_of, len(packed.kernels))
    functions = [kernel.function for kernel in packed.kernels]
    printed = () if context.ahead is None else context.ahead.printed
    text = source(KernelSet(context.model, functions, comments), context.target, printed)
    return Written(**vars(packed), source=text, comments=comments)


def build_libraries(written: Written, context: PassContext) -> Compiled:
    """Everything a bundle is written from, with a library for the target and for each of its variants.

    Raises:
        SternaError: E0203 the generator does not generate for a target, E04xx the toolchain failed.
    """
    options = context.options
    libraries = []
    for target in (context.target, *(v for v in options.variants if v != context.target)):
        if target.library:
            own = target is context.target
            name = target.library if own else "{0}.{2}.{1}".format(*target.library.rsplit(".", 1), target.name)
            chosen = replace(options, target=target)
            ahead = context.ahead if own else None
            lesser = not context.target.rounded <= target.rounded
            kernels = written.kernels if own else own_loops(written, target, context)
            functions = [kernel.function for kernel in kernels]
            programs = [without_rounding(f) for f in functions] if lesser else functions
            data = build_library(programs, written.comments, context.model, chosen, ahead)
            libraries.append(Library(name, target, data, tuple(kernels)))
    return Compiled(
        graph=written.graph,
        options=options,
        model=context.model,
        views=written.views,
        calls=written.sequence.calls,
        kernels=written.kernels,
        kernel_of=written.kernel_of,
        plan=written.plan,
        params=written.params,
        params_at=written.params_at,
        states_at=written.states_at,
        source=written.source,
        libraries=tuple(libraries),
        control=written.sequence.control,
    )


def build_library(
    functions: Sequence[Function],
    comments: Sequence[Sequence[str]],
    model: str,
    options: Options,
    ahead: Ahead | None = None,
) -> bytes:
    """The kernel library, by the generator that was asked for.

    Args:
        ahead: has these kernels already, in the same order, if anything has.
    """
    with timed(f"{options.generator} for {options.target.name}"):
        made = None if ahead is None else ahead.objects()
        if made is None:
            made = objects(KernelSet(model, functions, comments), options.target, options.generator, options.compiler)
    with timed(f"link {options.target.library}"):
        return link_library(made, options.target, model)
