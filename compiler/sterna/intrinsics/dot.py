"""Dot products of a few small integers per lane, added to int32 accumulators, and of pairs of 16-bit floats, added to
float32 ones."""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic, Rounding
from sterna.intrinsics.rounding import half_fused, odd_pairs, two_fused
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.couples import coupled_products
from sterna.te.tensor import Tensor, compute, placeholder, reduce_axis, total


def dot_product(lanes: int, group: int, left: str, right: str, dtype: str = "int32") -> Tensor:
    """sum over r of left[lane, r] * right[lane, r]; in int32 exact, and wrapping where it does not fit."""
    a, b = placeholder("a", (lanes, group), left), placeholder("b", (lanes, group), right)
    r = reduce_axis("r", group)

    def element(lane: Int) -> E.Expr:
        return total(E.cast(a[lane, r], dtype) * E.cast(b[lane, r], dtype), r)

    return compute("dot", (lanes,), element, axes=("lane",))


def paired_dot_product(vectors: int, left: str, right: str) -> Tensor:
    """The same for vectors of four lanes and one group of four for all lanes, whose pairs are apart: the right operand
    has, vector by vector, the first pair of every lane, then the second one; the left one the first pair eight times,
    then the second."""
    a, b = placeholder("a", (2, 8, 2), left), placeholder("b", (vectors, 2, 4, 2), right)
    r = reduce_axis("r", 4)

    def element(lane: Int) -> E.Expr:
        first, second = a[r.var // 2, lane, r.var % 2], b[lane // 4, r.var // 2, lane % 4, r.var % 2]
        return total(E.cast(first, "int32") * E.cast(second, "int32"), r)

    lanes = 4 * vectors

    return compute("dot", (lanes,), element, axes=("lane",))


def woven_dot_product(left: str, right: str) -> Tensor:
    """The sum of four products, of one lane: of the right operand first and second half of the group take turns, so
    that its even elements are neighbours in the left one, and its odd ones."""
    a, b = placeholder("a", (1, 4), left), placeholder("b", (1, 2, 2), right)
    r = reduce_axis("r", 4)

    def element(lane: Int) -> E.Expr:
        return total(E.cast(a[lane, r], "int32") * E.cast(b[lane, r.var % 2, r.var // 2], "int32"), r)

    return compute("dot", (1,), element, axes=("lane",))


def coupled_dot_product() -> Tensor:
    """The sum of four products, of one lane, whose weights lie two by two in a number of 16 bits: see `te.couples`."""
    a, b = placeholder("a", (1, 4), "int8"), placeholder("b", (1, 2), "int16")
    r = reduce_axis("r", 2)

    def element(lane: Int) -> E.Expr:
        return total(coupled_products(a[lane, 2 * r.var], a[lane, 2 * r.var + 1], b[lane, r.var]), r)

    return compute("dot", (1,), element, axes=("lane",))


def small_product(rows: int, lanes: int, group: int, left: str, right: str, part: int) -> Tensor:
    """sum over r of left[row, r] * right[lane, r], exact in int32 and wrapping where it does not fit; the right operand
    has so much of the group for every lane, then the next part of it."""
    a, b = placeholder("a", (rows, group), left), placeholder("b", (group // part, lanes, part), right)
    r = reduce_axis("r", group)

    def element(row: Int, lane: Int) -> E.Expr:
        at = (r.var // part, lane, r.var % part)
        return total(E.cast(a[row, r], "int32") * E.cast(b[at], "int32"), r)

    return compute("dot", (rows, lanes), element, axes=("row", "lane"))


#: x86, AVX512_VNNI (512 bits) and AVX512_VNNI with AVX512VL (256 bits), or AVX_VNNI, whose encoding differs.
_VNNI = tuple(
    Intrinsic(
        f"vpdpbusd.{bits}",
        dot_product(bits // 32, 4, "uint8", "int8"),
        template="vpdpbusd",
        settings={"bits": bits},
        needs=needs,
    )
    for bits, needs in ((512, (("avx512vnni",),)), (256, (("avx512vnni", "avx512vl"), ("avxvnni",))))
)


def _pairs(stem: str, bits: int, c: str, llvm: str, feature: str) -> tuple[Intrinsic, ...]:
    """Four products by two instructions that multiply numbers of 16 bits and add neighbours, which is exact: the even
    and the odd bytes of either operand, widened. For both signednesses of the left operand."""
    return tuple(
        Intrinsic(
            f"{stem}.{bits}.{'u8' if left == 'uint8' else 's8'}",
            dot_product(bits // 32, 4, left, "int8"),
            template="pairs",
            settings={"bits": bits, "signed": left == "int8", "c": c, "llvm": llvm},
            spare=4,
            needs=((feature,),),
            latency=1,  # A sum waits for additions alone.
        )
        for left in ("uint8", "int8")
    )


#: x86 since SSE2, by vector width: pmaddwd. Not pmaddubsw, which saturates the sum of two products.
_MADD = (
    *_pairs("pmaddwd", 128, "__builtin_ia32_pmaddwd128", "llvm.x86.sse2.pmadd.wd", "sse2"),
    *_pairs("pmaddwd", 256, "__builtin_ia32_pmaddwd256", "llvm.x86.avx2.pmadd.wd", "avx2"),
    *_pairs("pmaddwd", 512, "__builtin_ia32_pmaddwd512", "llvm.x86.avx512.pmaddw.d.512", "avx512bw"),
)
#: WebAssembly, fixed-width SIMD: i32x4.dot_i16x8_s.
_WASM = _pairs("i32x4.dot_i16x8_s", 128, "__builtin_wasm_dot_s_i32x4_i16x8", "llvm.wasm.dot", "simd128")
#: 64-bit ARM: FEAT_DotProd, and FEAT_I8MM for operands of two signednesses and for products of 2 x 8 by 8 x 2.
_ARM = tuple(
    Intrinsic(
        f"{instruction}.128",
        dot_product(4, 4, left, "int8"),
        template="arm",
        settings={"instruction": instruction, "builtin": builtin},
        needs=((feature,),),
        prepares=0.25,
    )
    for instruction, builtin, left, feature in (
        ("sdot", "vdotq_s32", "int8", "dotprod"),
        ("usdot", "vusdotq_s32", "uint8", "i8mm"),
    )
)
#: 64-bit ARM, FEAT_I8MM: one instruction for each 2 x 8 by 8 x 2, two of them where rows are loaded 16 bytes at a time.
_MMLA = tuple(
    Intrinsic(
        f"{instruction}.128" + (f"x{times}" if times > 1 else ""),
        small_product(2, 2, 8 * times, left, "int8", 8),
        template="mmla",
        settings={"instruction": instruction, "builtin": builtin, "times": times},
        needs=(("i8mm",),),
        instructions=times,
        prepares=2 + times,
    )
    for times in (2, 1)
    for instruction, builtin, left in (("smmla", "vmmlaq_s32", "int8"), ("usmmla", "vusmmlaq_s32", "uint8"))
)
#: NEON, of 64-bit ARM (smull, smlal2, sadalp) and of 32-bit ARM (vmull, vmlal, vpadal): two products added up in 16
#: bits, which hold them as none is 2^14, then pairs of such sums in 32. Of two vectors side by side no instruction
#: waits for the one before it.
_SMLAL = tuple(
    Intrinsic(
        f"{instruction}.128" + (f"x{vectors}" if vectors > 1 else ""),
        paired_dot_product(vectors, "int8", "int8"),
        template=instruction,
        spare=vectors,
        parts=vectors,
        bounds={"b": (-127, 127)},
        needs=(("neon",),),
        instructions=3 * vectors,
        prepares=2.25,
        latency=4 / vectors,
    )
    for instruction in ("smlal", "vmlal")
    for vectors in (2, 1)
)

#: Cortex-M with DSP instructions: the even and the odd bytes of a word widened, two products added up at a time.
_SMLAD = tuple(
    Intrinsic(
        f"smlad.{'u8' if left == 'uint8' else 's8'}",
        dot_product(1, 4, left, "int8"),
        template="smlad",
        settings={"extend": "uxtb16" if left == "uint8" else "sxtb16", "header": "arm_acle.h"},
        needs=(("dsp",),),
        instructions=2,
        prepares=2,
        unpacks=2,
    )
    for left in ("int8", "uint8")
)
#: The same where the left operand is in 16 bits, so that only the bytes on the right are widened.
_SMLAD_WIDE = Intrinsic(
    "smlad.s16",
    woven_dot_product("int16", "int8"),
    template="smlad_wide",
    settings={"header": "arm_acle.h"},
    needs=(("dsp",),),
    instructions=2,
    prepares=0,
    unpacks=2,
)
#: The same where weights lie two by two in 16 bits, which are multiplied as they lie; of four weights two are widened.
_SMLAD_COUPLED = Intrinsic(
    "smlad.coupled",
    coupled_dot_product(),
    template="smlad_coupled",
    settings={"header": "arm_acle.h"},
    bounds={"b": (-127, 127)},
    needs=(("dsp",),),
    couples=2,
    instructions=2,
    prepares=2,
    unpacks=1,
)
#: Cortex-M with Helium: all products of two vectors, of sixteen bytes or of eight numbers of 16 bits, added up into a
#: general register.
_MVE = tuple(
    Intrinsic(
        f"vmladava.s{bits}",
        dot_product(1, 128 // bits, dtype, dtype),
        template="vmladava",
        settings={"header": "arm_mve.h", "bits": bits},
        needs=(("mve",),),
        prepares=0,
    )
    for bits, dtype in ((8, "int8"), (16, "int16"))
)

DOT_PRODUCTS: tuple[Intrinsic, ...] = (
    *_VNNI, *_MADD, *_WASM, *_ARM, *_MMLA, *_SMLAL, *_SMLAD, _SMLAD_WIDE, _SMLAD_COUPLED, *_MVE,
)  # fmt: skip


def _pairs_of_bfloat16(
    name: str, bits: int, template: str, exact: Rounding, needs: tuple[tuple[str, ...], ...], header: str = ""
) -> Intrinsic:
    behaviour = dot_product(bits // 32, 2, "bfloat16", "bfloat16", "float32")
    settings = {"bits": bits, "header": header}
    return Intrinsic(f"{name}.{bits}", behaviour, template=template, settings=settings, needs=needs, exact=exact)


def _fused_halves(name: str, bits: int, feature: str) -> Intrinsic:
    behaviour = dot_product(bits // 16, 1, "float16", "float16", "float16")
    return Intrinsic(f"{name}.{bits}", behaviour, template="fused_halves", needs=((feature,),), exact=half_fused)


#: x86, AVX512_BF16; 64-bit ARM, FEAT_BF16. Both take numbers that are too small for normal ones for zero, and round in
#: ways of their own.
FLOAT_DOT_PRODUCTS: tuple[Intrinsic, ...] = (
    _pairs_of_bfloat16("vdpbf16ps", 512, "vdpbf16ps", two_fused, (("avx512bf16",),), "immintrin.h"),
    _pairs_of_bfloat16("vdpbf16ps", 256, "vdpbf16ps", two_fused, (("avx512bf16", "avx512vl"),), "immintrin.h"),
    _pairs_of_bfloat16("bfdot", 128, "bfdot", odd_pairs, (("bf16",),)),
    # Fused multiply-adds of float16, of twice as many lanes as those of float32: FEAT_FP16; AVX512_FP16.
    _fused_halves("fmla", 128, "fullfp16"),
    _fused_halves("vfmadd231ph", 512, "avx512fp16"),
)
