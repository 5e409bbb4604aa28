"""Questions that strategies ask of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sterna.choices import BY_RULE, Chooser, V
from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int
from sterna.schedule.decisions import StageSchedule
from sterna.schedule.matrices import multiplied, rounding_of
from sterna.schedule.products import factors
from sterna.schedule.schedule import Schedule
from sterna.targets.features import converts_longs
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.division import is_quotient
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.layout import dense_strides
from sterna.te.position import rewrite_index
from sterna.te.rectifiers import is_leaky
from sterna.te.tensor import Kernel, Tensor

#: Bytes of a cache line, of every target that has an L1.
CACHE_LINE = 64
#: Elements between lanes that are picked from whole vectors: two loads and a shuffle.
NEAR = 2
#: Sums of at least this many terms are cut into several: shorter ones lose no digit that matters to networks.
_LONG = 2048


@dataclass(frozen=True)
class KnownWeights:
    """What is known of constants of int8, by their names.

    Args:
        symmetric: none of their elements is -128.
        light: with the name of a constant of int32 that has as many positions along its last dimension, or "": the
            products of what either has at a position there by any bytes, and that constant, add up to 24 bits.
    """

    symmetric: frozenset[str] = frozenset()
    light: frozenset[tuple[str, str]] = frozenset()

    @property
    def key(self) -> tuple[str, ...]:
        """The same for the same knowledge, and different for any other."""
        return (*(f"{name} symmetric" for name in sorted(self.symmetric)), *map(" with ".join, sorted(self.light)))


@dataclass(frozen=True)
class Context:
    """What a strategy knows besides the kernel.

    Args:
        strides: of tensors that do not lie densely in memory, by name.
        weights: the type that weights are stored in, if not their own.
        exact: the types of 16 bits that hold a constant as it is, by its name.
        known: of constants.
        panels: columns of the panels that constants lie in already, by name: another target reads them, too.
        chooser: who decides what strategies ask for; by default everything is as their rules say.
        origins: of tensors that begin within a buffer, the element of it that is their first, by name.
    """

    target: Target
    strides: Mapping[str, Sequence[Int]] = field(default_factory=dict)
    weights: str = ""
    exact: Mapping[str, str] = field(default_factory=dict)
    known: KnownWeights = KnownWeights()
    panels: Mapping[str, int] = field(default_factory=dict)
    chooser: Chooser = BY_RULE
    origins: Mapping[str, Int] = field(default_factory=dict)

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        """A decision: as the rule says, or, where somebody else chooses, one of the candidates."""
        return self.chooser.choose(name, candidates, default)

    def cycles(self, kernel: Kernel, multiply_adds: int) -> int:
        """The least number of cycles that these multiply-adds take."""
        return int(multiply_adds / (self.lanes(kernel) * self.target.rate))

    def lanes(self, kernel: Kernel) -> int:
        """Lanes of a vector of the kernel's widest element type; 1 where a processor divides integers of 64 bits faster
        one by one than as vectors, which `loops.quotients` needs conversions for."""
        if _divides_longs(kernel) and not converts_longs(self.target):
            return 1
        widest = max(_bits(t) for t in kernel.stages)
        return self.target.lanes(max(widest, 32))


def _bits(t: Tensor) -> int:
    """Bits of what a stage computes with: what is only widened where it is stored, as the positions of extrema are, is
    stored as several vectors."""
    body = t.body
    if isinstance(body, E.Cast) and dtypes.is_integer(body.dtype):
        return max(dtypes.bits(n.dtype) for n in E.walk(body.a))
    return dtypes.bits(t.dtype)


def value_lanes(bodies: Iterable[E.Expr], target: Target) -> int:
    """Lanes of a vector of the widest values that expressions are computed from, which narrow types fill."""
    return target.lanes(max((dtypes.bits(n.dtype) for body in bodies for n in E.walk(body)), default=32))


#: Operations of floats that need no comparison, or have instructions of their own where comparisons are dear, and
#: functions that compare an argument only with its limits, which are extrema there (`loops.limits`).
_NO_COMPARISON = (
    *("add", "sub", "mul", "div", "minimum", "maximum", "neg", "abs", "sqrt"),
    *("exp", "sigmoid", "tanh", "erf"),
)


def scales_longs(kernel: Kernel) -> bool:
    """Whether a kernel adds up products and computes with integers of 64 bits, and does not only move or widen them."""
    if all(contraction_operands(t) is None for t in kernel.stages if t.body is not None):
        return False
    nodes = (n for t in kernel.stages if t.body is not None for n in E.walk(t.body))
    moves = (E.Load, E.Const, E.Cast, E.IndexValue)
    return any(n.dtype in ("int64", "uint64") and not isinstance(n, moves) for n in nodes)


def compares_floats(kernel: Kernel) -> bool:
    """Whether a stage compares floats, or rounds or converts them, which comparisons are part of."""
    return any(dtypes.is_float(t.dtype) if t.body is None else _asks(t.body) for t in kernel.stages)


def _asks(body: E.Expr) -> bool:
    nodes = list(E.walk(body))
    extrema = {n.condition for n in nodes if isinstance(n, E.Select) and is_leaky(n)}
    return any(_compares(n) and n not in extrema for n in nodes)


def _compares(node: E.Expr) -> bool:
    """Whether an operation of floats compares them; what a select asks is an operation of its own."""
    if isinstance(node, (E.Const, E.Load)) or not any(dtypes.is_float(c.dtype) for c in node.children()):
        return False
    if isinstance(node, (E.Unary, E.Binary)):
        return node.op not in _NO_COMPARISON
    if isinstance(node, E.Reduce):
        return node.combiner not in ("sum", "prod", "min", "max")
    return not isinstance(node, (E.Fma, E.Select))


def _divides_longs(kernel: Kernel) -> bool:
    """Whether a stage has a quotient of integers of 64 bits whose divisor is not known."""
    nodes = (n for t in kernel.stages if t.body is not None for n in E.walk(t.body))
    return any(dtypes.bits(n.dtype) == 64 and is_quotient(n) for n in nodes)


def size(extent: Int) -> int:
    """A constant extent, or the bound of a symbolic one."""
    if extent.is_const:
        return extent.const
    hi = extent.bounds()[1]
    return 1 << 30 if hi is None else hi


def evenly(n: int, most: int) -> int:
    """The size of parts of n, none of them more than `most`: as few as there can be, all alike but for the last."""
    return -(-n // -(-n // min(most, n)))


def product(extents: Sequence[Int]) -> int:
    result = 1
    for e in extents:
        result *= size(e)
    return result


def at_least(n: int) -> int:
    """The next power of two."""
    return 1 << max(0, n - 1).bit_length()


def divisors(number: int, most: int = 1 << 30) -> list[int]:
    """The divisors of a number, up to one of them or another bound."""
    return [n for n in range(1, min(number, most) + 1) if number % n == 0]


def reductions(kernel: Kernel) -> list[Tensor]:
    return [t for t in kernel.stages if t.reduction is not None]


def readers(kernel: Kernel, tensor: Tensor) -> list[Tensor]:
    return [s for s in kernel.stages if any(load.tensor is tensor for load in s.reads())]


def times_read(kernel: Kernel, t: Tensor) -> int:
    """How often an element of a stage is read, at least."""
    elements = product([a.extent for a in t.axes])
    return sum(-(-product([a.extent for a in reader.all_axes]) // max(elements, 1)) for reader in readers(kernel, t))


def worth_keeping(kernel: Kernel, s: Schedule) -> list[str]:
    """Element-wise stages that are not cheap, and of which each element is read more than once."""
    return [
        t.name
        for t in kernel.stages
        if t.name not in s.outputs
        and t.body is not None
        and not isinstance(t.body, Reduce)
        and not cheap(t.body)
        and times_read(kernel, t) > 1
    ]


def stored_apart(s: Schedule, stage: Tensor) -> tuple[str, str]:
    """The stage that a reduction is accumulated in, and the output that stores it, which may be a stage of its own."""
    if stage.name in s.outputs:
        return s.cache_write(stage.name), stage.name
    return stage.name, s.outputs[0]


def cheap(body: Expr) -> bool:
    """Whether an expression costs so little that computing it again beats keeping it."""
    return not any(
        isinstance(n, (E.Unary, E.Binary)) and n.op in (*E.MATH, "div", "sqrt", "mod", "floor_div")
        for n in E.walk(body)
    )


def inline_elementwise(s: Schedule, keep: Sequence[str] = (), also: Sequence[str] = ()) -> None:
    """Inlines every intermediate stage of the kernel, and others, that is no reduction and not in `keep`."""
    for name in (*(t.name for t in s.kernel.stages), *also):
        if name not in s.outputs and name not in keep and not isinstance(s.stages[name].body, Reduce):
            s.inline(name)


def fused(s: Schedule, stage: str, axes: Sequence[str]) -> str:
    """Neighbouring axes as one."""
    fused, *rest = axes
    for axis in rest:
        fused = s.fuse(stage, fused, axis)
    return fused


def expanded_loads(s: Schedule, body: Expr, through: bool = False) -> tuple[Load, ...]:
    """Loads of a body after inlining; also `through` stages that are stored but do not reduce."""
    return E.loads(expanded(s, body, through))


def expanded(s: Schedule, body: Expr, through: bool = False) -> Expr:
    """A body after inlining; also `through` stages that are stored but do not reduce."""

    def inside(load: Load) -> StageSchedule | None:
        t = s.stages.get(load.tensor.name)
        return t if t is not None and (t.inlined or (through and not isinstance(t.body, Reduce))) else None

    def rule(node: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
        if not isinstance(node, Load):
            return None
        indices = tuple(rewrite_index(i, again) for i in node.indices)
        if (t := inside(node)) is None:
            return node.changed(indices=indices) if indices != node.indices else None
        return again(E.substitute_index(t.body, dict(zip(t.tensor.axes, indices, strict=True))))

    # Most bodies stay as they are, and a search for schedules asks thousands of times.
    return E.rewrite_within(body, rule) if any(map(inside, E.loads(body))) else body


def stages_apart(s: Schedule) -> list[str]:
    """Gives every output stages of its own, and lets none read another. Returns the stages that are new."""
    taken: set[str] = set()
    new: list[str] = []
    for out in s.outputs:
        own = [out]
        for t in reversed(s.kernel.stages):
            reading = [name for name in own if any(x.tensor.name == t.name for x in E.loads(s.stages[name].body))]
            if reading and (t.name in taken or t.name in s.outputs):
                new.append(s.recompute(t.name, *reading))
                own.append(new[-1])
            elif reading:
                own.append(t.name)
        taken.update(own)
    return new


def stages_needed(s: Schedule, out: str) -> list[str]:
    """Stages that the output needs and that are stored, producers first."""
    order: list[str] = []

    def visit(name: str) -> None:
        for load in E.loads(s.stages[name].body):
            source = load.tensor.name
            if source in s.stages and source not in order:
                visit(source)
                if not s.stages[source].inlined and source not in s.outputs:
                    order.append(source)

    visit(out)
    return list(dict.fromkeys(order))


def row_axes(s: Schedule, out: str, placed: list[str]) -> tuple[list[Axis], list[Axis]]:
    """The output's axes that select what every reduction computes, and the others."""
    state = s.stages[out]
    reads = expanded_loads(s, state.body, through=True)
    reduced = [load for load in reads if load.tensor.name in placed]
    used = {a for load in reduced for i in load.indices for a in i.symbols() if isinstance(a, Axis)}
    rows = [a for a in state.tensor.axes if a in used]
    return rows, [a for a in state.tensor.axes if a not in used]


