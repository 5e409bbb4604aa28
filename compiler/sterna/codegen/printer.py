"""The printer: one kernel's loop program as text of a language with braces, whatever its dialect.

It renders statement for statement and decides nothing. Where the dialect has no vectors, a vector of the loop program
becomes one scalar statement for each lane.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from sterna.codegen.dialect import Dialect
from sterna.codegen.instructions import InstructionOperand
from sterna.codegen.machine import aligned_bytes
from sterna.codegen.tiles import TileOperation, refuse_without_tiles, tile_operation
from sterna.codegen.wide_accesses import WORD, WideAccesses
from sterna.intrinsics import Intrinsic
from sterna.intrinsics.words import BYTES
from sterna.ir import dtypes
from sterna.ir.extremum import Extremum
from sterna.ir.integer import ZERO, Atom, FloorDiv, Int, Mod, Symbol
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops import program as P
from sterna.loops.program import Function
from sterna.loops.small_floats import widen_small_floats
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import IndexAtom
from sterna.te.tensor import COMBINING


class Printer:
    """One kernel's statements: `function` gives their lines, `uses_tasks` whether any loop is over tasks."""

    def __init__(self, dialect: Dialect):
        self.d = dialect
        self.lines: list[str] = []
        self.uses_tasks = False
        self.barriers = False
        #: Bits of the masks that are variables.
        self.masks: dict[P.Variable, int] = {}
        self.held: P.Tiles | None = None
        #: Variables by which anything can be shifted.
        self.counts: set[P.Variable] = set()
        #: How many threads a task has along each axis.
        self.threads: dict[ThreadAxis, int] = {}
        self.wide = WideAccesses(dialect, self.position, self.lane, self.buffer)
        #: Names of the dimensions that the kernel reads.
        self.dimensions: dict[Symbol, str] = {}

    def function(self, f: Function) -> list[str]:
        self.d.begin(f)
        used = {b.name for s in P.walk(f.body) for b in P.touched(s)}
        # A dimension's name is the model's: what C does not take becomes an underscore, and its number keeps it unique.
        self.dimensions = {s: f"n{slot}_{re.sub(r'[^A-Za-z0-9_]', '_', s.name)}" for s, slot in f.dims}
        for symbol, slot in f.dims:
            size = self.d.dimension(slot, f.dims_type)
            self.line(1, self.d.constant(self.d.index_type, self.dimensions[symbol], size))
        for buffer in (*f.inputs, *f.params, *f.outputs):
            if buffer.name in used:
                self.line(1, self.d.bind(self.buffer(buffer), self.position(buffer.begin)))
        self.barriers = f.has_barriers
        self.wide.begin(f.body)
        self.threads = P.thread_counts(f.body) if f.has_threads else {}
        for memory, nbytes in P.taken(f.body).items():
            if text := self.d.memory(memory, nbytes):
                self.line(1, text)
        self.stmt(f.body, 1)
        return self.lines

    def name(self, text: str) -> str:
        """What something of the loop program is called in the language."""
        return f"{text}_" if text in self.d.reserved else text

    def buffer(self, b: P.Buffer) -> P.Buffer:
        """A buffer by its name in the language."""
        return replace(b, name=self.name(b.name)) if b.name in self.d.reserved else b

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    # -- statements
    def stmt(self, s: P.Stmt, depth: int) -> None:
        d = self.d
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                self.stmt(inner, depth)
        elif isinstance(s, P.For):
            if s.kind in THREADS:
                self.over_threads(depth, s)
                return
            if s.kind == "parallel":
                self.uses_tasks = True
                self.line(depth, d.tasks(self.name(s.symbol.name), bool(self.threads)))
            else:
                start, stop = self.position(s.start), self.position(s.extent)
                self.line(depth, (d.rolled if s.rolled else "") + d.loop(self.name(s.symbol.name), start, stop))
            self.stmt(s.body, depth + 1)
            self.line(depth, "}")
        elif isinstance(s, P.If):
            self.branch(depth, f"{self.position(s.index)} < {self.position(s.limit)}", s.then, s.otherwise)
        elif isinstance(s, P.Branch):
            self.branch(depth, _bare(self.value(s.condition)), s.then, s.otherwise)
        elif isinstance(s, P.Break):
            self.line(depth, "break;")
        elif isinstance(s, P.LetIndex):
            self.line(depth, d.constant(d.index_type, self.name(s.symbol.name), self.position(s.value)))
        elif (call := tile_operation(self.held, s)) is not None:
            self.tile(depth, call)
        elif isinstance(s, P.Let):
            self.let(depth, s.variable, s.value)
        elif isinstance(s, P.Declare):
            self.declare(depth, s.variable)
        elif isinstance(s, P.Assign):
            self.assign(depth, s.variable, s.value)
        elif isinstance(s, P.Alloc):
            self.line(depth, d.allocate(self.buffer(s.buffer), self.position(s.buffer.begin), self.barriers))
        elif isinstance(s, P.Store):
            self.store(depth, s)
        elif isinstance(s, P.Tiles):
            self.tiles(depth, s)
        elif isinstance(s, P.Instruction):
            self.instruction(depth, s)
        elif isinstance(s, P.Require):
            self.line(depth, d.require(self.value(s.value)))
        elif isinstance(s, P.Barrier):
            self.line(depth, d.thread_barrier() if s.reach == "block" else d.barrier())
        elif isinstance(s, P.LastTask):
            self.last_task(depth, s)
        elif isinstance(s, P.Copy) and s.fetched:
            to, at = (f"{self.name(b.name)} + {self.position(n)}" for b, n in ((s.destination, s.to), (s.source, s.at)))
            self.line(depth, d.fetch(to, at, s.elements * dtypes.size(s.source.dtype), s.asynchronous))
        elif isinstance(s, P.Copy):
            self.stmt(P.elements_of(s), depth)
        elif isinstance(s, P.Prefetch):
            if text := d.prefetch(self.name(s.buffer.name), self.position(s.index)):
                self.line(depth, text)
        elif isinstance(s, P.Commit):
            pass  # what is copied here is there at once
        elif isinstance(s, P.Wait):
            if s.fetched:
                self.line(depth, d.fetch_wait())
        else:
            raise TypeError(f"no such statement: {type(s).__name__}")

    def over_threads(self, depth: int, s: P.For) -> None:
        """What each thread runs for the iteration that is its own, if there is one."""
        assert s.kind in THREADS
        self.line(depth, "{")
        number = self.position(s.start) + " + " if s.start != ZERO else ""
        name = self.name(s.symbol.name)
        self.line(depth + 1, self.d.constant(self.d.index_type, name, number + self.d.thread(s.kind)))
        if s.extent - s.start == self.threads[s.kind]:
            self.stmt(s.body, depth + 1)
        else:
            self.branch(depth + 1, f"{name} < {self.position(s.extent)}", s.body, None)
        self.line(depth, "}")

    def last_task(self, depth: int, s: P.LastTask) -> None:
        self.line(depth, self.d.constant(self.d.index_type, self.name(s.symbol.name), self.position(s.index)))
        counter = f"{self.name(s.counters.name)} + {self.name(s.symbol.name)}"
        self.branch(depth, self.d.last_task(counter, s.count), s.body, None)

    def branch(self, depth: int, condition: str, then: P.Stmt, otherwise: P.Stmt | None) -> None:
        self.line(depth, f"if ({condition}) {{")
        self.stmt(then, depth + 1)
        if otherwise is not None:
            self.line(depth, "} else {")
            self.stmt(otherwise, depth + 1)
        self.line(depth, "}")

    # -- variables
    def declare(self, depth: int, v: P.Variable) -> None:
        if v.rows:
            return  # it is a register
        if v.dtype == "bool":
            self.masks[v] = 8
        for name in self.names(v):
            self.line(depth, self.d.variable(self.variable_type(v), name))

    def let(self, depth: int, v: P.Variable, value: Expr) -> None:
        words = v in self.wide.of_words
        self.take(depth, value, words)
        if words:
            for name, text in self.wide.parts(v, value):
                self.line(depth, self.d.constant(self.d.type(WORD), name, text))
            return
        if v.dtype == "bool" and v.lanes > 1:
            self.masks[v] = self.mask_bits(value)
        if dtypes.is_integer(v.dtype) and self.is_count(value):
            self.counts.add(v)
        for name, text in self.parts(v, value):
            self.line(depth, self.d.constant(self.variable_type(v), name, text))

    def assign(self, depth: int, v: P.Variable, value: Expr) -> None:
        self.take(depth, value)
        for name, text in self.parts(v, value):
            self.line(depth, f"{name} = {text};")

    def parts(self, v: P.Variable, value: Expr) -> list[tuple[str, str]]:
        """What becomes of a variable, as a whole or lane by lane: (name, value) of each part."""
        if self.is_whole(v.lanes):
            text = self.value(value)
            if v.dtype == "bool" and v.lanes > 1 and self.mask_bits(value) != self.masks[v]:
                text = self.d.mask_cast(text, v.lanes, self.masks[v])
            return [(self.name(v.name), text)]
        return [(name, self.lane(value, lane)) for lane, name in enumerate(self.names(v))]

    def is_whole(self, lanes: int) -> bool:
        """Whether a value of so many lanes is one value of the language."""
        return self.d.vectors or lanes == 1

    def variable_type(self, v: P.Variable) -> str:
        lanes = v.lanes if self.d.vectors else 1
        return self.d.truth_type(lanes, self.masks.get(v, 8)) if v.dtype == "bool" else self.d.type(v.dtype, lanes)

    def names(self, v: P.Variable) -> list[str]:
        return [self.name(v.name)] if self.is_whole(v.lanes) else [f"{v.name}_l{lane}" for lane in range(v.lanes)]

    # -- tiles
    def tiles(self, depth: int, s: P.Tiles) -> None:
        """The configuration, the body, and its end."""
        refuse_without_tiles(s.intrinsic, self.d.target)
        self.held = s
        self.d.tile_header(s.intrinsic)
        before, behind = self.d.tile_frame(s)
        for text in before:
            self.line(depth, text)
        self.stmt(s.body, depth)
        for text in behind:
            self.line(depth, text)

    def tile(self, depth: int, call: TileOperation) -> None:
        assert self.held is not None
        address = ""
        if call.memory is not None:
            buffer, index = call.memory
            address = f"{self.name(buffer.name)} + {self.position(index)}"
        self.line(depth, self.d.tile(self.held, call, address))

    # -- instructions over memory
    def instruction(self, depth: int, s: P.Instruction) -> None:
        operands: dict[str, InstructionOperand] = {}
        names = [t.name for t in s.intrinsic.inputs]
        for name, operand in ((s.intrinsic.behaviour.name, s.result), *zip(names, s.operands, strict=True)):
            if isinstance(operand, P.Slice):
                index = self.position(operand.start)
                operands[name] = InstructionOperand(self.d.address(self.buffer(operand.buffer), index), operand.strides)
            else:
                operands[name] = InstructionOperand(self.name(operand.name))
        self.line(depth, self.d.instruction(s.intrinsic, operands))

    # -- memory
    def store(self, depth: int, s: P.Store) -> None:
        lanes, truth = s.value.lanes, s.buffer.dtype == "bool"
        dtype = "uint8" if truth else s.buffer.dtype
        if self.is_whole(lanes):
            index, value = self.position(s.index), self.value(s.value)
            value = self.d.byte(value, lanes) if truth else value
            self.line(depth, self.d.store(dtype, self.name(s.buffer.name), index, value, lanes, s.stride, s.active))
            return
        self.take(depth, s.value)
        if given := self.wide.giving(s):
            for text in given:
                self.line(depth, text)
            return
        for lane in range(lanes if s.active is None else s.active):
            index, value = self.position(s.index + lane * s.stride), self.lane(s.value, lane)
            value = self.d.byte(value, 1) if truth else value
            self.line(depth, self.d.store(dtype, self.name(s.buffer.name), index, value, 1, 1, None))

    def take(self, depth: int, value: Expr, words: bool = False) -> None:
        """Reads the neighbours that vectors of a value are made of, where the language has none."""
        for text in self.wide.taking(value, words):
            self.line(depth, text)

    def load(self, e: E.Load) -> str:
        truth = e.dtype == "bool"
        dtype, index = "uint8" if truth else e.dtype, self.position(e.indices[0])
        text = self.d.load(dtype, self.name(e.tensor.name), index, e.lanes, e.stride, e.active, aligned_bytes(e))
        return self.d.truth(text, e.lanes) if truth else text

    # -- positions
    def position(self, index: Int) -> str:
        text = ""
        for monomial, coefficient in index.terms.items():
            factors = [self.atom(a) for a in monomial]
            if abs(coefficient) != 1:
                factors.append(str(abs(coefficient)))
            term = " * ".join(factors)
            text += (" - " if coefficient < 0 else " + ") + term
        if not text:
            return str(index.const)
        text = text[3:] if text.startswith(" + ") else "-" + text[3:]
        if index.const:
            text += f" {'-' if index.const < 0 else '+'} {abs(index.const)}"
        return text

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.dimensions.get(atom) or self.name(atom.name)
        if isinstance(atom, (FloorDiv, Mod)):
            inner, lo = self.position(atom.value), atom.value.bounds()[0]
            if lo is not None and lo >= 0:
                return f"(({inner}) {'/' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
            operation = "floor_div" if isinstance(atom, FloorDiv) else "floor_mod"
            return self.d.index_helper(operation, inner, str(atom.divisor))
        if isinstance(atom, Extremum):
            a, b = (self.position(x) for x in atom.operands)
            return self.d.index_helper(atom.kind, a, b)
        if isinstance(atom, IndexAtom):
            return self.d.index_cast(self.value(atom.value), atom.value.dtype)
        raise TypeError(f"no such atom: {type(atom).__name__}")

    # -- values
    def value(self, e: Expr) -> str:
        """A scalar, or a vector where the dialect has them."""
        d, lanes = self.d, e.lanes
        if e.dtype == "bool" and lanes > 1 and (mask := self.mask(e)) is not None:
            return mask
        if isinstance(e, E.Const):
            return d.const(e.value, e.dtype, lanes)
        if isinstance(e, P.Read):
            return self.name(e.variable.name)
        if isinstance(e, E.Load):
            return self.load(e)
        if isinstance(e, E.IndexValue):
            return d.index_value(self.position(e.index), e.dtype, lanes, e.stride)
        if isinstance(e, P.Broadcast):
            if e.a.lanes > 1:
                return d.repeat(e.dtype, self.value(e.a), e.a.lanes, lanes)
            return d.broadcast(e.dtype, self.value(e.a), lanes)
        if isinstance(e, P.Apply) and not d.vectors:
            return self.computed(e, 0)
        if isinstance(e, P.Apply):
            return d.apply(e.intrinsic, [self.value(operand) for operand in e.operands])
        if isinstance(e, P.Lane) and not self.is_whole(e.a.lanes):
            return self.lane(e.a, e.lane)
        if isinstance(e, P.Lane):
            return d.part(e.dtype, self.value(e.a), e.lane, lanes) if lanes > 1 else d.lane(self.value(e.a), e.lane)
        if isinstance(e, P.Assemble):
            return d.assemble(e.dtype, [self.value(x) for x in e.elements])
        if isinstance(e, P.Blend):
            return d.blend(e.dtype, self.value(e.a), self.value(e.b), e.active, lanes)
        if isinstance(e, P.Shuffle):
            return d.shuffle(e.dtype, [self.value(c) for c in e.children()], e.order)
        if isinstance(e, P.Exchange):
            return d.exchange(e.dtype, self.value(e.a), e.distance)
        return self.operation(e, [self.value(c) for c in e.children()], lanes, self.mask_bits)

    def lane(self, e: Expr, lane: int) -> str:
        """One lane of a value, as a scalar: how a dialect without vectors has them."""
        d = self.d
        if e.lanes == 1:
            return self.value(e)
        if isinstance(e, E.Const):
            return d.const(e.value, e.dtype)
        if isinstance(e, P.Read):
            words = e.variable in self.wide.of_words
            return self.wide.byte(e.variable, lane) if words else f"{e.variable.name}_l{lane}"
        if isinstance(e, E.Load):
            if e.active is not None and lane >= e.active:
                return d.const(0, e.dtype)
            if taken := self.wide.element(e, lane):
                return taken
            return d.load(e.dtype, self.name(e.tensor.name), self.position(e.indices[0] + lane * e.stride), 1, 1, None)
        if isinstance(e, E.IndexValue):
            return d.index_value(self.position(e.index + lane * e.stride), e.dtype, 1, 0)
        if isinstance(e, P.Broadcast):
            return self.lane(e.a, lane % e.a.lanes)
        if isinstance(e, P.Apply):
            return self.computed(e, lane)
        if isinstance(e, P.Assemble):
            return self.value(e.elements[lane])
        if isinstance(e, P.Blend):
            return self.lane(e.a if lane < e.active else e.b, lane)
        if isinstance(e, P.Lane):
            return self.lane(e.a, e.lane + lane)
        if isinstance(e, P.Shuffle):
            return self.lane(*e.source_of(lane))
        return self.operation(e, [self.lane(c, lane) for c in e.children()], 1, lambda _: 0)

    def operation(self, e: Expr, operands: list[str], lanes: int, bits: Callable[[Expr], int]) -> str:
        d = self.d
        if isinstance(e, E.Unary):
            return d.unary(e.op, e.a.dtype, operands[0], lanes)
        if isinstance(e, E.Binary):
            # Languages leave shifts by the width or more undefined.
            far = e.op in ("shift_left", "shift_right") and not self.is_count(e.b)
            return d.binary(f"{e.op}_any" if far else e.op, e.dtype, operands[0], operands[1], lanes)
        if isinstance(e, E.Compare):
            return d.compare(e.op, e.a.dtype, operands[0], operands[1], lanes)
        if isinstance(e, E.Select):
            return d.select(e.dtype, operands[0], operands[1], operands[2], lanes, bits(e.condition))
        if isinstance(e, E.Fma):
            return d.fma(e.dtype, operands[0], operands[1], operands[2], lanes)
        if isinstance(e, E.Cast):
            return d.cast(e.a.dtype, e.dtype, operands[0], lanes, bits(e.a) if e.a.dtype == "bool" else 0)
        if isinstance(e, E.Nearest):
            return d.nearest(e.dtype, operands[0], e.zero, lanes)
        if isinstance(e, E.Bitcast):
            return d.bitcast(e.a.dtype, e.dtype, operands[0], lanes)
        if isinstance(e, P.Lane):
            return operands[0]
        raise TypeError(f"no such value: {type(e).__name__}")

    def is_count(self, e: Expr) -> bool:
        """Whether a value is seen to be less than the bits of its type."""
        if isinstance(e, P.Read):
            return e.variable in self.counts
        least = e.b if isinstance(e, E.Binary) and e.op == "and" else e
        return isinstance(least, E.Const) and (least is e or 0 <= int(least.value) < dtypes.bits(e.dtype))

    def computed(self, e: P.Apply, lane: int) -> str:
        """One lane of an intrinsic over vectors, by its behaviour."""
        i, body = e.intrinsic, e.intrinsic.behaviour.body
        assert body is not None
        if i.of_words:
            words = [self.wide.word(operand, BYTES * lane) for operand in e.operands[1:]]
            return self.d.dot_of_words(i, self.lane(e.operands[0], lane), words[0], words[1])
        names = [t.name for t in i.inputs]
        operands = dict(zip(names, e.operands[-len(names) :], strict=True))
        if not isinstance(body, E.Reduce):
            return self.element(i, widen_small_floats(body), operands, (lane,))
        # The value of every axis, by the element of the result and the term.
        spatial = list(product(*(range(int(a.extent)) for a in i.behaviour.axes)))[lane]
        terms = product(*(range(int(a.extent)) for a in i.reduction.axes))
        inner = widen_small_floats(body.a)
        texts = [self.element(i, inner, operands, (*spatial, *term)) for term in terms]
        text = self.lane(e.operands[0], lane) if i.accumulates else texts.pop(0)
        for more in texts:
            wide = "float32" if e.dtype in dtypes.HALVES else e.dtype
            a, b = (x if wide == e.dtype else self.d.cast(e.dtype, wide, x, 1, 0) for x in (text, more))
            text = self.d.binary(COMBINING[body.combiner], wide, a, b, 1)
            text = text if wide == e.dtype else self.d.cast(wide, e.dtype, text, 1, 0)
        return text

    def element(self, i: Intrinsic, e: Expr, operands: Mapping[str, Expr], at: Sequence[int]) -> str:
        """One element of a behaviour, whose operands are vectors, at values of its axes."""
        if isinstance(e, E.Load):
            place = i.position(e, dict(zip(i.axes, at, strict=True)))
            return self.lane(operands[e.tensor.name], place)
        if isinstance(e, E.Const):
            return self.d.const(e.value, e.dtype)
        return self.operation(e, [self.element(i, c, operands, at) for c in e.children()], 1, lambda _: 0)

    # -- masks: vectors of truth values are integer vectors as wide as what was compared
    def mask(self, e: Expr) -> str | None:
        """A vector of truth values; None where it is made like any other value."""
        d, lanes = self.d, e.lanes
        if isinstance(e, E.Const):
            return d.mask_const(bool(e.value), lanes)
        if isinstance(e, P.Broadcast):
            return d.mask_splat(self.value(e.a), lanes)
        if isinstance(e, P.Assemble):
            return d.mask_of([self.value(x) for x in e.elements])
        if isinstance(e, P.Blend):
            a, b = self.at_one_width(e.a, e.b)
            return d.mask_blend(a, b, e.active, lanes, self.mask_bits(e))
        if isinstance(e, E.Select):
            return d.mask_select(*self.at_one_width(e.condition, e.a, e.b))
        if isinstance(e, E.Binary):
            a, b = self.at_one_width(e.a, e.b)
            return d.binary(e.op, "int8", a, b, lanes)
        if isinstance(e, E.Compare) and e.a.dtype == "bool":
            a, b = self.at_one_width(e.a, e.b)
            return d.compare(e.op, f"int{self.mask_bits(e)}", a, b, lanes)
        return None

    def mask_bits(self, e: Expr) -> int:
        if isinstance(e, E.Compare):
            return max(self.mask_bits(e.a), self.mask_bits(e.b)) if e.a.dtype == "bool" else dtypes.bits(e.a.dtype)
        if isinstance(e, E.Unary) and e.op in ("isnan", "isinf"):
            return dtypes.bits(e.a.dtype)
        if isinstance(e, E.Cast):
            return dtypes.bits(e.a.dtype)
        if isinstance(e, P.Read):
            return self.masks.get(e.variable, 8)
        if isinstance(e, (P.Broadcast, P.Assemble)):
            return 8
        return max((self.mask_bits(c) for c in e.children() if c.dtype == "bool"), default=8)

    def at_one_width(self, *operands: Expr) -> list[str]:
        """Masks brought to the greatest width among them."""
        bits = max(self.mask_bits(e) for e in operands)
        texts = [(self.value(e), self.mask_bits(e), e.lanes) for e in operands]
        return [text if own == bits else self.d.mask_cast(text, lanes, bits) for text, own, lanes in texts]


def _bare(text: str) -> str:
    """A condition without the parentheses around all of it, which clang takes for a mistake."""
    depth = 0
    for n, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and n + 1 < len(text):
            return text
    return text[1:-1] if text.startswith("(") else text
