"""Where a kernel's buffers lie, as LLVM assembly: positions, addresses, loads and stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from sterna.codegen.llvm_expr import Values
from sterna.codegen.llvm_text import constant, kind, memory_kind, shuffle_mask
from sterna.codegen.machine import aligned_bytes, has_masked_access
from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.ir.extremum import Extremum
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Monomial, Symbol
from sterna.ir.memory import INPUT, OUTPUT, PARAM
from sterna.loops import program as P
from sterna.loops.program import Buffer, Function
from sterna.loops.wide import Widths
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import IndexAtom
from sterna_runtime.abi.records import CALL

#: What the address of a buffer of the call record begins with.
_MEMBERS = {INPUT: "in", OUTPUT: "out", PARAM: "params"}


class Accesses(ABC):
    """Positions and accesses to memory of one function, written one after the other.

    Args:
        values: writes instructions and holds the lines so far.
        metadata: gives the numbers of nodes that the module has to define.
    """

    def __init__(self, function: Function, target: Target, values: Values, metadata: Callable[[str], str]):
        self.function, self.target, self.values, self.metadata = function, target, values, metadata
        self.op = values.op
        self.entry: list[str] = []
        self.symbols: dict[Symbol, str] = {}
        self.pointers: dict[Buffer, str] = {}
        self.scopes: dict[Buffer, str] = {}
        self.known: dict[object, str] = {}  # positions and addresses computed where they dominate
        self.bits = target.pointer_bits
        self.index_kind = f"i{self.bits}"
        # Positions fit 64 bits with room to spare; partial sums of 32-bit ones might not.
        self.no_wrap = " nsw" if self.bits == 64 else ""

    @property
    def widths(self) -> Widths:
        """How wide a thread's accesses are, of targets whose tasks have threads."""
        return Widths()

    @abstractmethod
    def value(self, e: Expr) -> str:
        """A value, which positions that are computed need."""

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

    # -- memory
    def load(self, e: E.Load) -> str:
        buffer, dtype, lanes = e.tensor, e.dtype, e.lanes
        assert isinstance(buffer, Buffer)
        (index,) = e.indices
        scalar, size, scope = memory_kind(dtype), dtypes.size(dtype), self.scopes.get(buffer, "")
        active = lanes if e.active is None else e.active

        def read(at: int, width: int, align: int = size) -> str:
            k = memory_kind(dtype, width)
            return self.op(f"load {k}, ptr {self.address(buffer, index + at)}, align {align}{scope}")

        if lanes == 1 or (e.stride == 1 and active == lanes):
            result = read(0, lanes, self.aligned(e))
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

    def aligned(self, access: E.Load | P.Store) -> int:
        """What the address of neighbours is a multiple of, as far as that is of use."""
        # Microcontrollers load several registers at once from such addresses alone.
        if self.target.static and isinstance(access, E.Load):
            return aligned_bytes(access)
        each = dtypes.size(access.dtype if isinstance(access, E.Load) else access.buffer.dtype)
        return each * self.widths.at_once(access)

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

        def write(at: int, width_kind: str, part: str, align: int = size) -> None:
            self.do(f"store {width_kind} {part}, ptr {self.address(buffer, index + at)}, align {align}{scope}")

        if lanes == 1 or (s.stride == 1 and active == lanes):
            write(0, k, value, size if lanes == 1 else self.aligned(s))
        elif s.stride != 1:
            for n in range(active):
                write(n * s.stride, scalar, self.op(f"extractelement {k} {value}, i32 {n}"))
        elif has_masked_access(self.target, dtype):
            name = f"llvm.masked.store.v{lanes}{_letter(scalar)}.p0"
            self.values.declarations.add(f"declare void @{name}({k}, ptr, i32, <{lanes} x i1>)")
            address = self.address(buffer, index)
            self.do(f"call void @{name}({k} {value}, ptr {address}, i32 {size}, {_mask(lanes, active)}){scope}")
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
        pointer = self.member("ptr", member)
        if member not in ("in", "out"):
            begin = self._at_entry(buffer.begin)
            pointer = self.in_entry(f"getelementptr i8, ptr {pointer}, {k} {begin}") if begin != "0" else pointer
        else:
            place = self.in_entry(f"getelementptr ptr, ptr {pointer}, {k} {buffer.slot}") if buffer.slot else pointer
            pointer = self.in_entry(f"load ptr, ptr {place}{invariant}")
        self.pointers[buffer] = pointer
        return pointer

    def member(self, kind: str, name: str) -> str:
        """A member of the call record, read at entry."""
        place = self.in_entry(f"getelementptr i8, ptr %call, {self.index_kind} {CALL.offsets(self.bits // 8)[name]}")
        return self.in_entry(f"load {kind}, ptr {place}, !invariant.load " + self.metadata("!{}"))

    def dimensions(self) -> None:
        """The sizes that the call record brings, read at entry."""
        for symbol, slot in self.function.dims:
            k, invariant = self.index_kind, ", !invariant.load " + self.metadata("!{}")
            dims = self.member("ptr", "dims")
            kept = memory_kind(self.function.dims_type)
            place = self.in_entry(f"getelementptr {kept}, ptr {dims}, {k} {slot}")
            size = self.in_entry(f"load {kept}, ptr {place}{invariant}")
            resize = "sext" if dtypes.bits(self.function.dims_type) < self.bits else "trunc"
            self.symbols[symbol] = size if kept == k else self.in_entry(f"{resize} {kept} {size} to {k}")

    def _at_entry(self, offset: Int) -> str:
        """An integer over sizes that the call record brings, computed at entry."""
        total, k = str(offset.const), self.index_kind
        for monomial, coefficient in offset.terms.items():
            term = str(coefficient)
            for atom in monomial:
                assert isinstance(atom, Symbol)
                term = self.in_entry(f"mul {k} {self.symbols[atom]}, {term}")
            total = self.in_entry(f"add {k} {term}, {total}")
        return total

    def alias_scopes(self) -> None:
        """Says of which buffers an access cannot reach which others. Nothing writes to constants."""
        record = (*self.function.inputs, *self.function.outputs)
        groups: list[list[Buffer]] = [[b for b in record if b.may_alias], *([b] for b in record if not b.may_alias)]
        scratch: dict[Int, list[Buffer]] = {}  # copies of a buffer in unrolled loops use the same place in turn
        for s in P.walk(self.function.body):
            if isinstance(s, P.Alloc) and s.buffer.scope.in_scratch:
                scratch.setdefault(s.buffer.begin, []).append(s.buffer)
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
    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.values.lines.append(f"  {text}")

    def in_entry(self, text: str) -> str:
        """An instruction of the first block; the name of its result."""
        self.values.count += 1
        name = f"%v{self.values.count}"
        self.entry.append(f"  {name} = {text}")
        return name


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
