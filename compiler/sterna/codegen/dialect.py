"""How a dialect of C writes types, constants, operations and memory accesses.

`PlainC` is C99 and nothing else: a vector of the loop program becomes one scalar statement per lane. `VectorC` uses the
vector types of clang and gcc. A dialect is a class of small methods, each returning C text; helpers that the text calls
are collected in `helpers` and written by the template that owns the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Extremum, FloorDiv, Int, Mod, Symbol
from sterna.targets.target import Target
from sterna.te.expr import Expr
from sterna.te.position import IndexAtom

C_TYPE = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t",
    **{d: f"{d}_t" for d in (*dtypes.SIGNED, *dtypes.UNSIGNED)},
}  # fmt: skip
_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "b8"}
_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
_LOGICAL = {"and": "&&", "or": "||", "xor": "!="}
_RELATION = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}


def short(dtype: str) -> str:
    """f32, i8, u16 ...: the stem of helper and type names."""
    return _SHORT.get(dtype) or dtype[0] + str(dtypes.bits(dtype))


class PlainC:
    """C99."""

    name = "plain"

    def __init__(self, target: Target):
        self.target = target
        self.index_type = "int64_t" if target.pointer_bits == 64 else "int32_t"
        self.helpers: dict[tuple[str, str, int], None] = {}
        self.intrinsics: dict[str, Intrinsic] = {}
        #: C headers that the text needs.
        self.headers: set[str] = set()
        #: C names of the dimensions that the current kernel reads.
        self.dimensions: dict[Symbol, str] = {}

    # -- names
    def scalar(self, dtype: str) -> str:
        return C_TYPE[dtype]

    def type(self, dtype: str, lanes: int) -> str:
        assert lanes == 1
        return C_TYPE[dtype]

    def helper(self, name: str, dtype: str, lanes: int = 1, *, needs: Iterable[str] = ()) -> str:
        """The name of a helper function, which the file will define."""
        for other in needs:
            self.helpers[(other, dtype, lanes)] = None
        self.helpers[(name, dtype, lanes)] = None
        return f"{name}_{short(dtype)}" + (f"x{lanes}" if lanes > 1 else "")

    # -- positions
    def index(self, index: Int, value: object = None) -> str:
        """A position as a C expression."""
        text = ""
        for monomial, coefficient in index.terms.items():
            factors = [self._atom(a) for a in monomial]
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

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.dimensions.get(atom, atom.name)
        if isinstance(atom, (FloorDiv, Mod)):
            inner, lo = self.index(atom.value), atom.value.bounds()[0]
            if lo is not None and lo >= 0:
                return f"(({inner}) {'/' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
            name = "floor_div" if isinstance(atom, FloorDiv) else "floor_mod"
            return f"{self.helper(f'index_{name}', 'int64')}({inner}, {atom.divisor})"
        if isinstance(atom, Extremum):
            a, b = (self.index(x) for x in atom.operands)
            return f"{self.helper(f'index_{atom.kind}', 'int64')}({a}, {b})"
        if isinstance(atom, IndexAtom):
            return f"({self.index_type})({self.expression(atom.value)})"
        raise TypeError(f"no such atom: {type(atom).__name__}")

    def expression(self, e: Expr) -> str:
        """A value inside a position; set by the printer, which knows how to render values."""
        raise NotImplementedError

    # -- values
    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        if dtype in ("float16", "bfloat16"):
            return f"(uint16_t){np.asarray(value, dtypes.to_numpy(dtype)).view(np.uint16)}"
        if dtypes.is_float(dtype):
            return self._float(float(value), dtype)
        if dtype == "bool":
            return str(int(value))
        if dtype in {"int64", "uint64"}:
            if value == -(1 << 63):
                return "INT64_MIN"
            return f"INT64_C({value})" if dtype == "int64" else f"UINT64_C({value})"
        if dtype == "int32" and value == -(1 << 31):
            return "INT32_MIN"
        return (
            f"{value}u" if dtype == "uint32" else f"({C_TYPE[dtype]}){value}" if dtypes.bits(dtype) < 32 else str(value)
        )

    def _float(self, value: float, dtype: str) -> str:
        suffix = "" if dtype == "float64" else "f"
        if math.isnan(value):
            return "STERNA_NAN" if suffix else "(double)STERNA_NAN"
        if math.isinf(value):
            text = "STERNA_INFINITY" if suffix else "(double)STERNA_INFINITY"
            return text if value > 0 else f"-{text}"
        if suffix:
            text = _shortest_float32(value)
        else:
            text = repr(value)
        return (text if any(c in text for c in ".en") else text + ".0") + suffix

    def index_value(self, index: str, dtype: str, lanes: int, stride: int) -> str:
        return f"({C_TYPE[dtype]})({index})"

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        """`dtype` is the operand's."""
        is_float = dtypes.is_float(dtype)
        if op == "neg":
            return f"(-{a})" if is_float else self._wrap(dtype, f"0u - ({_unsigned(dtype)}){a}")
        if op == "logical_not":
            return f"(!{a})"
        if op == "invert":
            return f"({C_TYPE[dtype]})(~{a})"
        if op == "flip_sign":
            return f"({C_TYPE[dtype]})({a} ^ {self.const(highest_bit(dtype), dtype)})"
        if op == "isnan":
            return f"({a} != {a})" if is_float else "0"
        return f"{self.helper(op, dtype)}({a})"

    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        is_float = dtypes.is_float(dtype)
        if op in ("minimum", "maximum", "mod", "floor_div", "high_product", "shift_left_any", "shift_right_any"):
            return f"{self.helper(op, dtype)}({a}, {b})"
        if dtype == "bool":
            return f"({a} {_LOGICAL.get(op) or _INFIX[op]} {b})"
        if is_float:
            return f"({a} {_INFIX[op]} {b})"
        if op == "short_product":
            return f"({a} * {b})"
        if op in ("add", "sub", "mul", "shift_left"):
            unsigned = _unsigned(dtype)
            return self._wrap(dtype, f"({unsigned}){a} {_INFIX[op]} ({unsigned}){b}")
        if op == "div":
            return f"{self.helper('div', dtype)}({a}, {b})"
        return f"({C_TYPE[dtype]})({a} {_INFIX[op]} {b})"

    def _wrap(self, dtype: str, text: str) -> str:
        """Integer arithmetic that wraps: done unsigned, then converted."""
        return f"({C_TYPE[dtype]})({text})"

    def compare(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        return f"({a} {_RELATION[op]} {b})"

    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, mask_bits: int) -> str:
        return f"({condition} ? {a} : {b})"

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if not self.target.fuses(dtypes.bits(dtype), lanes):
            return f"({c} + {a} * {b})"
        return f"{self.helper('fma', dtype, lanes)}({a}, {b}, {c})"

    def cast(self, source: str, dtype: str, a: str, lanes: int, mask_bits: int) -> str:
        if source in ("float16", "bfloat16"):
            return f"{self.helper('widen', source)}({a})"
        if dtype in ("float16", "bfloat16"):
            return f"{self.helper('narrow', dtype)}({a})"
        if dtype == "bool":
            return f"({a} != {self.const(0, source)})"
        if dtypes.is_float(source) and dtypes.is_integer(dtype):
            self.helpers[("to_integer", source, 1)] = None
            return f"{self.helper(f'to_{short(dtype)}', source)}({a})"
        return f"({C_TYPE[dtype]}){a}"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"{self.helper(f'as_{short(dtype)}', source)}({a})"

    # -- memory
    def load(self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None) -> str:
        return f"{base}[{index}]"

    def store(self, dtype: str, base: str, index: str, value: str, lanes: int, stride: int, active: int | None) -> str:
        return f"{base}[{index}] = {value};"


