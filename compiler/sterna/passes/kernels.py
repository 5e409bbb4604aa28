"""From groups of nodes to kernels as tensor expressions, with canonical names, so that equal ones are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Node, Value
from sterna.ir.integer import ONE, ZERO, Int, IntLike, as_int
from sterna.ir.memory import INPUT, OUTPUT, PARAM, Memory, Scope
from sterna.ir.open_size import OpenSizeError
from sterna.ir.sizes import sizes_wanted
from sterna.loops.build import ProgramBuilder
from sterna.loops.groups import ThreadGroup
from sterna.loops.program import Buffer, Function, dense_buffer
from sterna.ops import operator
from sterna.passes.fuse import Group
from sterna.passes.stay import Stay
from sterna.passes.views import Storage, Views, shifted
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.collapse import collapse
from sterna.te.expr import Load
from sterna.te.layout import Layout, dense_strides, most_elements
from sterna.te.moves import as_bytes
from sterna.te.tensor import Kernel, Tensor, compute, placeholder
from sterna_runtime.abi import aligned

#: The place of a call that the bundle's kernel library has.
CPU = ""


@dataclass(frozen=True, eq=False)
class Call:
    """One node of the bundle's graph: a kernel applied to values.

    Args:
        kernel: with dimensions collapsed, or the loop program of an opaque operator; its parameters stand for
            `constants`, in order.
        layouts: of inputs and outputs that do not lie densely, by tensor name.
        in_place: inputs whose memory the output may take: every element is read only to compute the same element.
        assigns: it only copies a region's result to where it belongs, and is not needed where it is made there.
        key: equal keys mean equal kernels.
        place: where it runs: on the CPU, or on the device of that kind.
        stay: why it is on the CPU, where the target has a device.
        on_device: only groups of threads compute it, so that it has to run there.
        counters: outputs that count its tasks: zeros when a model is loaded and after every run, in memory that nothing
            else has.
        shared: writes the loop program of an opaque operator for tasks that groups of threads run, if there is one.
    """

    name: str
    sources: tuple[str, ...]
    kernel: Kernel | Function
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: tuple[Array, ...]
    layouts: dict[str, Layout]
    in_place: tuple[int, ...]
    key: str
    assigns: bool = False
    place: str = CPU
    stay: Stay | None = None
    on_device: bool = False
    counters: tuple[Value, ...] = ()
    shared: Callable[[ThreadGroup], Function | None] | None = None

    def program(self, threads: Threads | None, memories: Sequence[Memory]) -> Function:
        """The loop program of an opaque operator, for groups of threads where it has one for them."""
        assert isinstance(self.kernel, Function)
        memory = next((m for m in memories if m.reach == "block" and m.loadable), None)
        if self.shared is None or threads is None or memory is None:
            return self.kernel
        group = ThreadGroup(threads.most, threads.subgroup, memory, threads.multiprocessors)
        return self.shared(group) or self.kernel


@dataclass(frozen=True, eq=False)
class Formed:
    """What equal kernels share: the first call's, with dimensions collapsed."""

    kernel: Kernel
    layouts: dict[str, Layout]
    in_place: tuple[int, ...]


def calls_of(group: Group, views: Views, known: dict[str, Formed] | None = None) -> list[Call]:
    """The kernels of one group.

    Args:
        known: kernels that were formed before, by their keys; this one is added.
    """
    (first, *_rest) = group.nodes
    try:
        if first in views.written:
            return _storage_calls(first, views)
        if operator(first.op).program is not None:
            return [_program_call(first, views)]
        call = _compute_call(group, views, {} if known is None else known)
        return [replace(call, on_device=True) if group.on_device else call]
    except OpenSizeError as problem:
        names = ", ".join(dict.fromkeys(source for node in group.nodes for source in node.sources))
        title = f"{_kernel_name(group.nodes)} over the open dimension {problem.value} is not supported"
        raise error("E0113", title, f'from "{names}"', fix=sizes_wanted([problem.value])) from None


