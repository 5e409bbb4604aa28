/* Metal's built-ins over fibers of one CPU thread, as cuda_on_cpu.h has them. With METAL_CHECK, only for the compiler to
 * check types: address spaces are then types of their own, as they are in Metal. */
#ifndef METAL_ON_CPU_H
#define METAL_ON_CPU_H
#include "cuda_on_cpu.h"

#ifdef METAL_CHECK
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2))) const
#define threadgroup __attribute__((address_space(3)))
#else
#define device
#define constant const
#define threadgroup
#endif
#define kernel extern "C"
#define STERNA_SHARED(name, bytes, alignment) alignas(alignment) static threadgroup uint8_t name[bytes]
/* metal_stdlib has them as macros of its own, before those of the text. */
#undef INT64_C
#undef UINT64_C
#undef INT8_MIN
#undef INT8_MAX
#undef UINT8_MAX
#undef INT16_MIN
#undef INT16_MAX
#undef UINT16_MAX
#undef INT32_MIN
#undef INT32_MAX
#undef UINT32_MAX
#undef INT64_MIN
#undef INT64_MAX
#undef UINT64_MAX

typedef cuda_place uint3;
/* Not every C++ compiler has such a type on every processor. */
struct half {
  uint16_t bits;
  half() = default;
  explicit half(float a) {
    const float size = fabsf(a);
    const int power = size < 0x1p-14f ? -14 : ilogbf(size);
    bits = size != size ? 0x7e00 : size >= 65520 ? 0x7c00 : ((power + 14) << 10) + (int)rintf(ldexpf(size, 10 - power));
    bits |= signbit(a) ? 0x8000 : 0;
  }
  explicit operator float() const {
    const int power = bits >> 10 & 31, digits = bits & 1023;
    const float size = power == 31 ? (digits ? NAN : INFINITY) : ldexpf(digits + (power ? 1024 : 0), (power ? power : 1) - 25);
    return bits >> 15 ? -size : size;
  }
};
namespace metal {
namespace mem_flags { enum { mem_threadgroup = 1, mem_device = 2 }; }
static inline void threadgroup_barrier(int) { __syncthreads(); }
template <class To, class From> static inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type of another size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
#define METAL_VECTORS(type, name) \
  typedef type name##2 __attribute__((ext_vector_type(2))); \
  typedef type name##4 __attribute__((ext_vector_type(4)));
METAL_VECTORS(int8_t, char)
METAL_VECTORS(uint8_t, uchar)
METAL_VECTORS(int16_t, short)
METAL_VECTORS(uint16_t, ushort)
METAL_VECTORS(int32_t, int)
METAL_VECTORS(uint32_t, uint)
METAL_VECTORS(int64_t, long)
METAL_VECTORS(uint64_t, ulong)
METAL_VECTORS(float, float)
template <class T> static inline T simd_shuffle_xor(T value, uint16_t lane_xor) {
  const unsigned block = blockDim.x * blockDim.y * blockDim.z;
  return cuda_from(block < 32 ? (1u << block) - 1 : ~0u, value, lane_xor);
}
using ::fabs; using ::sqrt; using ::floor; using ::ceil; using ::trunc; using ::rint; using ::fma;
}
#endif