class VectorC(PlainC):
    """C with the vector types of clang and gcc: `f32x16` and its unaligned twin `f32x16u`."""

    name = "vector"

    def type(self, dtype: str, lanes: int) -> str:
        if lanes == 1:
            return C_TYPE[dtype]
        self.helpers[("type", dtype, lanes)] = None
        return f"{short(dtype)}x{lanes}"

    def mask(self, bits: int, lanes: int) -> str:
        """The type of a comparison's result: a signed integer vector of the operands' width, -1 for true."""
        return self.type(f"int{bits}", lanes)

    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        text = super().const(value, dtype)
        return text if lanes == 1 else self.broadcast(dtype, text, lanes)

    def broadcast(self, dtype: str, a: str, lanes: int) -> str:
        self.type(dtype, lanes)
        return f"{self.helper('splat', dtype, lanes)}({a})"

    def repeat(self, dtype: str, a: str, count: int, lanes: int) -> str:
        """The `count` lanes of a vector over and over."""
        word = f"int{count * dtypes.bits(dtype)}"
        scalar = f"({C_TYPE[word]})({a})"
        return f"({self.type(dtype, lanes)}){self.broadcast(word, scalar, lanes // count)}"

    def apply(self, intrinsic: Intrinsic, operands: Sequence[str]) -> str:
        """A call of an intrinsic's function, which the file will define."""
        self.intrinsics[intrinsic.name] = intrinsic
        self.operand_types(intrinsic)
        return f"{intrinsic.function}({', '.join(operands)})"

    def operand_types(self, intrinsic: Intrinsic) -> dict[str, str]:
        """The vector types of an intrinsic's result and operands."""
        a, b = (self.type(dtype, intrinsic.lanes * intrinsic.group) for dtype in intrinsic.operands)
        return {"result": self.type(intrinsic.dtype, intrinsic.lanes), "a": a, "b": b}

    def index_value(self, index: str, dtype: str, lanes: int, stride: int) -> str:
        if lanes == 1:
            return super().index_value(index, dtype, 1, 0)
        steps = ", ".join(str(stride * n) for n in range(lanes))
        return (
            f"({self.broadcast(dtype, f'({C_TYPE[dtype]})({index})', lanes)} + ({self.type(dtype, lanes)}){{{steps}}})"
        )

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if lanes == 1:
            return super().unary(op, dtype, a, 1)
        if op == "neg":
            return f"(-{a})"
        if op in ("logical_not", "invert"):
            return f"(~{a})"
        if op == "isnan":
            return f"({a} != {a})"
        self.type(dtype, lanes)
        self.mask(dtypes.bits(dtype), lanes)
        return f"{self.helper(op, dtype, lanes, needs=('select',) if op in ('abs', 'sign') else ())}({a})"

    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        if lanes == 1:
            return super().binary(op, dtype, a, b, 1)
        if op in ("high_product", "short_product", "shift_left_any", "shift_right_any"):
            self.type(dtype, lanes)
            return f"{self.helper(op, dtype, lanes)}({a}, {b})"
        if op in ("mod", "floor_div") or (op == "div" and dtypes.is_integer(dtype)):
            self.type(dtype, lanes)
            self.helper(op, dtype)
            return f"{self.helper(op, dtype, lanes)}({a}, {b})"
        if op in ("minimum", "maximum"):
            self.type(dtype, lanes)
            self.mask(dtypes.bits(dtype), lanes)
            return f"{self.helper(op, dtype, lanes, needs=('select',))}({a}, {b})"
        return f"({a} {_INFIX[op]} {b})"

    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, mask_bits: int) -> str:
        if lanes == 1:
            return super().select(dtype, condition, a, b, 1, mask_bits)
        self.type(dtype, lanes)
        bits = dtypes.bits(dtype)
        mask = self.mask(bits, lanes)
        if mask_bits != bits:
            condition = f"__builtin_convertvector({condition}, {mask})"
        return f"{self.helper('select', dtype, lanes)}({condition}, {a}, {b})"

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if lanes > 1:
            self.type(dtype, lanes)
        return super().fma(dtype, a, b, c, lanes)

    def cast(self, source: str, dtype: str, a: str, lanes: int, mask_bits: int) -> str:
        if lanes == 1:
            return super().cast(source, dtype, a, 1, mask_bits)
        if source in ("float16", "bfloat16") or dtype in ("float16", "bfloat16"):
            for needed in (source, dtype, "uint32", "int32"):
                self.type(needed, lanes)
            small, name = (source, "widen") if dtype == "float32" else (dtype, "narrow")
            return f"{self.helper(name, small, lanes)}({a})"
        if dtype == "bool":
            return f"({a} != {self.const(0, source, lanes)})"
        if source == "bool":
            return f"__builtin_convertvector({a} & 1, {self.type(dtype, lanes)})"
        self.type(source, lanes)
        if dtypes.is_float(source) and dtypes.is_integer(dtype):
            self.helpers[("to_integer", source, lanes)] = None
            self.type(dtype, lanes)
            self.mask(dtypes.bits(source), lanes)
            return f"{self.helper(f'to_{short(dtype)}', source, lanes)}({a})"
        return f"__builtin_convertvector({a}, {self.type(dtype, lanes)})"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return super().bitcast(source, dtype, a, 1) if lanes == 1 else f"({self.type(dtype, lanes)}){a}"

    def load(self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None) -> str:
        if lanes == 1:
            return super().load(dtype, base, index, 1, 1, None)
        vector = self.type(dtype, lanes)
        if stride == 1 and active is None:
            return f"*(const {vector}u *)({base} + {index})"
        if stride == 1:
            return f"{self.helper('load_part', dtype, lanes)}({base} + {index}, {active})"
        return f"{self.helper('gather', dtype, lanes)}({base} + {index}, {stride}, {active or lanes})"

    def store(self, dtype: str, base: str, index: str, value: str, lanes: int, stride: int, active: int | None) -> str:
        if lanes == 1:
            return super().store(dtype, base, index, value, 1, 1, None)
        vector = self.type(dtype, lanes)
        if stride == 1 and active is None:
            return f"*({vector}u *)({base} + {index}) = {value};"
        if stride == 1:
            return f"{self.helper('store_part', dtype, lanes)}({base} + {index}, {value}, {active});"
        return f"{self.helper('scatter', dtype, lanes)}({base} + {index}, {value}, {stride}, {active or lanes});"


def dialect(target: Target) -> PlainC:
    """The dialect that a target's description asks for."""
    return VectorC(target) if target.dialect == "vector" else PlainC(target)


def highest_bit(dtype: str) -> int:
    """The number of an integer type that has only its highest bit set."""
    low, high = dtypes.limits(dtype)
    return low or high // 2 + 1


def _unsigned(dtype: str) -> str:
    """The type in which integer arithmetic wraps; at least as wide as C's own promotion."""
    return f"uint{max(32, dtypes.bits(dtype))}_t"


def _shortest_float32(value: float) -> str:
    text = (
        np.format_float_positional(np.float32(value), unique=True, trim="0")
        if value == 0 or 1e-4 <= abs(value) < 1e7
        else ""
    )
    return text or np.format_float_scientific(np.float32(value), unique=True, trim="0")