@dataclass
class _Builder:
    """Collects the operands of one kernel; `names`: of every value that it knows so far."""

    views: Views
    names: dict[Value, str] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    input_tensors: list[Tensor] = field(default_factory=list)
    params: list[Tensor] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def operand(self, value: Value) -> Tensor:
        """The tensor that stands for a value made outside of the kernel."""
        if (known := self.tensors.get(value)) is not None:
            return known
        if value.data is not None:
            tensor = self._constant(value, value.data)
        else:
            tensor = placeholder(f"x{len(self.inputs)}", value.shape, dtypes.storage(value.dtype))
            storage = self.views.storage(value)
            self.text.append(f"{tensor.name} {value.type} {storage.origin} {storage.strides}")
            self.inputs.append(value)
            self.input_tensors.append(tensor)
        self.tensors[value] = tensor
        self.names[value] = tensor.name
        return tensor

    def _constant(self, value: Value, data: Array) -> Tensor:
        data, dtype = dtypes.stored(data), dtypes.storage(value.dtype)
        if data.size and (data.size == 1 or not any(data.strides)):
            scalar = data.reshape(-1)[0] if data.size == 1 else data[(0,) * data.ndim]
            name = f"k{len(self.names)}"
            self.text.append(f"{name} {value.type} {scalar!r}")
            return compute(name, value.shape, lambda *_: E.const(scalar, dtype))
        tensor = placeholder(f"c{len(self.constants)}", value.shape, dtype)
        self.text.append(f"{tensor.name} {value.type}")
        self.constants.append(data)
        self.params.append(tensor)
        return tensor


def _compute_call(group: Group, views: Views, known: dict[str, Formed]) -> Call:
    b = _Builder(views)
    for n, node in enumerate(group.nodes):
        names = ", ".join("-" if v is None else b.names.get(v) or b.operand(v).name for v in node.inputs)
        b.names.update((value, f"s{n}.{m}") for m, value in enumerate(node.outputs))
        attributes = ", ".join(f"{k}={v}" for k, v in sorted(node.attributes.items()))
        b.text.append(f"{node.op}({names}; {attributes}) {[str(v.type) for v in node.outputs]}")
    b.text.append(f"-> {', '.join(b.names[v] for v in group.outputs)}")

    def kernel() -> Kernel:
        for n, node in enumerate(group.nodes):
            operands = [None if v is None else b.tensors[v] for v in node.inputs]
            results = operator(node.op).compute(operands, node.attributes, [v.type for v in node.outputs], f"s{n}")
            b.tensors.update(zip(node.outputs, results, strict=True))
        outputs = tuple(b.tensors[v] for v in group.outputs)
        if any(t.body is None for t in outputs):
            raise AssertionError("an operator gave back its operand")
        return Kernel(_kernel_name(group.nodes), tuple(b.input_tensors), tuple(b.params), outputs)

    sources = tuple(dict.fromkeys(s for n in group.nodes for s in n.sources))
    places = [views.storage(v) for v in group.outputs]
    return _call(
        group.outputs[0].name, sources, kernel, b, group.outputs, places, [v.shape for v in group.outputs], known
    )


