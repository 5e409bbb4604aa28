"""One kernel as an LLVM function: statements, positions and memory accesses.

Variables that change are stack slots, which LLVM's first pass turns into registers; everything else is a value.
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.codegen.instructions import InstructionOperand, instruction_text, lowering
from sterna.codegen.llvm_expr import Instructions, Values
from sterna.codegen.llvm_memory import Accesses
from sterna.codegen.llvm_text import constant, kind
from sterna.codegen.tiles import TileOperation, refuse_without_tiles, tile_operation
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.program import Function, Stmt, Variable
from sterna.targets.fetches import FETCH, FETCH_START, FETCH_WAIT
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.expr import Expr

#: What LLVM is told of a loop that it shall not write out.
_STAYS_ROLLED = '!{!"llvm.loop.unroll.disable"}'
_VECTORIZED = '!{!"llvm.loop.vectorize.enable", i1 true}'


class FunctionWriter(Accesses):
    """Writes the text of one function."""

    def __init__(
        self,
        function: Function,
        target: Target,
        declarations: set[str],
        intrinsics: dict[str, Intrinsic],
        instructions: Instructions,
        metadata: Callable[[str], str],
    ):
        super().__init__(function, target, Values(target, declarations, intrinsics, instructions), metadata)
        self.label = "start"
        self.labels = 0
        self.variables: dict[Variable, str] = {}
        self.slots: dict[Variable, str] = {}
        self.held: P.Tiles | None = None
        self.exits: list[str] = []  # the labels after the loops entered

    def text(self, name: str, linkage: str = "internal") -> str:
        """The definition of the function under a name, with attribute group #0."""
        self.alias_scopes()
        self.dimensions()
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
            self.do(f"store {kind(v.dtype, v.lanes)} {self.value(s.value)}, ptr {self.slots[v]}")
        elif isinstance(s, P.Store):
            self.store(s)
        elif isinstance(s, P.LetIndex):
            self.symbols[s.symbol] = self.position(s.value)
        elif isinstance(s, P.Declare):
            v = s.variable
            self.slots[v] = self.in_entry(f"alloca {kind(v.dtype, v.lanes)}")
        elif isinstance(s, P.Alloc):
            if s.buffer.scope.is_array:
                size = s.buffer.elements * dtypes.size(s.buffer.dtype)
                align = max(8, self.target.vector_bits // 8)
                self.pointers[s.buffer] = self.in_entry(f"alloca [{size} x i8], align {align}")
        elif isinstance(s, P.For):
            self.loop(s)
        elif isinstance(s, P.If):
            limit = self.position(s.limit)
            self.branch(self.op(f"icmp slt {self.index_kind} {self.position(s.index)}, {limit}"), s.then, s.otherwise)
        elif isinstance(s, P.Branch):
            self.branch(self.value(s.condition), s.then, s.otherwise)
        elif isinstance(s, P.Break):
            self.do(f"br label %{self.exits[-1]}")
            self._begin(self._label("never"))  # what a block ends with may follow
        elif isinstance(s, P.Tiles):
            self.configured(s)
        elif isinstance(s, P.Instruction):
            self.instruction(s)
        elif isinstance(s, P.Require):
            holds, failed = self._label("holds"), self._label("failed")
            self.do(f"br i1 {self.value(s.value)}, label %{holds}, label %{failed}")
            self._begin(failed)
            self.fail()
            self._begin(holds)
        elif isinstance(s, P.Barrier):
            self.barrier(s.reach)
        elif isinstance(s, P.LastTask):
            self.last_task(s)
        elif isinstance(s, P.Copy) and s.fetched:
            self.fetch(s)
        elif isinstance(s, P.Copy):
            self.copy(s)
        elif isinstance(s, P.Prefetch):
            self.values.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            where = self.address(s.buffer, s.index)
            self.do(
                f"call void @llvm.prefetch.p0(ptr {where}, i32 0, i32 3, i32 1)"
            )  # a read, of data, as near as can be
        elif isinstance(s, P.Commit):
            self.commit(s)
        elif isinstance(s, P.Wait):
            self.wait(s)
        elif isinstance(s, P.Settle):
            self.settle(s)
        else:
            raise internal_error(f"the LLVM generator has no {type(s).__name__}")

    def copy(self, s: P.Copy) -> None:
        """A copy between memories that loads and stores reach."""
        self.statement(P.elements_of(s))

    def commit(self, s: P.Commit) -> None:
        """A batch of asynchronous copies; of loads and stores there are none."""

    def wait(self, s: P.Wait) -> None:
        """The end of asynchronous copies; those that are loads and stores are done at once."""
        if s.fetched:
            self.values.declarations.add(f"declare void @{FETCH_WAIT}()")
            self.do(f"call void @{FETCH_WAIT}()")

    def settle(self, s: P.Settle) -> None:
        """The end of products of what lies in memory."""
        raise internal_error("this generator has no products of what lies in memory")

    def fetch(self, s: P.Copy) -> None:
        """A call of the program's own function."""
        name = FETCH_START if s.asynchronous else FETCH
        self.values.declarations.add(f"declare void @{name}(ptr, ptr, i32)")
        to, at = self.address(s.destination, s.to), self.address(s.source, s.at)
        size = s.elements * dtypes.size(s.source.dtype)
        self.do(f"call void @{name}(ptr {to}, ptr {at}, i32 {size})")

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
        self.counted(s, start, extent, guarded=guarded)

    def counted(
        self, s: P.For, start: str, extent: str, step: str = "1", *, guarded: bool = True, relation: str = "slt"
    ) -> None:
        """A loop with its test at the end, and one before it if it is guarded.

        Args:
            start, extent, step: values of the type of positions; relation: how the first two are compared.
        """
        k = self.index_kind
        body, done = self._label("loop"), self._label("done")
        if guarded:
            enter = self.op(f"icmp {relation} {k} {start}, {extent}")
            self.do(f"br i1 {enter}, label %{body}, label %{done}")
        else:
            self.do(f"br label %{body}")
        before, known = self.label, self.known
        self.known = dict(known)
        self._begin(body)
        counter = self.op(f"phi {k} [ {start}, %{before} ], [ %{body}.next, %{body}.latch ]")
        self.symbols[s.symbol] = counter
        self.exits.append(done)
        self.statement(s.body)
        self.exits.pop()
        self.do(f"br label %{body}.latch")
        self._begin(f"{body}.latch")
        self.values.lines.append(f"  %{body}.next = add nuw nsw {k} {counter}, {step}")
        again = self.op(f"icmp {relation} {k} %{body}.next, {extent}")
        said = [self.metadata(wish) for wish, wanted in ((_STAYS_ROLLED, s.rolled), (_VECTORIZED, s.apart)) if wanted]
        wishes = f", !llvm.loop {self.metadata('distinct !{' + ', '.join(said) + '}')}" if said else ""
        self.do(f"br i1 {again}, label %{body}, label %{done}{wishes}")
        self._begin(done)
        self.known = known

    def fail(self) -> None:
        """Leaves the kernel where a requirement does not hold."""
        self.do(f"ret i32 {P.KERNEL_FAILED}")

    def barrier(self, reach: P.Reach) -> None:
        """The runtime's, if there is anybody to wait for."""
        wait, done = self._label("wait"), self._label("end")
        several = self.op(f"icmp ugt i32 {self.member('i32', 'n_workers')}, 1")
        self.do(f"br i1 {several}, label %{wait}, label %{done}")
        self._begin(wait)
        self.do(f"call void {self.member('ptr', 'barrier')}(ptr {self.member('ptr', 'pool')})")
        self.do(f"br label %{done}")
        self._begin(done)

    def last_task(self, s: P.LastTask) -> None:
        """What the last of several tasks does."""
        raise internal_error("this generator has no order between what tasks write")

    def branch(self, condition: str, first: Stmt, second: Stmt | None) -> None:
        known = self.known
        then, otherwise, done = self._label("then"), self._label("else"), self._label("end")
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise if second is not None else done}")
        for label, body in ((then, first), (otherwise, second)):
            if body is not None:
                self.known = dict(known)
                self._begin(label)
                self.statement(body)
                self.do(f"br label %{done}")
        self._begin(done)
        self.known = known

    # -- tiles
    def configured(self, s: P.Tiles) -> None:
        """The configuration of the tile registers, the body, and its end."""
        refuse_without_tiles(s.intrinsic, self.target)
        self.held = s
        data = s.configuration
        name, text = f"@tiles_{data.hex()}", "".join(f"\\{byte:02x}" for byte in data)
        table = f'constant [{len(data)} x i8] c"{text}", align {self.target.alignment}'
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
        self.do(f"call void @{name}({', '.join(operands)})")

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
        self.do(f"call void {function}({', '.join(arguments)})")

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
            return self.apply(e)
        if isinstance(e, E.Compare):
            return v.compare(e.op, e.a.dtype, lanes, self.value(e.a), self.value(e.b))
        if isinstance(e, E.Select):
            return v.choose(self.value(e.condition), e.dtype, lanes, self.value(e.a), self.value(e.b))
        if isinstance(e, E.Cast):
            return v.cast(e.a.dtype, e.dtype, lanes, self.value(e.a))
        if isinstance(e, E.Nearest):
            return v.nearest(e.dtype, lanes, self.value(e.a), e.zero)
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
        if isinstance(e, P.Exchange):
            return self.exchange(e)
        raise internal_error(f"the LLVM generator has no {type(e).__name__}")

    def apply(self, e: P.Apply) -> str:
        """A call of an intrinsic."""
        return self.values.apply(e.intrinsic, [self.value(operand) for operand in e.operands])

    def exchange(self, e: P.Exchange) -> str:
        """What a value is in another thread of the subgroup."""
        raise internal_error("the LLVM generator has no subgroups")

    def _index_value(self, e: E.IndexValue) -> str:
        v, k = self.values, kind(e.dtype, e.lanes)
        base = v.cast(f"int{self.bits}", e.dtype, 1, self.position(e.index))
        if e.lanes == 1:
            return base
        steps = ", ".join(f"{kind(e.dtype)} {e.stride * n}" for n in range(e.lanes))
        return self.op(f"add {k} {v.broadcast(e.dtype, e.lanes, base)}, <{steps}>")

    # -- writing
    def _label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}{self.labels}"

    def _begin(self, label: str) -> None:
        self.values.lines.append(f"{label}:")
        self.label = label


def _number(e: Expr) -> bool:
    """Whether a value is a constant other than NaN."""
    return isinstance(e, E.Const) and e.value == e.value
