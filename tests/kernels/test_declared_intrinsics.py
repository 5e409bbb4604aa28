"""Intrinsics of the package and of users: each computes its behaviour, in the interpreter and as machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.intrinsics import INTRINSICS, Intrinsic
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te.interpreter import run_kernel
from support.compiling import run_schedule
from support.intrinsic_kernels import feeds_of, kernel_of, schedule_of

#: What a user declares: of every form, with and without a reduction, of several types and operands.
DESCRIPTION = """
extends = "host"
description = "this machine, with instructions that a header emulates"
c_flags = ["-I{folder}"]

[[intrinsics]]
name = "toy.mac4"
behaviour = "c[i, j] += sum(int32(a[i, k]) * int32(b[k, j]), k)"
axes = {{ i = 4, j = 4, k = 4 }}
c = "toy_mac4($c, $c_stride0, $a, $a_stride0, $b, $b_stride0);"
c_header = "toy.h"

[intrinsics.operands]
a = {{ dtype = "int8", memory = "any", strides = ["any", 1] }}
b = {{ dtype = "int8", memory = "any", strides = ["any", 1] }}
c = {{ dtype = "int32", memory = "any", strides = ["any", 1] }}

[[intrinsics]]
name = "toy-scale"
behaviour = "y[n] = maximum(x[n] * s + t[n], 0)"
axes = {{ n = 4 }}
c = "{{ for (int n = 0; n < 4; n++) ($y)[n] = toy_scaled(($x)[n * $x_stride0], $s, ($t)[n]); }}"
c_header = "toy.h"
llvm = \"\"\"
  %a = load <4 x float>, ptr $x, align 4
  %b = load <4 x float>, ptr $t, align 4
  %one = insertelement <4 x float> poison, float $s, i32 0
  %all = shufflevector <4 x float> %one, <4 x float> poison, <4 x i32> zeroinitializer
  %product = fmul <4 x float> %a, %all
  %sum = fadd <4 x float> %product, %b
  %r = call <4 x float> @llvm.maximum.v4f32(<4 x float> %sum, <4 x float> zeroinitializer)
  store <4 x float> %r, ptr $y, align 4
\"\"\"

[intrinsics.operands]
x = {{ dtype = "float32", memory = "any", strides = [1] }}
t = {{ dtype = "float32", memory = "any", strides = [1] }}
y = {{ dtype = "float32", memory = "any", strides = [1] }}
s = {{ dtype = "float32" }}

[[intrinsics]]
name = "toy.widest"
behaviour = "y[i] = maximum(y[i], max(x[i + r], r))"
axes = {{ i = 3, r = 2 }}
c = "toy_widest($y, $x, $x_stride0);"
c_header = "toy.h"

[intrinsics.operands]
x = {{ dtype = "int16", memory = "any" }}
y = {{ dtype = "int16", memory = "any", strides = [1] }}

[[intrinsics]]
name = "toy.pairs"
behaviour = "c[l] += sum(int32(a[l, g]) * int32(b[l, g]), g)"
axes = {{ l = 4, g = 2 }}
c = "toy_pairs($c, $a, $b)"
c_header = "toy.h"
llvm = \"\"\"
  %x = sext <8 x i16> $a to <8 x i32>
  %y = sext <8 x i16> $b to <8 x i32>
  %p = mul <8 x i32> %x, %y
  %even = shufflevector <8 x i32> %p, <8 x i32> poison, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %odd = shufflevector <8 x i32> %p, <8 x i32> poison, <4 x i32> <i32 1, i32 3, i32 5, i32 7>
  %sum = add <4 x i32> %even, %odd
  %r = add <4 x i32> $c, %sum
\"\"\"

[intrinsics.operands]
a = {{ dtype = "int16" }}
b = {{ dtype = "int16" }}
c = {{ dtype = "int32" }}

[[intrinsics]]
name = "toy.distance"
behaviour = "y[l] = abs(a[l] - b[l])"
axes = {{ l = 8 }}
c = "toy_distance($a, $b)"
c_header = "toy.h"

[intrinsics.operands]
a = {{ dtype = "float32" }}
b = {{ dtype = "float32" }}
y = {{ dtype = "float32" }}
"""
HEADER = """
typedef int32_t toy_i32x4 __attribute__((vector_size(16)));
typedef int16_t toy_i16x8 __attribute__((vector_size(16)));
typedef float toy_f32x8 __attribute__((vector_size(32)));

