"""One kernel as an LLVM function: statements, positions and memory accesses.

Variables that change are stack slots, which LLVM's first pass turns into registers; everything else is a value.
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.abi import ALIGNMENT
from sterna.abi.records import CALL
from sterna.codegen.instructions import InstructionOperand, instruction_text, lowering
from sterna.codegen.llvm_expr import Instructions, Values
from sterna.codegen.llvm_text import constant, kind, memory_kind, shuffle_mask
from sterna.codegen.machine import has_masked_access
from sterna.codegen.tiles import TileOperation, refuse_without_tiles, tile_operation
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.extremum import Extremum
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Monomial, Symbol
from sterna.ir.memory import INPUT, OUTPUT, PARAM
from sterna.loops import program as P
from sterna.loops.program import Buffer, Function, Stmt, Variable
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import IndexAtom

#: What the address of a buffer of the call record begins with.
_MEMBERS = {INPUT: "in", OUTPUT: "out", PARAM: "params"}


class FunctionWriter:
    """Writes the text of one function. `metadata` gives the numbers of nodes that the module has to define."""

    def __init__(
        self,
        function: Function,
        target: Target,
        declarations: set[str],
        intrinsics: dict[str, Intrinsic],
        instructions: Instructions,
        metadata: Callable[[str], str],
    ):
        self.function, self.target, self.metadata = function, target, metadata
        self.values = Values(target, declarations, intrinsics, instructions)
        self.op = self.values.op
        self.entry: list[str] = []
        self.label = "start"
        self.labels = 0
        self.symbols: dict[Symbol, str] = {}
        self.variables: dict[Variable, str] = {}
        self.slots: dict[Variable, str] = {}
        self.pointers: dict[Buffer, str] = {}
        self.scopes: dict[Buffer, str] = {}
        self.known: dict[object, str] = {}  # positions and addresses computed where they dominate
        self.held: P.Tiles | None = None
        self.exits: list[str] = []  # the labels after the loops entered
        self.bits = target.pointer_bits
        self.index_kind = f"i{self.bits}"
        # Positions fit 64 bits with room to spare; partial sums of 32-bit ones might not.
        self.no_wrap = " nsw" if self.bits == 64 else ""

    def text(self, name: str, linkage: str = "internal") -> str:
        """The definition of the function under a name, with attribute group #0."""
        self._alias_scopes()
        self._dimensions()
        self.statement(self.function.body)
        # Parameters are constant memory and the record outlives the call.
        parameters = "ptr noalias readonly %call, i32 %first_task, i32 %last_task"
        head = f"define {linkage} i32 {name}({parameters}) #0 {{\nentry:"
        body = [*self.entry, "  br label %start", "start:", *self.values.lines, "  ret i32 0", "}"]
        return "\n".join([head, *body])

    # -- statements
    def statement(self, s: Stmt) -> None:
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                self.statement(inner)
        elif (call := tile_operation(self.held, s)) is not None:
            self.tile(call)
        elif isinstance(s, P.Declare) and s.variable.rows:
            pass  # it is a register
        elif isinstance(s, P.Let):
            self.variables[s.variable] = self.value(s.value)
        elif isinstance(s, P.Assign):
            v = s.variable
            self._do(f"store {kind(v.dtype, v.lanes)} {self.value(s.value)}, ptr {self.slots[v]}")
        elif isinstance(s, P.Store):
            self.store(s)
        elif isinstance(s, P.LetIndex):
            self.symbols[s.symbol] = self.position(s.value)
        elif isinstance(s, P.Declare):
            v = s.variable
            self.slots[v] = self._in_entry(f"alloca {kind(v.dtype, v.lanes)}")
        elif isinstance(s, P.Alloc):
            if s.buffer.scope.is_array:
                size = s.buffer.elements * dtypes.size(s.buffer.dtype)
                align = max(8, self.target.vector_bits // 8)
                self.pointers[s.buffer] = self._in_entry(f"alloca [{size} x i8], align {align}")
        elif isinstance(s, P.For):
            self.loop(s)
        elif isinstance(s, P.If):
            limit = self.position(s.limit)
            self.branch(self.op(f"icmp slt {self.index_kind} {self.position(s.index)}, {limit}"), s.then, s.otherwise)
        elif isinstance(s, P.Branch):
            self.branch(self.value(s.condition), s.then, s.otherwise)
        elif isinstance(s, P.Break):
            self._do(f"br label %{self.exits[-1]}")
            self._begin(self._label("never"))  # what a block ends with may follow
        elif isinstance(s, P.Tiles):
            self.configured(s)
        elif isinstance(s, P.Instruction):
            self.instruction(s)
        elif isinstance(s, P.Require):
            holds, failed = self._label("holds"), self._label("failed")
            self._do(f"br i1 {self.value(s.value)}, label %{holds}, label %{failed}")
            self._begin(failed)
            self._do(f"ret i32 {P.KERNEL_FAILED}")
            self._begin(holds)
        elif isinstance(s, P.Barrier):
            self.barrier()
        elif isinstance(s, P.Copy):
            self.statement(P.elements_of(s))
        elif isinstance(s, P.Wait):
            pass  # copies are done at once
        else:
            raise internal_error(f"the LLVM generator has no {type(s).__name__}")

    def loop(self, s: P.For) -> None:
        """A loop with its test at the end; one that may run zero times is guarded."""
        k = self.index_kind
        start, extent = self.position(s.start), self.position(s.extent)
        guarded = not (s.extent.is_const and s.start.is_const)
        if s.kind == "parallel":
            start = self.op(f"zext i32 %first_task to {k}") if self.bits > 32 else "%first_task"
            extent = self.op(f"zext i32 %last_task to {k}") if self.bits > 32 else "%last_task"
            guarded = True
        elif s.kind != "serial":
            raise internal_error(f"kernel {self.function.name} has a loop of kind {s.kind} left")
        elif not guarded and int(s.extent) <= int(s.start):
            return
        body, done = self._label("loop"), self._label("done")
        if guarded:
            enter = self.op(f"icmp slt {k} {start}, {extent}")
            self._do(f"br i1 {enter}, label %{body}, label %{done}")
        else:
            self._do(f"br label %{body}")
        before, known = self.label, self.known
        self.known = dict(known)
        self._begin(body)
        counter = self.op(f"phi {k} [ {start}, %{before} ], [ %{body}.next, %{body}.latch ]")
        self.symbols[s.symbol] = counter
        self.exits.append(done)
        self.statement(s.body)
        self.exits.pop()
        self._do(f"br label %{body}.latch")
        self._begin(f"{body}.latch")
        self.values.lines.append(f"  %{body}.next = add nuw nsw {k} {counter}, 1")
        again = self.op(f"icmp slt {k} %{body}.next, {extent}")
        self._do(f"br i1 {again}, label %{body}, label %{done}")
        self._begin(done)
        self.known = known

    def barrier(self) -> None:
        """The runtime's, if there is anybody to wait for."""
        wait, done = self._label("wait"), self._label("end")
        several = self.op(f"icmp ugt i32 {self._member('i32', 'n_workers')}, 1")
        self._do(f"br i1 {several}, label %{wait}, label %{done}")
        self._begin(wait)
        self._do(f"call void {self._member('ptr', 'barrier')}(ptr {self._member('ptr', 'pool')})")
        self._do(f"br label %{done}")
        self._begin(done)

    def branch(self, condition: str, first: Stmt, second: Stmt | None) -> None:
        known = self.known
        then, otherwise, done = self._label("then"), self._label("else"), self._label("end")
        self._do(f"br i1 {condition}, label %{then}, label %{otherwise if second is not None else done}")
        for label, body in ((then, first), (otherwise, second)):
            if body is not None:
                self.known = dict(known)
                self._begin(label)
                self.statement(body)
                self._do(f"br label %{done}")
        self._begin(done)
        self.known = known

    # -- tiles
    def configured(self, s: P.Tiles) -> None:
        """The configuration of the tile registers, the body, and its end."""
        refuse_without_tiles(s.intrinsic, self.target)
        self.held = s
        data = s.configuration
        name, text = f"@tiles_{data.hex()}", "".join(f"\\{byte:02x}" for byte in data)
        table = f'constant [{len(data)} x i8] c"{text}", align {ALIGNMENT}'
        self.values.declarations.add(f"{name} = private unnamed_addr {table}")
        self._call_tiles(s.intrinsic.name_in("llvm", "configure"), f"ptr {name}")
        self.statement(s.body)
        self._call_tiles(s.intrinsic.name_in("llvm", "release"))

    def tile(self, call: TileOperation) -> None:
        operands = [f"i8 {number}" for number in call.tiles]
        if call.memory is not None:
            operands += [f"ptr {self.address(*call.memory)}", f"i64 {call.stride}"]
        self._call_tiles(call.intrinsic.name_in("llvm", call.operation), *operands)

    def _call_tiles(self, name: str, *operands: str) -> None:
        kinds = (f"{o.split()[0]}{' immarg' if o.startswith('i8 ') else ''}" for o in operands)
        self.values.declarations.add(f"declare void @{name}({', '.join(kinds)})")
        self._do(f"call void @{name}({', '.join(operands)})")

    # -- instructions over memory
    def instruction(self, s: P.Instruction) -> None:
        """A call of a function that the module defines: one for every intrinsic and strides of its operands."""
        names = [s.intrinsic.behaviour.name, *(t.name for t in s.intrinsic.inputs)]
        operands: dict[str, InstructionOperand] = {}
        arguments = []
        for name, operand in zip(names, (s.result, *s.operands), strict=True):
            if isinstance(operand, P.Slice):
                arguments.append(f"ptr {self.address(operand.buffer, operand.start)}")
                operands[name] = InstructionOperand(f"%{name}", operand.strides)
            else:
                arguments.append(f"{kind(operand.dtype)} {self.variables[operand]}")
                operands[name] = InstructionOperand(f"%{name}")
        text = instruction_text(lowering(s.intrinsic, "llvm", self.target).text, operands)
        kinds = ", ".join(f"{a.split()[0]} %{name}" for a, name in zip(arguments, names, strict=True))
        function = self.values.instruction(s.intrinsic.function, kinds, text)
        self._do(f"call void {function}({', '.join(arguments)})")

    # -- positions
    def position(self, index: Int) -> str:
        """An integer of the pointer's width."""
        if not index.terms:
            return str(index.const)
        if (found := self.known.get(index)) is not None:
            return found
        total = ""
        k, flags = self.index_kind, self.no_wrap
        for monomial, coefficient in index.terms.items():
            term = self._product(monomial)
            if coefficient == -1 and total:
                total = self.op(f"sub{flags} {k} {total}, {term}")
                continue
            if coefficient != 1:
                term = self.op(f"mul{flags} {k} {term}, {coefficient}")
            total = self.op(f"add{flags} {k} {total}, {term}") if total else term
        if index.const:
            total = self.op(f"add{flags} {k} {total}, {index.const}")
        if not any(isinstance(a, IndexAtom) for a in index.atoms()):
            self.known[index] = total  # what a computed position reads may change
        return total

    def _product(self, monomial: Monomial) -> str:
        result = self._atom(monomial[0])
        for atom in monomial[1:]:
            result = self.op(f"mul{self.no_wrap} {self.index_kind} {result}, {self._atom(atom)}")
        return result

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.symbols[atom]
        k = self.index_kind
        if isinstance(atom, (FloorDiv, Mod)):
            value, lo = self.position(atom.value), atom.value.bounds()[0]
            quotient = isinstance(atom, FloorDiv)
            if lo is not None and lo >= 0:
                return self.op(f"{'udiv' if quotient else 'urem'} {k} {value}, {atom.divisor}")
            rest = self.op(f"srem {k} {value}, {atom.divisor}")
            sign = self.op(f"ashr {k} {rest}, {self.bits - 1}")  # -1 where the remainder is negative
            if not quotient:
                return self.op(f"add {k} {rest}, {self.op(f'and {k} {sign}, {atom.divisor}')}")
            return self.op(f"add {k} {self.op(f'sdiv {k} {value}, {atom.divisor}')}, {sign}")
        if isinstance(atom, Extremum):
            operands = [(k, self.position(x)) for x in atom.operands]
            return self.values.call(f"llvm.s{atom.kind}.{k}", k, *operands)
        if isinstance(atom, IndexAtom):
            return self._resize(self.value(atom.value), atom.value.dtype)
        raise internal_error(f"kernel {self.function.name} uses {atom}, which the LLVM generator does not know")

    def _resize(self, value: str, dtype: str) -> str:
        """An integer value as a position."""
        return self.values.cast(dtype, f"int{self.bits}", 1, value)

    # -- values
    def value(self, e: Expr) -> str:
        v, lanes = self.values, e.lanes
        if isinstance(e, P.Read):
            if (name := self.variables.get(e.variable)) is not None:
                return name
            return self.op(f"load {kind(e.dtype, lanes)}, ptr {self.slots[e.variable]}")
        if isinstance(e, E.Const):
            return constant(e.value, e.dtype, lanes)
        if isinstance(e, E.Load):
            return self.load(e)
        if isinstance(e, E.Fma):
            return v.fma(e.dtype, lanes, self.value(e.a), self.value(e.b), self.value(e.c))
        if isinstance(e, E.Binary):
            return v.binary(e.op, e.dtype, lanes, self.value(e.a), self.value(e.b), (_number(e.a), _number(e.b)))
        if isinstance(e, E.Unary):
            return v.unary(e.op, e.a.dtype, lanes, self.value(e.a))
        if isinstance(e, P.Broadcast):
            if e.a.lanes > 1:
                return v.repeat(e.dtype, e.a.lanes, lanes, self.value(e.a))
            return v.broadcast(e.dtype, lanes, self.value(e.a))
        if isinstance(e, P.Apply):
            return v.apply(e.intrinsic, [self.value(operand) for operand in e.operands])
        if isinstance(e, E.Compare):
            return v.compare(e.op, e.a.dtype, lanes, self.value(e.a), self.value(e.b))
        if isinstance(e, E.Select):
            return v.choose(self.value(e.condition), e.dtype, lanes, self.value(e.a), self.value(e.b))
        if isinstance(e, E.Cast):
            return v.cast(e.a.dtype, e.dtype, lanes, self.value(e.a))
        if isinstance(e, E.Bitcast):
            return v.bitcast(e.a.dtype, e.dtype, lanes, self.value(e.a))
        if isinstance(e, E.IndexValue):
            return self._index_value(e)
        if isinstance(e, P.Lane) and lanes > 1:
            order = [e.lane + n for n in range(lanes)]
            return v.shuffle(kind(e.dtype), e.a.lanes, self.value(e.a), "poison", order)
        if isinstance(e, P.Lane):
            return self.op(f"extractelement {kind(e.a.dtype, e.a.lanes)} {self.value(e.a)}, i32 {e.lane}")
        if isinstance(e, P.Shuffle):
            b = "poison" if e.b is None else self.value(e.b)
            return v.shuffle(kind(e.dtype), e.a.lanes, self.value(e.a), b, list(e.order))
        if isinstance(e, P.Assemble):
            scalar, vector = kind(e.dtype), "poison"
            for n, element in enumerate(e.elements):
                vector = self.op(
                    f"insertelement {kind(e.dtype, lanes)} {vector}, {scalar} {self.value(element)}, i32 {n}"
                )
            return vector
        if isinstance(e, P.Blend):
            order = [n if n < e.active else lanes + n for n in range(lanes)]
            return v.shuffle(kind(e.dtype), lanes, self.value(e.a), self.value(e.b), order)
        raise internal_error(f"the LLVM generator has no {type(e).__name__}")

    def _index_value(self, e: E.IndexValue) -> str:
        v, k = self.values, kind(e.dtype, e.lanes)
        base = v.cast(f"int{self.bits}", e.dtype, 1, self.position(e.index))
        if e.lanes == 1:
            return base
        steps = ", ".join(f"{kind(e.dtype)} {e.stride * n}" for n in range(e.lanes))
        return self.op(f"add {k} {v.broadcast(e.dtype, e.lanes, base)}, <{steps}>")

    # -- memory
    def load(self, e: E.Load) -> str:
        buffer, dtype, lanes = e.tensor, e.dtype, e.lanes
        assert isinstance(buffer, Buffer)
        (index,) = e.indices
        scalar, size, scope = memory_kind(dtype), dtypes.size(dtype), self.scopes.get(buffer, "")
        active = lanes if e.active is None else e.active

        def read(at: int, width: int) -> str:
            k = memory_kind(dtype, width)
            return self.op(f"load {k}, ptr {self.address(buffer, index + at)}, align {size}{scope}")

        if lanes == 1 or (e.stride == 1 and active == lanes):
            result = read(0, lanes)
        elif e.stride != 1:
            result = constant(0, "uint8" if dtype == "bool" else dtype, lanes)
            for n in range(active):
                element = read(n * e.stride, 1)
                result = self.op(f"insertelement <{lanes} x {scalar}> {result}, {scalar} {element}, i32 {n}")
        elif has_masked_access(self.target, dtype):
            k, address = memory_kind(dtype, lanes), self.address(buffer, index)
            name = f"llvm.masked.load.v{lanes}{_letter(scalar)}.p0"
            self.values.declarations.add(f"declare {k} @{name}(ptr, i32, <{lanes} x i1>, {k})")
            zero = f"{k} zeroinitializer"
            result = self.op(f"call {k} @{name}(ptr {address}, i32 {size}, {_mask(lanes, active)}, {zero}){scope}")
        else:
            result = self._join([(at, width, read(at, width)) for at, width in _pieces(active)], scalar, lanes)
        if dtype == "bool":
            return self.values.test("ne", "uint8", lanes, result, constant(0, "uint8", lanes))
        return result

    def _join(self, pieces: list[tuple[int, int, str]], scalar: str, lanes: int) -> str:
        """A vector of pieces (first lane, lanes, value) from lane 0 on, and zeros."""
        result = "zeroinitializer"
        for at, width, piece in pieces:
            if width == 1:
                result = self.op(f"insertelement <{lanes} x {scalar}> {result}, {scalar} {piece}, i32 {at}")
                continue
            vector = f"<{width} x {scalar}>"
            order = shuffle_mask([min(n, width - 1) for n in range(lanes)])
            wide = self.op(f"shufflevector {vector} {piece}, {vector} poison, {order}")
            place = [lanes + n - at if at <= n < at + width else n for n in range(lanes)]
            result = self.values.shuffle(scalar, lanes, result, wide, place)
        return result

    def store(self, s: P.Store) -> None:
        buffer, index, dtype, lanes = s.buffer, s.index, s.buffer.dtype, s.value.lanes
        scalar, size, scope = memory_kind(dtype), dtypes.size(dtype), self.scopes.get(buffer, "")
        active = lanes if s.active is None else s.active
        value = self.value(s.value)
        k = memory_kind(dtype, lanes)
        if dtype == "bool":
            value = self.op(f"zext {kind('bool', lanes)} {value} to {k}")

        def write(at: int, width_kind: str, part: str) -> None:
            self._do(f"store {width_kind} {part}, ptr {self.address(buffer, index + at)}, align {size}{scope}")

        if lanes == 1 or (s.stride == 1 and active == lanes):
            write(0, k, value)
        elif s.stride != 1:
            for n in range(active):
                write(n * s.stride, scalar, self.op(f"extractelement {k} {value}, i32 {n}"))
        elif has_masked_access(self.target, dtype):
            name = f"llvm.masked.store.v{lanes}{_letter(scalar)}.p0"
            self.values.declarations.add(f"declare void @{name}({k}, ptr, i32, <{lanes} x i1>)")
            address = self.address(buffer, index)
            self._do(f"call void @{name}({k} {value}, ptr {address}, i32 {size}, {_mask(lanes, active)}){scope}")
        else:
            for at, width in _pieces(active):
                if width == 1:
                    write(at, scalar, self.op(f"extractelement {k} {value}, i32 {at}"))
                    continue
                order = shuffle_mask(list(range(at, at + width)))
                write(at, f"<{width} x {scalar}>", self.op(f"shufflevector {k} {value}, {k} poison, {order}"))

    def address(self, buffer: Buffer, index: Int) -> str:
        """The address of an element; what varies and what is constant are added apart, so that the first is shared."""
        scalar, base = memory_kind(buffer.dtype), self._pointer(buffer)
        if index.terms:
            varying = Int(index.terms, 0) if index.const else index
            found = self.known.get((buffer, varying))
            if found is None:
                found = self.op(f"getelementptr {scalar}, ptr {base}, {self.index_kind} {self.position(varying)}")
                if varying in self.known:
                    self.known[buffer, varying] = found
            base = found
        if not index.const:
            return base
        return self.op(f"getelementptr {scalar}, ptr {base}, {self.index_kind} {index.const}")

    def _pointer(self, buffer: Buffer) -> str:
        """The address of a buffer of the call record, read at entry and once."""
        if (known := self.pointers.get(buffer)) is not None:
            return known
        member = _MEMBERS.get(buffer.scope, "scratch" if buffer.scope.in_scratch else None)
        if member is None:
            raise internal_error(f"kernel {self.function.name}: {buffer.scope} storage {buffer.name} has no memory")
        k, invariant = self.index_kind, ", !invariant.load " + self.metadata("!{}")
        pointer = self._member("ptr", member)
        if member not in ("in", "out"):
            pointer = self._in_entry(f"getelementptr i8, ptr {pointer}, {k} {buffer.slot}") if buffer.slot else pointer
        else:
            place = self._in_entry(f"getelementptr ptr, ptr {pointer}, {k} {buffer.slot}") if buffer.slot else pointer
            pointer = self._in_entry(f"load ptr, ptr {place}{invariant}")
        self.pointers[buffer] = pointer
        return pointer

    def _member(self, kind: str, name: str) -> str:
        """A member of the call record, read at entry."""
        place = self._in_entry(f"getelementptr i8, ptr %call, {self.index_kind} {CALL.offsets(self.bits // 8)[name]}")
        return self._in_entry(f"load {kind}, ptr {place}, !invariant.load " + self.metadata("!{}"))

    def _dimensions(self) -> None:
        """The sizes that the call record brings, read at entry."""
        for symbol, slot in self.function.dims:
            k, invariant = self.index_kind, ", !invariant.load " + self.metadata("!{}")
            dims = self._member("ptr", "dims")
            place = self._in_entry(f"getelementptr i64, ptr {dims}, {k} {slot}")
            size = self._in_entry(f"load i64, ptr {place}{invariant}")
            self.symbols[symbol] = size if self.bits == 64 else self._in_entry(f"trunc i64 {size} to {k}")

    def _alias_scopes(self) -> None:
        """Says of which buffers an access cannot reach which others. Nothing writes to constants."""
        record = (*self.function.inputs, *self.function.outputs)
        groups: list[list[Buffer]] = [[b for b in record if b.may_alias], *([b] for b in record if not b.may_alias)]
        scratch: dict[int, list[Buffer]] = {}  # copies of a buffer in unrolled loops use the same place in turn
        for s in P.walk(self.function.body):
            if isinstance(s, P.Alloc) and s.buffer.scope.in_scratch:
                scratch.setdefault(s.buffer.slot, []).append(s.buffer)
        groups += scratch.values()
        domain = self.metadata("distinct !{}")
        scopes = [self.metadata(f"distinct !{{{domain}}}") for _ in groups]
        for n, group in enumerate(groups):
            text = f", !alias.scope {self.metadata(f'!{{{scopes[n]}}}')}"
            if others := [scope for m, scope in enumerate(scopes) if m != n]:
                text += f", !noalias {self.metadata('!{' + ', '.join(others) + '}')}"
            self.scopes.update(dict.fromkeys(group, text))
        self.scopes.update(dict.fromkeys(self.function.params, ", !invariant.load " + self.metadata("!{}")))

    # -- writing
    def _do(self, text: str) -> None:
        self.values.lines.append(f"  {text}")

    def _in_entry(self, text: str) -> str:
        self.values.count += 1
        name = f"%v{self.values.count}"
        self.entry.append(f"  {name} = {text}")
        return name

    def _label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}{self.labels}"

    def _begin(self, label: str) -> None:
        self.values.lines.append(f"{label}:")
        self.label = label


def _number(e: Expr) -> bool:
    """Whether a value is a constant other than NaN."""
    return isinstance(e, E.Const) and e.value == e.value


def _pieces(active: int) -> list[tuple[int, int]]:
    """The first lanes of a vector as (start, lanes) of powers of two."""
    pieces, at = [], 0
    for bit in reversed(range(active.bit_length())):
        if active >> bit & 1:
            pieces.append((at, 1 << bit))
            at += 1 << bit
    return pieces


def _mask(lanes: int, active: int) -> str:
    return f"<{lanes} x i1> <" + ", ".join(f"i1 {'true' if n < active else 'false'}" for n in range(lanes)) + ">"


def _letter(scalar: str) -> str:
    """The name of a type inside that of an intrinsic."""
    return {"float": "f32", "double": "f64"}.get(scalar, scalar)
