"""Products of warpgroups in LLVM assembly for PTX: `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix
Multiply-Accumulate"), of Hopper alone.

The four warps of a group hold the sums; both factors lie in shared memory, in blocks without swizzling, of which a
descriptor says where they are. An instruction begins, and goes on while the threads do other things, until it is waited
for; meanwhile nothing names the registers of the sums but what takes and gives them here. LLVM 22 has no intrinsics for
these instructions, which are inline assembly.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.llvm_function import FunctionWriter
from sterna.codegen.tiles import TileOperation
from sterna.intrinsics.fragment import BLOCK, ROWS, TERMS
from sterna.ir import dtypes
from sterna.te import expr as E

#: LLVM's number of the address space of a block's memory.
SHARED = 3
#: Bytes of a block: eight rows of 16 bytes.
_BLOCK_BYTES = 128
#: Sums of a row that a thread holds side by side, and rows and threads of a part of the result that is one warp's.
_PAIR, _WARP_ROWS, _ROW_THREADS = 2, 16, 4
#: What stands for the registers of threads, before the name.
_SPECIAL = "llvm.nvvm.read.ptx.sreg."


class WarpgroupWriter(FunctionWriter):
    """Writes functions in which warpgroups hold sums."""

    def special(self, register: str) -> str:
        """A register of the thread's place, read at entry."""
        self.values.declarations.add(f"declare i32 @{_SPECIAL}{register}()")
        return self.in_entry(f"call i32 @{_SPECIAL}{register}()")

    def visible_to_products(self) -> None:
        """What this thread has written to shared memory is seen by what multiplies there, once others have waited
        (PTX ISA, "Async proxy")."""
        self.do('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"() convergent')

    def multiplied_in_memory(self, call: TileOperation, sums: str, struct: str) -> None:
        """Adds a product to the sums that a variable has."""
        settings = call.intrinsic.settings
        factors = [self._descriptors(call, n) for n in (0, 1)]
        many = struct.count("float")
        registers = ", ".join(f"${n}" for n in range(many))
        turned = f"{int(settings['orders'][0] == 'col')}, {int(settings['orders'][1] == 'row')}"
        name = f"wgmma.mma_async.sync.aligned.{settings['shape']}.f32.{settings['type']}.{settings['type']}"
        lines = ["{", ".reg .pred on;", "setp.ne.b32 on, 1, 0;", "wgmma.fence.sync.aligned;"]
        for n in range(settings["times"]):
            left, right = (many + 2 * n + side for side in (0, 1))
            lines.append(f"{name} {{{registers}}}, ${left}, ${right}, on, 1, 1, {turned};")
        lines += ["wgmma.commit_group.sync.aligned;", "}"]
        given = [f"i64 {each}" for pair in zip(*factors, strict=True) for each in pair]
        self._with_sums(lines, given, sums, struct)

    def settled(self, in_flight: int, sums: str, struct: str) -> None:
        """Waits for all products but the last few; the sums of a variable are then what they say."""
        self._with_sums([f"wgmma.wait_group.sync.aligned {in_flight};"], [], sums, struct)

    def _with_sums(self, lines: Sequence[str], given: Sequence[str], sums: str, struct: str) -> None:
        """Inline assembly that has the sums of a variable in $0, $1 ..., and then what is given."""
        many = struct.count("float")
        whole = self.op(f"load {struct}, ptr {sums}")
        held = [f"float {self.op(f'extractvalue {struct} {whole}, {n}')}" for n in range(many)]
        constraints = [*["=f"] * many, *["l"] * len(given), *map(str, range(many)), "~{memory}"]
        text, bound = "\\0A\\09".join(lines), ",".join(constraints)
        # All threads of a warp run it together (`.aligned`): LLVM may not let fewer of them come to it.
        found = self.op(f'call {struct} asm sideeffect "{text}", "{bound}"({", ".join([*given, *held])}) convergent')
        self.do(f"store {struct} {found}, ptr {sums}")

    def _descriptors(self, call: TileOperation, side: int) -> list[str]:
        """Of the parts of a factor that the instructions of a product multiply (PTX ISA, "Matrix Descriptor Format"):
        16 bytes are counted of where it begins, and of the distances to the next block of terms, and of rows or
        columns."""
        load = call.operands[side]
        assert not isinstance(load.tensor, E.Expr)
        by_terms = call.intrinsic.settings["orders"][side] == ("row", "col")[side]
        pitch = load.pitch * dtypes.size(load.dtype)
        terms, across = (pitch, _BLOCK_BYTES) if by_terms else (_BLOCK_BYTES, pitch)
        place = self.address(load.tensor, load.indices[0])  # type: ignore[arg-type]
        place = self.op(f"addrspacecast ptr {place} to ptr addrspace({SHARED})")
        place = self.op(f"zext i32 {self.op(f'ptrtoint ptr addrspace({SHARED}) {place} to i32')} to i64")
        place = self.op(f"and i64 {self.op(f'lshr i64 {place}, 4')}, {(1 << 14) - 1}")
        first = self.op(f"or i64 {place}, {terms // 16 << 16 | across // 16 << 32}")
        step = TERMS // BLOCK * terms // 16
        rest = range(1, call.intrinsic.settings["times"])
        return [first, *(self.op(f"add i64 {first}, {n * step}") for n in rest)]

    def stored_by_warpgroup(self, parts: list[str], place: str, space: int, stride: int) -> None:
        """Stores sums, of which a thread has pairs of two rows (PTX ISA, "Register Fragments" of wgmma: the matrix D).

        Args:
            place: where they begin, in an address space; stride: bytes from row to row.
        """
        thread = self.special("tid.x")
        lane, warp = self.op(f"and i32 {thread}, 31"), self.op(f"lshr i32 {thread}, 5")
        warp = self.op(f"and i32 {warp}, {ROWS // _WARP_ROWS - 1}")
        row = self.op(f"lshr i32 {lane}, {_ROW_THREADS.bit_length() - 1}")
        row = self.op(f"add i32 {row}, {self.op(f'mul i32 {warp}, {_WARP_ROWS}')}")
        column = self.op(f"and i32 {lane}, {_ROW_THREADS - 1}")
        at = self.op(f"mul i32 {row}, {stride}")
        at = self.op(f"add i32 {at}, {self.op(f'mul i32 {column}, {_PAIR * 4}')}")
        first = self.op(f"getelementptr i8, ptr addrspace({space}) {place}, i32 {at}")
        for n in range(0, len(parts), _PAIR):
            block, below = divmod(n // _PAIR, 2)
            bytes_ = below * BLOCK * stride + block * BLOCK * 4
            pair = self.op(f"insertelement <2 x float> poison, {parts[n]}, i32 0")
            pair = self.op(f"insertelement <2 x float> {pair}, {parts[n + 1]}, i32 1")
            to = self.op(f"getelementptr i8, ptr addrspace({space}) {first}, i32 {bytes_}") if bytes_ else first
            self.do(f"store <2 x float> {pair}, ptr addrspace({space}) {to}, align 8")
