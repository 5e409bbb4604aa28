"""Fragments of matrices in LLVM assembly for PTX: `wmma` (PTX ISA, "Warp-level Matrix Multiply-Accumulate").

A thread's part of a fragment is a structure in a variable, which LLVM makes registers of. No statement names a part of
it: which elements of the matrix they are is not said. Operands that are rounded are so when they are loaded.
"""

from __future__ import annotations

from sterna.codegen.ptx_warpgroups import WarpgroupWriter
from sterna.codegen.tiles import TileOperation, refuse_without_tiles
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.loops import program as P
from sterna.loops.program import Buffer

#: What the accumulators of a type are, and PTX's word for them.
_SUMS, _KINDS = {"float32": "float", "int32": "i32"}, {"float32": "f32", "int32": "s32"}
#: The address space of the device's memory.
_GLOBAL = 1


class FragmentWriter(WarpgroupWriter):
    """Writes functions in which subgroups hold tiles."""

    def configured(self, s: P.Tiles) -> None:
        """Room for the fragments, and the body."""
        refuse_without_tiles(s.intrinsic, self.target)
        self.held = s
        self.fragments = [self.in_entry(f"alloca {self._struct(operand)}") for operand in s.operands]
        self.statement(s.body)

    def tile(self, call: TileOperation) -> None:
        held, (first, *_) = self.held, call.tiles
        assert held is not None
        settings, unit = held.intrinsic.settings, held.intrinsic.tiles
        assert unit is not None
        shape, word, orders = settings["shape"], settings["type"], settings["orders"]
        operand, name = held.operands[first], f"llvm.nvvm.wmma.{shape}"
        if call.operation == "zero":
            self.do(f"store {self._struct(operand)} zeroinitializer, ptr {self.fragments[first]}")
        elif unit.in_memory and call.operation == "multiply":
            self.multiplied_in_memory(call, self.fragments[first], self._struct(0))
        elif unit.in_memory:
            assert call.memory is not None
            place, _ = self._memory(call)
            self.stored_by_warpgroup(
                self._parts(first), place.rpartition(" ")[2], address_space(call.memory[0]), call.stride
            )
        elif call.operation == "load":
            side, order = "ab"[operand - 1], orders[operand - 1]
            found = self._called(f"{name}.load.{side}.{order}.stride.{word}", self._struct(operand), self._memory(call))
            if held.intrinsic.settings["rounding"]:
                found = self._rounded(self._struct(operand), found, settings["parts"])
            self.do(f"store {self._struct(operand)} {found}, ptr {self.fragments[first]}")
        elif call.operation == "store":
            place, stride = self._memory(call)
            kind = _KINDS[held.intrinsic.dtype]
            self._called(f"{name}.store.d.row.stride.{kind}", "void", [place, *self._parts(first), stride])
        else:
            kinds = "f32.f32" if word == "f16" else word
            parts = [part for tile in (*call.tiles[1:], first) for part in self._parts(tile)]
            found = self._called(f"{name}.mma.{'.'.join(orders)}.{kinds}", self._struct(0), parts)
            self.do(f"store {self._struct(0)} {found}, ptr {self.fragments[first]}")

    def settle(self, s: P.Settle) -> None:
        assert self.held is not None
        for n, operand in enumerate(self.held.operands):
            if operand == 0:
                self.settled(s.in_flight, self.fragments[n], self._struct(0))

    def _rounded(self, struct: str, whole: str, parts: int) -> str:
        """A fragment of float32 whose parts are rounded to TF32 (PTX ISA, `cvt.rna.tf32.f32`)."""
        self.values.declarations.add("declare i32 @llvm.nvvm.f2tf32.rna(float)")
        found = "poison"
        for n in range(parts):
            part = self.op(f"bitcast i32 {self.op(f'extractvalue {struct} {whole}, {n}')} to float")
            part = self.op(f"call i32 @llvm.nvvm.f2tf32.rna(float {part})")
            found = self.op(f"insertvalue {struct} {found}, i32 {part}, {n}")
        return found

    def _part(self, operand: int) -> tuple[str, int]:
        """The type of what a thread holds of an operand of the intrinsic, and how many of them."""
        assert self.held is not None
        intrinsic, unit = self.held.intrinsic, self.held.intrinsic.tiles
        assert unit is not None
        if operand == 0:
            return _SUMS[intrinsic.dtype], intrinsic.elements // unit.threads
        return intrinsic.settings["part"], intrinsic.settings["parts"]

    def _struct(self, operand: int) -> str:
        part, parts = self._part(operand)
        return f"{{ {', '.join([part] * parts)} }}"

    def _parts(self, tile: int) -> list[str]:
        """The parts of a fragment, as operands."""
        assert self.held is not None
        operand = self.held.operands[tile]
        (part, parts), struct = self._part(operand), self._struct(operand)
        whole = self.op(f"load {struct}, ptr {self.fragments[tile]}")
        return [f"{part} {self.op(f'extractvalue {struct} {whole}, {n}')}" for n in range(parts)]

    def _memory(self, call: TileOperation) -> list[str]:
        """Where a tile begins, in the address space that it lies in, and elements from row to row."""
        assert call.memory is not None
        buffer, index = call.memory
        space = address_space(buffer)
        place = self.op(f"addrspacecast ptr {self.address(buffer, index)} to ptr addrspace({space})")
        return [f"ptr addrspace({space}) {place}", f"i32 {call.stride // dtypes.size(buffer.dtype)}"]

    def _called(self, name: str, result: str, operands: list[str]) -> str:
        kinds = [operand.rpartition(" ")[0] for operand in operands]
        spaces = [kind.rpartition("(")[2][:-1] for kind in kinds if kind.startswith("ptr")]
        name = ".".join([name, *(f"p{space}" for space in spaces)])
        self.values.declarations.add(f"declare {result} @{name}({', '.join(kinds)})")
        call = f"call {result} @{name}({', '.join(operands)})"
        if result == "void":
            self.do(call)
            return ""
        return self.op(call)


def address_space(buffer: Buffer) -> int:
    """LLVM's number of the address space that a buffer lies in."""
    scope = buffer.scope
    return scope.address_space if isinstance(scope, Memory) and not scope.in_scratch else _GLOBAL
