"""The way of a model through the compiler: from a graph to the contents of a bundle.

Each step is a function of frozen data; `observe` sees what every stage produced, as text, for `--dump-after`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sterna.advice import Advice, Option, dims
from sterna.codegen.generators import KernelSet, check_generator, generator_for, source
from sterna.errors import Diagnostic, SternaError, error
from sterna.escape import terminal
from sterna.intrinsics import DOTS
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph
from sterna.ir.integer import ZERO, Int, Symbol
from sterna.ir.limits import check_constants, memory_of
from sterna.ir.printer import print_graph
from sterna.ir.sizes import all_definitions, sizes_wanted
from sterna.loops.checks import with_checks
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.program import Function, used_dims
from sterna.passes.attention import find_attention
from sterna.passes.kernels import Call
from sterna.passes.linearize import CallSequence, Control, linearize, print_sequence
from sterna.passes.memory_plan import MemoryPlan, plan_memory
from sterna.passes.pipeline import PASSES, optimize
from sterna.passes.separable import find_separable
from sterna.passes.views import Views, plan_views
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.target import Target
from sterna.te.cost import multiply_adds
from sterna.te.printer import print_kernel
from sterna.te.tensor import Kernel
from sterna.toolchain.link import link_library

#: What weights may be stored as, and the type of each.
WEIGHTS = {"fp32": "", "fp16": "float16", "bf16": "bfloat16"}
#: Stages that `observe` reports, in order.
STAGES = ("import", *(name for name, _ in PASSES), "fuse", "te", "schedule", "lower", "loops", "memory", "source")
#: Calls of a kernel that its comment names.
_MOST_NAMED = 8

Observe = Callable[[str, str], None]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What a model is compiled for, and how.

    Args:
        generator: one of `codegen.generators.GENERATORS`.
        compiler: for the C generator: "zig", "clang", "gcc" or a path.
        threads: how many threads the model will probably run on; a hint that never limits the bundle.
        debug: no memory is reused and in-place computation is off, so that every tensor between kernels can be read.
        variants: targets whose libraries the bundle holds too, best first; their kernels are the same loop programs,
            so that one graph and one set of weights serve all. The target itself may be among them.
        single_file: the weights lie in the library, for a bundle of one file.
        winograd: convolutions of 3 x 3 in 16 products where the definition has 36, rounded otherwise.
        weights: "fp32", as they are, or "fp16" or "bf16": the weights of matrix products, convolutions and recurrences
            are rounded to 16 bits, and widened where they are read; everything is computed in float32 as before.
        widened: those weights are rounded, and stored in float32 all the same: what `weights` is compared with.
    """

    target: Target
    generator: str = "c"
    compiler: str = "zig"
    threads: int = 1
    debug: bool = False
    variants: tuple[Target, ...] = ()
    single_file: bool = False
    weights: str = "fp32"
    winograd: bool = False
    widened: bool = False

    @property
    def stored_weights(self) -> str:
        """The type that kernels read weights in; "" as they are."""
        return "" if self.widened else WEIGHTS[self.weights]


@dataclass(frozen=True)
class Library:
    """A kernel library: its file's name in the bundle, what it was built for, its bytes."""

    name: str
    target: Target
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Planned:
    """A kernel after scheduling; one that was written as a loop program has no schedule."""

    schedule: Schedule | None
    function: Function


@dataclass(frozen=True)
class Origin:
    """The model file that was compiled: its format, and the SHA-256 of its bytes; external data are other files."""

    format: str
    sha256: str


@dataclass(frozen=True)
class Compiled:
    """Everything a bundle is written from.

    Args:
        calls: the bundle's nodes; control: of them; kernel_of: index of each call's kernel; kernels: distinct ones.
        params: contents of params.bin; params_at: (offset, size) of each call's block.
        states_at: the offset there of what each state holds first; None where that is zeros.
        libraries: the kernel library, none where the target has none; then those of the variants.
        origin: None for a model that came from no file.
    """

    graph: Graph
    options: Options
    model: str
    views: Views
    calls: tuple[Call, ...]
    kernels: tuple[Planned, ...]
    kernel_of: tuple[int, ...]
    plan: MemoryPlan
    params: bytes
    params_at: tuple[tuple[int, int], ...]
    states_at: tuple[int | None, ...]
    source: str
    libraries: tuple[Library, ...] = ()
    control: tuple[Control, ...] = ()
    origin: Origin | None = None

    @property
    def library(self) -> bytes:
        """Bytes of the target's own kernel library, empty where it has none."""
        return self.libraries[0].data if self.libraries else b""


