"""Values of the loop program as LLVM instructions.

Instructions are written as text, which costs a tenth of what building them as objects does. Every method takes and
returns operands as text without type; `llvm_text.kind` gives the type of an element type and a number of lanes. A bool
is an i1 (a byte in memory); float16 and bfloat16 are carried as the 16 bits that they are in memory, and computed in
float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sterna.codegen.llvm_machine import has_instruction
from sterna.codegen.llvm_text import (
    as_float32,
    constant,
    declarations_of,
    kind,
    operand_kinds,
    shuffle_mask,
    suffix,
)
from sterna.codegen.machine import find_idioms
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.intrinsics.idioms import Idiom
from sterna.ir import dtypes
from sterna.targets.target import Target

_FLOAT_OP = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER_OP = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOL_OP = {"and": "and", "mul": "and", "minimum": "and", "or": "or", "add": "or", "maximum": "or", "xor": "xor"}
_FLOAT_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une", "gt": "ogt", "ge": "oge"}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven"}


def idiom_types(idiom: Idiom) -> tuple[str, str]:
    """Element types of the operands and of the result."""
    if idiom.operation == "narrow":
        return "float32", idiom.dtype
    if idiom.operation == "widen":
        return idiom.dtype, "float32"
    return idiom.dtype, idiom.operation.removeprefix("to_") if idiom.operation.startswith("to_") else idiom.dtype


#: Functions that consist of what a target's description says: name by intrinsic, parameters and instructions.
Instructions = dict[tuple[str, str, str], str]


class Values:
    """Emits the operations of `te.expr` into the lines of a function."""

    def __init__(
        self, target: Target, declarations: set[str], intrinsics: dict[str, Intrinsic], instructions: Instructions
    ):
        self.target = target
        self.declarations = declarations
        self.intrinsics = intrinsics
        self.instructions = instructions
        self.lines: list[str] = []
        self.count = 0

    # -- writing
    def op(self, text: str) -> str:
        """Appends an instruction; returns the name of its value."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, intrinsic: str, result: str, *operands: tuple[str, str]) -> str:
        """Calls an LLVM intrinsic; operands are (type, value)."""
        self.declarations.add(f"declare {result} @{intrinsic}({', '.join(k for k, _ in operands)})")
        return self.op(f"call {result} @{intrinsic}({', '.join(f'{k} {v}' for k, v in operands)})")

    def intrinsic(self, name: str, dtype: str, lanes: int, *operands: str) -> str:
        """An intrinsic all of whose operands are of the type of its result."""
        k = kind(dtype, lanes)
        return self.call(f"llvm.{name}.{suffix(dtype, lanes)}", k, *((k, o) for o in operands))

    def choose(self, condition: str, dtype: str, lanes: int, a: str, b: str) -> str:
        k = kind(dtype, lanes)
        return self.op(f"select {kind('bool', lanes)} {condition}, {k} {a}, {k} {b}")

    def test(self, relation: str, dtype: str, lanes: int, a: str, b: str) -> str:
        """A comparison by LLVM's own name of it."""
        word = "fcmp" if dtypes.is_float(dtype) else "icmp"
        return self.op(f"{word} {relation} {kind(dtype, lanes)} {a}, {b}")

    # -- operations
    def unary(self, op: str, dtype: str, lanes: int, a: str) -> str:
        """`dtype` is the operand's type."""
        k = kind(dtype, lanes)
        if op in ("logical_not", "invert"):
            return self.op(f"xor {k} {a}, {constant(True if dtype == 'bool' else -1, dtype, lanes)}")
        if op == "flip_sign":
            flipped = self.idiom(op, dtype, lanes, a)
            return flipped or self.op(f"xor {k} {a}, {constant(dtypes.highest_bit(dtype), dtype, lanes)}")
        if not dtypes.is_float(dtype):
            return self._integer_unary(op, dtype, lanes, a)
        if dtype in dtypes.HALVES:
            result = self.unary(op, "float32", lanes, self.widen(dtype, lanes, a))
            return result if op in ("isnan", "isinf") else self.narrow(dtype, lanes, result)
        if op == "neg":
            return self.op(f"fneg {k} {a}")
        if op == "abs":
            return self.intrinsic("fabs", dtype, lanes, a)
        if op == "sqrt":
            return self.intrinsic("sqrt", dtype, lanes, a)
        if op == "isnan":
            return self.test("uno", dtype, lanes, a, a)
        if op == "isinf":
            return self.test("oeq", dtype, lanes, self.unary("abs", dtype, lanes, a), constant(math.inf, dtype, lanes))
        if op == "sign":
            zero, one, minus = (constant(float(n), dtype, lanes) for n in (0, 1, -1))
            below = self.choose(self.test("olt", dtype, lanes, a, zero), dtype, lanes, minus, a)
            return self.choose(self.test("ogt", dtype, lanes, a, zero), dtype, lanes, one, below)
        if op in _ROUNDING:
            return self.round(op, dtype, lanes, a)
        raise internal_error(f"the LLVM generator has no {op} of {dtype}")

    def _integer_unary(self, op: str, dtype: str, lanes: int, a: str) -> str:
        k, zero = kind(dtype, lanes), constant(0, dtype, lanes)
        if op in ("isnan", "isinf"):
            return constant(False, "bool", lanes)
        if op in ("floor", "ceil", "trunc", "rint") or (op == "abs" and not dtypes.is_signed(dtype)):
            return a
        if op == "neg":
            return self.op(f"sub {k} {zero}, {a}")
        if op == "abs":
            return self.call(f"llvm.abs.{suffix(dtype, lanes)}", k, (k, a), ("i1", "false"))
        if op == "sign":
            positive = self.op(f"zext {kind('bool', lanes)} {self.test('ne', dtype, lanes, a, zero)} to {k}")
            if not dtypes.is_signed(dtype):
                return positive
            minus = constant(-1, dtype, lanes)
            return self.choose(self.test("slt", dtype, lanes, a, zero), dtype, lanes, minus, positive)
        raise internal_error(f"the LLVM generator has no {op} of {dtype}")

    def round(self, op: str, dtype: str, lanes: int, a: str) -> str:
        """floor, ceil, trunc, rint: an instruction where there is one, else arithmetic."""
        name, scalar = _ROUNDING[op], kind(dtype)
        probe = f"  %r = call {scalar} @llvm.{name}.{suffix(dtype, 1)}({scalar} %a0)"
        if has_instruction(self.target, scalar, probe, scalar):
            return self.intrinsic(name, dtype, lanes, a)
        # From 2**23 (2**52) on, every value is an integer; below, it fits one.
        k, wide = kind(dtype, lanes), "int32" if dtype == "float32" else "int64"
        limit = constant(2.0**23 if dtype == "float32" else 2.0**52, dtype, lanes)
        size = self.intrinsic("fabs", dtype, lanes, a)
        small = self.test("olt", dtype, lanes, size, limit)
        if op == "rint":
            shifted = self.op(f"fadd {k} {size}, {limit}")
            result = self.op(f"fsub {k} {shifted}, {limit}")
        else:
            safe = self.choose(small, dtype, lanes, a, constant(0.0, dtype, lanes))
            whole = self.op(f"fptosi {k} {safe} to {kind(wide, lanes)}")
            result = self.op(f"sitofp {kind(wide, lanes)} {whole} to {k}")
            if op != "trunc":
                relation, word = ("ogt", "fsub") if op == "floor" else ("olt", "fadd")
                step = self.op(f"{word} {k} {result}, {constant(1.0, dtype, lanes)}")
                result = self.choose(self.test(relation, dtype, lanes, result, a), dtype, lanes, step, result)
        signed = self.intrinsic("copysign", dtype, lanes, result, a)
        return self.choose(small, dtype, lanes, signed, a)

    def binary(self, op: str, dtype: str, lanes: int, a: str, b: str, known: tuple[bool, bool] = (False, False)) -> str:
        """`known`: which operands are constants other than NaN."""
        k = kind(dtype, lanes)
        if dtype in dtypes.HALVES:
            a, b = (self.widen(dtype, lanes, x) for x in (a, b))
            return self.narrow(dtype, lanes, self.binary(op, "float32", lanes, a, b, known))
        if dtypes.is_float(dtype):
            if op in _FLOAT_OP:
                return self.op(f"{_FLOAT_OP[op]} {k} {a}, {b}")
            if op in ("minimum", "maximum"):
                return self._extremum(op, dtype, lanes, a, b, known)
            raise internal_error(f"the LLVM generator has no {op} of {dtype}")
        if dtype == "bool":
            if op in _BOOL_OP:
                return self.op(f"{_BOOL_OP[op]} {k} {a}, {b}")
            raise internal_error(f"the LLVM generator has no {op} of bool")
        if op in _INTEGER_OP:
            return self.op(f"{_INTEGER_OP[op]} {k} {a}, {b}")
        if op in ("minimum", "maximum"):
            return self.intrinsic(("s" if dtypes.is_signed(dtype) else "u") + op[:3], dtype, lanes, a, b)
        if op in ("shift_left", "shift_right"):
            return self._shift(op, dtype, lanes, a, b)
        if op in ("div", "floor_div", "mod"):
            return self._divide(op, dtype, lanes, a, b)
        if op == "round_shift":
            return self.idiom(op, dtype, lanes, a, b) or self._round_shift(dtype, lanes, a, b)
        if op == "high_product":
            return self.idiom(op, dtype, lanes, a, b) or self._high_product(lanes, a, b)
        if op == "upper_product":
            return self.idiom(op, dtype, lanes, a, b) or self._upper_product(lanes, a, b)
        if op == "short_product":
            return self.idiom(op, dtype, lanes, a, b) or self.op(f"mul {k} {a}, {b}")
        raise internal_error(f"the LLVM generator has no {op} of {dtype}")

    def _extremum(self, op: str, dtype: str, lanes: int, a: str, b: str, known: tuple[bool, bool]) -> str:
        if (found := self.idiom(op, dtype, lanes, a, b)) is not None:
            return found
        if known[0] and not known[1]:
            a, b, known = b, a, (known[1], known[0])
        # The first select is minps or maxps: the second operand wherever the comparison does not hold.
        relation = "olt" if op == "minimum" else "ogt"
        result = self.choose(self.test(relation, dtype, lanes, b, a), dtype, lanes, b, a)
        if known[1]:
            return result
        return self.choose(self.test("uno", dtype, lanes, b, b), dtype, lanes, b, result)

    def _shift(self, op: str, dtype: str, lanes: int, a: str, b: str) -> str:
        """Shifts of the width or more give 0, or the sign in every bit; LLVM itself leaves them undefined."""
        k, bits = kind(dtype, lanes), dtypes.bits(dtype)
        amount = self.call(f"llvm.umin.{suffix(dtype, lanes)}", k, (k, b), (k, constant(bits - 1, dtype, lanes)))
        if op == "shift_right" and dtypes.is_signed(dtype):
            return self.op(f"ashr {k} {a}, {amount}")
        shifted = self.op(f"{'shl' if op == 'shift_left' else 'lshr'} {k} {a}, {amount}")
        inside = self.test("ult", dtype, lanes, b, constant(bits, dtype, lanes))
        return self.choose(inside, dtype, lanes, shifted, constant(0, dtype, lanes))

    def _round_shift(self, dtype: str, lanes: int, a: str, b: str) -> str:
        """As rounding.py; in programs that were made for a machine with an instruction for it, and serve others too."""
        k, one = kind(dtype, lanes), constant(1, dtype, lanes)
        half = self._shift("shift_left", dtype, lanes, one, self.op(f"sub {k} {b}, {one}"))
        return self._shift("shift_right", dtype, lanes, self.op(f"add {k} {a}, {half}"), b)

    def _upper_product(self, lanes: int, a: str, b: str) -> str:
        """a b / 2^32, rounded down."""
        k, wide = kind("int32", lanes), kind("int64", lanes)
        x, y = (self.op(f"sext {k} {each} to {wide}") for each in (a, b))
        product = self.op(f"mul {wide} {x}, {y}")
        shifted = self.op(f"ashr {wide} {product}, {constant(32, 'int64', lanes)}")
        return self.op(f"trunc {wide} {shifted} to {k}")

    def _high_product(self, lanes: int, a: str, b: str) -> str:
        """2 a b / 2^32, halves up."""
        k = kind("int32", lanes)
        # Products of the even and of the odd lanes, where they lie, as machines multiply; a scalar is an even lane.
        pairs, count = kind("int64", max(lanes // 2, 1)), max(lanes // 2, 1)

        def shifted(op: str, value: str, bits: int) -> str:
            return self.op(f"{op} {pairs} {value}, {constant(bits, 'int64', count)}")

        def product(x: str, y: str) -> str:
            return self.op(f"add {pairs} {self.op(f'mul {pairs} {x}, {y}')}, {constant(1 << 30, 'int64', count)}")

        if lanes == 1:
            wide = product(*(self.op(f"sext {k} {x} to {pairs}") for x in (a, b)))
            return self.op(f"trunc {pairs} {shifted('ashr', wide, 31)} to {k}")
        a, b = (self.op(f"bitcast {k} {x} to {pairs}") for x in (a, b))
        even = product(*(shifted("ashr", shifted("shl", x, 32), 32) for x in (a, b)))
        odd = product(*(shifted("ashr", x, 32) for x in (a, b)))
        halves = (shifted("lshr", even, 31), shifted("shl", odd, 1))
        low, high = (self.op(f"bitcast {pairs} {x} to {k}") for x in halves)
        return self.shuffle("i32", lanes, low, high, [n + lanes * (n % 2) for n in range(lanes)])

    def _divide(self, op: str, dtype: str, lanes: int, a: str, b: str) -> str:
        """Integer quotients and remainders; a divisor of 0 gives 0, and -1 wraps where LLVM would trap."""
        k, signed = kind(dtype, lanes), dtypes.is_signed(dtype)
        zero, one = constant(0, dtype, lanes), constant(1, dtype, lanes)
        none = self.test("eq", dtype, lanes, b, zero)
        unsafe = none
        if signed:
            minus = self.test("eq", dtype, lanes, b, constant(-1, dtype, lanes))
            unsafe = self.op(f"or {kind('bool', lanes)} {none}, {minus}")
        divisor = self.choose(unsafe, dtype, lanes, one, b)
        s = "s" if signed else "u"
        rest = quotient = zero
        if op != "mod" or signed:
            quotient = self.op(f"{s}div {k} {a}, {divisor}")
        if op != "div":
            rest = self.op(f"{s}rem {k} {a}, {divisor}")
        if signed and op != "div":
            # Floor: one less where the remainder is not 0 and its sign is not the divisor's.
            uneven = self.test("ne", dtype, lanes, rest, zero)
            signs = self.op(f"xor {k} {rest}, {divisor}")
            apart = self.test("slt", dtype, lanes, signs, zero)
            lower = self.op(f"and {kind('bool', lanes)} {uneven}, {apart}")
            if op == "mod":
                rest = self.choose(lower, dtype, lanes, self.op(f"add {k} {rest}, {divisor}"), rest)
            else:
                quotient = self.choose(lower, dtype, lanes, self.op(f"sub {k} {quotient}, {one}"), quotient)
        if op == "mod":
            return self.choose(unsafe, dtype, lanes, zero, rest)
        if signed:
            quotient = self.choose(minus, dtype, lanes, self.op(f"sub {k} {zero}, {a}"), quotient)
        return self.choose(none, dtype, lanes, zero, quotient)

    def compare(self, op: str, dtype: str, lanes: int, a: str, b: str) -> str:
        if dtype in dtypes.HALVES:
            a, b, dtype = self.widen(dtype, lanes, a), self.widen(dtype, lanes, b), "float32"
        if dtypes.is_float(dtype):
            return self.test(_FLOAT_COMPARE[op], dtype, lanes, a, b)
        relation = op if op in ("eq", "ne") else ("s" if dtypes.is_signed(dtype) else "u") + op
        return self.test(relation, dtype, lanes, a, b)

    def fma(self, dtype: str, lanes: int, a: str, b: str, c: str) -> str:
        if dtype in dtypes.HALVES:
            wide = [self.widen(dtype, lanes, x) for x in (a, b, c)]
            return self.narrow(dtype, lanes, self.fma("float32", lanes, *wide))
        if dtypes.is_float(dtype) and self.target.fuses(dtypes.bits(dtype), lanes):
            if (found := self.idiom("fma", dtype, lanes, a, b, c)) is not None:
                return found
            if self._has_fma(dtype):
                return self.intrinsic("fma", dtype, lanes, a, b, c)
        return self.binary("add", dtype, lanes, self.binary("mul", dtype, lanes, a, b), c)

    def _has_fma(self, dtype: str) -> bool:
        scalar = kind(dtype)
        probe = f"  %r = call {scalar} @llvm.fma.{suffix(dtype, 1)}({scalar} %a0, {scalar} %a1, {scalar} %a2)"
        return has_instruction(self.target, scalar, probe, scalar, scalar, scalar)

    # -- conversions
    def cast(self, source: str, dtype: str, lanes: int, a: str) -> str:
        if source == dtype:
            return a
        if source in dtypes.HALVES:
            return self.cast("float32", dtype, lanes, self.widen(source, lanes, a))
        if dtype in dtypes.HALVES:
            return self.narrow(dtype, lanes, self.cast(source, "float32", lanes, a))
        k, new = kind(source, lanes), kind(dtype, lanes)
        if dtype == "bool":
            zero = constant(0.0 if dtypes.is_float(source) else 0, source, lanes)
            return self.test("une" if dtypes.is_float(source) else "ne", source, lanes, a, zero)
        if dtypes.is_float(source) and dtypes.is_float(dtype):
            return self.op(f"{'fpext' if dtype == 'float64' else 'fptrunc'} {k} {a} to {new}")
        if dtypes.is_float(source):
            return self._to_integer(source, dtype, lanes, a)
        if dtypes.is_float(dtype):
            return self.op(f"{'si' if dtypes.is_signed(source) else 'ui'}tofp {k} {a} to {new}")
        narrow, wide = (1 if source == "bool" else dtypes.bits(source)), dtypes.bits(dtype)
        if narrow == wide:
            return a
        word = "trunc" if wide < narrow else "sext" if dtypes.is_signed(source) else "zext"
        return self.op(f"{word} {k} {a} to {new}")

    def nearest(self, dtype: str, lanes: int, a: str, zero: int) -> str:
        """The nearest bytes to a vector of float32, which targets that round them have an idiom for."""
        least = constant(float(dtypes.limits(dtype)[0] - zero), "float32", 4)
        found = self.idiom("nearest", dtype, lanes, a, least, constant(zero, "int16", 8))
        assert found is not None
        return found

    def _to_integer(self, source: str, dtype: str, lanes: int, a: str) -> str:
        k, bits = kind(source, lanes), dtypes.bits(dtype)
        if (found := self.idiom(f"to_{dtype}", source, lanes, a)) is not None:
            return found
        least, greatest = dtypes.limits(dtype)
        # Clamped as a float first: out of range, LLVM's conversion is undefined. The greatest integer may not be a
        # float; the float below it is clamped to, and the integer put in where the value lay above.
        top = float(greatest)
        exact = int(top) == greatest and (source == "float64" or as_float32(top) == top)
        if not exact:
            step = 24 if source == "float32" else 53
            top = float(greatest + 1 - (1 << max(0, (greatest.bit_length() - step))))
        bottom = constant(float(least), source, lanes)
        low = self.choose(self.test("ogt", source, lanes, a, bottom), source, lanes, a, bottom)
        high = constant(top, source, lanes)
        inside = self.choose(self.test("olt", source, lanes, low, high), source, lanes, low, high)
        wide = dtype if bits >= 32 else "int32"
        number = self.op(f"fpto{'s' if dtypes.is_signed(wide) else 'u'}i {k} {inside} to {kind(wide, lanes)}")
        if not exact:
            above = self.test("oge", source, lanes, a, constant(float(greatest + 1), source, lanes))
            number = self.choose(above, dtype, lanes, constant(greatest, dtype, lanes), number)
        number = self.cast(wide, dtype, lanes, number)
        if least == 0:
            return number  # a NaN has become `bottom`
        return self.choose(self.test("uno", source, lanes, a, a), dtype, lanes, constant(0, dtype, lanes), number)

    def bitcast(self, source: str, dtype: str, lanes: int, a: str) -> str:
        k, new = kind(source, lanes), kind(dtype, lanes)
        return a if k == new else self.op(f"bitcast {k} {a} to {new}")

    def widen(self, dtype: str, lanes: int, a: str) -> str:
        """float16 or bfloat16 to float32; exact."""
        small, word, result = kind("int16", lanes), kind("int32", lanes), kind("float32", lanes)
        if dtype == "bfloat16":
            bits = self.op(f"shl {word} {self.op(f'zext {small} {a} to {word}')}, {constant(16, 'int32', lanes)}")
            return self.op(f"bitcast {word} {bits} to {result}")
        if (found := self.idiom("widen", dtype, lanes, a)) is not None:
            return found
        # Exponent and fraction moved into place and scaled, which makes subnormal ones right too.
        bits = self.op(f"zext {small} {a} to {word}")
        sign = self.op(f"shl {word} {self._and(bits, 0x8000, lanes)}, {constant(16, 'int32', lanes)}")
        placed = self.op(f"shl {word} {self._and(bits, 0x7FFF, lanes)}, {constant(13, 'int32', lanes)}")
        scale = constant(2.0**112, "float32", lanes)
        scaled = self.op(f"fmul {result} {self.op(f'bitcast {word} {placed} to {result}')}, {scale}")
        number = self.op(f"bitcast {result} {scaled} to {word}")
        infinite = self.test("uge", "int32", lanes, placed, constant(0x7C00 << 13, "int32", lanes))
        special = self.op(f"or {word} {placed}, {constant(0x7F800000, 'int32', lanes)}")
        chosen = self.choose(infinite, "int32", lanes, special, number)
        return self.op(f"bitcast {word} {self.op(f'or {word} {chosen}, {sign}')} to {result}")

    def narrow(self, dtype: str, lanes: int, a: str) -> str:
        """float32 to float16 or bfloat16, to nearest, ties to even."""
        small, word, result = kind("int16", lanes), kind("int32", lanes), kind("float32", lanes)
        if (found := self.idiom("narrow", dtype, lanes, a)) is not None:
            return found
        bits = self.op(f"bitcast {result} {a} to {word}")
        nan = self.test("uno", "float32", lanes, a, a)

        def plus(x: str, y: str) -> str:
            return self.op(f"add {word} {x}, {y}")

        def number(n: int) -> str:
            return constant(n, "int32", lanes)

        if dtype == "bfloat16":
            odd = self._and(self.op(f"lshr {word} {bits}, {number(16)}"), 1, lanes)
            rounded = plus(plus(bits, number(0x7FFF)), odd)
            quiet = self.op(f"or {word} {bits}, {number(0x400000)}")
            chosen = self.choose(nan, "int32", lanes, quiet, rounded)
            return self.op(f"trunc {word} {self.op(f'lshr {word} {chosen}, {number(16)}')} to {small}")
        sign = self._and(self.op(f"lshr {word} {bits}, {number(16)}"), 0x8000, lanes)
        size = self._and(bits, 0x7FFFFFFF, lanes)
        # Normal: rebiased, with just enough added that the shift rounds. Subnormal: an addition does the rounding.
        odd = self._and(self.op(f"lshr {word} {size}, {number(13)}"), 1, lanes)
        normal = self.op(f"lshr {word} {plus(plus(size, number(0xFFF - (112 << 23))), odd)}, {number(13)}")
        magic = (127 - 15 + 23 - 10 + 1) << 23
        magic_float = constant(0.5, "float32", lanes)
        sum_ = self.op(f"fadd {result} {self.op(f'bitcast {word} {size} to {result}')}, {magic_float}")
        tiny = plus(self.op(f"bitcast {result} {sum_} to {word}"), number(-magic))
        value = self.choose(self.test("ult", "int32", lanes, size, number(113 << 23)), "int32", lanes, tiny, normal)
        huge = self.test("uge", "int32", lanes, size, number(143 << 23))
        value = self.choose(huge, "int32", lanes, number(0x7C00), value)
        value = self.choose(nan, "int32", lanes, number(0x7E00), value)
        return self.op(f"trunc {word} {self.op(f'or {word} {value}, {sign}')} to {small}")

    def _and(self, a: str, mask: int, lanes: int) -> str:
        return self.op(f"and {kind('int32', lanes)} {a}, {constant(mask, 'int32', lanes)}")

    # -- what the processor has
    def idiom(self, operation: str, dtype: str, lanes: int, *operands: str) -> str | None:
        """The processor's own way of an operation, None where it has none that LLVM does not find itself."""
        found = next((i for i in find_idioms(self.target, operation, dtype, lanes) if i.llvm), None)
        if found is None:
            return None
        return self._in_parts(found, lanes, operands) if found.lanes else self._instructions(found, lanes, operands)

    def _in_parts(self, idiom: Idiom, lanes: int, operands: Sequence[str]) -> str:
        """An idiom of fewer lanes, for the lower and the upper half."""
        if lanes == idiom.lanes:
            return self._instructions(idiom, lanes, operands)
        scalar, half = kind(idiom.dtype), lanes // 2
        results = []
        for first in (0, half):
            taken = [self.shuffle(scalar, lanes, x, x, list(range(first, first + half))) for x in operands]
            results.append(self._in_parts(idiom, half, taken))
        return self.shuffle(scalar, half, results[0], results[1], list(range(lanes)))

    def _instructions(self, idiom: Idiom, lanes: int, operands: Sequence[str]) -> str:
        source, result = idiom_types(idiom)
        types = {
            "T": kind(source, lanes), "S": suffix(source, lanes),
            "R": kind(result, lanes), "RS": suffix(result, lanes),
            "halves": kind("float32", lanes).replace("float", "half"), "pairs": kind("int16", 2 * lanes),
        }  # fmt: skip
        mask = constant(idiom.mask, source, lanes) if dtypes.is_integer(source) else ""
        values = {**dict(zip("abc", operands, strict=False)), "mask": mask}
        for instruction in idiom.llvm:
            name, _, text = instruction.partition(" = ")
            self.declarations |= declarations_of(text.format(**types, **dict.fromkeys(values, "%value")))
            values[name] = self.op(text.format(**types, **values))
        return values["r"]

    def apply(self, intrinsic: Intrinsic, operands: list[str]) -> str:
        """A call of an intrinsic's function, which the module will define; where the target lacks it and nothing
        is added up in a lane, the operation itself."""
        if intrinsic.group == 1 and intrinsic.template and not self.target.has(intrinsic):
            lanes = intrinsic.lanes
            c, a, b = (self.cast(intrinsic.dtype, "float32", lanes, x) for x in operands)
            return self.cast("float32", intrinsic.dtype, lanes, self.fma("float32", lanes, a, b, c))
        self.intrinsics[intrinsic.name] = intrinsic
        kinds = operand_kinds(intrinsic)
        arguments = ", ".join(f"{k} {value}" for k, value in zip(kinds, operands, strict=True))
        return self.op(f"call {kind(intrinsic.dtype, intrinsic.elements)} @{intrinsic.function}({arguments})")

    def instruction(self, name: str, parameters: str, text: str) -> str:
        """The name of a function that consists of these instructions, which the module will define."""
        known = self.instructions.setdefault((name, parameters, text), f"@{name}.{len(self.instructions)}")
        self.declarations |= declarations_of(text, every=True)
        return known

    # -- lanes
    def repeat(self, dtype: str, count: int, lanes: int, a: str) -> str:
        """The `count` lanes of a vector over and over."""
        vector, order = kind(dtype, count), [n % count for n in range(lanes)]
        return self.op(f"shufflevector {vector} {a}, {vector} poison, {shuffle_mask(order)}")

    def broadcast(self, dtype: str, lanes: int, a: str) -> str:
        scalar, vector = kind(dtype), kind(dtype, lanes)
        first = self.op(f"insertelement {vector} poison, {scalar} {a}, i32 0")
        return self.op(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, scalar: str, lanes: int, a: str, b: str, order: list[int]) -> str:
        vector = f"<{lanes} x {scalar}>"
        return self.op(f"shufflevector {vector} {a}, {vector} {b}, {shuffle_mask(order)}")
