"""C99 for cores that multiply packed integers: several in a register, as operands of intrinsics alone."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects.c_family import C_TYPE, ROLLED, CFamily
from sterna.errors import internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.te.layout import most_elements

#: Bits of a general register, which holds several numbers, and of two; wider ones are the compiler's own vector types.
_WORDS = {32: ("uint32_t", "word"), 64: ("uint64_t", "words")}
#: Bytes to whose multiples two registers are loaded at once.
_PAIR = 4
#: To whose multiples a word is loaded with the one after it.
_EVEN = 8


class Packed(CFamily):
    """Scalars as in C99. The vectors of the loop program are operands of intrinsics that give one number: a word of
    four bytes, two words of numbers of 16 bits, or a vector of 128 bits that the compiler's own functions load."""

    name = "packed"
    vectors = True
    lowerings = "c"
    rolled = ROLLED

    def type(self, dtype: str, lanes: int = 1) -> str:
        if lanes == 1:
            return C_TYPE[dtype]
        return _words(dtype, lanes)[0] or f"{dtype}x{lanes}_t"

    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        if lanes == 1:
            return super().const(value, dtype)
        assert value == 0
        return "0u" if _words(dtype, lanes)[0] else f"vdupq_n_{_element(dtype)}(0)"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return super().bitcast(source, dtype, a, 1) if lanes == 1 else self._never("a bitcast")

    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if lanes > 1 and op == "flip_sign" and dtypes.bits(dtype) * lanes == 32:
            return f"({a} ^ 0x80808080u)"
        return super().unary(op, dtype, a, 1) if lanes == 1 else self._never(op)

    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        return super().cast(source, dtype, a, 1, bits) if lanes == 1 else self._never("a conversion")

    def load(
        self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None, aligned: int = 1
    ) -> str:
        if lanes == 1:
            return super().load(dtype, base, index, 1, 1, None)
        assert stride == 1
        if words := _words(dtype, lanes)[1]:
            address = f"(const uint8_t *)({base} + {index})"
            if active is not None:
                return f"{self.helper(f'load_{words}_part', 'uint8')}({address}, {active * dtypes.size(dtype)})"
            if words == "words" and aligned % _PAIR == 0:
                words = "aligned_words"
            elif words == "word" and aligned % _EVEN == 0:
                words = "even_word"
            return f"{self.helper(f'load_{words}', 'uint8')}({address})"
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

    def _never(self, what: str) -> str:
        raise internal_error(f"{what} of packed numbers, which are operands alone")


def _words(dtype: str, lanes: int) -> tuple[str, str]:
    """The type of so many numbers in general registers, and what functions that load them are called after; nothing
    where they have vectors."""
    return _WORDS.get(dtypes.bits(dtype) * lanes, ("", ""))


def _element(dtype: str) -> str:
    """The type of an element in names of the compiler's functions: s8, u16 ..."""
    return f"{'s' if dtypes.is_signed(dtype) else 'u'}{dtypes.bits(dtype)}"
