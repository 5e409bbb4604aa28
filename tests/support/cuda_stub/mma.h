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
namespace precision { struct tf32; }
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
enum layout_t { mem_row_major, mem_col_major };

/* What an element of a fragment is: a number, and what those of a sum add up in. */
template <class T> struct held { typedef float type; };
template <> struct held<signed char> { typedef int type; };
template <> struct held<unsigned char> { typedef int type; };
template <> struct held<int> { typedef int type; };

template <class Use, int m, int n, int k, class T, class Order = void> struct fragment {
  enum { rows = std::is_same<Use, matrix_b>::value ? k : m, columns = std::is_same<Use, matrix_a>::value ? k : n };
  enum { num_elements = rows * columns };
  typename held<T>::type x[num_elements];
};

/* Halves go away from zero. */
static inline float __float_to_tf32(float value) {
  if (value != value) return value;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits = (bits + 0x1000) & 0xffffe000;
  memcpy(&value, &bits, 4);
  return value;
}
/* What is multiplied of an element: of TF32 the upper bits, however they were rounded. */
template <class T> static inline typename held<T>::type multiplied(typename held<T>::type value) { return value; }
template <> inline float multiplied<precision::tf32>(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits &= 0xffffe000;
  memcpy(&value, &bits, 4);
  return value;
}

static inline unsigned lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class Use, int m, int n, int k, class T, class Order, class Element>
void load_matrix_sync(fragment<Use, m, n, k, T, Order> &to, const Element *from, unsigned step) {
  static_assert(m == 16 && n == 16 && k == (std::is_same<T, precision::tf32>::value ? 8 : 16));
  /* Rows of bytes are shorter than what others begin at. */
  if ((uintptr_t)from % (sizeof(Element) == 1 ? 16 : 32) || step * sizeof(Element) % 16) abort();
  cuda_warp_wait();
  for (unsigned i = 0; i < to.rows; i++)
    for (unsigned j = 0; j < to.columns; j++)
      to.x[i * to.columns + j] = std::is_same<Order, row_major>::value ? from[i * step + j] : from[j * step + i];
}

template <class F, class T> void fill_fragment(F &to, T value) {
  static_assert(std::is_same<T, typename std::remove_reference<decltype(to.x[0])>::type>::value);
  cuda_warp_wait();
  for (T &x : to.x) x = value;
}

template <int m, int n, int k, class T, class Left, class Right, class Sums>
void mma_sync(
    Sums &to, const fragment<matrix_a, m, n, k, T, Left> &a, const fragment<matrix_b, m, n, k, T, Right> &b, const Sums &c) {
  cuda_warp_wait();
  for (unsigned i = 0; i < m; i++)
    for (unsigned j = 0; j < n; j++) {
      typename held<T>::type sum = c.x[i * n + j];
      for (unsigned w = 0; w < k; w++) sum += multiplied<T>(a.x[i * k + w]) * multiplied<T>(b.x[w * n + j]);
      to.x[i * n + j] = sum;
    }
}

template <class F, class T> void store_matrix_sync(T *to, const F &from, unsigned step, layout_t order) {
  static_assert(std::is_same<const T &, decltype((from.x[0]))>::value);
  if (order != mem_row_major || (uintptr_t)to % 32 || step * sizeof(T) % 16) abort();
  cuda_warp_wait();
  for (unsigned n = lane(); n < 256; n += 32) to[n / 16 * step + n % 16] = from.x[n];
}
} }
#endif
