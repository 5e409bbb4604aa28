"""C with the vector types of clang and gcc: `f32x16`, and its unaligned twin `f32x16u` for memory."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects.c_family import C_TYPE, ROLLED, CFamily, short
from sterna.codegen.instructions import InstructionOperand, instruction_text, lowering
from sterna.codegen.machine import find_idioms
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.loops.program import Buffer
from sterna.te.layout import most_elements


class VectorC(CFamily):
    """Vectors are values; a mask is a vector of signed integers. Tiles are calls of the processor's own functions."""

    name = "vector"
    vectors = True
    lowerings = "c"
    rolled = ROLLED

    def type(self, dtype: str, lanes: int = 1) -> str:
        if lanes == 1:
            return C_TYPE[dtype]
        self.helpers[("type", dtype, lanes)] = None
        return f"{short(dtype)}x{lanes}"

    def mask_type(self, bits: int, lanes: int) -> str:
        """The type of a comparison's result."""
        return self.type(f"int{bits}", lanes)

    def truth_type(self, lanes: int, bits: int) -> str:
        return "int" if lanes == 1 else self.mask_type(bits, lanes)

    def allocate(self, buffer: Buffer, begin: str, shared: bool) -> str:
        text = super().allocate(buffer, begin, shared)
        return text if buffer.scope.in_scratch else text.replace(";", " STERNA_ALIGNED;")

    def prefetch(self, name: str, index: str) -> str:
        return f"__builtin_prefetch({name} + {index});"

    # -- values
    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str:
        text = super().const(value, dtype)
        return text if lanes == 1 else self.broadcast(dtype, text, lanes)

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
        self.mask_type(dtypes.bits(dtype), lanes)
        return f"{self.helper(op, dtype, lanes, needs=('select',) if op in ('abs', 'sign') else ())}({a})"

    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        if lanes == 1:
            return super().binary(op, dtype, a, b, 1)
        if op in ("high_product", "upper_product", "round_shift", "short_product", "shift_left_any", "shift_right_any"):
            self.type(dtype, lanes)
            return f"{self.helper(op, dtype, lanes)}({a}, {b})"
        if op in ("mod", "floor_div") or (op == "div" and dtypes.is_integer(dtype)):
            self.type(dtype, lanes)
            self.helper(op, dtype)
            return f"{self.helper(op, dtype, lanes)}({a}, {b})"
        if op in ("minimum", "maximum"):
            self.type(dtype, lanes)
            self.mask_type(dtypes.bits(dtype), lanes)
            return f"{self.helper(op, dtype, lanes, needs=('select',))}({a}, {b})"
        return self.infix(op, a, b)

    def compare(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        text = super().compare(op, dtype, a, b, lanes)
        return text if lanes == 1 else self._mask(text, dtype, lanes)

    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, bits: int) -> str:
        if lanes == 1:
            return super().select(dtype, condition, a, b, 1, bits)
        self.type(dtype, lanes)
        own = dtypes.bits(dtype)
        self.mask_type(own, lanes)
        if bits != own:
            condition = self.mask_cast(condition, lanes, own)
        return f"{self.helper('select', dtype, lanes)}({condition}, {a}, {b})"

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if lanes > 1:
            self.type(dtype, lanes)
        return super().fma(dtype, a, b, c, lanes)

    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        if lanes == 1:
            return super().cast(source, dtype, a, 1, bits)
        if source in dtypes.HALVES or dtype in dtypes.HALVES:
            for needed in (source, dtype, "uint32", "int32"):
                self.type(needed, lanes)
            small, name = (source, "widen") if dtype == "float32" else (dtype, "narrow")
            return f"{self.helper(name, small, lanes)}({a})"
        if dtype == "bool":
            return self._mask(f"({a} != {self.const(0, source, lanes)})", source, lanes)
        if source == "bool":
            return self._convert(f"{a} & 1", self.type(dtype, lanes))
        self.type(source, lanes)
        if dtypes.is_float(source) and dtypes.is_integer(dtype):
            self.helpers[("to_integer", source, lanes)] = None
            self.type(dtype, lanes)
            self.mask_type(dtypes.bits(source), lanes)
            return f"{self.helper(f'to_{short(dtype)}', source, lanes)}({a})"
        if find_idioms(self.target, f"from_{source}", dtype, lanes):
            self.type(dtype, lanes)
            return f"{self.helper(f'from_{source}', dtype, lanes)}({a})"
        return self._convert(a, self.type(dtype, lanes))

    def nearest(self, dtype: str, a: str, zero: int, lanes: int) -> str:
        for needed, count in (("float32", lanes), (dtype, lanes)):
            self.type(needed, count)
        return f"{self.helper('nearest', dtype, lanes)}({a}, {zero})"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return super().bitcast(source, dtype, a, 1) if lanes == 1 else f"({self.type(dtype, lanes)}){a}"

    def _convert(self, a: str, type_: str) -> str:
        return f"__builtin_convertvector({a}, {type_})"

    # -- vectors
    def lane(self, a: str, lane: int) -> str:
        return f"{a}[{lane}]"

    def part(self, dtype: str, a: str, first: int, lanes: int) -> str:
        self.type(dtype, lanes)
        order = ", ".join(str(first + n) for n in range(lanes))
        return f"{self.helper('part', dtype, lanes)}({a}, {order})"

    def broadcast(self, dtype: str, a: str, lanes: int) -> str:
        self.type(dtype, lanes)
        return f"{self.helper('splat', dtype, lanes)}({a})"

    def repeat(self, dtype: str, a: str, count: int, lanes: int) -> str:
        word = f"int{count * dtypes.bits(dtype)}"
        scalar = f"({C_TYPE[word]})({a})"
        return f"({self.type(dtype, lanes)}){self.broadcast(word, scalar, lanes // count)}"

    def assemble(self, dtype: str, elements: Sequence[str]) -> str:
        return f"({self.type(dtype, len(elements))}){{{', '.join(elements)}}}"

    def blend(self, dtype: str, a: str, b: str, active: int, lanes: int) -> str:
        self.type(dtype, lanes)
        order = ", ".join(str(n if n < active else lanes + n) for n in range(lanes))
        return f"{self.helper('blend', dtype, lanes)}({a}, {b}, {order})"

    def shuffle(self, dtype: str, operands: Sequence[str], order: Sequence[int]) -> str:
        lanes = len(order)
        self.type(dtype, lanes)
        a, b = operands[0], operands[-1]
        return f"{self.helper('shuffle', dtype, lanes)}({a}, {b}, {', '.join(map(str, order))})"

    def apply(self, intrinsic: Intrinsic, operands: Sequence[str]) -> str:
        """A call of the intrinsic's function, which the file will define; where the target does not have it and nothing
        is added up in a lane, the operation itself."""
        if intrinsic.group == 1 and intrinsic.template and not self.target.has(intrinsic):
            lanes = intrinsic.lanes
            c, a, b = (self.cast(intrinsic.dtype, "float32", x, lanes, 0) for x in operands)
            return self.cast("float32", intrinsic.dtype, self.fma("float32", a, b, c, lanes), lanes, 0)
        self.intrinsics[intrinsic.name] = intrinsic
        self.operand_types(intrinsic)
        if self.target.has(intrinsic) and (header := intrinsic.settings.get("header")):
            self.headers.add(header)
        return f"{intrinsic.function}({', '.join(operands)})"

    def operand_types(self, intrinsic: Intrinsic) -> dict[str, str]:
        types = {t.name: self.type(t.dtype, most_elements(t.shape)) for t in intrinsic.inputs}
        return {"result": self.type(intrinsic.dtype, intrinsic.elements), **types}

    def function(self, intrinsic: Intrinsic) -> str:
        found = lowering(intrinsic, self.lowerings, self.target)
        if found.header:
            self.headers.add(found.header)
        types = self.operand_types(intrinsic)
        result = types.pop("result")
        if intrinsic.accumulates:
            types = {intrinsic.behaviour.name: result, **types}
        parameters = ", ".join(f"{type_} {name}" for name, type_ in types.items())
        text = instruction_text(found.text, {name: InstructionOperand(name) for name in types})
        return f"STERNA_INLINE {result} {intrinsic.function}({parameters}) {{\n  return ({result})({text});\n}}"

    # -- masks
    def _mask(self, comparison: str, dtype: str, lanes: int) -> str:
        """A comparison of vectors as a mask. Of bytes, clang makes a vector of `char`, which has no sign on some
        processors: widened to another mask, its -1 would be 255."""
        return f"({self.mask_type(8, lanes)}){comparison}" if dtypes.bits(dtype) == 8 else comparison

    def truth(self, byte: str, lanes: int) -> str:
        text = super().truth(byte, lanes)
        return text if lanes == 1 else self._mask(text, "uint8", lanes)

    def mask_const(self, value: bool, lanes: int) -> str:
        return self.broadcast("int8", "-1" if value else "0", lanes)

    def mask_of(self, truths: Sequence[str]) -> str:
        return self.assemble("int8", [f"(int8_t)-({truth})" for truth in truths])

    def mask_splat(self, truth: str, lanes: int) -> str:
        return self.broadcast("int8", f"(int8_t)-({truth})", lanes)

    def mask_cast(self, mask: str, lanes: int, bits: int) -> str:
        return self._convert(mask, self.mask_type(bits, lanes))

    def mask_select(self, condition: str, a: str, b: str) -> str:
        return f"(({condition} & {a}) | (~{condition} & {b}))"

    def mask_blend(self, a: str, b: str, active: int, lanes: int, bits: int) -> str:
        head = ", ".join("-1" if n < active else "0" for n in range(lanes))
        constant = f"({self.mask_type(bits, lanes)}){{{head}}}"
        return f"(({a} & {constant}) | ({b} & ~{constant}))"

    # -- memory
    def load(
        self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None, aligned: int = 1
    ) -> str:
        if lanes == 1:
            return super().load(dtype, base, index, 1, 1, None)
        vector = self.type(dtype, lanes)
        if stride == 1 and active is None:
            return f"*(const {vector}u *)({base} + {index})"
        if stride == 1:
            # What is as long as a shorter vector is one load anyway.
            name = "load_front" if active is not None and active.bit_count() == 1 else "load_part"
            return f"{self.helper(name, dtype, lanes)}({base} + {index}, {active})"
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

    def byte(self, truth: str, lanes: int) -> str:
        return super().byte(truth, 1) if lanes == 1 else self._convert(f"{truth} & 1", self.type("uint8", lanes))