def compile_graph(
    graph: Graph, model: str, options: Options, observe: Observe | None = None, progress: Progress | None = None
) -> Compiled:
    """Compiles an imported graph.

    Args:
        model: the model's name as a C identifier.

    Raises:
        SternaError: E0203 a bad option, E04xx the toolchain failed.
    """
    check_generator(options.generator)
    if options.weights not in WEIGHTS:
        raise error("E0203", f'weights cannot be stored as "{options.weights}"', fix=f"one of {', '.join(WEIGHTS)}")
    _check_packaging(options)
    _check_names(graph)
    show = observe or (lambda stage, text: None)
    step = progress or (lambda what: None)
    step("optimizing the graph")
    if observe is not None:
        show("import", print_graph(graph))
    watch = (lambda stage, g: show(stage, print_graph(g))) if observe is not None else None
    outline = outline_of(graph, options, watch)
    graph, views, sequence, plan = outline.graph, outline.views, outline.sequence, outline.plan
    calls = sequence.calls
    if options.widened and (rounded := WEIGHTS[options.weights]):
        calls = tuple(round_weights(call, options.target, rounded) for call in calls)
    if observe is not None:
        show("fuse", print_sequence(sequence))
        show("te", "\n".join(print_kernel(c.kernel) for c in calls if isinstance(c.kernel, Kernel)))
    step("scheduling and lowering kernels")
    kernels, kernel_of = plan_kernels(calls, options.target, dimensions(graph), options.stored_weights)
    if observe is not None:
        show("schedule", "\n".join(_schedule_text(k) for k in kernels))
        first = {k: call for call, k in reversed(list(zip(calls, kernel_of, strict=True)))}
        show("lower", "\n".join(print_function(_lowered(first[n], k.schedule)) for n, k in enumerate(kernels)))
        show("loops", "\n".join(print_function(k.function) for k in kernels))
    if observe is not None:
        show("memory", _memory_text(plan))
    step("packing weights")
    params, params_at = pack_params(calls, kernels, kernel_of)
    params, states_at = pack_states(graph, params)
    step("generating code")
    functions = [k.function for k in kernels]
    comments: list[list[str]] = [[] for _ in kernels]
    for call, k in zip(calls, kernel_of, strict=True):
        if len(comments[k]) < _MOST_NAMED:
            comments[k].append(", ".join(call.sources) or call.name)
    text = source(KernelSet(model, functions, comments), options.target)
    show("source", text)
    step(f"compiling {len(functions)} kernels")
    libraries = []
    for target in (options.target, *(v for v in options.variants if v != options.target)):
        if target.library:
            own = target is options.target
            name = target.library if own else "{0}.{2}.{1}".format(*target.library.rsplit(".", 1), target.name)
            data = build_library(functions, comments, model, replace(options, target=target), params)
            libraries.append(Library(name, target, data))
    return Compiled(
        graph,
        options,
        model,
        views,
        calls,
        kernels,
        kernel_of,
        plan,
        params,
        params_at,
        states_at,
        text,
        tuple(libraries),
        sequence.control,
    )


@dataclass(frozen=True)
class Outline:
    """A model as its bundle will run it, before its kernels are scheduled: what is called, in which memory."""

    graph: Graph
    views: Views
    sequence: CallSequence
    plan: MemoryPlan

    @property
    def multiply_adds(self) -> Int:
        """Those of a run that reaches every node once."""
        return sum((call_multiply_adds(call) for call in self.sequence.calls), ZERO)


def outline_of(graph: Graph, options: Options, watch: Callable[[str, Graph], None] | None = None) -> Outline:
    """Optimizes an imported graph, makes calls of its nodes and plans their memory.

    Args:
        watch: called with the graph after every pass.
    """
    graph = optimize(
        graph, watch, minimal_filtering=options.winograd,
        # Every tensor of a debug bundle is readable as the model has it.
        unsigned_bytes=multiplies_unsigned_bytes(options.target) and not options.debug,
    )  # fmt: skip
    if options.target.static:
        _refuse_open_sizes(graph, options.target)
    views = plan_views(graph)
    joined = (*find_separable(graph, views, options.target), *find_attention(graph, views, options.target))
    if joined:
        views = plan_views(graph, {node for nodes in joined for node in nodes})
    sequence = linearize(graph, views, joined)
    plan = plan_memory(graph, sequence.calls, views, keep_all=options.debug, control=sequence.control)
    return Outline(graph, views, sequence.without(lambda call: plan.needless(call, views)), plan)


def call_multiply_adds(call: Call) -> Int:
    """The multiply-adds of a call; what is written as a loop program has none that count."""
    return multiply_adds(call.kernel) if isinstance(call.kernel, Kernel) else ZERO


def multiplies_unsigned_bytes(target: Target) -> bool:
    """Whether dot products of bytes take unsigned ones by signed ones, and nothing else."""
    return bool(target.int_dot) and all(DOTS[name].operands == ("uint8", "int8") for name in target.int_dot)


