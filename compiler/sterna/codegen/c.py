"""The C printer: loop programs to C text.

It owns loop bodies; the Jinja templates under `templates/c` own the file, the kernel frames and the helper functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sterna.codegen.dialect import C_TYPE, PlainC, VectorC, dialect, short
from sterna.codegen.render import render_template
from sterna.codegen.tiles import TileCall, refuse_without_tiles, tile_call
from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.program import Buffer, Function, most
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.expr import Expr


@dataclass(frozen=True)
class KernelText:
    """One kernel as the template needs it."""

    name: str
    comment: tuple[str, ...]
    n_tasks: int
    scratch_bytes: int
    flags: str
    uses_tasks: bool
    lines: tuple[str, ...]


#: C types that helpers `as_f32` and so on give back.
_RESULTS = {f"as_{short(dtype)}": type_ for dtype, type_ in C_TYPE.items()}


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
    kernels = []
    bodies = not table if bodies is None else bodies
    for n, f in enumerate(functions):
        printer = _Printer(d)
        lines = printer.function(f) if bodies else []
        comment = tuple(re.sub(r"\*/|[^\x20-\x7e]", "?", text) for text in (comments[n] if comments else ()))
        flags = "STERNA_KERNEL_NEEDS_BARRIER" if f.has_barriers else "0u"
        n_tasks = most(f.n_tasks)
        kernels.append(KernelText(f.name, comment, n_tasks, f.scratch_bytes, flags, printer.uses_tasks, tuple(lines)))
    return render_template(
        "c/kernels.c.j2",
        model=model,
        kernels=kernels,
        helpers=_helpers(d),
        headers=sorted(d.headers),
        intrinsics=[(i, d.operand_types(i)) for i in d.intrinsics.values()] if isinstance(d, VectorC) else [],
        features=" ".join(target.cpu_features),
        vector=isinstance(d, VectorC),
        target=target,
        table=table,
        bodies=bodies,
        shared=shared,
    )


def _restrict(b: Buffer) -> str:
    return "" if b.may_alias else "restrict "


def _helpers(d: PlainC) -> list[dict[str, object]]:
    """Helper functions to define: types first, then what others call."""
    rank = {"type": 0, "splat": 1, "select": 2, "to_integer": 3}
    order = sorted(d.helpers, key=lambda h: (rank.get(h[0], 4), h))
    return [
        {
            "name": name,
            "dtype": dtype,
            "lanes": lanes,
            "scalar": d.scalar(dtype),
            "short": _stem(dtype, lanes),
            "stem": _stem(dtype, 1),
            "bits": dtypes.bits(dtype),
            "bytes": dtypes.size(dtype) * lanes,
            "mask": f"i{dtypes.bits(dtype)}x{lanes}",
            "float": dtypes.is_float(dtype),
            "signed": dtypes.is_signed(dtype),
            "limits": _limits(name, dtype),
            "result": _RESULTS.get(name, ""),
        }
        for name, dtype, lanes in order
    ]


def _bare(text: str) -> str:
    """A condition without the parentheses around all of it, which clang takes for a mistake."""
    depth = 0
    for n, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and n + 1 < len(text):
            return text
    return text[1:-1] if text.startswith("(") else text


def _stem(dtype: str, lanes: int) -> str:
    return short(dtype) + (f"x{lanes}" if lanes > 1 else "")


def _limits(name: str, dtype: str) -> dict[str, object] | None:
    """For a helper `to_i8` on floats: the integer type, its limits, and the greatest float that converts."""
    match = re.fullmatch(r"to_([iu])(\d+)", name)
    if not match:
        return None
    target = ("int" if match[1] == "i" else "uint") + match[2]
    low, high = dtypes.limits(target)
    digits = 24 if dtype == "float32" else 53
    top = (
        high if high.bit_length() <= digits else (high >> (high.bit_length() - digits)) << (high.bit_length() - digits)
    )
    return {
        "type": f"{target}_t",
        "short": f"{match[1]}{match[2]}",
        "low": f"{float(low)!r}",
        "top": f"{float(top)!r}",
        "dtype": target,
        "min": low,
        "max": high,
    }


class _Printer:
    """One kernel's statements."""

    def __init__(self, d: PlainC):
        self.d = d
        self.vector = isinstance(d, VectorC)
        self.lines: list[str] = []
        self.uses_tasks = False
        self.barriers = False
        self.masks: dict[P.Variable, int] = {}
        self.scratch = False
        self.held: P.Tiles | None = None
        d.expression = self.scalar  # type: ignore[method-assign]

    def function(self, f: Function) -> list[str]:
        used = {b.name for s in P.walk(f.body) if isinstance(s, P.Store) for b in (s.buffer,)} | {
            load.tensor.name for load in P.loads(f.body)
        }
        # A dimension's name is the model's: what C does not take becomes an underscore, and its number keeps it unique.
        self.d.dimensions = {s: f"n{slot}_{re.sub(r'[^A-Za-z0-9_]', '_', s.name)}" for s, slot in f.dims}
        for symbol, slot in f.dims:
            name = self.d.dimensions[symbol]
            self.line(1, f"const {self.d.index_type} {name} = ({self.d.index_type})call->dims[{slot}];")
        sources = [(b, "const ", f"call->in[{b.slot}]") for b in f.inputs]
        sources += [(b, "const ", f"(call->params + {b.slot})") for b in f.params]
        sources += [(b, "", f"call->out[{b.slot}]") for b in f.outputs]
        for b, qualifier, address in sources:
            if b.name in used:
                pointer = f"{qualifier}{self.d.scalar(b.dtype)} *"
                self.line(1, f"{pointer}{_restrict(b)}{b.name} = ({pointer}){address};")
        self.barriers = f.has_barriers
        self.stmt(f.body, 1)
        return self.lines

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    # -- statements
    def stmt(self, s: P.Stmt, depth: int) -> None:
        d = self.d
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                self.stmt(inner, depth)
        elif isinstance(s, P.For):
            name, t = s.symbol.name, d.index_type
            if s.kind == "parallel":
                self.uses_tasks = True
                self.line(depth, f"for ({t} {name} = ({t})first_task; {name} < ({t})last_task; {name}++) {{")
            else:
                self.line(depth, f"for ({t} {name} = {d.index(s.start)}; {name} < {d.index(s.extent)}; {name}++) {{")
            self.stmt(s.body, depth + 1)
            self.line(depth, "}")
        elif isinstance(s, P.If):
            self.line(depth, f"if ({d.index(s.index)} < {d.index(s.limit)}) {{")
            self.stmt(s.then, depth + 1)
            if s.otherwise is not None:
                self.line(depth, "} else {")
                self.stmt(s.otherwise, depth + 1)
            self.line(depth, "}")
        elif isinstance(s, P.Branch):
            self.line(depth, f"if ({_bare(self.value(s.condition))}) {{")
            self.stmt(s.then, depth + 1)
            if s.otherwise is not None:
                self.line(depth, "} else {")
                self.stmt(s.otherwise, depth + 1)
            self.line(depth, "}")
        elif isinstance(s, P.Break):
            self.line(depth, "break;")
        elif isinstance(s, P.LetIndex):
            self.line(depth, f"const {d.index_type} {s.symbol.name} = {d.index(s.value)};")
        elif (call := tile_call(self.held, s)) is not None:
            self.tile(depth, call)
        elif isinstance(s, P.Let):
            self.assign(depth, s.variable, s.value, "const ")
        elif isinstance(s, P.Declare) and s.variable.rows:
            pass  # it is a register
        elif isinstance(s, P.Declare):
            if s.variable.dtype == "bool":
                self.masks[s.variable] = 8
            for name in self.names(s.variable):
                self.line(depth, f"{self.variable_type(s.variable)} {name};")
        elif isinstance(s, P.Assign):
            self.assign(depth, s.variable, s.value, None)
        elif isinstance(s, P.Alloc):
            self.alloc(depth, s.buffer)
        elif isinstance(s, P.Store):
            self.store(depth, s)
        elif isinstance(s, P.Tiles):
            self.tiles(depth, s)
        elif isinstance(s, P.Require):
            self.line(depth, f"if (!{self.value(s.value)}) return {P.KERNEL_FAILED};")
        elif isinstance(s, P.Barrier):
            self.line(depth, "if (call->n_workers > 1) call->barrier(call->pool);")
        else:
            raise TypeError(f"no such statement: {type(s).__name__}")

    def alloc(self, depth: int, b: Buffer) -> None:
        t = self.d.scalar(b.dtype)
        if b.scope == "scratch":
            # What workers share is written by others between two barriers.
            self.line(
                depth, f"{t} *{'' if self.barriers else 'restrict '}{b.name} = ({t} *)(call->scratch + {b.slot});"
            )
        else:
            self.line(depth, f"{t} {b.name}[{b.elements}]{' STERNA_ALIGNED' if self.vector else ''};")

    def assign(self, depth: int, v: P.Variable, value: Expr, qualifier: str | None) -> None:
        if v.dtype == "bool" and v.lanes > 1 and qualifier is not None:
            self.masks[v] = self.mask_bits(value)
        declare = "" if qualifier is None else f"{qualifier}{self.variable_type(v)} "
        if self.vector or v.lanes == 1:
            text = self.value(value)
            if v.dtype == "bool" and v.lanes > 1 and self.mask_bits(value) != self.masks[v]:
                text = f"__builtin_convertvector({text}, {self.variable_type(v)})"
            self.line(depth, f"{declare}{v.name} = {text};")
            return
        for lane, name in enumerate(self.names(v)):
            self.line(depth, f"{declare}{name} = {self.lane(value, lane)};")

    # -- tiles
    def tiles(self, depth: int, s: P.Tiles) -> None:
        """The configuration, the body, and its end."""
        refuse_without_tiles(s.intrinsic, self.d.target)
        self.held, self.d.headers = s, self.d.headers | {str(s.intrinsic.settings["header"])}
        data = s.intrinsic.configuration(s.shapes)
        self.line(depth, f"static const uint8_t tiles[{len(data)}] STERNA_ALIGNED = {{{', '.join(map(str, data))}}};")
        self.line(depth, f"{s.intrinsic.name_in('c', 'configure')}(tiles);")
        self.stmt(s.body, depth)
        self.line(depth, f"{s.intrinsic.name_in('c', 'release')}();")

    def tile(self, depth: int, call: TileCall) -> None:
        operands = [*map(str, call.tiles)]
        if call.memory is not None:
            buffer, index = call.memory
            operands += [f"{buffer.name} + {self.d.index(index)}", str(call.stride)]
        self.line(depth, f"{call.intrinsic.name_in('c', call.operation)}({', '.join(operands)});")

    def store(self, depth: int, s: P.Store) -> None:
        lanes, index = s.value.lanes, self.d.index(s.index)
        dtype = s.buffer.dtype
        if lanes == 1 or self.vector:
            value = self.value(s.value)
            if dtype == "bool":
                value = (
                    f"(uint8_t)({value})"
                    if lanes == 1
                    else f"__builtin_convertvector({value} & 1, {self.d.type('uint8', lanes)})"
                )
                dtype = "uint8"
            self.line(depth, self.d.store(dtype, s.buffer.name, index, value, lanes, s.stride, s.active))
            return
        for lane in range(lanes if s.active is None else s.active):
            value = self.lane(s.value, lane)
            self.line(
                depth,
                self.d.store(
                    dtype,
                    s.buffer.name,
                    self.d.index(s.index + lane * s.stride),
                    f"(uint8_t)({value})" if dtype == "bool" else value,
                    1,
                    1,
                    None,
                ),
            )

    def variable_type(self, v: P.Variable) -> str:
        if v.dtype == "bool":
            return "int" if v.lanes == 1 or not self.vector else self.d.type(f"int{self.masks[v]}", v.lanes)
        return self.d.type(v.dtype, v.lanes if self.vector else 1)

    def names(self, v: P.Variable) -> list[str]:
        return [v.name] if self.vector or v.lanes == 1 else [f"{v.name}_l{lane}" for lane in range(v.lanes)]

    # -- values
    def value(self, e: Expr) -> str:
        """A value of the vector dialect, or a scalar of any."""
        d, lanes = self.d, e.lanes
        if isinstance(e, E.Const):
            return self._bool_const(e) if e.dtype == "bool" and lanes > 1 else d.const(e.value, e.dtype, lanes)
        if isinstance(e, P.Read):
            return e.variable.name
        if isinstance(e, E.Load):
            text = d.load(
                "uint8" if e.dtype == "bool" else e.dtype,
                e.tensor.name,
                d.index(e.indices[0]),
                lanes,
                e.stride,
                e.active,
            )
            return f"(({text}) != 0)" if e.dtype == "bool" else text
        if isinstance(e, E.IndexValue):
            return d.index_value(d.index(e.index), e.dtype, lanes, e.stride)
        if isinstance(e, P.Broadcast):
            assert isinstance(d, VectorC)
            if e.dtype == "bool":
                return d.broadcast("int8", f"(int8_t)-({self.value(e.a)})", lanes)
            if e.a.lanes > 1:
                return d.repeat(e.dtype, self.value(e.a), e.a.lanes, lanes)
            return d.broadcast(e.dtype, self.value(e.a), lanes)
        if isinstance(e, P.Apply):
            assert isinstance(d, VectorC)
            return d.apply(e.intrinsic, [self.value(operand) for operand in e.operands])
        if isinstance(e, P.Lane) and lanes > 1:
            d.type(e.dtype, lanes)
            order = ", ".join(str(e.lane + n) for n in range(lanes))
            return f"{d.helper('part', e.dtype, lanes)}({self.value(e.a)}, {order})"
        if isinstance(e, P.Lane):
            return f"{self.value(e.a)}[{e.lane}]"
        if isinstance(e, P.Assemble):
            if e.dtype == "bool":
                return f"({d.type('int8', lanes)}){{{', '.join(f'(int8_t)-({self.value(x)})' for x in e.elements)}}}"
            return f"({d.type(e.dtype, lanes)}){{{', '.join(self.value(x) for x in e.elements)}}}"
        if isinstance(e, P.Blend):
            assert isinstance(d, VectorC)
            if e.dtype == "bool":
                a, b = self._masks(e.a, e.b)
                mask = d.mask(self.mask_bits(e), lanes)
                head = ", ".join("-1" if n < e.active else "0" for n in range(lanes))
                return f"(({a} & ({mask}){{{head}}}) | ({b} & ~({mask}){{{head}}}))"
            d.type(e.dtype, lanes)
            order = ", ".join(str(n if n < e.active else lanes + n) for n in range(lanes))
            return f"{d.helper('blend', e.dtype, lanes)}({self.value(e.a)}, {self.value(e.b)}, {order})"
        if isinstance(e, E.Select) and e.dtype == "bool" and lanes > 1:
            condition, a, b = self._masks(e.condition, e.a, e.b)
            return f"(({condition} & {a}) | (~{condition} & {b}))"
        if isinstance(e, E.Binary) and e.dtype == "bool" and lanes > 1:
            a, b = self._masks(e.a, e.b)
            return d.binary(e.op, "int8", a, b, lanes)
        if isinstance(e, E.Compare) and e.a.dtype == "bool" and lanes > 1:
            a, b = self._masks(e.a, e.b)
            return d.compare(e.op, "int8", a, b, lanes)
        return self._operation(e, [self.value(c) for c in e.children()], lanes, self.mask_bits)

    def lane(self, e: Expr, lane: int) -> str:
        """One lane of a value, as a scalar: how plain C renders vectors."""
        d = self.d
        if e.lanes == 1:
            return self.value(e)
        if isinstance(e, E.Const):
            return d.const(e.value, e.dtype)
        if isinstance(e, P.Read):
            return f"{e.variable.name}_l{lane}"
        if isinstance(e, E.Load):
            if e.active is not None and lane >= e.active:
                return d.const(0, e.dtype)
            return d.load(e.dtype, e.tensor.name, d.index(e.indices[0] + lane * e.stride), 1, 1, None)
        if isinstance(e, E.IndexValue):
            return d.index_value(d.index(e.index + lane * e.stride), e.dtype, 1, 0)
        if isinstance(e, P.Broadcast):
            return self.lane(e.a, lane % e.a.lanes)
        if isinstance(e, P.Apply):
            return self._summed(e, lane)
        if isinstance(e, P.Assemble):
            return self.value(e.elements[lane])
        if isinstance(e, P.Blend):
            return self.lane(e.a if lane < e.active else e.b, lane)
        if isinstance(e, P.Lane):
            return self.lane(e.a, e.lane + lane)
        return self._operation(e, [self.lane(c, lane) for c in e.children()], 1, lambda _: 0)

    def _operation(self, e: Expr, operands: list[str], lanes: int, mask_bits: object) -> str:
        d = self.d
        bits = mask_bits if callable(mask_bits) else (lambda _: 0)
        if isinstance(e, E.Unary):
            return d.unary(e.op, e.a.dtype, operands[0], lanes)
        if isinstance(e, E.Binary):
            # C leaves shifts by the width or more undefined.
            far = e.op in ("shift_left", "shift_right") and not isinstance(e.b, E.Const)
            return d.binary(f"{e.op}_any" if far else e.op, e.dtype, operands[0], operands[1], lanes)
        if isinstance(e, E.Compare):
            return d.compare(e.op, e.a.dtype, operands[0], operands[1], lanes)
        if isinstance(e, E.Select):
            return d.select(e.dtype, operands[0], operands[1], operands[2], lanes, bits(e.condition))
        if isinstance(e, E.Fma):
            return d.fma(e.dtype, operands[0], operands[1], operands[2], lanes)
        if isinstance(e, E.Cast):
            return d.cast(e.a.dtype, e.dtype, operands[0], lanes, bits(e.a) if e.a.dtype == "bool" else 0)
        if isinstance(e, E.Bitcast):
            return d.bitcast(e.a.dtype, e.dtype, operands[0], lanes)
        if isinstance(e, P.Lane):
            return operands[0]
        raise TypeError(f"no such value: {type(e).__name__}")

    def _summed(self, e: P.Apply, lane: int) -> str:
        """One lane of an intrinsic, by its behaviour."""
        d, (old, *operands), group = self.d, e.operands, e.intrinsic.group
        text = self.lane(old, lane)
        for n in range(lane * group, (lane + 1) * group):
            a, b = (d.cast(x.dtype, e.dtype, self.lane(x, n), 1, 0) for x in operands)
            text = d.binary("add", e.dtype, text, d.binary("mul", e.dtype, a, b, 1), 1)
        return text

    def scalar(self, e: Expr) -> str:
        return self.value(e)

    # -- masks: vectors of truth values are integer vectors as wide as what was compared
    def mask_bits(self, e: Expr) -> int:
        if isinstance(e, E.Compare):
            return self.mask_bits(e.a) if e.a.dtype == "bool" else dtypes.bits(e.a.dtype)
        if isinstance(e, E.Unary) and e.op in ("isnan", "isinf"):
            return dtypes.bits(e.a.dtype)
        if isinstance(e, E.Cast):
            return dtypes.bits(e.a.dtype)
        if isinstance(e, P.Read):
            return self.masks.get(e.variable, 8)
        if isinstance(e, (P.Broadcast, P.Assemble)):
            return 8
        return max((self.mask_bits(c) for c in e.children() if c.dtype == "bool"), default=8)

    def _masks(self, *operands: Expr) -> list[str]:
        """Truth values brought to one width."""
        assert isinstance(self.d, VectorC)
        bits = max(self.mask_bits(e) for e in operands)
        texts = []
        for e in operands:
            text = self.value(e)
            texts.append(
                text if self.mask_bits(e) == bits else f"__builtin_convertvector({text}, {self.d.mask(bits, e.lanes)})"
            )
        return texts

    def _bool_const(self, e: E.Const) -> str:
        assert isinstance(self.d, VectorC)
        return self.d.broadcast("int8", "-1" if e.value else "0", e.lanes)
