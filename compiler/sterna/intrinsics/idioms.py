"""Operations of values for which some processors have an instruction, or a shorter way than arithmetic.

An operation of `te.expr` means the same everywhere, and every generator can write it in plain arithmetic. An idiom is
how a processor with certain features does it at certain widths; its behaviour is the operation's, and a test holds each
lowering to it. Which ones apply follows from a target's features, never from its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sterna.ir import dtypes

#: Code that LLVM makes instructions of where a processor converts between float32 and float16: result, body, operands.
HALF_CONVERSION = ("float", "  %h = fptrunc float %a0 to half\n  %r = fpext half %h to float", ("float",))


@dataclass(frozen=True)
class Idiom:
    """One processor family's way of an operation.

    Args:
        operation: of `te.expr.UNARY` or `BINARY`; "fma"; "to_int32" and the like, conversions of a float that clamp;
            "from_int8" and the like, conversions of integers;
            "widen" and "narrow", between a float of 16 bits and float32; "nearest", `te.expr.Nearest`, of a vector $a
            of float32 and the zero point $b (in LLVM the least float, four times, and c, the zero point, eight times);
            "load_part", the first $b elements of a vector at the address $a, and zeros; "load_front", a power of two of
            them.
        dtype: of the operands; of "narrow" and "nearest", of the result.
        lanes: how many elements it takes, 0 for any number.
        parts: whether vectors of twice as many lanes, four times and so on are done in parts.
        needs: features, by the names of `targets.features`; each member is enough.
        probe: code for LLVM to be asked whether the processor has instructions for it: HALF_CONVERSION.
        c: a C expression of the operands $a, $b, $c, after the statements `c_before`; in both, $T stands for the vector
            type, $bytes for its size, $lanes for its lanes, $S for the element type. Empty: C's own way will do.
        c_when: what the preprocessor must find beside the features: compilers differ in what they call things.
        c_header: included where `c_when` holds.
        llvm: instructions, `name = ...`, the last one named r. Braces name operands (a, b, c), earlier instructions,
            types (T of the operands, R of the result, pairs of 16 bits, halves, words of 16 bits), their suffixes in
            intrinsics' names (S, RS), and `mask`, a vector of that number. Empty: LLVM finds the instruction itself.
    """

    operation: str
    dtype: str
    lanes: int
    needs: tuple[tuple[str, ...], ...] = ((),)
    probe: tuple[str, str, tuple[str, ...]] | None = None
    c: str = ""
    c_before: tuple[str, ...] = ()
    c_when: str = ""
    c_header: str = ""
    llvm: tuple[str, ...] = ()
    mask: int = 0
    parts: bool = False

    def takes(self, lanes: int) -> bool:
        """Whether it serves vectors of so many lanes."""
        if not self.lanes or lanes == self.lanes:
            return True
        return self.parts and lanes % self.lanes == 0 and (lanes // self.lanes).bit_count() == 1


def _fused() -> Iterable[Idiom]:
    """Fused multiply-add under a name of its own: WebAssembly's relaxed SIMD, of 128 bits; compilers of C for x86 that
    lack the generic built-in function."""
    for dtype, name, lanes in (("float32", "f32x4", 4), ("float64", "f64x2", 2)):
        yield Idiom(
            "fma", dtype, lanes, (("relaxed-simd",),),
            c=f"__builtin_wasm_relaxed_madd_{name}($a, $b, $c)",
            llvm=("r = call {T} @llvm.wasm.relaxed.madd.{S}({T} {a}, {T} {b}, {T} {c})",),
            parts=True,
        )  # fmt: skip
    for bits, feature in ((128, "fma"), (256, "fma"), (512, "avx512f")):
        width = "" if bits == 128 else str(bits)
        for dtype, letter in (("float32", ""), ("float64", "d")):
            t = f"(__m{bits}{letter})"
            yield Idiom(
                "fma", dtype, bits // dtypes.bits(dtype), ((feature,),),
                c=f"($T)_mm{width}_fmadd_p{letter or 's'}({t}$a, {t}$b, {t}$c)",
                c_when="!__has_builtin(__builtin_elementwise_fma)", c_header="immintrin.h",
            )  # fmt: skip


def _extrema() -> Iterable[Idiom]:
    """Extrema that are NaN where an operand is: instructions of ARM and WebAssembly. x86 gives the second operand then,
    which clang does not see in a comparison of C. WebAssembly's pmin and pmax, one instruction of x86 where its own min
    and max are eight, give the first: all bits set, where the second is NaN, is NaN too."""
    for operation in ("minimum", "maximum"):
        short = f"p{operation[:3]}"
        for dtype, name, lanes in (("float32", "f32x4", 4), ("float64", "f64x2", 2)):
            mask = f"typedef int{name[1:3]}_t mask __attribute__((vector_size($bytes)));"
            yield Idiom(
                operation, dtype, lanes, (("simd128",),),
                c=f"($T)((mask)__builtin_wasm_{short}_{name}($a, $b) | (mask)($b != $b))", c_before=(mask,),
                llvm=(
                    f"one = call {{T}} @llvm.wasm.{short}.{{S}}({{T}} {{a}}, {{T}} {{b}})",
                    "none = fcmp uno {T} {b}, {b}",
                    f"r = select <{lanes} x i1> {{none}}, {{T}} {{b}}, {{T}} {{one}}",
                ),
                parts=True,
            )  # fmt: skip
        for dtype in ("float32", "float64"):
            whole = f"__builtin_elementwise_{operation}"
            for feature, c in (("aarch64", f"{whole}($a, $b)"), ("wasm32", "")):
                yield Idiom(
                    operation, dtype, 0, ((feature,),), c=c, c_when=f"__has_builtin({whole})" if c else "",
                    llvm=(f"r = call {{T}} @llvm.{operation}.{{S}}({{T}} {{a}}, {{T}} {{b}})",),
                )  # fmt: skip
        for lanes, feature, name, rounding in (
            (4, "sse2", "", ""),
            (8, "avx", "256", ""),
            (16, "avx512f", "512", ", 4"),
        ):
            call = f"__builtin_ia32_{operation[:3]}ps{name}($b, $a{rounding})"
            yield Idiom(
                operation, "float32", lanes, ((feature,),),
                c=f"select_f32x{lanes}((i32x{lanes})($b != $b), $b, {call})", c_when="defined(__clang__)",
            )  # fmt: skip


def _conversions() -> Iterable[Idiom]:
    """Float to integer with the ends clamped to: ARM and WebAssembly, from 32 bits on. Halves: F16C, NEON."""
    for source in ("float32", "float64"):
        for dtype in ("int32", "int64", "uint32", "uint64"):
            call = f"llvm.fpto{'s' if dtypes.is_signed(dtype) else 'u'}i.sat.{{RS}}.{{S}}"
            yield Idiom(
                f"to_{dtype}", source, 0, (("aarch64",), ("wasm32",)), llvm=(f"r = call {{R}} @{call}({{T}} {{a}})",)
            )
    yield Idiom(
        "widen", "float16", 0, probe=HALF_CONVERSION, c="__builtin_convertvector((half)$a, f32x$lanes)",
        c_before=("typedef _Float16 half __attribute__((vector_size($bytes)));",), c_when="defined(__FLT16_MAX__)",
        llvm=("half = bitcast {T} {a} to {halves}", "r = fpext {halves} {half} to {R}"),
    )  # fmt: skip
    yield Idiom(
        "narrow", "float16", 0, probe=HALF_CONVERSION,
        llvm=("half = fptrunc {T} {a} to {halves}", "r = bitcast {halves} {half} to {R}"),
    )  # fmt: skip
    # CUDA's own header has functions for these; the instruction needs no header.
    for operation, instruction, result, to, of in (
        ("widen", "cvt.f32.f16", "float", "f", "h"),
        ("narrow", "cvt.rn.f16.f32", "uint16_t", "h", "f"),
    ):
        yield Idiom(
            operation, "float16", 1, (("nvptx64",),),
            c_before=(f"{result} r;", f'asm("{instruction} %0, %1;" : "={to}"(r) : "{of}"($a));'), c="r",
            c_when="defined(__CUDA_ARCH__)",
        )  # fmt: skip
    # In C, compilers for x86 narrow vectors of any width lane by lane, unless they are told the instruction.
    yield Idiom(
        "narrow", "float16", 0, (("aarch64",),), c="($T)__builtin_convertvector($a, half)",
        c_before=("typedef _Float16 half __attribute__((vector_size($bytes)));",), c_when="defined(__FLT16_MAX__)",
    )  # fmt: skip
    for lanes, feature, bits, macro in ((8, "f16c", "256", "__F16C__"), (16, "avx512f", "512", "__AVX512F__")):
        yield Idiom(
            "narrow", "float16", lanes, ((feature,),), c=f"($T)_mm{bits}_cvtps_ph((__m{bits})$a, 0)",
            c_when=f"defined({macro})", c_header="immintrin.h",
        )  # fmt: skip
    yield Idiom(
        "narrow", "float16", 4, (("f16c",),),
        c="__builtin_shufflevector(whole, whole, 0, 1, 2, 3)",
        c_before=(
            "typedef uint16_t eight __attribute__((vector_size(16)));",
            "const eight whole = (eight)_mm_cvtps_ph((__m128)$a, 0);",
        ),
        c_when="defined(__F16C__)", c_header="immintrin.h",
    )  # fmt: skip
    yield Idiom(
        "narrow", "float16", 1, (("f16c",),), c="_cvtss_sh($a, 0)", c_when="defined(__F16C__)", c_header="immintrin.h"
    )
    yield Idiom(
        "widen", "float16", 1, (("f16c",),), c="_cvtsh_ss($a)", c_when="defined(__F16C__)", c_header="immintrin.h"
    )


def _helium_floats() -> Iterable[Idiom]:
    """Fused multiply-adds of floats for gcc, which has no built-in function for them. Extrema: gcc 12 compares one lane
    of two vectors for all, and LLVM 22 loses whether the second is NaN, which is asked of its bits instead."""
    mve = "defined(__ARM_FEATURE_MVE)"
    yield Idiom(
        "fma", "float32", 4, (("mve.fp",),), parts=True, c_header="arm_mve.h", c_when=f"{mve} && !defined(__clang__)",
        c="($T)vfmaq_f32((float32x4_t)$c, (float32x4_t)$a, (float32x4_t)$b)",
    )  # fmt: skip
    for operation, a, b in (("minimum", "$b", "$a"), ("maximum", "$a", "$b")):
        first, second = a.replace("$", ""), b.replace("$", "")
        twice = "vshlq_n_u32((uint32x4_t)$b, 1)"
        yield Idiom(
            operation, "float32", 4, (("mve.fp",),), parts=True, c_header="arm_mve.h", c_when=mve,
            c=f"($T)vpselq_f32((float32x4_t)$b, (float32x4_t)$a, (mve_pred16_t)("
            f"vcmpgtq_f32((float32x4_t){b}, (float32x4_t){a}) | vcmphiq_u32({twice}, vdupq_n_u32(0xff000000u))))",
            llvm=(
                "bits = bitcast {T} {b} to <4 x i32>",
                "twice = shl <4 x i32> {bits}, splat (i32 1)",
                "none = icmp ugt <4 x i32> {twice}, splat (i32 -16777216)",
                f"beyond = fcmp ogt {{T}} {{{second}}}, {{{first}}}",
                "either = or <4 x i1> {beyond}, {none}",
                "r = select <4 x i1> {either}, {T} {b}, {T} {a}",
            ),
        )  # fmt: skip


def _byte_conversions() -> Iterable[Idiom]:
    """Four bytes to numbers of 32 bits and back through memory, as Helium loads and stores them; gcc would move byte
    after byte through general registers."""
    for byte, letter in (("int8", "s"), ("uint8", "u")):
        word = f"{byte[:-1]}32x4_t"
        for source, dtype, before, c in (
            (byte, "int32", "", f"($T)vldrbq_{letter}32((const {byte}_t *)(const void *)&$a)"),
            ("int32", byte, f"$T r; vstrbq_{letter}32(({byte}_t *)(void *)&r, ({word})$a);", "r"),
        ):
            yield Idiom(
                f"from_{source}", dtype, 4, (("mve",),), c=c, c_before=(before,) if before else (),
                c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE) && !defined(__clang__)",
            )  # fmt: skip


def _instruction(name: str, second: str) -> str:
    """An instruction of 64-bit ARM on two vectors of int32, as an expression of C."""
    text = f'__asm__("{name} %0.4s, %1.4s, %2.4s" : "=w"(done) : "w"($a), "w"({second}));'
    return f"__extension__({{ $T done; {text} done; }})"


def _products() -> Iterable[Idiom]:
    """Products of small integers as pairs of which the upper ones are multiplied by zero (x86's pmaddwd); rounding
    doubling products of which the upper half is kept, and shifts that round (NEON's sqrdmulh, srshl; Helium's
    vqrdmulh, vrshl), upper words of products (Helium's vmulh)."""
    for lanes, feature, c, llvm in (
        (4, "sse2", "128", "llvm.x86.sse2.pmadd.wd"),
        (8, "avx2", "256", "llvm.x86.avx2.pmadd.wd"),
        (16, "avx512bw", "512", "llvm.x86.avx512.pmaddw.d.512"),
    ):
        yield Idiom(
            "short_product", "int32", lanes, ((feature,),),
            c=f"($T)__builtin_ia32_pmaddwd{c}((pairs)$a, (pairs)($b & 0xffff))",
            c_before=("typedef int16_t pairs __attribute__((vector_size($bytes)));",),
            c_when="defined(__clang__)" if lanes == 16 else "",
            llvm=(
                "lower = and {T} {b}, {mask}",
                "x = bitcast {T} {a} to {pairs}",
                "y = bitcast {T} {lower} to {pairs}",
                f"r = call {{T}} @{llvm}({{pairs}} {{x}}, {{pairs}} {{y}})",
            ),
            mask=0xFFFF,
        )  # fmt: skip
    yield Idiom(
        "round_shift", "int32", 4, (("aarch64",),), parts=True,
        c=_instruction("srshl", "-$b"),
        llvm=(
            "count = sub {T} zeroinitializer, {b}",
            "r = call {T} @llvm.aarch64.neon.srshl.v4i32({T} {a}, {T} {count})",
        ),
    )  # fmt: skip
    yield Idiom(
        "high_product", "int32", 4, (("aarch64",),), parts=True,
        c=_instruction("sqrdmulh", "$b"),
        llvm=("r = call {T} @llvm.aarch64.neon.sqrdmulh.v4i32({T} {a}, {T} {b})",),
    )  # fmt: skip
    yield Idiom(
        "round_shift", "int32", 4, (("mve",),), parts=True, c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE)",
        c="($T)vrshlq_s32((int32x4_t)$a, (int32x4_t)-$b)",
        llvm=(
            "count = sub {T} zeroinitializer, {b}",
            "r = call {T} @llvm.arm.mve.vshl.vector.v4i32.v4i32({T} {a}, {T} {count}, i32 0, i32 1, i32 0)",
        ),
    )  # fmt: skip
    yield Idiom(
        "high_product", "int32", 4, (("mve",),), parts=True, c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE)",
        c="($T)vqrdmulhq_s32((int32x4_t)$a, (int32x4_t)$b)",
        llvm=("r = call {T} @llvm.arm.mve.vqrdmulh.v4i32({T} {a}, {T} {b})",),
    )  # fmt: skip
    yield Idiom(
        "upper_product", "int32", 4, (("mve",),), parts=True, c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE)",
        c="($T)vmulhq_s32((int32x4_t)$a, (int32x4_t)$b)",
        llvm=("r = call {T} @llvm.arm.mve.vmulh.v4i32({T} {a}, {T} {b}, i32 0)",),
    )  # fmt: skip


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _order(numbers: Iterable[int]) -> str:
    return ", ".join(f"i32 {k}" for k in numbers)


