"""The words that nothing in a kernel of WGSL may be called: the language's own, and those of the text around it."""

from __future__ import annotations

#: Keywords and reserved words of the specification of WGSL, section 15.1.
_LANGUAGE = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop
override requires return struct switch true var while
NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class
co_await co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval constexpr
constinit crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export extends extern
external fallthrough filter final finally friend from fxgroup get goto groupshared highp impl implements import inline
instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil
noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset
partial pass patch pixelfragment precise precision premerge priv protected pub public readonly ref regardless register
reinterpret_cast require resource restrict self set shared sizeof smooth snorm static static_assert static_cast std
subroutine super target template this thread_local throw trait try type typedef typeid typename typeof union unless
unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield
"""
#: What kernels use of the language and of their frame: a variable of that name would hide it.
_USED = """
abs all any array atomicAnd atomicLoad atomicOr atomicStore bitcast bool ceil countLeadingZeros extractBits f32 floor
fma i32 max min round select sign sqrt storageBarrier trunc u32 vec2 vec3 vec4 workgroupBarrier
at_ call group group_id groups local_id memory memory_parts params part_ scratch shift_ thread threads value_ word_
"""

RESERVED = frozenset((*_LANGUAGE.split(), *_USED.split()))