def _program_call(node: Node, views: Views) -> Call:
    """The call of an opaque operator: its loop program, written for where its operands and results lie."""
    inputs: list[Value] = []
    constants: list[Array] = []
    operands: dict[Value, Buffer] = {}
    offset = 0
    text: list[str] = []
    for value in node.operands:
        if value in operands:
            continue
        if value.data is None:
            operands[value] = _buffer(f"x{len(inputs)}", value, INPUT, len(inputs), views)
            inputs.append(value)
        else:
            operands[value], data = _stored(f"c{len(constants)}", value, value.data, offset)
            offset += aligned(operands[value].elements * dtypes.size(operands[value].dtype))
            constants.append(data)
    results = [_buffer(f"y{n}", value, OUTPUT, n, views) for n, value in enumerate(node.outputs)]
    for b in (*operands.values(), *results):
        text.append(f"{b.name}: {b.dtype}{[str(n) for n in b.shape]} {b.origin} {b.strides} {b.elements}")
    given = [None if v is None else operands[v] for v in node.inputs]
    attributes = ", ".join(f"{k}={v}" for k, v in sorted(node.attributes.items()))
    text.append(f"{node.op}({', '.join('-' if b is None else b.name for b in given)}; {attributes})")
    declared = operator(node.op)
    function = declared.write(given, node.attributes, results)
    shared = None if declared.shared is None else partial(declared.write_shared, given, node.attributes, results)
    return Call(
        node.outputs[0].name,
        node.sources,
        function,
        tuple(inputs),
        node.outputs,
        tuple(constants),
        {},
        (),
        "\n".join(text),
        shared=shared,
    )


def _stored(name: str, value: Value, data: Array, offset: int) -> tuple[Buffer, Array]:
    """A constant operand of a loop program; of what is one number everywhere, only that number."""
    data, dtype = dtypes.stored(data), dtypes.storage(value.dtype)
    if data.size < 2 or any(data.strides):
        return dense_buffer(name, dtype, value.shape, PARAM, offset), data
    everywhere = tuple(ZERO for _ in value.shape)
    return Buffer(name, dtype, value.shape, everywhere, 1, PARAM, slot=offset), data[(slice(0, 1),) * data.ndim]


def _buffer(name: str, value: Value, scope: Scope, slot: int, views: Views) -> Buffer:
    place = views.storage(value)
    elements = most_elements(place.root.shape)
    return Buffer(name, dtypes.storage(value.dtype), value.shape, place.strides, elements, scope, place.origin, slot)


def _call(
    name: str,
    sources: tuple[str, ...],
    kernel: Callable[[], Kernel],
    b: _Builder,
    outputs: Sequence[Value],
    places: Sequence[Storage],
    shapes: Sequence[Sequence[Int]],
    known: dict[str, Formed],
) -> Call:
    """A kernel, formed unless it is known, applied to values; `shapes`: of what it stores at the places."""
    stored = [b.views.storage(v) for v in b.inputs]
    lying = zip((*stored, *places), (*(v.shape for v in b.inputs), *shapes), strict=True)
    for place, shape in lying:
        within = f" within {place.root.type.elements}" if _is_part(place, shape) else ""
        b.text.append(f"at {place.origin} {place.strides}{within}")
    key = "\n".join(b.text)
    if (formed := known.get(key)) is None:
        known[key] = formed = _formed(kernel(), stored, places)
    constants = tuple(_as_param(c, t) for c, t in zip(b.constants, formed.kernel.params, strict=True))
    return Call(
        name, sources, formed.kernel, tuple(b.inputs), tuple(outputs), constants, formed.layouts, formed.in_place, key
    )


def _as_param(data: Array, tensor: Tensor) -> Array:
    """A constant as a kernel takes it, which may move truth values as bytes."""
    data = data.reshape([int(n) for n in tensor.shape])
    return data.view(np.uint8) if data.dtype == np.bool_ and tensor.dtype != "bool" else data


def _formed(kernel: Kernel, inputs: Sequence[Storage], outputs: Sequence[Storage]) -> Formed:
    """Collapses the kernel's dimensions and fixes where its tensors lie."""
    tensors = (*kernel.inputs, *kernel.outputs)
    where = {t.name: place for t, place in zip(tensors, (*inputs, *outputs), strict=True)}
    shapes = {t.name: t.shape for t in tensors}
    strides = {n: s.strides for n, s in where.items() if _is_part(s, shapes[n])}
    reduced = collapse(kernel, strides)
    layouts: dict[str, Layout] = {}
    for n in strides:
        kept = tuple(where[n].strides[g[-1]] for g in reduced.groups[n])
        if not kept and reduced.kernel.tensor(n).shape:
            kept = (ONE,)
        layouts[n] = Layout(kept, where[n].origin, where[n].root.type.elements)
    return Formed(as_bytes(reduced.kernel), layouts, in_place(kernel) if len(outputs) == 1 else ())


