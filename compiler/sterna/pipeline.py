"""The way of a model through the compiler, as one list: from a graph to the contents of a bundle.

`PIPELINE` is where the driver, `--dump-after`, `--time-passes`, verification and `sterna verify --bisect` have their
stages from. The first passes are from graph to graph; those after them hand on the records of `passes.stages`, and the
last one gives what a bundle is written from.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sterna.ir.graph import Graph, has_regions, with_regions, with_unique_names
from sterna.ir.printer import print_graph
from sterna.ir.verifier import verify
from sterna.libraries import build_libraries, write_source
from sterna.ops import infer
from sterna.ops.formulas import HALF
from sterna.options import WEIGHTS, Options
from sterna.passes import byte_signs, chains, dumps, group_operands, implicit_padding, place, scale_in_integers
from sterna.passes import check_sizes as sizes
from sterna.passes import halve_weights as halve
from sterna.passes import narrow_products as narrow
from sterna.passes import verify as checks
from sterna.passes import winograd as minimal_filtering
from sterna.passes.code_trees import code_trees
from sterna.passes.context import PassContext, context_of
from sterna.passes.crop_taps import crop_taps
from sterna.passes.drop_channels import drop_channels
from sterna.passes.einsum_products import einsum_products
from sterna.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.eliminate_identities import eliminate_identities
from sterna.passes.fill_channels import fill_channels
from sterna.passes.fold_batch_norm import fold_batch_norm
from sterna.passes.fold_constants import fold_constants
from sterna.passes.fuse import fuse_all
from sterna.passes.group_channels import group_channels
from sterna.passes.hoist_elementwise import hoist_elementwise
from sterna.passes.im2col import applies as lays_out_windows
from sterna.passes.im2col import im2col
from sterna.passes.join import join
from sterna.passes.layout import layout
from sterna.passes.linearize import linearize
from sterna.passes.materialize_outputs import materialize_outputs
from sterna.passes.memory_plan import plan_memory, traffic_of
from sterna.passes.multiply_by_reciprocals import multiply_by_reciprocals
from sterna.passes.normalizations import group_statistics, layer_normalizations
from sterna.passes.overlap import overlap
from sterna.passes.pack import pack
from sterna.passes.patches import patches
from sterna.passes.phases import phases
from sterna.passes.plan_kernels import finish_kernels, lower_kernels, round_weights, schedule_kernels
from sterna.passes.planes import planes
from sterna.passes.recompute import recompute
from sterna.passes.remove_empty_tensors import remove_empty_tensors
from sterna.passes.rotations import rotations
from sterna.passes.separate_pools import separate_pools
from sterna.passes.separate_reductions import separate_reductions
from sterna.passes.shrink_kernels import applies as shrinks
from sterna.passes.shrink_kernels import shrink_kernels
from sterna.passes.split_sums import applies as splits_sums
from sterna.passes.split_sums import split_sums
from sterna.passes.stages import Finished, Grouped, Outline, Sequenced, Viewed
from sterna.passes.stream_weights import applies as streams_weights
from sterna.passes.stream_weights import stream_weights
from sterna.passes.subgroup_variants import applies as may_exchange
from sterna.passes.subgroup_variants import exchange
from sterna.passes.tabulate import tabulate
from sterna.passes.views import plan_views
from sterna.passes.widen_halves import multiplies_computed, widen_halves
from sterna.passes.write_out import write_out
from sterna.targets.description import load_target
from sterna.timing import timed

GraphPass = Callable[[Graph], Graph]
Dump = tuple[str, Callable[[Any], str]]

#: A target that no pass is for.
PLAIN = "c99"
#: Set to 1, what every pass made is verified; the tests do.
VERIFY = "STERNA_VERIFY_PASSES"


@dataclass(frozen=True)
class Pass:
    """A stage of the compiler.

    Args:
        name: unique among all.
        run: from what the pass before it made to what this one makes.
        dumps: what `--dump-after` can show of that: names, and how they are printed.
        verify: raises E0901 where that is malformed; given the pass's name for the message.
        applies: whether the model and target have it at all; where not, everything stays as it is.
        says: for a progress bar, what begins with it; given what the pass before it made.
        over_graphs: it gives a graph for a graph, which computes the same.
    """

    name: str
    run: Callable[[Any, PassContext], Any]
    dumps: tuple[Dump, ...] = ()
    verify: Callable[[Any, str], object] | None = None
    applies: Callable[[PassContext], bool] = lambda context: True
    says: Callable[[Any], str] | None = None
    over_graphs: bool = False


def verify_graph(graph: Graph, stage: str) -> None:
    """Raises E0901 for a graph that is malformed."""
    verify(graph, infer, stage)


def graph_pass(
    name: str,
    run: GraphPass,
    applies: Callable[[PassContext], bool] = lambda context: True,
    says: str | None = None,
    whole: bool = False,
) -> Pass:
    """A pass over graphs, which runs over every region as over a graph of its own; `whole`: not over regions."""
    over = run if whole else lambda graph: everywhere(run, graph)
    words = None if says is None else lambda graph: says
    dump = (name, print_graph)
    return Pass(name, lambda graph, context: over(graph), (dump,), verify_graph, applies, words, over_graphs=True)


def _scale_in_integers(graph: Graph, context: PassContext) -> Graph:
    all_of_them = context.target.wide_products
    return everywhere(lambda each: scale_in_integers.scale_in_integers(each, all_of_them), graph)


def _tabulate(graph: Graph, context: PassContext) -> Graph:
    scalar = context.target.lanes(32) == 1
    return everywhere(lambda each: tabulate(each, floats_are_dear=scalar), graph)


def _layout(graph: Graph, context: PassContext) -> Graph:
    return everywhere(lambda each: layout(each, exchanges=context.target.threads is not None), graph)


def _phases(graph: Graph, context: PassContext) -> Graph:
    return everywhere(lambda each: phases(each, context.target.threads is not None), graph)


def _planes(graph: Graph, context: PassContext) -> Graph:
    return everywhere(lambda each: planes(each, context.target, context.decide), graph)


def _widen_halves(graph: Graph, context: PassContext) -> Graph:
    narrow = frozenset(HALF) - context.target.fragment_types
    threads = context.target.threads
    kept = threads is not None and threads.converts_halves
    return everywhere(
        lambda each: each if kept and not multiplies_computed(each) else widen_halves(each, narrow), graph
    )


def _im2col(graph: Graph, context: PassContext) -> Graph:
    return everywhere(lambda each: im2col(each, context.target), graph)


def _views(graph: Graph, context: PassContext) -> Viewed:
    return Viewed(graph, plan_views(graph))


def _fuse(viewed: Viewed, context: PassContext) -> Grouped:
    device = context.target.device
    most = None if device is None else device.buffers
    return Grouped(viewed.graph, viewed.views, fuse_all(viewed.graph, viewed.views, context.decide, most))


def _linearize(grouped: Grouped, context: PassContext) -> Sequenced:
    return Sequenced(grouped.graph, grouped.views, linearize(grouped.graph, grouped.views, grouped.groups))


def _memory(sequenced: Sequenced, context: PassContext) -> Outline:
    graph, views, sequence = sequenced.graph, sequenced.views, sequenced.sequence
    target = context.target
    plan = plan_memory(
        graph,
        sequence.calls,
        views,
        context.options.debug,
        sequence.control,
        target.tensor_memories,
        target.alignment,
        lent=target.saves_memory,
    )
    kept = tuple(n for n, call in enumerate(sequence.calls) if not plan.needless(call, views))
    sequence = sequence.without(lambda call: plan.needless(call, views))
    return Outline(graph, views, sequence, replace(plan, positions=kept))


def _chains(grouped: Grouped, context: PassContext) -> Grouped:
    def placed(apart: Grouped) -> Outline:
        return place.place(_memory(_linearize(apart, context), context), context, tried=True)

    return chains.join_chains(grouped, context, placed)


def _split_sums(sequenced: Sequenced, context: PassContext) -> Sequenced:
    def placed(apart: Sequenced) -> Outline:
        return place.place(_memory(apart, context), context, tried=True)

    return split_sums(sequenced, context, placed)


def _scratch(finished: Finished, context: PassContext) -> Finished:
    """The scratch of every call has a place in one of the memories, or in the arena."""
    sizes = [finished.kernels[k].function.scratch_bytes for k in finished.kernel_of]
    memories, moved = context.target.tensor_memories, None
    if len(memories) > 1:
        functions = [finished.kernels[k].function for k in finished.kernel_of]
        sequence = finished.sequence
        moved = traffic_of(sequence.calls, functions, finished.views, sequence.control)
    return replace(finished, plan=finished.plan.with_scratch(sizes, memories, moved))


def _scratch_is_planned(context: PassContext) -> bool:
    """Whether no runtime makes room for it."""
    return context.target.static


def _group_channels(outline: Outline, context: PassContext) -> Outline:
    decide = context.decide
    calls = tuple(group_channels(call, context.target_of(call), decide) for call in outline.sequence.calls)
    return replace(outline, sequence=replace(outline.sequence, calls=calls))


def _round_weights(outline: Outline, context: PassContext) -> Outline:
    return round_weights(outline, context.target, WEIGHTS[context.options.weights])


def _rounds_weights(context: PassContext) -> bool:
    return context.options.widened and bool(WEIGHTS[context.options.weights])


def _winograd(graph: Graph, context: PassContext) -> Graph:
    tiles = dict(context.options.tiles)
    return everywhere(lambda each: minimal_filtering.winograd(each, tiles), graph)


def _halve_weights(graph: Graph, context: PassContext) -> Graph:
    return everywhere(lambda each: halve.halve_weights(each, context.options.halves), graph)


def _narrow_products(graph: Graph, context: PassContext) -> Graph:
    types = dict(context.options.narrow)
    return everywhere(lambda each: narrow.narrow_products(each, types), graph)


def _compiling(written: Any) -> str:
    n = len(written.kernels)
    return f"compiling {n} kernel{'' if n == 1 else 's'}"


PIPELINE: tuple[Pass, ...] = (
    graph_pass("remove-empty-tensors", remove_empty_tensors, says="optimizing the graph"),
    graph_pass("fold-constants", fold_constants),
    graph_pass("einsum-products", einsum_products),
    graph_pass("eliminate-identities", eliminate_identities),
    graph_pass("layer-normalizations", layer_normalizations),
    graph_pass("group-statistics", group_statistics, lambda c: c.target.lanes(32) > 1 and c.target.threads is None),
    Pass("layout", _layout, (("layout", print_graph),), verify_graph, over_graphs=True),
    graph_pass("fold-batch-norm", fold_batch_norm),
    graph_pass("hoist-elementwise", hoist_elementwise),
    graph_pass("simplify", eliminate_identities),
    graph_pass("multiply-by-reciprocals", multiply_by_reciprocals),
    graph_pass("crop-taps", crop_taps),
    graph_pass("drop-channels", drop_channels, lambda context: not context.options.debug),
    graph_pass(
        "fill-channels", fill_channels, lambda c: c.target.threads is not None and not c.options.debug
    ),
    # A CPU stores parts of rows as it goes; on a device each is a launch.
    graph_pass("rotations", rotations, lambda context: context.target.threads is not None),
    graph_pass("eliminate-common-subexpressions", eliminate_common_subexpressions),
    Pass("phases", _phases, (("phases", print_graph),), verify_graph, over_graphs=True),
    graph_pass("overlap", overlap, lambda context: context.target.lanes(32) > 1),
    graph_pass("separate-pools", separate_pools),
    graph_pass(
        "separate-reductions", separate_reductions, lambda c: c.target.lanes(32) > 1 and c.target.threads is None
    ),
    Pass(
        "winograd", _winograd, (("winograd", print_graph),), verify_graph, minimal_filtering.applies, over_graphs=True,
    ),
    Pass(
        "halve-weights", _halve_weights, (("halve-weights", print_graph),), verify_graph, halve.applies,
        over_graphs=True,
    ),
    Pass(
        "narrow-products", _narrow_products, (("narrow-products", print_graph),), verify_graph, narrow.applies,
        over_graphs=True,
    ),
    Pass(
        "byte-signs",
        lambda graph, context: everywhere(lambda each: byte_signs.byte_signs(each, context), graph),
        (("byte-signs", print_graph),), verify_graph, byte_signs.applies, over_graphs=True,
    ),
    Pass(
        "group-operands",
        lambda graph, context: everywhere(lambda each: group_operands.group_operands(each, context), graph),
        (("group-operands", print_graph),), verify_graph, group_operands.applies, over_graphs=True,
    ),
    Pass("scale-in-integers", _scale_in_integers, (("scale-in-integers", print_graph),), verify_graph,
         scale_in_integers.applies, over_graphs=True),
    graph_pass("code-trees", code_trees, lambda context: context.target.static),
    Pass("tabulate", _tabulate, (("tabulate", print_graph),), verify_graph,
         lambda context: not context.options.debug, over_graphs=True),
    Pass("widen-halves", _widen_halves, (("widen-halves", print_graph),), verify_graph, over_graphs=True),
    Pass(
        "planes", _planes, (("planes", print_graph),), verify_graph, lambda context: context.target.lanes(32) > 1,
        over_graphs=True,
    ),
    graph_pass("eliminate-dead-code", eliminate_dead_code),
    Pass("patches", patches, (("patches", print_graph),), verify_graph,
         lambda context: context.options.patches is not None, over_graphs=True),
    Pass("im2col", _im2col, (("im2col", print_graph),), verify_graph,
         lambda context: lays_out_windows(context.target), over_graphs=True),
    graph_pass("materialize-outputs", materialize_outputs, whole=True),
    Pass("check-sizes", sizes.check_sizes, applies=sizes.applies),
    Pass("views", _views, (("views", dumps.views_text),), checks.verify_views),
    Pass("fuse", _fuse, (("fuse", dumps.groups_text),), checks.verify_groups),
    Pass("join", join, (("join", dumps.groups_text),), checks.verify_groups),
    Pass("pad-implicitly", implicit_padding.pad_implicitly, (("pad-implicitly", dumps.groups_text),),
         checks.verify_groups, implicit_padding.applies),
    Pass("chains", _chains, (("chains", dumps.groups_text),), checks.verify_groups, chains.applies),
    Pass("recompute", recompute, (("recompute", dumps.groups_text),), checks.verify_groups),
    Pass(
        "linearize", _linearize, (("linearize", dumps.sequence_text), ("te", dumps.kernels_text)),
        checks.verify_sequence,
    ),
    Pass("split-sums", _split_sums, (("split-sums", dumps.sequence_text),), checks.verify_sequence, splits_sums),
    Pass("memory", _memory, (("memory", dumps.memory_text),), checks.verify_memory),
    Pass("place", place.place, (("place", dumps.places_text),), applies=place.applies),
    Pass("group-channels", _group_channels, (("group-channels", dumps.kernels_text),)),
    Pass("round-weights", _round_weights, (("round-weights", dumps.constants_text),), applies=_rounds_weights),
    Pass(
        "schedule", schedule_kernels, (("schedule", dumps.schedules_text),), checks.verify_schedules,
        says=lambda outline: "scheduling and lowering kernels",
    ),
    Pass("lower", lower_kernels, (("lower", dumps.lowered_text),), checks.verify_lowered),
    Pass("stream-weights", stream_weights, (("stream-weights", dumps.lowered_text),), checks.verify_lowered,
         streams_weights),
    Pass("loops", finish_kernels, (("loops", dumps.loops_text),), checks.verify_finished),
    Pass("exchange", exchange, (("exchange", dumps.exchanging_text),), checks.verify_finished, may_exchange),
    Pass("shrink-kernels", shrink_kernels, (("shrink-kernels", dumps.shared_text),), checks.verify_finished, shrinks),
    Pass("write-out", write_out, (("write-out", dumps.shared_text),), checks.verify_finished, shrinks),
    Pass("scratch", _scratch, (("scratch", dumps.memory_text),), checks.verify_memory, _scratch_is_planned),
    Pass(
        "pack", pack, (("pack", dumps.params_text),), checks.verify_packed,
        says=lambda finished: "packing weights",
    ),
    Pass(
        "source", write_source, (("source", lambda written: written.source + written.module),),
        says=lambda packed: "generating code",
    ),
    Pass("libraries", build_libraries, says=_compiling),
)  # fmt: skip

#: What `--dump-after` can show, in order.
STAGES = ("import", *(name for each in PIPELINE for name, _ in each.dumps))

Watch = Callable[[Pass, Any], None]


def walk(
    graph: Any,
    context: PassContext,
    last: str = "",
    watch: Watch | None = None,
    progress: Callable[[str], None] | None = None,
    after: str = "",
) -> Any:
    """What the pipeline makes of a graph.

    Args:
        graph: the model; with `after`, what that pass made.
        last: the pass after which to stop; "": at the end.
        watch: called with every pass, those that do not apply included, and what is there after it.
        progress: called with a few words at the start of every longer step.
    """
    checked = os.environ.get(VERIFY, "") not in ("", "0")
    state = graph
    begin = 1 + [each.name for each in PIPELINE].index(after) if after else 0
    for each in PIPELINE[begin:]:
        if each.says is not None and progress is not None:
            progress(each.says(state))
        if each.applies(context):
            # What passes compute of constants may overflow, as it would where the model runs.
            with timed(each.name), np.errstate(all="ignore"):
                state = each.run(state, context)
            if checked and each.verify is not None:
                each.verify(state, each.name)
        if watch is not None:
            watch(each, state)
        if each.name == last:
            break
    return state


def outline_of(graph: Graph, options: Options) -> Outline:
    """A model as its bundle will run it, before its kernels are scheduled."""
    outline = walk(graph, context_of(options), "memory")
    assert isinstance(outline, Outline)
    return outline


def optimize(graph: Graph, context: PassContext | None = None, check: bool = False) -> Graph:
    """Runs every pass over graphs.

    Args:
        context: without one, the passes that every model has.
        check: verify the graph after each pass.

    Raises:
        SternaError: E0901, a pass left a malformed graph (only with `check`).
    """
    context = context or context_of(Options(load_target(PLAIN)))
    for each in graph_passes(context):
        graph = each.run(graph, context)
        if check:
            verify_graph(graph, each.name)
    return graph


def graph_passes(context: PassContext) -> tuple[Pass, ...]:
    """The passes over graphs that apply."""
    return tuple(each for each in PIPELINE if each.over_graphs and each.applies(context))


def everywhere(run: GraphPass, graph: Graph) -> Graph:
    """A pass over a graph and every region in it, each as a graph of its own whose captured values are given."""
    if not has_regions(graph):
        return run(graph)
    return with_unique_names(run(_inside(run, graph)))


def _inside(run: GraphPass, graph: Graph) -> Graph:
    nodes = tuple(
        with_regions(node, tuple(run(_inside(run, region)) for region in node.regions)) for node in graph.nodes
    )
    return replace(graph, nodes=nodes)
