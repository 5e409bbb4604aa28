"""What C and its descendants share: operators, wrapping integers, helper functions for what has no operator."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sterna.codegen.dialect import Dialect
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.memory import INPUT, OUTPUT, PARAM
from sterna.loops.program import ARGUMENTS, KERNEL_FAILED, Buffer
from sterna.targets.fetches import FETCH, FETCH_START, FETCH_WAIT
from sterna.targets.target import Target
from sterna.te.text import INFIX, RELATION

_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "b8"}
_LOGICAL = {"and": "&&", "or": "||", "xor": "!="}
#: Operations without an operator, and those whose operator is not defined for every operand.
_HELPED = (
    "minimum", "maximum", "mod", "floor_div", "high_product", "upper_product", "shift_left_any", "shift_right_any",
)  # fmt: skip
#: C's names of the element types; the file of a dialect defines those that its language lacks.
C_TYPE = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t",
    **{d: f"{d}_t" for d in (*dtypes.SIGNED, *dtypes.UNSIGNED)},
}  # fmt: skip

#: A macro of `templates/c/prelude.h.j2`, for dialects of files that have it.
ROLLED = "STERNA_ROLLED "


def short(dtype: str) -> str:
    """f32, i8, u16 ...: the stem of helper and type names."""
    return _SHORT.get(dtype) or dtype[0] + str(dtypes.bits(dtype))


class CFamily(Dialect):
    """Scalars of a language that has C's operators, conversions and precedence.

    Helper functions that the text calls are collected in `helpers`: (name, dtype, lanes).
    """

    arguments: tuple[str, ...] = ARGUMENTS

    def __init__(self, target: Target):
        super().__init__(target)
        self.helpers: dict[tuple[str, str, int], None] = {}

    def operand_types(self, intrinsic: Intrinsic) -> dict[str, str]:
        """The types of the result and operands of an intrinsic's function."""
        raise self._without_vectors()

    def function(self, intrinsic: Intrinsic) -> str:
        """The function of an intrinsic over vectors that a target's description declares."""
        raise self._without_vectors()

    def helper(self, name: str, dtype: str, lanes: int = 1, *, needs: Iterable[str] = ()) -> str:
        """The name of a helper function, which the file will define."""
        for other in needs:
            self.helpers[(other, dtype, lanes)] = None
        self.helpers[(name, dtype, lanes)] = None
        return f"{name}_{short(dtype)}" + (f"x{lanes}" if lanes > 1 else "")

    # -- types and declarations
    @property
    def index_type(self) -> str:
        return "int64_t" if self.target.pointer_bits == 64 else "int32_t"

    def type(self, dtype: str, lanes: int = 1) -> str:
        assert lanes == 1
        return C_TYPE[dtype]

    def truth_type(self, lanes: int, bits: int) -> str:
        return "int"

    def variable(self, type_: str, name: str) -> str:
        return f"{type_} {name};"

    def constant(self, type_: str, name: str, value: str) -> str:
        return f"const {type_} {name} = {value};"

    # -- the frame of a kernel, whose parameters are those of `sterna_kernel.h`
    def bind(self, buffer: Buffer, begin: str) -> str:
        address = {
            INPUT: f"call->in[{begin}]",
            PARAM: f"(const void *)(call->params + {begin})",
            OUTPUT: f"call->out[{begin}]",
        }[buffer.scope]
        pointer = f"{'' if buffer.scope is OUTPUT else 'const '}{C_TYPE[buffer.dtype]} *"
        return f"{pointer}{'' if buffer.may_alias else 'restrict '}{buffer.name} = ({pointer}){address};"

    def dimension(self, slot: int, dtype: str) -> str:
        sizes = "call->dims" if dtype == "int64" else f"((const {C_TYPE[dtype]} *)call->dims)"
        return f"({self.index_type}){sizes}[{slot}]"

    def allocate(self, buffer: Buffer, begin: str, shared: bool) -> str:
        t = C_TYPE[buffer.dtype]
        if buffer.scope.in_scratch:
            pointer = f"{t} *{'' if shared else 'restrict '}{buffer.name}"
            return f"{pointer} = ({t} *)(void *)(call->scratch + {begin});"
        return f"{t} {buffer.name}[{buffer.elements}];"

    def tasks(self, name: str, threaded: bool) -> str:
        t = self.index_type
        return f"for ({t} {name} = ({t})first_task; {name} < ({t})last_task; {name}++) {{"

    def loop(self, name: str, start: str, stop: str) -> str:
        return f"for ({self.index_type} {name} = {start}; {name} < {stop}; {name}++) {{"

    def require(self, condition: str) -> str:
        return f"if (!{condition}) return {KERNEL_FAILED};"

    def barrier(self) -> str:
        return "if (call->n_workers > 1) call->barrier(call->pool);"

    def table(self, name: str, data: bytes) -> str:
        return f"static const uint8_t {name}[{len(data)}] STERNA_ALIGNED = {{{', '.join(map(str, data))}}};"

    # -- positions
    def index_helper(self, operation: str, a: str, b: str) -> str:
        return f"{self.helper(f'index_{operation}', 'int64')}({a}, {b})"

    def index_cast(self, value: str, dtype: str) -> str:
        return f"({self.index_type})({value})"

    def index_value(self, index: str, dtype: str, lanes: int, stride: int) -> str:
        return f"({C_TYPE[dtype]})({index})"

    # -- values
    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        if dtype in dtypes.HALVES:
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
            text = shortest_float32(value)
        else:
            text = repr(value)
        return (text if any(c in text for c in ".en") else text + ".0") + suffix

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        is_float = dtypes.is_float(dtype)
        if op == "neg":
            return f"(-{a})" if is_float else self._wrap(dtype, f"0u - ({_unsigned(dtype)}){a}")
        if op == "logical_not":
            return f"(!{a})"
        if op == "invert":
            return f"({C_TYPE[dtype]})(~{a})"
        if op == "flip_sign":
            return f"({C_TYPE[dtype]})({a} ^ {self.const(dtypes.highest_bit(dtype), dtype)})"
        if op == "isnan":
            return f"({a} != {a})" if is_float else "0"
        return f"{self.helper(op, dtype)}({a})"

    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        is_float = dtypes.is_float(dtype)
        if op in _HELPED:
            return f"{self.helper(op, dtype)}({a}, {b})"
        if dtype == "bool":
            return f"({a} {_LOGICAL.get(op) or INFIX[op]} {b})"
        if is_float:
            return self.infix(op, a, b)
        if op == "short_product":
            return f"({a} * {b})"
        if op in ("add", "sub", "mul", "shift_left"):
            unsigned = _unsigned(dtype)
            return self._wrap(dtype, f"({unsigned}){a} {INFIX[op]} ({unsigned}){b}")
        if op == "div":
            return f"{self.helper('div', dtype)}({a}, {b})"
        return f"({C_TYPE[dtype]}){self.infix(op, a, b)}"

    def infix(self, op: str, a: str, b: str) -> str:
        """An operation that is one of the language's operators."""
        return f"({a} {INFIX[op]} {b})"

    def _wrap(self, dtype: str, text: str) -> str:
        """Integer arithmetic that wraps: done unsigned, then converted."""
        return f"({C_TYPE[dtype]})({text})"

    def compare(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        return f"({a} {RELATION[op]} {b})"

    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, bits: int) -> str:
        return f"({condition} ? {a} : {b})"

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if not self.target.fuses(dtypes.bits(dtype), lanes):
            return f"({c} + {a} * {b})"
        return f"{self.helper('fma', dtype, lanes)}({a}, {b}, {c})"

    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        if source in dtypes.HALVES:
            return f"{self.helper('widen', source)}({a})"
        if dtype in dtypes.HALVES:
            return f"{self.helper('narrow', dtype)}({a})"
        if dtype == "bool":
            return f"({a} != {self.const(0, source)})"
        if dtypes.is_float(source) and dtypes.is_integer(dtype):
            self.helpers[("to_integer", source, 1)] = None
            return f"{self.helper(f'to_{short(dtype)}', source)}({a})"
        return f"({C_TYPE[dtype]}){a}"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"{self.helper(f'as_{short(dtype)}', source)}({a})"

    def dot_of_words(self, intrinsic: Intrinsic, total: str, a: str, b: str) -> str:
        return f"{self.helper('dot4_' + intrinsic.settings['words'], 'int32')}({total}, {a}, {b})"

    # -- memory
    def fetch(self, to: str, at: str, size: int, asynchronous: bool) -> str:
        self.helpers[("fetches", "uint8", 1)] = None
        return f"{FETCH_START if asynchronous else FETCH}({to}, {at}, {size}u);"

    def fetch_wait(self) -> str:
        return f"{FETCH_WAIT}();"

    def load(
        self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None, aligned: int = 1
    ) -> str:
        return f"{base}[{index}]"

    def store(self, dtype: str, base: str, index: str, value: str, lanes: int, stride: int, active: int | None) -> str:
        return f"{base}[{index}] = {value};"

    def address(self, buffer: Buffer, index: str) -> str:
        return f"({buffer.name} + ({index}))"

    def truth(self, byte: str, lanes: int) -> str:
        return f"(({byte}) != 0)"

    def byte(self, truth: str, lanes: int) -> str:
        return f"(uint8_t)({truth})"


def _unsigned(dtype: str) -> str:
    """The type in which integer arithmetic wraps; at least as wide as C's own promotion."""
    return f"uint{max(32, dtypes.bits(dtype))}_t"


def shortest_float32(value: float) -> str:
    """The fewest digits that are this float32."""
    text = (
        np.format_float_positional(np.float32(value), unique=True, trim="0")
        if value == 0 or 1e-4 <= abs(value) < 1e7
        else ""
    )
    return text or np.format_float_scientific(np.float32(value), unique=True, trim="0")
