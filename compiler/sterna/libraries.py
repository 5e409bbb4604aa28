"""The last stages of a compilation: the kernels' source, and their libraries for the target and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.codegen.generators import KernelSet, module, objects, source
from sterna.compiled import Compiled, Library
from sterna.loops.finish import without_rounding
from sterna.loops.program import Function
from sterna.options import Options
from sterna.passes.context import Ahead, PassContext
from sterna.passes.kernels import CPU
from sterna.passes.own_loops import own_loops
from sterna.passes.plan_kernels import comments_of
from sterna.passes.stages import Packed, Written, owners
from sterna.targets.target import Target
from sterna.timing import timed
from sterna.toolchain.link import link_library


def write_source(packed: Packed, context: PassContext) -> Written:
    """The kernels as the source that the bundle keeps."""
    rendered = {id(owner.code): n for n, owner in enumerate(owners(packed.kernels))}
    code_of = [rendered[id(packed.kernels[k].code)] for k in packed.kernel_of]
    comments = comments_of(packed.sequence.calls, code_of, len(rendered))
    written = Written(**vars(packed), source="", comments=comments)
    device = context.target.device
    printed = () if context.ahead is None else context.ahead.printed
    if device is None:
        functions = [owner.code for owner in owners(packed.kernels)]
        text = source(KernelSet(context.model, functions, comments), context.target, printed)
        return replace(written, source=text)
    here, there = (_kernels_of(written, context.model, place) for place in (CPU, device.kind))
    text = source(here, context.host) if here.functions or not there.functions else ""
    return replace(written, source=text, module=module(there, context.target) if there.functions else "")


def _kernels_of(written: Written, model: str, place: str) -> KernelSet:
    """The kernels of a place."""
    kernels = zip(owners(written.kernels), written.comments, strict=True)
    own = [(kernel, comments) for kernel, comments in kernels if kernel.place == place]
    exchanging = [each for kernel, _ in own for each in kernel.exchanging]
    return KernelSet(model, [kernel.code for kernel, _ in own], [comments for _, comments in own], exchanging)


def build_libraries(written: Written, context: PassContext) -> Compiled:
    """Everything a bundle is written from, with a library for the target and for each of its variants, or for the CPU
    beside a device and for each of that one's.

    Raises:
        SternaError: E0203 the generator does not generate for a target, E04xx the toolchain failed.
    """
    beside, variants = context.target.device is not None, context.options.variants
    # A bundle has kernels of a device or a library, also where nothing is computed.
    needed = not beside or not written.kernels or any(kernel.place == CPU for kernel in written.kernels)
    targets = (context.host, *(v for v in variants if v != context.host)) if needed else ()
    libraries = tuple(_library(written, target, context) for target in targets if target.library)
    return Compiled(
        graph=written.graph,
        options=context.options,
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
        module=written.module,
        placement=written.sequence.placement,
        libraries=libraries,
        control=written.sequence.control,
    )


def _library(written: Written, target: Target, context: PassContext) -> Library:
    """The kernels of the CPU for a target: the first one, or a variant."""
    own = target is context.host
    name = target.library if own else "{0}.{2}.{1}".format(*target.library.rsplit(".", 1), target.name)
    ahead = context.ahead if own and context.target.device is None else None
    kernels = written.kernels if own else tuple(own_loops(written, target, context))
    here = _kernels_of(replace(written, kernels=kernels), context.model, CPU)
    lesser = not context.host.rounded <= target.rounded
    programs = [without_rounding(f) for f in here.functions] if lesser else here.functions
    data = build_library(programs, here.comments, context.model, replace(context.options, target=target), ahead)
    return Library(name, target, data, tuple(kernel for kernel in kernels if kernel.place == CPU))


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