def _is_part(place: Storage, shape: Sequence[Int]) -> bool:
    """Whether a tensor of that shape does not just fill a buffer of its own."""
    return place.origin != 0 or place.strides != dense_strides(shape) or place.root.shape != tuple(shape)


def in_place(kernel: Kernel) -> tuple[int, ...]:
    """Inputs that are read only at the very element that is written."""
    (out,) = kernel.outputs
    loads = {stage: stage.reads() for stage in kernel.stages}
    kept = _pointwise(loads, out)
    good = []
    for n, t in enumerate(kernel.inputs):
        if t.dtype != out.dtype or t.shape != out.shape:
            continue
        reads = [(stage, load) for stage in kernel.stages for load in loads[stage] if load.tensor is t]
        if reads and all(stage in kept and _elementwise(stage, load, out) for stage, load in reads):
            good.append(n)
    return tuple(good)


def _pointwise(loads: Mapping[Tensor, Sequence[Load]], out: Tensor) -> set[Tensor]:
    """The stages of which every path to the output keeps the element's position.

    Args:
        loads: what each stage reads; a stage stands after those that it reads.
    """
    moved = {load.tensor for reader, reads in loads.items() for load in reads if not _elementwise(reader, load, out)}
    kept: set[Tensor] = set()
    for stage, reads in reversed(list(loads.items())):
        if stage not in moved:
            kept.add(stage)
        else:
            moved.update(load.tensor for load in reads)
    return kept


def _elementwise(reader: Tensor, load: Load, out: Tensor) -> bool:
    """Whether a stage reads just the element that it computes, and is shaped as the output."""
    same = load.indices == tuple(a.var for a in reader.axes) and reader.shape == out.shape
    return same and reader.reduction is None


def copy_call(x: Value, y: Value, sources: tuple[str, ...], views: Views, assigns: bool = False) -> Call:
    """Copies x to y, a value of the same type."""
    return replace(_copy(x, y, (0,) * y.type.rank, sources, views), assigns=assigns)


def row_call(row: Value, number: Value, rows: Value, sources: tuple[str, ...], views: Views) -> Call:
    """Stores a tensor as the row of another that an iteration's number names."""
    places = [_buffer("x0", row, INPUT, 0, views), _buffer("x1", number, INPUT, 1, views)]
    whole = _buffer("y0", rows, OUTPUT, 0, views)
    dense = dense_strides(row.shape)
    if row.is_constant:
        places = [dense_buffer("c0", dtypes.storage(row.dtype), row.shape, PARAM, 0), replace(places[1], slot=0)]
    if places[0].strides == dense and whole.strides == dense_strides(rows.shape):
        places[0] = replace(places[0], shape=(row.type.elements,), strides=(ONE,))
        whole = replace(whole, shape=(rows.shape[0], row.type.elements), strides=(row.type.elements, ONE))
    buffers = (*places, whole)
    program = ProgramBuilder("store_row", places, (whole,))
    x, i, y = program.input(0), program.input(1), program.output
    place = program.index(i[()], y.shape[0])
    with program.nest(x.shape) as at:
        element = (place, *at)
        y[element] = x[at]
    inputs, constants = ((number,), (dtypes.stored(row.data),)) if row.data is not None else ((row, number), ())
    text = (f"{b.name}: {b.dtype}{[str(n) for n in b.shape]} {b.origin} {b.strides} {b.elements}" for b in buffers)
    key = "\n".join(("store_row", *text))
    return Call(rows.name, sources, program.function(), inputs, (rows,), constants, {}, (), key)


