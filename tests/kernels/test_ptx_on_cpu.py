"""The stand-in for a GPU that runs PTX (`support/ptx_on_cpu.py`) is as strict as the PTX ISA: instructions written by
hand, of which the wrong ones are found."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from support.ptx_on_cpu import translate
from support.tools import need, run

SUPPORT = Path(__file__).parents[1] / "support"
ILLEGAL, UNSEEN = 700, 717
#: A kernel's number by its name, as tests write it: the memory that results go to is its parameter.
ENTRY = """
.visible .entry {name}(
	.param .u64 .ptr .global .align 1 out
)
.reqntid {threads}, 1, 1
{{
	.reg .pred %p<4>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<8>;
	.shared .align 64 .b8 {name}_tile[{bytes}];
	ld.param.b64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 16;
	mov.b64 %rd3, {name}_tile;
	add.s64 %rd4, %rd3, %rd2;
	add.s64 %rd5, %rd1, %rd2;
	{body}
	ret;
}}
"""
#: 8 halves, 1.0 each, of every thread.
ONES = "mov.b32 %r2, 0x3C003C00; st.shared.v4.b32 [%rd4], {%r2, %r2, %r2, %r2};"
FRAGMENT = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}"
SUMS = "{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}"
ZEROS = " ".join(f"mov.b32 %r{n}, 0;" for n in range(20, 28))
#: Of 16 x 16 ones by themselves.
SQUARE = f"""{ZEROS}
	wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {FRAGMENT}, [%rd3], 16;
	wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {SUMS}, {FRAGMENT}, {FRAGMENT}, {SUMS};
	mov.b32 %r3, 16;
	wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {SUMS}, %r3;"""
#: Of 64 x 16 ones by 16 x 8, of which the second factor is the beginning of the first.
GROUP = """wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23}, %rd6, %rd6, %p1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;"""
DESCRIPTOR = """setp.ne.b32 %p1, 1, 0;
	bfe.u64 %rd6, %rd3, 4, 14;
	add.s64 %rd6, %rd6, 34363932672;
	fence.proxy.async.shared::cta;
	bar.sync 0;"""
SHOW = "st.global.v4.b32 [%rd5], {%r20, %r21, %r22, %r23};"
FENCE = "wgmma.fence.sync.aligned;"


def waiting(many: int) -> str:
    return f"wgmma.wait_group.sync.aligned {many};"


KERNELS = {
    "conversions": (1, 64, """mov.b32 %r4, 0f7FC00000;
	mov.b64 %rd7, 0d7FF8000000000000;
	cvt.rzi.s32.f32 %r5, %r4; cvt.rzi.s32.f64 %r6, %rd7;
	cvt.rzi.s64.f32 %rd6, %r4;
	st.global.b32 [%rd5], %r5; st.global.b32 [%rd5+4], %r6; st.global.b64 [%rd5+8], %rd6;"""),
    "inside": (1, 64, "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%rd4+48];"),
    "beyond": (1, 64, "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%rd4+64];"),
    "unwritten": (1, 64, "ld.shared.b32 %r4, [%rd4]; st.global.b32 [%rd5], %r4;"),
    "before": (1, 64, "ld.global.nc.b32 %r4, [%rd5]; st.global.b32 [%rd5], %r4;"),
    "behind": (1, 64, "st.global.b32 [%rd5], %r1; ld.global.nc.b32 %r4, [%rd5];"),
    "met": (32, 512, f"{ONES} bar.sync 0; {SQUARE}"),
    "unmet": (32, 512, f"{ONES} {SQUARE}"),
    "waited": (128, 2048, f"{ONES} {ZEROS} {DESCRIPTOR} {FENCE} {GROUP} {GROUP} {waiting(0)} {SHOW}"),
    "going": (128, 2048, f"{ONES} {ZEROS} {DESCRIPTOR} {FENCE} {GROUP} {GROUP} {waiting(1)} {SHOW} {waiting(0)}"),
    "unfenced": (128, 2048, f"{ONES} {ZEROS} {DESCRIPTOR} {GROUP} {waiting(0)} {SHOW}"),
    "again": (128, 2048, f"{ONES} {ZEROS} {DESCRIPTOR} {FENCE} {GROUP} {waiting(0)} {GROUP} {waiting(0)} {SHOW}"),
    "few": (96, 2048, f"{ONES} {ZEROS} {DESCRIPTOR} {FENCE} {GROUP} {waiting(0)} {SHOW}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("ptx")
    text = "".join(ENTRY.format(name=n, threads=t, bytes=b, body=body) for n, (t, b, body) in KERNELS.items())
    (folder / "kernels.cpp").write_text(translate(text.replace("; ", ";\n\t")))
    flags = ("-std=gnu++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w", f"-I{SUPPORT}")
    run(need("g++", "compiles what PTX is translated to"), *flags, folder / "kernels.cpp", "-o", folder / "kernels.so")
    return ctypes.CDLL(str(folder / "kernels.so"))


def launched(library: ctypes.CDLL, name: str) -> tuple[int, np.ndarray]:
    """What a launch gives, and what it wrote."""
    threads = KERNELS[name][0]
    room = np.full(1024 + 16, 0x5A5A5A5A, np.uint32)
    out = room[-room.ctypes.data % 64 // 4 :]
    at = ctypes.c_uint64(out.ctypes.data)
    place, block = (ctypes.c_uint * 3)(1, 1, 1), (ctypes.c_uint * 3)(threads, 1, 1)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(at))
    return getattr(library, f"ptx_launch_{name}")(place, block, 1, 0, arguments), out


def test_conversions_of_nothing(library: ctypes.CDLL) -> None:
    """Of NaN: 0, but the upper bit alone where one of the types has 64 bits (PTX ISA, `cvt`)."""
    status, out = launched(library, "conversions")
    assert status == 0
    assert [hex(word) for word in out[:4]] == ["0x0", "0x80000000", "0x0", "0x80000000"]


def test_reading_beyond_shared_memory(library: ctypes.CDLL) -> None:
    assert launched(library, "inside")[0] == 0
    assert launched(library, "beyond")[0] == ILLEGAL


def test_shared_memory_has_anything_at_first(library: ctypes.CDLL) -> None:
    status, out = launched(library, "unwritten")
    assert (status, out[0]) == (0, 0x7E7E7E7E)


def test_what_is_written_is_not_read_as_what_nobody_writes(library: ctypes.CDLL) -> None:
    """Memory that `ld.global.nc` reads may not be written while the kernel runs."""
    assert launched(library, "before")[0] == 0
    assert launched(library, "behind")[0] == ILLEGAL


def test_fragments_order_no_accesses(library: ctypes.CDLL) -> None:
    """What other threads of the warp have written is read behind a barrier only."""
    status, out = launched(library, "met")
    assert status == 0
    assert (out[:256].view(np.float32) == 16).all()
    status, out = launched(library, "unmet")
    assert status == 0
    assert not (out[:256].view(np.float32) == 16).all()


def test_products_of_warpgroups(library: ctypes.CDLL) -> None:
    """They end when they are waited for; registers that something else had meanwhile have to be fenced; a group is four
    warps."""
    status, out = launched(library, "waited")
    assert status == 0
    assert (out[:512].view(np.float32) == 32).all()
    status, out = launched(library, "going")
    assert status == 0
    assert (out[:512].view(np.float32) == 16).all()
    assert [launched(library, name)[0] for name in ("unfenced", "again", "few")] == [UNSEEN] * 3