_SATURATES = "__has_builtin(__builtin_elementwise_add_sat)"


def _nearest() -> Iterable[Idiom]:
    """The nearest bytes to floats on 64-bit ARM: rounded, halves to even (fcvtns), then saturated to 16 bits, the zero
    point added there, and saturated to 8. A NaN is made the least number first (fmaxnm)."""

    vectors = (
        *(("bytes", "int8_t", 16), ("byte_half", "int8_t", 8), ("floats", "float", 16)),
        *(("words", "int32_t", 16), ("shorts", "int16_t", 16), ("short_half", "int16_t", 8)),
    )
    types = [f"typedef {element} {name} __attribute__((vector_size({size})));" for name, element, size in vectors]
    for dtype, c_narrow, code, narrow in (("int8", "vqmovn_v", 0, "sqxtn"), ("uint8", "vqmovun_v", 16, "sqxtun")):
        for lanes in (4, 8, 16):
            quarters, halves = range(lanes // 4), range((lanes + 4) // 8)
            low, last = (-128 if dtype == "int8" else 0), len(halves) - 1
            c, llvm = [], []
            for n in quarters:
                lane = range(4 * n, 4 * n + 4)
                number = f"(bytes)__builtin_neon_vmaxnmq_v((bytes)f{n}, (bytes)least, 41)"
                c += [
                    f"const floats f{n} = __builtin_shufflevector($a, $a, {_listed(lane)});",
                    f"const words i{n} = (words)__builtin_neon_vcvtnq_s32_v({number}, 34);",
                    f"const short_half h{n} = (short_half)__builtin_neon_vqmovn_v((bytes)i{n}, 1);",
                ]
                vector = f"<{lanes} x float>"
                llvm += [
                    f"f{n} = shufflevector {vector} {{a}}, {vector} poison, <4 x i32> <{_order(lane)}>",
                    f"m{n} = call <4 x float> @llvm.aarch64.neon.fmaxnm.v4f32(<4 x float> {{f{n}}}, <4 x float> {{b}})",
                    f"i{n} = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> {{m{n}}})",
                    f"h{n} = call <4 x i16> @llvm.aarch64.neon.sqxtn.v4i16(<4 x i32> {{i{n}}})",
                ]
            for n in halves:
                # Of four numbers the upper half of a vector is the lower one again.
                first, second = 2 * n, min(2 * n + 1, len(quarters) - 1)
                both = f"(shorts)__builtin_shufflevector(h{first}, h{second}, {_listed(range(8))})"
                c += [
                    f"const shorts w{n} = __builtin_elementwise_add_sat({both}, (shorts){{0}} + (int16_t)$b);",
                    f"const byte_half p{n} = (byte_half)__builtin_neon_{c_narrow}((bytes)w{n}, {code});",
                ]
                whole = _order(range(8))
                llvm += [
                    f"j{n} = shufflevector <4 x i16> {{h{first}}}, <4 x i16> {{h{second}}}, <8 x i32> <{whole}>",
                    f"w{n} = call <8 x i16> @llvm.sadd.sat.v8i16(<8 x i16> {{j{n}}}, <8 x i16> {{c}})",
                    f"p{n} = call <8 x i8> @llvm.aarch64.neon.{narrow}.v8i8(<8 x i16> {{w{n}}})",
                ]
            joined = _order(range(lanes))
            llvm.append(f"r = shufflevector <8 x i8> {{p0}}, <8 x i8> {{p{last}}}, <{lanes} x i32> <{joined}>")
            least = f"const floats least = (floats){{0}} + (float)({low} - $b);"
            yield Idiom(
                "nearest", dtype, lanes, (("aarch64",),), c_when=_SATURATES, c_before=(*types, least, *c),
                c=f"($T)__builtin_shufflevector(p0, p{last}, {_listed(range(lanes))})", llvm=tuple(llvm),
            )  # fmt: skip


#: The bits of 2147483520, the greatest float32 below 2**31.
_GREATEST = 0x4EFFFFFF


def _nearest_on_x86() -> Iterable[Idiom]:
    """The same with SSE2 and AVX2. What is too large for 32 bits is made the greatest number that is not: conversions
    give the least integer for it; so they do for NaN, which minps lets pass as its second operand."""
    vectors = (
        *(("bytes", "char", 16), ("floats", "float", 16), ("words", "int32_t", 16), ("shorts", "int16_t", 16)),
        *(("wide_floats", "float", 32), ("wide_words", "int32_t", 32), ("wide_shorts", "int16_t", 32)),
    )
    types = [f"typedef {element} {name} __attribute__((vector_size({size})));" for name, element, size in vectors]
    for width, feature, minimum, convert in (
        (8, "avx2", "avx.min.ps.256", "avx.cvt.ps2dq.256"),
        (4, "sse2", "sse.min.ps", "sse2.cvtps2dq"),
    ):
        wide, suffix = ("wide_", "256") if width == 8 else ("", "")
        for dtype, pack in (("int8", "packsswb"), ("uint8", "packuswb")):
            for lanes in (width, 2 * width, *((16,) if width == 4 else ())):
                count = lanes // width
                vector, part = f"<{lanes} x float>", f"<{width} x float>"
                c = [f"const {wide}floats most = ({wide}floats){{0}} + 2147483520.0f;"]
                llvm = [f"most = bitcast <{width} x i32> <{', '.join([f'i32 {_GREATEST}'] * width)}> to {part}"]
                for n in range(count):
                    lane = range(width * n, width * (n + 1))
                    c += [
                        f"const {wide}floats f{n} = __builtin_shufflevector($a, $a, {_listed(lane)});",
                        f"const {wide}floats m{n} = ({wide}floats)__builtin_ia32_minps{suffix}(most, f{n});",
                        f"const {wide}words i{n} = ({wide}words)__builtin_ia32_cvtps2dq{suffix}(m{n});",
                    ]
                    llvm += [
                        f"f{n} = shufflevector {vector} {{a}}, {vector} poison, <{width} x i32> <{_order(lane)}>",
                        f"m{n} = call {part} @llvm.x86.{minimum}({part} {{most}}, {part} {{f{n}}})",
                        f"i{n} = call <{width} x i32> @llvm.x86.{convert}({part} {{m{n}}})",
                    ]
                # Quarters of four words each, in order.
                quarters = []
                for q in range(max(1, lanes // 4)):
                    if width == 4:
                        quarters.append(f"i{q}")
                        continue
                    lane = range(4 * (q % 2), 4 * (q % 2) + 4)
                    c.append(f"const words q{q} = __builtin_shufflevector(i{q // 2}, i{q // 2}, {_listed(lane)});")
                    llvm.append(
                        f"q{q} = shufflevector <8 x i32> {{i{q // 2}}}, <8 x i32> poison, <4 x i32> <{_order(lane)}>"
                    )
                    quarters.append(f"q{q}")
                halves = max(1, len(quarters) // 2)
                for n in range(halves):
                    first, second = quarters[2 * n], quarters[min(2 * n + 1, len(quarters) - 1)]
                    c += [
                        f"const shorts h{n} = (shorts)__builtin_ia32_packssdw128({first}, {second});",
                        f"const shorts w{n} = __builtin_elementwise_add_sat(h{n}, (shorts){{0}} + (int16_t)$b);",
                    ]
                    words = f"<4 x i32> {{{first}}}, <4 x i32> {{{second}}}"
                    llvm += [
                        f"h{n} = call <8 x i16> @llvm.x86.sse2.packssdw.128({words})",
                        f"w{n} = call <8 x i16> @llvm.sadd.sat.v8i16(<8 x i16> {{h{n}}}, <8 x i16> {{c}})",
                    ]
                last = halves - 1
                c.append(f"const bytes p = (bytes)__builtin_ia32_{pack}128(w0, w{last});")
                both = f"<8 x i16> {{w0}}, <8 x i16> {{w{last}}}"
                llvm.append(f"p = call <16 x i8> @llvm.x86.sse2.{pack}.128({both})")
                order = _order(range(lanes))
                llvm.append(f"r = shufflevector <16 x i8> {{p}}, <16 x i8> poison, <{lanes} x i32> <{order}>")
                yield Idiom(
                    "nearest", dtype, lanes, ((feature,),), c_when=_SATURATES, c_before=(*types, *c),
                    c=f"($T)__builtin_shufflevector(p, p, {_listed(range(lanes))})", llvm=tuple(llvm),
                )  # fmt: skip


def _sign_flips() -> Iterable[Idiom]:
    """A sign bit flipped in a register. Compilers that know the mask apply it to a number before it is repeated: three
    instructions for what a load with a mask of its own does in one, so that the mask is hidden from them."""
    for dtype in (*dtypes.SIGNED, *dtypes.UNSIGNED):
        for bits in (256, 512):
            yield Idiom(
                "flip_sign", dtype, bits // dtypes.bits(dtype), (("avx512vl",),),
                c="$a ^ bit",
                c_before=(
                    f"$T bit = ($T){{0}} + ($S)((uint{dtypes.bits(dtype)}_t)1 << {dtypes.bits(dtype) - 1});",
                    '__asm__("" : "+v"(bit));',
                ),
                llvm=('bit = call {T} asm "", "=v,0"({T} {mask})', "r = xor {T} {a}, {bit}"),
                mask=dtypes.highest_bit(dtype),
            )  # fmt: skip


#: How clang's built-in functions for x86 spell integers.
_CHARS = {8: "char", 16: "short"}
#: A part of a vector of 16 bytes as two numbers of 8, of whose bytes some are loaded twice.
_IN_HALVES = (
    "typedef uint64_t halves __attribute__((vector_size(16)));",
    "const unsigned n = (unsigned)$b * (unsigned)sizeof(*$a);",
    "const char *p = (const char *)$a;",
    "uint64_t first = 0, last = 0;",
    "if (n > 8) {",
    "  __builtin_memcpy(&first, p, 8);",
    "  __builtin_memcpy(&last, p + n - 8, 8);",
    "  last >>= (16 - n) * 8;",
    "} else if (n > 4) {",
    "  uint32_t low, high;",
    "  __builtin_memcpy(&low, p, 4);",
    "  __builtin_memcpy(&high, p + n - 4, 4);",
    "  first = low | (uint64_t)(high >> (8 - n) * 8) << 32;",
    "} else {",
    "  __builtin_memcpy(&first, p, n);",
    "}",
)


def _partial_loads() -> Iterable[Idiom]:
    """A part of a vector by one load with a mask, where C would load and join several pieces; with Helium, which has no
    shorter vectors, also what is as long as one."""
    for dtype, element, size in (("int8", "s8", "b"), ("uint8", "u8", "b"), ("int16", "s16", "h")):
        for operation in ("load_part", "load_front"):
            bits = dtypes.bits(dtype)
            yield Idiom(
                operation, dtype, 128 // bits, (("mve",),), c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE)",
                c=f"($T)vldr{size}q_z_{element}($a, vctp{bits}q((uint32_t)$b))",
            )  # fmt: skip
    # Bytes that are half a vector: widened by the load, which takes their narrowing back where they are widened.
    yield Idiom(
        "load_part", "int8", 8, (("mve",),), c_header="arm_mve.h", c_when="defined(__ARM_FEATURE_MVE)",
        c="__builtin_convertvector(vldrbq_z_s16($a, vctp16q((uint32_t)$b)), $T)",
    )  # fmt: skip
    for dtype in ("float32", "int32", "uint32"):
        for lanes, feature in ((4, "avx512vl"), (8, "avx512vl"), (16, "avx512f")):
            name = f"__builtin_ia32_loadups{32 * lanes}_mask"
            yield Idiom(
                "load_part", dtype, lanes, ((feature,),),
                c=f"($T){name}((const void *)$a, (floats){{0}}, (uint{max(lanes, 8)}_t)((1u << $b) - 1))",
                c_before=("typedef float floats __attribute__((vector_size($bytes)));",),
                c_when=f"__has_builtin({name})",
            )  # fmt: skip
    for width, letters, kinds in ((8, "qi", ("int8", "uint8")), (16, "hi", ("int16", "uint16"))):
        for dtype in kinds:
            for bits in (128, 256, 512):
                lanes, name = bits // width, f"__builtin_ia32_loaddqu{letters}{bits}_mask"
                yield Idiom(
                    "load_part", dtype, lanes, (("avx512bw", "avx512vl"),),
                    c=f"($T){name}((const void *)$a, (parts){{0}}, (uint{max(lanes, 8)}_t)((UINT64_C(1) << $b) - 1))",
                    c_before=(f"typedef {_CHARS[width]} parts __attribute__((vector_size($bytes)));",),
                    c_when=f"__has_builtin({name})",
                )  # fmt: skip
            # Otherwise C takes up to four pieces, and shuffles of them apart again. The first and the last half meet.
            yield Idiom(
                "load_part", dtype, 128 // width, (("sse2",), ("aarch64",), ("simd128",)),
                c="($T)(halves){first, last}", c_before=_IN_HALVES,
            )  # fmt: skip


IDIOMS: tuple[Idiom, ...] = (
    *_fused(), *_extrema(), *_conversions(), *_helium_floats(), *_byte_conversions(), *_products(), *_nearest(),
    *_nearest_on_x86(),
    *_sign_flips(), *_partial_loads(),
)  # fmt: skip
#: Where a part of a vector is loaded or stored by one instruction with a mask: least bits of an element, and the
#: features of which each member is enough.
MASKED_ACCESS: tuple[tuple[int, tuple[str, ...]], ...] = ((32, ("avx2",)), (8, ("avx512bw",)), (8, ("mve",)))