static inline void toy_mac4(int32_t *c, long c_step, const int8_t *a, long a_step, const int8_t *b, long b_step) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int k = 0; k < 4; k++) c[i * c_step + j] += a[i * a_step + k] * b[k * b_step + j];
}
static inline float toy_scaled(float x, float s, float t) {
  float y = x * s + t;
  return y < 0 ? 0 : y;
}
static inline void toy_widest(int16_t *y, const int16_t *x, long step) {
  for (int i = 0; i < 3; i++)
    for (int r = 0; r < 2; r++)
      if (x[(i + r) * step] > y[i]) y[i] = x[(i + r) * step];
}
static inline __attribute__((always_inline)) toy_i32x4 toy_pairs(toy_i32x4 c, toy_i16x8 a, toy_i16x8 b) {
  for (int n = 0; n < 8; n++) c[n / 2] += a[n] * b[n];
  return c;
}
static inline __attribute__((always_inline)) toy_f32x8 toy_distance(toy_f32x8 a, toy_f32x8 b) {
  for (int n = 0; n < 8; n++) a[n] = a[n] > b[n] ? a[n] - b[n] : b[n] - a[n];
  return a;
}
"""
NAMES = ("toy.mac4", "toy-scale", "toy.widest", "toy.pairs", "toy.distance")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Target:
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.h").write_text(HEADER)
    path = folder / "toy.toml"
    path.write_text(DESCRIPTION.format(folder=folder))
    return load_target(str(path))


def interpreted(intrinsic: Intrinsic, seed: int) -> None:
    kernel = kernel_of(intrinsic)
    feeds = feeds_of(kernel, seed)
    schedule = schedule_of(kernel, intrinsic)
    expected = run_kernel(kernel, feeds)["result"]
    for program in (lower(schedule), finish(lower(schedule))):
        memory = {name: array.reshape(-1) for name, array in feeds.items()}
        memory["result"] = np.zeros(expected.size, expected.dtype)
        run_function(program, memory)
        np.testing.assert_array_equal(memory["result"], expected.reshape(-1))


@pytest.mark.parametrize("name", INTRINSICS)
def test_the_interpreter_runs_the_behaviours_of_the_package(name: str) -> None:
    interpreted(INTRINSICS[name], 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_runs_the_behaviours_of_users(toy: Target, name: str) -> None:
    interpreted(toy.known_intrinsics[name], 2)


@pytest.mark.parametrize("dialect", ["vector", "plain"])
@pytest.mark.parametrize("name", NAMES)
def test_c_computes_the_behaviour(toy: Target, name: str, dialect: str) -> None:
    intrinsic = toy.known_intrinsics[name]
    kernel = kernel_of(intrinsic)
    feeds = feeds_of(kernel, 3)
    target = toy if dialect == "vector" else replace(toy, dialect="plain", vector_bits=0, int_dot=(), int_tile=())
    found = run_schedule(schedule_of(kernel, intrinsic), feeds, (), "c", target=target)
    np.testing.assert_array_equal(found["result"], run_kernel(kernel, feeds)["result"])


@pytest.mark.parametrize("name", ["toy-scale", "toy.pairs"])
def test_llvm_computes_the_behaviour(toy: Target, name: str) -> None:
    intrinsic = toy.known_intrinsics[name]
    kernel = kernel_of(intrinsic)
    feeds = feeds_of(kernel, 4)
    found = run_schedule(schedule_of(kernel, intrinsic), feeds, (), "llvm", target=toy)
    np.testing.assert_array_equal(found["result"], run_kernel(kernel, feeds)["result"])


@pytest.mark.parametrize("name", ["toy.widest", "toy.distance"])
def test_what_a_language_lacks_is_refused(toy: Target, name: str) -> None:
    intrinsic = toy.known_intrinsics[name]
    kernel = kernel_of(intrinsic)
    with pytest.raises(SternaError, match=f"says nothing of {name} in llvm") as caught:
        run_schedule(schedule_of(kernel, intrinsic), feeds_of(kernel, 5), (), "llvm", target=toy)
    assert caught.value.codes == ("E0203",)