def _check_packaging(options: Options) -> None:
    target = options.target
    if options.variants and options.single_file:
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


def dimensions(graph: Graph) -> tuple[Symbol, ...]:
    """The symbols that sizes are made of: those of the inputs, then those that the graph computes, in order."""
    return (*open_dimensions(graph), *all_definitions(graph))


def open_dimensions(graph: Graph) -> tuple[Symbol, ...]:
    """The symbols that the sizes of a graph's inputs are made of, in order of appearance."""
    found = (s for v in graph.inputs for n in v.shape for s in sorted(n.symbols(), key=lambda s: s.name))
    return tuple(dict.fromkeys(found))


def _refuse_open_sizes(graph: Graph, target: Target) -> None:
    title = f"the target {target.name} needs every size at compile time"
    if given := open_dimensions(graph):
        sizes = dims({s.name: s.hi for s in given})
        raise error("E0203", title, f"open dimensions: {', '.join(s.name for s in given)}", fix=sizes)
    if computed := all_definitions(graph):
        where = [f"{s.name} (at most {s.hi}) comes from {', '.join(n.sources)}" for s, n in computed.items()]
        fix = "declare the result's shape in the model, which the bundle then checks, or leave that node to the program"
        raise error("E0203", title, "sizes that depend on the data:", *where, fix=fix)


def plan_kernels(
    calls: Sequence[Call], target: Target, dims: Sequence[Symbol] = (), weights: str = ""
) -> tuple[tuple[Planned, ...], tuple[int, ...]]:
    """Schedules and lowers the distinct kernels; returns them and each call's index among them."""
    index: dict[str, int] = {}
    kernels: list[Planned] = []
    kernel_of: list[int] = []
    for call in calls:
        if call.key not in index:
            index[call.key] = len(kernels)
            kernels.append(plan_kernel(call, target, f"k{len(kernels)}_{call.kernel.name}", dims, weights))
        kernel_of.append(index[call.key])
    return tuple(kernels), tuple(kernel_of)


def plan_kernel(call: Call, target: Target, name: str, dims: Sequence[Symbol] = (), weights: str = "") -> Planned:
    """One kernel's schedule, as the strategies propose it, and its loop program."""
    schedule = _proposed(call, target, weights)
    try:
        return realize(call, schedule, name, dims)
    except SternaError as problem:
        if not dims or "E0305" not in problem.codes:
            raise
        title = f"{call.kernel.name} over open dimensions: it cannot be shown to stay within its tensors at every size"
        where = f'from "{", ".join(call.sources) or call.name}"'
        shapes = (n for value in (*call.inputs, *call.outputs) for n in value.shape)
        fix = Advice("least sizes greater than 0, or ", sizes_wanted(shapes) or "other sizes")
        raise error("E0113", title, where, problem.diagnostics[0].title, fix=fix) from problem


def _proposed(call: Call, target: Target, weights: str) -> Schedule | None:
    """What the strategies propose for a kernel; None for one that is a loop program already."""
    if not isinstance(call.kernel, Kernel):
        return None
    return propose(call.kernel, Context(target, {n: layout.strides for n, layout in call.layouts.items()}, weights))


def round_weights(call: Call, target: Target, dtype: str) -> Call:
    """The call with the weights that would be stored in that type rounded to it, and still float32."""
    schedule = _proposed(call, target, dtype)
    if schedule is None or not schedule.narrowed:
        return call
    kind = dtypes.to_numpy(dtype)
    with np.errstate(over="ignore"):
        constants = tuple(
            array.astype(kind).astype(array.dtype) if param.name in schedule.narrowed else array
            for array, param in zip(call.constants, schedule.kernel.params, strict=True)
        )
    return replace(call, constants=constants)


def realize(call: Call, schedule: Schedule | None, name: str, dims: Sequence[Symbol] = ()) -> Planned:
    """The loop program that a schedule gives for a kernel; the same steps give the same program."""
    lowered = _lowered(call, schedule)
    if call.in_place:
        lowered = replace(
            lowered,
            inputs=tuple(replace(b, may_alias=True) if n in call.in_place else b for n, b in enumerate(lowered.inputs)),
            outputs=tuple(replace(b, may_alias=True) for b in lowered.outputs),
        )
    function = with_checks(finish(lowered), call.kernel)
    used = used_dims(function)
    return Planned(schedule, replace(function, name=name, dims=tuple((s, n) for n, s in enumerate(dims) if s in used)))


def _lowered(call: Call, schedule: Schedule | None) -> Function:
    """A kernel's loops before vectors, unrolling and registers."""
    if isinstance(call.kernel, Function):
        return call.kernel
    assert schedule is not None
    return lower(schedule, call.layouts)