def _storage_calls(node: Node, views: Views) -> list[Call]:
    """What remains to be done for a pad or a concatenation, or for a reshape that is a copy."""
    calls: list[Call] = []
    y = node.output
    if node.op == "pad":
        before, after = node.attributes["before"], node.attributes["after"]
        if not views.written[node][0]:
            (x,) = node.operands
            calls.append(_copy(x, y, before, node.sources, views))
        boxes = _border(y.shape, before, after)
        if boxes:
            calls.append(_fill(node, y, boxes, views))
        return calls
    if node.op == "reshape":
        x = node.operands[0]
        place = views.storage(y)
        return [_copied(x, y, Storage(place.root, place.origin, dense_strides(x.shape)), node.sources, views)]
    axis, position = node.attributes["axis"], ZERO
    for x, done in zip(node.operands, views.written[node], strict=True):
        if not done and x.type.elements != 0:
            offsets = [ZERO] * y.type.rank
            offsets[axis] = position
            calls.append(_copy(x, y, offsets, node.sources, views))
        position = position + x.shape[axis]
    return calls


def _within(views: Views, y: Value, offsets: Sequence[IntLike]) -> Storage:
    place = views.storage(y)
    return Storage(place.root, shifted(place, offsets), place.strides)


def _copy(x: Value, y: Value, offsets: Sequence[IntLike], sources: tuple[str, ...], views: Views) -> Call:
    """Copies x to its place within y."""
    return _copied(x, y, _within(views, y, offsets), sources, views)


def _copied(x: Value, y: Value, place: Storage, sources: tuple[str, ...], views: Views) -> Call:
    """Copies x to a place within the buffer of y."""
    b = _Builder(views)
    source = b.operand(x)
    b.text.append("copy")
    out = compute("s0", x.shape, lambda *i: source[i])
    kernel = Kernel("copy", tuple(b.input_tensors), tuple(b.params), (out,))
    return _call(f"{y.name}:{x.name}", sources, lambda: kernel, b, (y,), [place], [x.shape], {})


_Box = tuple[tuple[Int, ...], tuple[Int, ...]]  # start and size


def _fill(node: Node, y: Value, boxes: Sequence[_Box], views: Views) -> Call:
    """Writes the border of a padded tensor."""
    b = _Builder(views)
    given = node.attributes["value"]
    value = E.const(bool(given) if y.dtype == "bool" else given, dtypes.storage(y.dtype))
    b.text.append(f"fill {value} {y.type} {boxes}")
    outs = tuple(compute(f"s{n}", size, lambda *_: value) for n, (_, size) in enumerate(boxes))
    kernel = Kernel("fill_border", (), (), outs)
    places = [_within(views, y, start) for start, _ in boxes]
    return _call(
        f"{y.name}:border", node.sources, lambda: kernel, b, (y,) * len(boxes), places, [size for _, size in boxes], {}
    )


def _border(sizes: Sequence[Int], before: Sequence[IntLike], after: Sequence[IntLike]) -> list[_Box]:
    """Boxes that cover the border once: per dimension a box on either side, earlier dimensions cut to the interior."""
    boxes: list[_Box] = []
    for d in range(len(sizes)):
        for start, size in ((ZERO, before[d]), (sizes[d] - after[d], after[d])):
            if size == 0:
                continue
            starts = (*map(as_int, before[:d]), start, *[ZERO] * (len(sizes) - d - 1))
            inner = (n - p - q for n, p, q in zip(sizes[:d], before, after, strict=False))
            extents = (*inner, as_int(size), *sizes[d + 1 :])
            if all(n != 0 for n in extents):
                boxes.append((starts, extents))
    return boxes


def _kernel_name(nodes: Sequence[Node]) -> str:
    """A short C name: the operators, the heavy one first to be read."""
    names = list(dict.fromkeys(n.op for n in nodes))
    return "_".join(names[:4]) + ("_more" if len(names) > 4 else "")
