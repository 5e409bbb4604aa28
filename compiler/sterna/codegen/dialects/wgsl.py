"""WGSL, the language of browsers for GPUs: scalars; each invocation runs a task or several, or, of a task of several
threads, a workgroup does (`templates/wgsl/kernels.wgsl.j2`).

Memory is words of 32 bits: one binding holds all that kernels write, and the call record says where tensors lie in it.
A float is a word's bits; bytes and numbers of 16 bits are parts of a word, which are stored atomically, because the
other parts may be another thread's, where a thread has no whole words of them; integers and floats of 64 bits are pairs
of words. What the language
leaves to implementations is avoided: a NaN is found by its bits; constants that the compiler would refuse to compute
(infinities, sums that wrap) are computed by functions, whose operands are no constants; and sums with large constants,
which round to whole numbers, are hidden from compilers, which may add floats in another order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sterna.codegen.dialects.c_family import CFamily, shortest_float32
from sterna.codegen.dialects.wgsl_words import RESERVED
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops import program as P
from sterna.loops.program import KERNEL_FAILED, Buffer, Function
from sterna.loops.wide import Widths
from sterna.targets.target import Target
from sterna.te.text import RELATION

#: LLVM's number of the address space that the threads of a group share.
SHARED = 3
#: Words of a call before those of inputs, outputs and open sizes: tasks, where status, scratch and params begin, and 0,
#: which the compiler does not know.
TASKS, STATUS, SCRATCH, PARAMS, ZERO, OPERANDS = range(6)
#: Bytes of a word.
WORD = 4
#: The greatest float32: the fewest digits that round to it are beyond it, and refused.
GREATEST = float(np.finfo(np.float32).max)
#: From which on a constant rounds what is added to it.
LARGE = 2.0**20
#: Functions of floats that the language has as the loop program means them.
_FUNCTIONS = {"abs": "abs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "sqrt": "sqrt"}
#: What is infix of integers of 32 bits.
_WRAPS = {"add": "+", "sub": "-", "mul": "*", "short_product": "*"}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_OF_TRUTHS = {"and": "&&", "or": "||", "xor": "!=", "add": "||", "mul": "&&", "minimum": "&&", "maximum": "||"}
_OF_FLOATS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_WIDE = "vec2<u32>"


@dataclass(frozen=True)
class _Words:
    """Where a buffer lies: a module's array of words, whether those are atomic, and the buffer's first element."""

    array: str
    atomic: bool

    def word(self, index: str) -> str:
        return f"atomicLoad(&{self.array}[{index}])" if self.atomic else f"{self.array}[{index}]"

    def set(self, index: str, value: str) -> str:
        place = f"{self.array}[{index}]"
        return f"atomicStore(&{place}, {value});" if self.atomic else f"{place} = {value};"


class Wgsl(CFamily):
    """Values of fewer than 32 bits are kept in 32, as what they are in memory: signed ones extended by their sign."""

    name = "wgsl"
    vectors = False
    threads = True
    address_spaces = (0, SHARED)
    reserved = RESERVED

    def __init__(self, target: Target):
        super().__init__(target)
        self._words: dict[str, _Words] = {}
        self._literals: set[str] = set()
        #: Literals that are large floats.
        self._large: set[str] = set()
        self._slots: dict[str, dict[int, int]] = {}
        self._memory = _Words("memory", atomic=False)
        self._shared: dict[str, _Words] = {}
        self._shared_atomic = self._waits = False

    def begin(self, function: Function) -> None:
        super().begin(function)
        small = [
            s.buffer
            for s in P.walk(function.body)
            if isinstance(s, P.Store)
            and not s.buffer.scope.is_array
            and self.widths.at_once(s) < _per_word(s.buffer.dtype)
        ]
        if any(not _shared(b) for b in small):
            self._memory = _Words("memory_parts", atomic=True)
        self._shared_atomic = any(map(_shared, small))
        self._waits = any(isinstance(s, P.Barrier) for s in P.walk(function.body))
        inputs, outputs = ({b.slot for b in each} for each in (function.inputs, function.outputs))
        self._slots = {
            INPUT.name: {slot: OPERANDS + n for n, slot in enumerate(sorted(inputs))},
            OUTPUT.name: {slot: OPERANDS + len(inputs) + n for n, slot in enumerate(sorted(outputs))},
        }

    # -- types and declarations
    @property
    def index_type(self) -> str:
        return "i32"

    def type(self, dtype: str, lanes: int = 1) -> str:
        assert lanes == 1
        if dtype == "float32":
            return "f32"
        if dtype == "bool":
            return "bool"
        if dtypes.bits(dtype) == 64:
            return _WIDE
        return "i32" if dtypes.is_signed(dtype) and dtype not in dtypes.HALVES else "u32"

    def truth_type(self, lanes: int, bits: int) -> str:
        return "bool"

    def variable(self, type_: str, name: str) -> str:
        return f"var {name}: {type_};"

    def constant(self, type_: str, name: str, value: str) -> str:
        return f"let {name}: {type_} = {value};"

    # -- the frame of a kernel
    def bind(self, buffer: Buffer, begin: str) -> str:
        slots = self._slots.get(buffer.scope.name)
        if slots is None:
            self._words[buffer.name] = _Words("params", atomic=False)
            return self._first(buffer, f"i32(call[{PARAMS}])")
        self._words[buffer.name] = self._memory
        return self._first(buffer, f"i32(call[{slots[buffer.slot]}])", 0)

    def dimension(self, slot: int, dtype: str) -> str:
        return f"i32(call[{OPERANDS + sum(map(len, self._slots.values())) + slot}])"

    def allocate(self, buffer: Buffer, begin: str, shared: bool) -> str:
        if buffer.scope.in_scratch:
            self._words[buffer.name] = self._memory
            return self._first(buffer, "scratch")
        if isinstance(buffer.scope, Memory):
            self._words[buffer.name] = self._shared[buffer.scope.name]
            return self._first(buffer, "0")
        return f"var {buffer.name}: array<{self.type(_stored(buffer.dtype))}, {buffer.elements}>;"

    def _first(self, buffer: Buffer, start: str, slot: int | None = None) -> str:
        """The number of a buffer's first element, or word if elements are words or more, in its array."""
        slot = buffer.slot if slot is None else slot
        unit = min(dtypes.size(buffer.dtype), 4)
        start = start if unit == 4 or start == "0" else f"{start} * {4 // unit}"
        return f"let {buffer.name}: i32 = {start} + {slot // unit};" if slot else f"let {buffer.name}: i32 = {start};"

    def memory(self, memory: Memory, nbytes: int) -> str:
        kind = "workgroup_parts" if self._shared_atomic else "workgroup_words"
        array = self.helper(kind, "uint32", max(2, -(-nbytes // 4)))
        self._shared[memory.name] = _Words(array, self._shared_atomic)
        return ""

    def tasks(self, name: str, threaded: bool) -> str:
        if threaded:
            return f"if (group < i32(call[{TASKS}])) {{ let {name}: i32 = group;"
        return f"for (var {name}: i32 = thread; {name} < i32(call[{TASKS}]); {name} += threads) {{"

    def loop(self, name: str, start: str, stop: str) -> str:
        return f"for (var {name}: i32 = {start}; {name} < {stop}; {name}++) {{"

    def require(self, condition: str) -> str:
        # Before a barrier none may leave: accesses are kept within the memory, and the run has failed anyway.
        leave = "" if self._waits else " return;"
        return (
            f"if (!{condition}) {{ {self._memory.set(f'call[{STATUS}]', f'bitcast<u32>({KERNEL_FAILED}i)')}{leave} }}"
        )

    def barrier(self) -> str:
        raise internal_error("a barrier of all workgroups, which the language does not have")

    def thread(self, axis: ThreadAxis) -> str:
        return f"i32(local_id.{'xyz'[THREADS.index(axis)]})"

    def thread_barrier(self) -> str:
        return "workgroupBarrier(); storageBarrier();"

    # -- positions
    def index_helper(self, operation: str, a: str, b: str) -> str:
        if operation in ("min", "max"):
            return f"{operation}({a}, {b})"
        return f"{self.helper(f'index_{operation}', 'int32')}({a}, {b})"

    def index_cast(self, value: str, dtype: str) -> str:
        return self.cast(dtype, "int32", value, 1, 0)

    def index_value(self, index: str, dtype: str, lanes: int, stride: int) -> str:
        return self.cast("int32", dtype, f"i32({index})", 1, 0)

    # -- values
    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        text = self._const(value, dtype)
        self._literals.add(text)
        return text

    def _const(self, value: bool | int | float, dtype: str) -> str:
        if dtype == "bool":
            return "true" if value else "false"
        if dtype in dtypes.HALVES:
            return super().const(value, dtype).removeprefix("(uint16_t)") + "u"
        if dtype == "float32":
            return self._literal(float(value))
        if dtype == "float64":
            value = int.from_bytes(struct.pack("<d", value), "little")
        number = int(value)
        if dtypes.bits(dtype) == 64:
            return f"vec2<u32>({number & 0xFFFFFFFF}u, {number >> 32 & 0xFFFFFFFF}u)"
        if not dtypes.is_signed(dtype):
            return f"{number}u"
        return f"{number}i" if number >= 0 else f"i32({number})"

    def _literal(self, value: float) -> str:
        if math.isnan(value):
            return f"{self.helper('nan', 'float32')}()"
        if math.isinf(value):
            text = f"{self.helper('infinity', 'float32')}()"
            return text if value > 0 else f"(-{text})"
        text = shortest_float32(value)
        if abs(float(text)) > GREATEST:
            text = float(np.float32(value)).hex()
        text = f"{text}f"
        text = f"({text})" if text.startswith("-") else text
        if abs(value) >= LARGE:
            self._large.add(text)
        return text

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if op == "logical_not":
            return f"(!{a})"
        if op in ("isnan", "isinf") and not dtypes.is_float(dtype):
            return "false"
        if dtype == "float64":
            return f"{self._float64('size' if op == 'abs' else op)}({a})"
        if op in _FUNCTIONS and dtype == "float32":
            return f"{_FUNCTIONS[op]}({a})"
        if op == "neg" and dtype == "float32":
            return f"(-{a})"
        if op == "invert":
            return self._wrap(dtype, f"(~{a})")
        return f"{self._helped(op, dtype)}({a})"

    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        if dtype == "bool" and op in _OF_TRUTHS:
            return f"({a} {_OF_TRUTHS[op]} {b})"
        if dtype == "float64":
            return f"{self._float64(op)}({a}, {b})"
        if op in _BITS:
            return f"({a} {_BITS[op]} {b})"
        if not self._literals.issuperset((a, b)):
            if dtype == "float32" and op in _OF_FLOATS:
                return self._sum(
                    f"({a} {_OF_FLOATS[op]} {b})", op in ("add", "sub") and not self._large.isdisjoint((a, b))
                )
            if dtypes.is_integer(dtype) and dtypes.bits(dtype) < 64 and op in _WRAPS:
                return self._wrap(dtype, f"({a} {_WRAPS[op]} {b})")
        return f"{self._helped(op, dtype)}({a}, {b})"

    def _sum(self, text: str, rounds: bool) -> str:
        """A sum of float32 that is to be rounded before anything else is done with it."""
        return f"{self.helper('hidden', 'float32')}({text})" if rounds else text

    def _float64(self, function: str) -> str:
        """A function of numbers of type float64."""
        for name, dtype in (("wide", "uint64"), ("nan", "float32"), ("infinity", "float32"), ("float64", "float64")):
            self.helper(name, dtype)
        return f"f64_{function}"

    def _helped(self, op: str, dtype: str) -> str:
        """The function of an operation, and what it calls."""
        if dtypes.bits(dtype) == 64 or op in ("high_product", "upper_product"):
            self.helper("wide", "uint64")
        if dtype == "float32" and op in ("minimum", "maximum"):
            self.helper("isnan", dtype)
        return self.helper(op, dtype)

    def _wrap(self, dtype: str, text: str) -> str:
        """What is left of a number of 32 bits in fewer."""
        bits = dtypes.bits(dtype)
        if bits >= 32:
            return text
        return f"extractBits({text}, 0u, {bits}u)" if dtypes.is_signed(dtype) else f"({text} & {(1 << bits) - 1}u)"

    def compare(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        if dtype == "bool" and op not in ("eq", "ne"):
            return f"(u32({a}) {RELATION[op]} u32({b}))"
        if dtype == "float32" and op in ("eq", "ne"):
            if a == b:
                return f"{'!' if op == 'eq' else ''}{self.helper('isnan', dtype)}({a})"
            return f"({a} == {b})" if op == "eq" else f"!({a} == {b})"
        if dtypes.bits(dtype) < 64:
            return f"({a} {RELATION[op]} {b})"
        first, second = (b, a) if op in ("gt", "le") else (a, b)
        if dtype == "float64":
            less, same = f"{self._float64('less')}({a}, {b})", f"f64_eq({a}, {b})"
            if op in ("eq", "ne"):
                return same if op == "eq" else f"!{same}"
            less = f"f64_less({first if op in ('lt', 'gt') else second}, {second if op in ('lt', 'gt') else first})"
            return less if op in ("lt", "gt") else f"({less} || {same})"
        if op in ("eq", "ne"):
            return f"all({a} == {b})" if op == "eq" else f"any({a} != {b})"
        less = self._helped("less", dtype)
        return f"{'!' if op in ('ge', 'le') else ''}{less}({first}, {second})"

    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, bits: int) -> str:
        return f"select({b}, {a}, {condition})"

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if dtype == "float64":
            return f"{self._float64('add')}({c}, f64_mul({a}, {b}))"
        text = f"fma({a}, {b}, {c})" if self.target.fuses(32, 1) else f"({c} + {a} * {b})"
        return self._sum(text, c in self._large)

    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        if source == dtype:
            return a
        if source in dtypes.HALVES or dtype in dtypes.HALVES:
            name, of = ("widen", source) if source in dtypes.HALVES else ("narrow", dtype)
            self.helper("isnan", "float32")
            return f"{self.helper(name, of)}({a})"
        if dtype == "bool":
            return self._nonzero(source, a)
        if source == "bool":
            return self._of_truth(dtype, a)
        if "float64" in (source, dtype):
            return self._cast_float64(source, dtype, a)
        if source == "float32":
            self.helper("isnan", "float32")
            return f"{self._helped('to_integer', dtype)}({a})"
        if dtype == "float32":
            return f"{self._helped('from_integer', source)}({a})" if dtypes.bits(source) == 64 else f"f32({a})"
        return self._cast_integer(source, dtype, a)

    def _nonzero(self, source: str, a: str) -> str:
        if source == "float64":
            return f"!{self._float64('iszero')}({a})"
        zero = {"f32": "0.0f", "i32": "0i", "u32": "0u"}.get(self.type(source))
        return f"!({a} == {zero})" if zero else f"any({a} != {_WIDE}(0u, 0u))"

    def _of_truth(self, dtype: str, a: str) -> str:
        if dtype == "float64":
            return f"select({_WIDE}(0u, 0u), {self.const(1.0, dtype)}, {a})"
        to = self.type(dtype)
        return f"{_WIDE}(select(0u, 1u, {a}), 0u)" if to == _WIDE else f"select({to}(0), {to}(1), {a})"

    def _cast_integer(self, source: str, dtype: str, a: str) -> str:
        """What is left of an integer in another type."""
        given, to = self.type(source), self.type(dtype)
        if to == _WIDE:
            extended = f"{_WIDE}({a}, 0u)" if given == "u32" else f"{self.helper('extend', 'int32')}({a})"
            return a if given == _WIDE else extended
        word, has = (f"({a}).x", "u32") if given == _WIDE else (a, given)
        word = word if has == to else f"bitcast<{to}>({word})"
        (low, high), (least, most) = dtypes.limits(dtype), dtypes.limits(source)
        return word if low <= least and most <= high else self._wrap(dtype, word)

    def _cast_float64(self, source: str, dtype: str, a: str) -> str:
        if "float32" in (source, dtype):
            return f"{self._float64('from_float' if dtype == 'float64' else 'to_float')}({a})"
        self._float64("")
        if dtype == "float64":
            return f"{self.helper('float64_from', source)}({a})"
        return f"{self.helper('float64_to', dtype)}({a})"

    def exchange(self, dtype: str, a: str, distance: int) -> str:
        self.headers.add("subgroups")
        return f"subgroupShuffleXor({a}, {distance}u)"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        given, to = self.type(source), self.type(dtype)
        if dtype in dtypes.HALVES:
            return f"(bitcast<u32>({a}) & 65535u)" if given == "i32" else a
        return self._wrap(dtype, a if given == to else f"bitcast<{to}>({a})")

    # -- memory
    def load(
        self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None, aligned: int = 1
    ) -> str:
        words = self._words.get(base)
        if words is None:
            return f"{base}[{index}]"
        type_, parts = self.type(dtype), _per_word(dtype)
        if parts > 1:
            word = self._typed(type_, words.word(f"({base} + {index}) >> {parts.bit_length() - 1}u"))
            return f"extractBits({word}, {_shift(f'({base} + {index})', parts)}, {32 // parts}u)"
        if type_ == _WIDE:
            first = f"{base} + 2 * ({index})"
            return f"vec2<u32>({words.word(first)}, {words.word(f'{first} + 1')})"
        return self._typed(type_, words.word(f"{base} + {index}"))

    def store(self, dtype: str, base: str, index: str, value: str, lanes: int, stride: int, active: int | None) -> str:
        words = self._words.get(base)
        if words is None:
            return f"{base}[{index}] = {value};"
        type_, parts = self.type(dtype), _per_word(dtype)
        if parts > 1:
            bits, array = 32 // parts, words.array
            mask = f"{(1 << bits) - 1}u"
            word = f"{value} & {mask}" if type_ == "u32" else f"bitcast<u32>({value}) & {mask}"
            return (
                f"{{ let at_ = {base} + {index}; let shift_ = {_shift('at_', parts)}; let part_ = ({word}) << shift_; "
                f"let word_ = at_ >> {parts.bit_length() - 1}u; "
                f"atomicAnd(&{array}[word_], ~({mask} << shift_)); atomicOr(&{array}[word_], part_); }}"
            )
        if type_ == _WIDE:
            first, second = words.set("at_", "value_.x"), words.set("at_ + 1", "value_.y")
            return f"{{ let at_ = {base} + 2 * ({index}); let value_ = {value}; {first} {second} }}"
        return words.set(f"{base} + {index}", value if type_ == "u32" else f"bitcast<u32>({value})")

    def dot_of_words(self, intrinsic: Intrinsic, total: str, a: str, b: str) -> str:
        kinds = {"s8_s8": "dot4signed", "u8_u8": "dot4unsigned"}
        self.helper(kinds.get(intrinsic.settings["words"], "dot4mixed"), "uint32")
        return super().dot_of_words(intrinsic, total, a, b)

    # -- words of several elements
    @property
    def widths(self) -> Widths:
        return Widths(WORD, least=WORD)

    def wide_type(self, dtype: str, lanes: int) -> str:
        return "u32"

    def wide_lane(self, name: str, lane: int, dtype: str, lanes: int) -> str:
        bits = dtypes.bits(dtype)
        return f"extractBits({self._typed(self.type(dtype), name)}, {bits * lane}u, {bits}u)"

    def wide_value(self, name: str, dtype: str, values: Sequence[str]) -> list[str]:
        bits, parts = dtypes.bits(dtype), list[str]()
        for n, value in enumerate(values):
            word = value if self.type(dtype) == "u32" else f"bitcast<u32>({value})"
            parts.append(f"(({word} & {(1 << bits) - 1}u) << {bits * n}u)")
        return [self.constant("u32", name, " | ".join(parts))]

    def wide_place(self, buffer: Buffer, dtype: str, index: str, lanes: int) -> str:
        return self._words[buffer.name].word(_word_of(buffer, index))

    def wide_store(self, buffer: Buffer, dtype: str, index: str, lanes: int, name: str) -> str:
        return self._words[buffer.name].set(_word_of(buffer, index), name)

    def _typed(self, type_: str, word: str) -> str:
        return word if type_ == "u32" else f"bitcast<{type_}>({word})"

    def truth(self, byte: str, lanes: int) -> str:
        return f"({byte} != 0u)"

    def byte(self, truth: str, lanes: int) -> str:
        return f"u32({truth})"

    def address(self, buffer: Buffer, index: str) -> str:
        return f"{buffer.name} + {index}"


def _shared(buffer: Buffer) -> bool:
    """Whether a buffer lies in memory of the workgroup."""
    return isinstance(buffer.scope, Memory) and not buffer.scope.in_scratch


def _stored(dtype: str) -> str:
    """The type that elements have in memory."""
    return "uint8" if dtype == "bool" else dtype


def _per_word(dtype: str) -> int:
    """Elements in a word; 1 for those of a word or more."""
    return max(1, 4 // dtypes.size(dtype))


def _word_of(buffer: Buffer, index: str) -> str:
    """The number of the word that an element lies in."""
    return f"({buffer.name} + {index}) >> {_per_word(_stored(buffer.dtype)).bit_length() - 1}u"


def _shift(element: str, parts: int) -> str:
    """Where in its word an element's bits begin."""
    return f"u32({element} & {parts - 1}) * {32 // parts}u"