def pack_params(
    calls: Sequence[Call], kernels: Sequence[Planned], kernel_of: Sequence[int]
) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The weights as the kernels read them, one 64-byte aligned block per call, equal blocks once."""
    _check_params(calls, kernels, kernel_of)
    chunks: list[bytes] = []
    blocks: dict[tuple[object, ...], tuple[int, int]] = {}
    offset = 0
    where: list[tuple[int, int]] = []
    overflowing: list[Call] = []
    for call, k in zip(calls, kernel_of, strict=True):
        if not call.constants:
            where.append((0, 0))
            continue
        identity = (k, tuple(_identity(a) for a in call.constants))
        if identity not in blocks:
            schedule = kernels[k].schedule
            size = 0
            buffers = kernels[k].function.params
            stored = schedule.stored(call.constants) if schedule else call.constants
            if schedule and not _kept_finite(schedule, call, stored):
                overflowing.append(call)
            for array, buffer in zip(stored, buffers, strict=True):
                chunks.append(b"\0" * (buffer.slot - size))
                data = np.ascontiguousarray(array).tobytes()
                chunks.append(data)
                size = buffer.slot + len(data)
            padding = -size % 64
            chunks.append(b"\0" * padding)
            blocks[identity] = (offset, size + padding)
            offset += size + padding
        where.append(blocks[identity])
    if overflowing:
        names = [f"of {', '.join(call.sources) or call.name}" for call in overflowing]
        fix = Advice(Option("weights", "bf16"), ", which has the range of float32")
        raise error("E0115", "weights are too large for 16 bits of this kind:", *names, fix=fix)
    return b"".join(chunks), tuple(where)


def _check_params(calls: Sequence[Call], kernels: Sequence[Planned], kernel_of: Sequence[int]) -> None:
    """Refuses weights that take far more memory as the kernels read them than the model's constants do.

    Raises:
        SternaError: E0116.
    """
    given: dict[tuple[object, ...], int] = {}
    written: dict[tuple[object, ...], int] = {}
    for call, k in zip(calls, kernel_of, strict=True):
        if call.constants:
            given |= {_identity(array): memory_of(array) for array in call.constants}
            params = kernels[k].function.params
            size = max((b.slot + b.elements * dtypes.size(b.dtype) for b in params), default=0)
            written[k, tuple(map(_identity, call.constants))] = size
    check_constants(sum(written.values()) - sum(given.values()), "the weights as kernels read them")


def _kept_finite(schedule: Schedule, call: Call, stored: Sequence[Array]) -> bool:
    """Whether no weight became infinite by being stored in a narrower type."""
    return all(
        np.isfinite(after).all() or not np.isfinite(before).all()
        for before, after, p in zip(call.constants, stored, schedule.kernel.params, strict=False)
        if p.name in schedule.narrowed
    )


def pack_states(graph: Graph, params: bytes) -> tuple[bytes, tuple[int | None, ...]]:
    """The weights with what the states hold first behind them, 64-byte aligned; where each lies."""
    where: list[int | None] = []
    for state in graph.states:
        if state.initial is None or not state.initial.any():
            where.append(None)
            continue
        data = np.ascontiguousarray(state.initial).tobytes()
        where.append(len(params))
        params += data + b"\0" * (-len(data) % 64)
    return params, tuple(where)


def _identity(array: Array) -> tuple[object, ...]:
    """The same for views of the same weights: memory, strides and shape say so without reading them."""
    return array.__array_interface__["data"][0], array.strides, array.shape, array.dtype.str


def build_library(
    functions: Sequence[Function], comments: Sequence[Sequence[str]], model: str, options: Options, params: bytes = b""
) -> bytes:
    """The kernel library, by the generator that was asked for."""
    target = options.target
    generator = generator_for(options.generator, target)
    objects = generator.objects(KernelSet(model, functions, comments), target, options.compiler)
    return link_library(objects, target, model, params=params if options.single_file else None)


def _schedule_text(kernel: Planned) -> str:
    steps = kernel.schedule.steps if kernel.schedule else ("a loop program",)
    return f"{kernel.function.name}\n" + "".join(f"  {step}\n" for step in steps)


def _memory_text(plan: MemoryPlan) -> str:
    lines = [f"arena {plan.arena_bytes} bytes, live-set lower bound {plan.live_bytes}"]
    lines += [
        f"  {value.name}: {value.type} at {offset}"
        for value, offset in sorted(plan.offsets.items(), key=lambda item: item[1])
    ]
    return "\n".join(map(terminal, lines)) + "\n"


__all__ = ["STAGES", "Compiled", "Options", "compile_graph"]
