"""C99 for cores that multiply packed integers: several in a register, as operands of intrinsics alone."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects.c_family import C_TYPE, CFamily
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.te.layout import most_elements

#: Bits of a general register, whose bytes are numbers of their own; wider ones are the compiler's own vector types.
_WORD = 32


class Packed(CFamily):
    """Scalars as in C99. The vectors of the loop program are operands of intrinsics that give one number: a word of
    four bytes, or a vector of 128 bits that is loaded by the compiler's own functions."""

    name = "packed"
    vectors = True
    lowerings = "c"

    def type(self, dtype: str, lanes: int = 1) -> str:
        if lanes == 1:
            return C_TYPE[dtype]
        return "uint32_t" if self._is_word(dtype, lanes) else f"{dtype}x{lanes}_t"

    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        if lanes == 1:
            return super().const(value, dtype)
        assert value == 0
        return "0u" if self._is_word(dtype, lanes) else f"vdupq_n_{_element(dtype)}(0)"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return super().bitcast(source, dtype, a, 1) if lanes == 1 else self._never("a bitcast")

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if lanes > 1 and op == "flip_sign" and self._is_word(dtype, lanes):
            return f"({a} ^ 0x80808080u)"
        return super().unary(op, dtype, a, 1) if lanes == 1 else self._never(op)

    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        return super().cast(source, dtype, a, 1, bits) if lanes == 1 else self._never("a conversion")

    def load(self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None) -> str:
        if lanes == 1:
            return super().load(dtype, base, index, 1, 1, None)
        assert stride == 1
        if self._is_word(dtype, lanes):
            name = self.helper("load_word" if active is None else "load_word_part", "uint8")
            address = f"(const uint8_t *)({base} + {index})"
            return f"{name}({address})" if active is None else f"{name}({address}, {active})"
        element = _element(dtype)
        if active is None:
            return f"vldrbq_{element}({base} + {index})"
        return f"vldrbq_z_{element}({base} + {index}, vctp8q({active}u))"

    def apply(self, intrinsic: Intrinsic, operands: Sequence[str]) -> str:
        self.intrinsics[intrinsic.name] = intrinsic
        if header := intrinsic.settings.get("header"):
            self.headers.add(header)
        return f"{intrinsic.function}({', '.join(operands)})"

    def operand_types(self, intrinsic: Intrinsic) -> dict[str, str]:
        types = {t.name: self.type(t.dtype, most_elements(t.shape)) for t in intrinsic.inputs}
        return {"result": self.type(intrinsic.dtype, intrinsic.elements), **types}

    def _is_word(self, dtype: str, lanes: int) -> bool:
        return dtypes.bits(dtype) * lanes == _WORD

    def _never(self, what: str) -> str:
        raise internal_error(f"{what} of packed numbers, which are operands alone")


def _element(dtype: str) -> str:
    """The type of an element in names of the compiler's functions: s8, u16 ..."""
    return f"{'s' if dtypes.is_signed(dtype) else 'u'}{dtypes.bits(dtype)}"
