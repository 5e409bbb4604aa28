/* The types, operations and checked accesses that ptx_on_cpu.py writes PTX in. */
#ifndef PTX_ON_CPU_H
#define PTX_ON_CPU_H
#include "cuda_on_cpu.h"
typedef _Float16 f16;
typedef f16 f16x2 __attribute__((vector_size(4)));
typedef float f32;
typedef double f64;
typedef uint8_t u8, b8;
typedef uint16_t u16, b16;
typedef uint32_t u32, b32;
typedef uint64_t u64, b64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef bool pred;
typedef __int128 s128;
typedef unsigned __int128 u128;

extern "C" int (*ptx_valid)(uint64_t, uint64_t);
int (*ptx_valid)(uint64_t, uint64_t);

/* The bits of a register or literal as a value of a type, and back. */
template <class T, class R> static inline T as(R bits) {
  static_assert(sizeof(T) <= sizeof(R), "too narrow");
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class R, class T> static inline R bits_of(T value) { R bits = 0; memcpy(&bits, &value, sizeof(T)); return bits; }

enum { ILLEGAL = 700, MISALIGNED = 716 };
static inline void check(uint64_t address, uint64_t size, uint64_t least, bool global) {
  if (address % least) throw (int)MISALIGNED;
  if (global && ptx_valid && !ptx_valid(address, size)) throw (int)ILLEGAL;
}
template <class T> static inline T load(uint64_t address, uint64_t all, bool global, bool first) {
  if (first) check(address, all, all, global);
  T value;
  memcpy(&value, (const void *)address, sizeof value);
  return value;
}
template <class T> static inline void store(uint64_t address, T value, uint64_t all, bool global, bool first) {
  if (first) check(address, all, all, global);
  memcpy((void *)address, &value, sizeof value);
}
/* Of a float to an integer: saturated, and 0 for NaN. */
template <class T, class F> static inline T to_integer(F x) {
  if (x != x) return 0;
  const double low = (double)std::numeric_limits<T>::min(), high = (double)std::numeric_limits<T>::max();
  if ((double)x <= low) return std::numeric_limits<T>::min();
  if ((double)x >= high) return std::numeric_limits<T>::max();
  return (T)x;
}
template <class T> static inline T least(T a, T b) { return b < a ? b : a; }
template <class T> static inline T greatest(T a, T b) { return b > a ? b : a; }
template <class T> static inline T float_least(T a, T b) { return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b; }
template <class T> static inline T float_greatest(T a, T b) { return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b; }
template <class T> static inline T nan_or(T a, T b, T value) { return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : value; }
template <class T, class U> static inline T shift_left(T a, U n) { return n >= sizeof(T) * 8 ? 0 : (T)(a << n); }
template <class T, class U> static inline T shift_right(T a, U n) { return n >= sizeof(T) * 8 ? (a < 0 ? (T)-1 : 0) : (T)(a >> n); }
template <class T> static inline T field(T a, u32 at, u32 count) {
  typedef typename std::make_unsigned<T>::type U;
  const u32 bits = sizeof(T) * 8;
  at &= 255, count &= 255;
  if (count == 0) return 0;
  U taken = at >= bits ? (a < 0 ? (U)-1 : 0) : (U)(a >> at);
  if (count >= bits) return (T)taken;
  U mask = (U)(((U)1 << count) - 1), value = taken & mask;
  if (std::is_signed<T>::value) {
    u32 sign = at + count - 1 < bits - 1 ? at + count - 1 : bits - 1;
    if (((U)a >> sign) & 1) value |= (U)~mask;
  }
  return (T)value;
}
static inline u32 permuted(u32 a, u32 b, u32 selector) {
  u64 all = (u64)b << 32 | a;
  u32 result = 0;
  for (u32 n = 0; n < 4; n++) {
    u32 which = selector >> 4 * n & 15, byte = (u32)(all >> 8 * (which & 7)) & 255;
    result |= (which & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * n;
  }
  return result;
}

/* dp4a: the products of four bytes by four, added to a number of 32 bits. */
template <class A, class B> u32 dot_of_words(u32 a, u32 b, u32 total) {
  for (u32 n = 0; n < 32; n += 8) total += (u32)((s32)(A)(a >> n) * (s32)(B)(b >> n));
  return total;
}

/* Asynchronous copies happen when they are waited for, and never if they are not. */
static inline void copy_later(u64 to, u64 from, u64 size) {
  check(to, size, size, false);
  check(from, size, size, true);
  cuda_now->later.push_back([=] { memcpy((void *)to, (const void *)from, size); });
}
static inline void copy_now() {
  for (auto &copy : cuda_now->later) copy();
  cuda_now->later.clear();
}

/* Fragments of matrices of 16 x 16 (PTX ISA, wmma): which thread has which elements is nobody's affair, so here it is
 * another distribution than any GPU's. All threads of a warp come together at every operation. */
enum { FRAGMENT = 256, MOST_PARTS = 8 };
static u32 ptx_warp[2][32][WARP][MOST_PARTS];
static inline unsigned ptx_thread() { return cuda_thread(); }
template <class T> static inline f32 widened(u16 bits);
template <> inline f32 widened<f16>(u16 bits) { return (f32)as<f16>(bits); }
struct bf16 {};
template <> inline f32 widened<bf16>(u16 bits) { return as<f32>((u32)bits << 16); }
template <int parts> static inline void wmma_load(u32 *to, u64 from, u32 step, bool column, bool global) {
  if (from % 32 || step % 8) throw (int)MISALIGNED;
  cuda_warp_wait();
  for (unsigned n = 0; n < 2 * parts; n++) {
    unsigned e = (ptx_thread() % WARP * 2 * parts + n) % FRAGMENT, i = e / 16, j = e % 16;
    u32 half = load<u16>(from + 2 * (column ? j * step + i : i * step + j), 2, global, true);
    to[n / 2] = n % 2 ? to[n / 2] | half << 16 : half;
  }
}
static inline void wmma_store(u64 to, const u32 *from, u32 step, bool global) {
  if (to % 32 || step % 4) throw (int)MISALIGNED;
  cuda_warp_wait();
  for (unsigned n = 0; n < 8; n++) {
    unsigned e = ptx_thread() % WARP * 8 + n;
    store<u32>(to + 4 * (e / 16 * step + e % 16), from[n], 4, global, true);
  }
}
/* Of TF32 a fragment has 8 x 16 or 16 x 8 elements of 32 bits; only their upper bits are multiplied. */
static inline u32 to_tf32(f32 value) {
  u32 bits = bits_of<u32>(value);
  return value != value ? 0x7fffffff : (bits + 0x1000) & 0xffffe000;
}
static inline void wmma_load_tf32(u32 *to, u64 from, u32 step, bool column, bool right, bool global) {
  if (from % 32 || step % 4) throw (int)MISALIGNED;
  cuda_warp_wait();
  for (unsigned n = 0; n < 4; n++) {
    unsigned e = ptx_thread() % WARP * 4 + n, columns = right ? 16 : 8, i = e / columns, j = e % columns;
    to[n] = load<u32>(from + 4 * (column ? j * step + i : i * step + j), 4, global, true);
  }
}
static inline void wmma_mma_tf32(u32 *d, const u32 *a, const u32 *b, const u32 *c) {
  const unsigned warp = ptx_thread() / WARP, lane = ptx_thread() % WARP;
  for (unsigned n = 0; n < 4; n++) ptx_warp[0][warp][lane][n] = a[n], ptx_warp[1][warp][lane][n] = b[n];
  cuda_warp_wait();
  auto element = [&](unsigned side, unsigned e) { return as<f32>(ptx_warp[side][warp][e / 4][e % 4] & 0xffffe000); };
  for (unsigned n = 0; n < 8; n++) {
    unsigned e = lane * 8 + n, i = e / 16, j = e % 16;
    f32 sum = as<f32>(c[n]);
    for (unsigned k = 0; k < 8; k++) sum += element(0, i * 8 + k) * element(1, k * 16 + j);
    d[n] = bits_of<u32>(sum);
  }
  cuda_warp_wait();
}
/* The rows of a are along its matrix whatever its order in memory was. */
template <class T, int parts> static inline void wmma_mma(u32 *d, const u32 *a, const u32 *b, const u32 *c) {
  const unsigned warp = ptx_thread() / WARP, lane = ptx_thread() % WARP;
  for (unsigned n = 0; n < parts; n++) ptx_warp[0][warp][lane][n] = a[n], ptx_warp[1][warp][lane][n] = b[n];
  cuda_warp_wait();
  auto element = [&](unsigned side, unsigned e) {
    u32 both = ptx_warp[side][warp][e / (2 * parts)][e % (2 * parts) / 2];
    return widened<T>((u16)(e % 2 ? both >> 16 : both));
  };
  for (unsigned n = 0; n < 8; n++) {
    unsigned e = lane * 8 + n, i = e / 16, j = e % 16;
    f32 sum = as<f32>(c[n]);
    for (unsigned k = 0; k < 16; k++) sum += element(0, i * 16 + k) * element(1, k * 16 + j);
    d[n] = bits_of<u32>(sum);
  }
  cuda_warp_wait();
}
#endif