def stride_of(load: Load, axis: Axis, strides: Mapping[str, Sequence[Int]]) -> int | None:
    """Elements between what neighbouring iterations of an axis read; None if that varies."""
    tensor = load.tensor
    assert isinstance(tensor, Tensor)
    total = ZERO
    for index, step in zip(load.indices, strides.get(tensor.name) or dense_strides(tensor.shape), strict=True):
        coefficient = index.coefficient(axis)
        if coefficient is None:
            return None
        total = total + step * coefficient
    return int(total) if total.is_const else None


def contraction_operands(t: Tensor) -> tuple[Load, Load] | None:
    """The two loads of a sum of products, if the stage is one; integers may be widened before they are multiplied,
    floats rounded."""
    r = t.reduction
    if r is None or r.combiner != "sum" or not isinstance(r.a, E.Binary) or r.a.op != "mul":
        return None
    a, b = factors(r) or (multiplied(r) if rounding_of(r) else None) or (r.a.a, r.a.b)
    return (a, b) if isinstance(a, Load) and isinstance(b, Load) else None


def partial_sums(reduction: Reduce, registers: int, vectors: int) -> tuple[int, str]:
    """How many sums a long reduction is cut into where results are vectors, and along which of its axes.

    One sum of n terms is off by up to n roundings and waits for every addition; k sums of n/k terms are off by n/k
    (N. Higham, The Accuracy of Floating Point Summation, 1993), and hide that latency.

    Args:
        registers: vector registers of the machine.
        vectors: results that are computed together.

    Returns:
        (1, "") where it is short, or exact however it is done.
    """
    if reduction.combiner != "sum" or reduction.index is not None or not dtypes.is_float(reduction.dtype):
        return 1, ""
    if not all(a.extent.is_const for a in reduction.axes) or product([a.extent for a in reduction.axes]) < _LONG:
        return 1, ""
    most = registers * 3 // 4 // vectors
    # Of the divisors of an extent, so that there is no tail; the innermost axis, so that memory is read in order.
    found = [(max(n for n in range(1, most + 1) if size(a.extent) % n == 0), a.name) for a in reversed(reduction.axes)]
    return max(found, key=lambda each: each[0])


def results_in_vectors(s: Schedule, name: str, along: str, lanes: int) -> list[str]:
    """Lays out a reduction in registers whose results are vectors along an axis: the reduced axes are the outer loops.

    Returns:
        The loops over what is reduced, outermost first.
    """
    reduced = [x for x in s.stages[name].leaves if x in s.stages[name].reduction_leaves]
    vector, lane = s.split(name, along, lanes)
    others = [x for x in s.stages[name].leaves if x not in reduced and x not in (vector, lane)]
    s.reorder(name, *reduced, *others, vector, lane)
    for leaf in (*others, vector):
        s.unroll(name, leaf)
    s.vectorize(name, lane)
    return reduced
