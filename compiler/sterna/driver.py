"""The short way through the compiler: a graph and options in, the contents of a bundle out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sterna.alternatives import together
from sterna.codegen.ahead import Ahead
from sterna.codegen.generators import check_generator
from sterna.compiled import Compiled, Library, Origin
from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.frontend import ReadOptions
from sterna.ir.graph import Graph
from sterna.ir.printer import print_graph
from sterna.ir.sizes import dimensions
from sterna.options import WEIGHTS, Options
from sterna.passes.context import context_of
from sterna.passes.shrink_kernels import applies as shrinks
from sterna.pipeline import STAGES, Pass, outline_of, walk
from sterna.targets.target import Target
from sterna_runtime.advice import Advice, Option

Observe = Callable[[str, str], None]
Progress = Callable[[str], None]


def compile_graph(
    graph: Graph, model: str, options: Options, observe: Observe | None = None, progress: Progress | None = None
) -> Compiled:
    """Compiles an imported graph.

    Args:
        model: the model's name as a C identifier.
        observe: called with the name of every one of `STAGES` and what that made, as text.
        progress: called with a few words at the start of every longer step.

    Raises:
        SternaError: E0203 a bad option, E04xx the toolchain failed.
    """
    check_generator(options.generator)
    if options.weights not in WEIGHTS:
        raise error("E0203", f'weights cannot be stored as "{options.weights}"', fix=f"one of {', '.join(WEIGHTS)}")
    _check_packaging(options)
    _check_names(graph)
    if options.alternatives:
        each = [_alternative(graph, model, replace(options.alone, target=_named(t))) for t in options.alternatives]
        base = compile_graph(graph, model, replace(options, alternatives=()), observe, progress)
        return together(base, each)

    def show(stage: Pass, state: Any) -> None:
        if observe is not None:
            for name, text in stage.dumps:
                observe(name, text(state))

    if observe is not None:
        observe("import", print_graph(graph))
    with Ahead(model, options) as ahead:
        context = context_of(options, model)
        if options.target.library and not shrinks(context):  # which is known once all are there
            context = replace(context, ahead=ahead)
        compiled = walk(graph, context, watch=show, progress=progress)
    assert isinstance(compiled, Compiled)
    return compiled


def _alternative(graph: Graph, model: str, options: Options) -> Compiled:
    """The compilation for another target. Archives end up in one program, where each needs symbols of its own."""
    target = options.target
    if not target.library.endswith(".a"):
        return compile_graph(graph, model, options)
    own = symbols_of(model, target)
    compiled = compile_graph(graph, own, options)
    return replace(compiled, model=model, source=compiled.source.replace(own, model))


def symbols_of(model: str, alternative: Target) -> str:
    """What the symbols of an alternative in an archive have in place of the model's name."""
    return f"{model}_{re.sub('[^A-Za-z0-9]', '_', alternative.name)}"


def _named(target: Target) -> Target:
    """The target, with its name in that of its library."""
    stem, _, suffix = target.library.rpartition(".")
    return replace(target, library=f"{stem}.{target.name}.{suffix}")


def reading(options: Options) -> ReadOptions:
    """What a front end is asked for."""
    return ReadOptions(
        dict(options.shapes),
        dict(options.dims),
        options.target.static,
        options.signature,
        options.weights_file,
        options.example_inputs,
        options.dynamic_shapes,
        dict(options.values) or None,
    )


def _check_packaging(options: Options) -> None:
    target = options.target
    if (options.variants or options.alternatives) and options.single_file:
        title = "a single file cannot hold several variants: each would carry the weights"
        raise error("E0203", title, fix=Advice("leave out ", Option("single_file"), " or ", Option("all_variants")))
    if options.single_file and not target.is_wasm:
        fix = Advice(Option("target", "browser"), ", or without ", Option("single_file"))
        raise error("E0203", f"the target {target.name} has no single-file form", fix=fix)


def _check_names(graph: Graph) -> None:
    """Refuses names that programs give to the runtime, and that end too early for it."""
    named = [("input", value.name) for value in graph.arguments] + [("output", name) for name in graph.result_names]
    named += [("dimension", symbol.name) for symbol in dimensions(graph)]
    if bad := [(kind, name) for kind, name in named if "\0" in name]:
        fix = "rename it in the model: for programs in C it ends there"
        titles = [f'the name of the {kind} "{name}" has a zero byte in it' for kind, name in bad]
        raise SternaError(Diagnostic("E0103", title, (), fix) for title in titles)


__all__ = ["STAGES", "Compiled", "Library", "Options", "Origin", "compile_graph", "outline_of", "reading"]
