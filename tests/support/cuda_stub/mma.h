/* CUDA's mma.h over fibers: a fragment is a whole matrix in each thread of a warp, of which a thread stores its part. All
 * threads of a warp come together at every operation. */
#ifndef CUDA_STUB_MMA_H
#define CUDA_STUB_MMA_H
#include <stdint.h>
#include <string.h>

struct __half { uint16_t bits; operator float() const { _Float16 value; memcpy(&value, &bits, 2); return float(value); } };
struct __nv_bfloat16 {
  uint16_t bits;
  operator float() const { uint32_t wide = uint32_t(bits) << 16; float value; memcpy(&value, &wide, 4); return value; }
};

namespace nvcuda { namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Order = void> struct fragment { float x[16][16]; };

static inline unsigned lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class Use, int m, int n, int k, class T, class Order>
void load_matrix_sync(fragment<Use, m, n, k, T, Order> &to, const T *from, unsigned step) {
  static_assert(m == 16 && n == 16 && k == 16);
  if ((uintptr_t)from % 32 || step * sizeof(T) % 16) abort();
  cuda_warp_wait();
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 16; j++)
      to.x[i][j] = std::is_same<Order, row_major>::value ? from[i * step + j] : from[j * step + i];
}

template <class F> void fill_fragment(F &to, float value) {
  cuda_warp_wait();
  for (auto &row : to.x) for (float &x : row) x = value;
}

template <class D, class A, class B, class C> void mma_sync(D &to, const A &a, const B &b, const C &c) {
  cuda_warp_wait();
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 16; j++) {
      float sum = c.x[i][j];
      for (unsigned k = 0; k < 16; k++) sum += a.x[i][k] * b.x[k][j];
      to.x[i][j] = sum;
    }
}

template <class F> void store_matrix_sync(float *to, const F &from, unsigned step, layout_t order) {
  if (order != mem_row_major || (uintptr_t)to % 32 || step * sizeof(float) % 16) abort();
  cuda_warp_wait();
  for (unsigned n = lane(); n < 256; n += 32) to[n / 16 * step + n % 16] = from.x[n / 16][n % 16];
}
} }
#endif
