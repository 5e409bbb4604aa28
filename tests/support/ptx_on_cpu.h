/* The types, operations and checked accesses that ptx_on_cpu.py writes PTX in. */
#ifndef PTX_ON_CPU_H
#define PTX_ON_CPU_H
#include <unordered_set>
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
/* Where an address points to: a thread's own memory, the device's, a block's. */
enum space { LOCAL, GLOBAL, SHARED };
/* What a block of the kernel that runs has of shared memory, in which at first is anything. */
struct block_memory { u64 at, bytes; unsigned block; };
static std::vector<block_memory> ptx_shared;
static inline void ptx_has(void *at, u64 bytes) {
  block_memory *known = nullptr;
  for (auto &each : ptx_shared) if (each.at == (u64)at) known = &each;
  if (known && known->block == blockIdx.x) return;
  if (!known) ptx_shared.push_back({(u64)at, bytes, 0}), known = &ptx_shared.back();
  known->block = blockIdx.x;
  memset(at, 0x7e, bytes);
}
static inline bool ptx_within(u64 at, u64 bytes) {
  for (auto &each : ptx_shared) if (at >= each.at && at + bytes <= each.at + each.bytes) return true;
  return false;
}
/* Words of the device's memory that the launch has written: what is read by way of a cache that does not know of that. */
static std::unordered_set<u64> ptx_written;
static inline void check_unwritten(u64 address, u64 size) {
  for (u64 at = address / 4; at <= (address + size - 1) / 4; at++) if (ptx_written.count(at)) throw (int)ILLEGAL;
}
static inline void check(u64 address, u64 size, u64 least, space where) {
  if (address % least) throw (int)MISALIGNED;
  if (where == GLOBAL && ptx_valid && !ptx_valid(address, size)) throw (int)ILLEGAL;
  if (where == SHARED && !ptx_within(address, size)) throw (int)ILLEGAL;
}
template <class T> static inline T load(u64 address, u64 all, space where, bool first) {
  if (first) check(address, all, all, where);
  T value;
  memcpy(&value, (const void *)address, sizeof value);
  return value;
}
static inline u32 increment(u64 address, u32 last) {
  check(address, 4, 4, GLOBAL);
  ptx_written.insert(address / 4);
  return atomicInc((unsigned *)address, last);
}
template <class T> static inline void store(u64 address, T value, u64 all, space where, bool first) {
  if (first) check(address, all, all, where);
  if (where == GLOBAL)
    for (u64 at = address / 4; at <= (address + sizeof value - 1) / 4; at++) ptx_written.insert(at);
  memcpy((void *)address, &value, sizeof value);
}
/* Of a float to an integer: saturated; of NaN 0, but the upper bit alone where either of the types has 64 bits. */
template <class T, class F> static inline T to_integer(F x) {
  if (x != x) return sizeof(F) < 8 && sizeof(T) < 8 ? 0 : (T)((u64)1 << (8 * sizeof(T) - 1));
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

/* The shared memory that a launch asks for. */
static unsigned char *ptx_asked;
static u64 ptx_asked_bytes;
struct AskedMemory {
  explicit AskedMemory(unsigned asked) {
    ptx_shared.clear(), ptx_written.clear();
    if ((ptx_asked_bytes = asked) != 0) ptx_asked = (unsigned char *)aligned_alloc(256, (asked + 255) / 256 * 256);
  }
  ~AskedMemory() { free(ptx_asked), ptx_asked = nullptr; }
};

/* Asynchronous copies happen as late as they may, when they are waited for, and never if they are not; of every other
 * thread, as early as they may. What a thread begins is a batch when it says so; it waits for all, or for all batches but
 * the last few. */
static inline void copy_later(u64 to, u64 from, u64 size) {
  check(to, size, size, SHARED);
  check(from, size, size, GLOBAL);
  auto copy = [=] { memcpy((void *)to, (const void *)from, size); };
  if ((cuda_thread() + cuda_seed) % 2) copy(), cuda_now->unseen = true;
  else cuda_now->later.push_back({cuda_now->batches, copy});
}
static inline void copy_batch() { cuda_now->batches++; }
static inline void copy_until(unsigned batch) {
  std::vector<std::pair<unsigned, std::function<void()>>> rest;
  for (auto &copy : cuda_now->later)
    if (copy.first < batch) copy.second(), cuda_now->unseen = true;
    else rest.push_back(copy);
  cuda_now->later.swap(rest);
}
static inline void copy_now() { copy_until(~0u); }
static inline void copy_now(unsigned in_flight) { copy_until(cuda_now->batches > in_flight ? cuda_now->batches - in_flight : 0); }

/* Fragments of matrices of 16 x 16 (PTX ISA, wmma): which thread has which elements is nobody's affair, so here it is
 * another distribution than any GPU's. All threads of a warp come together at every operation; that orders no accesses, so that
 * some threads have read or written before all have come. */
enum { FRAGMENT = 256, MOST_PARTS = 8 };
static u32 ptx_warp[2][32][WARP][MOST_PARTS];
static inline unsigned ptx_thread() { return cuda_thread(); }
template <class F> static inline void wmma_access(F accesses) {
  const bool is_early = (ptx_thread() + cuda_seed) % 2;
  if (is_early) accesses();
  cuda_warp_wait();
  if (!is_early) accesses();
}
template <class T> static inline f32 widened(u16 bits);
template <> inline f32 widened<f16>(u16 bits) { return (f32)as<f16>(bits); }
struct bf16 {};
template <> inline f32 widened<bf16>(u16 bits) { return as<f32>((u32)bits << 16); }
template <int parts> static inline void wmma_load(u32 *to, u64 from, u32 step, bool column, space where) {
  if (from % 32 || step % 8) throw (int)MISALIGNED;
  wmma_access([=] {
    for (unsigned n = 0; n < 2 * parts; n++) {
      unsigned e = (ptx_thread() % WARP * 2 * parts + n) % FRAGMENT, i = e / 16, j = e % 16;
      u32 half = load<u16>(from + 2 * (column ? j * step + i : i * step + j), 2, where, true);
      to[n / 2] = n % 2 ? to[n / 2] | half << 16 : half;
    }
  });
}
static inline void wmma_store(u64 to, const u32 *from, u32 step, space where) {
  if (to % 32 || step % 4) throw (int)MISALIGNED;
  wmma_access([=] {
    for (unsigned n = 0; n < 8; n++) {
      unsigned e = ptx_thread() % WARP * 8 + n;
      store<u32>(to + 4 * (e / 16 * step + e % 16), from[n], 4, where, true);
    }
  });
}
/* Of TF32 a fragment has 8 x 16 or 16 x 8 elements of 32 bits; only their upper bits are multiplied. */
static inline u32 to_tf32(f32 value) {
  u32 bits = bits_of<u32>(value);
  return value != value ? 0x7fffffff : (bits + 0x1000) & 0xffffe000;
}
static inline void wmma_load_tf32(u32 *to, u64 from, u32 step, bool column, bool right, space where) {
  if (from % 32 || step % 4) throw (int)MISALIGNED;
  wmma_access([=] {
    for (unsigned n = 0; n < 4; n++) {
      unsigned e = ptx_thread() % WARP * 4 + n, columns = right ? 16 : 8, i = e / columns, j = e % columns;
      to[n] = load<u32>(from + 4 * (column ? j * step + i : i * step + j), 4, where, true);
    }
  });
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
/* Of bytes a register has four, neighbours along the terms of a sum, which are the rows of b. */
static inline void wmma_load_bytes(u32 *to, u64 from, u32 step, bool column, bool right, space where) {
  if (from % 16 || step % 16) throw (int)MISALIGNED;
  wmma_access([=] {
    for (unsigned n = 0; n < 8; n++) {
      unsigned e = ptx_thread() % WARP * 8 + n, line = e / 16, term = e % 16, i = right ? term : line, j = right ? line : term;
      u32 byte = load<u8>(from + (column ? j * step + i : i * step + j), 1, where, true);
      to[n / 4] = n % 4 ? to[n / 4] | byte << n % 4 * 8 : byte;
    }
  });
}
template <class T> static inline void wmma_mma_bytes(u32 *d, const u32 *a, const u32 *b, const u32 *c) {
  const unsigned warp = ptx_thread() / WARP, lane = ptx_thread() % WARP;
  for (unsigned n = 0; n < 2; n++) ptx_warp[0][warp][lane][n] = a[n], ptx_warp[1][warp][lane][n] = b[n];
  cuda_warp_wait();
  auto element = [&](unsigned side, unsigned line, unsigned term) {
    unsigned e = line * 16 + term;
    return (s32)(T)(ptx_warp[side][warp][e / 8][e % 8 / 4] >> e % 4 * 8);
  };
  for (unsigned n = 0; n < 8; n++) {
    unsigned e = lane * 8 + n, i = e / 16, j = e % 16;
    d[n] = c[n];
    for (unsigned k = 0; k < 16; k++) d[n] += (u32)(element(0, i, k) * element(1, j, k));
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

/* Products of warpgroups (PTX ISA, wgmma): they read shared memory by a way of their own, so that what threads write
 * there has to be fenced before the barrier behind which it is multiplied; and whenever they like until they are waited
 * for, which is the last moment here. A thread of 128 has pairs of two rows of the sums. */
enum { UNSEEN = 717 };
static bool ptx_unseen;
static inline void meet_before_products() { ptx_unseen = ptx_unseen || cuda_now->unseen; }
static inline void products_begin() {
  cuda_now->begun.push_back(cuda_now->issued);
  cuda_now->issued.clear();
}
static inline void products_fence() { cuda_warp_wait(), cuda_now->fenced = true; }
/* All but the last few groups of products have ended. What is done with the sums then has to be fenced again. */
static inline void products_end(unsigned in_flight) {
  cuda_warp_wait();
  if (ptx_unseen) throw (int)UNSEEN;
  while (cuda_now->begun.size() > in_flight) {
    for (auto &product : cuda_now->begun.front()) product();
    cuda_now->begun.erase(cuda_now->begun.begin());
  }
  cuda_now->fenced = false;
  cuda_warp_wait();
}
/* A warpgroup is four warps, the first of which has a number that is a multiple of four. */
template <class F> static inline void products_issue(F product) {
  if (blockDim.x * blockDim.y * blockDim.z % (4 * WARP) || !cuda_now->fenced) throw (int)UNSEEN;
  cuda_now->issued.push_back(product);
}
/* An element of a factor, by what its descriptor says: a field counts 16 bytes, and an address has 18 bits. */
template <class T> static inline f32 in_blocks(u64 descriptor, u64 shared, u64 size, u32 term, u32 across, bool turned) {
  auto field = [&](unsigned at) { return (descriptor >> at & 0x3fff) << 4; };
  if (descriptor >> 46) throw (int)ILLEGAL;
  const u64 to_terms = field(16), to_across = field(32);
  u64 at = (field(0) - shared & 0x3ffff) + term / 8 * to_terms + across / 8 * to_across;
  at += turned ? term % 8 * 16 + across % 8 * 2 : across % 8 * 16 + term % 8 * 2;
  if (shared % 16 || at + 2 > size) throw (int)ILLEGAL;
  u16 bits;
  memcpy(&bits, (const void *)(shared + at), sizeof bits);
  return widened<T>(bits);
}
template <class T, unsigned N> static inline void wgmma(u32 *d, u64 left, u64 right, u64 shared, u64 size, bool left_turned, bool right_turned) {
  const unsigned warp = ptx_thread() / WARP % 4, lane = ptx_thread() % WARP;
  for (unsigned n = 0; n < N / 2; n++) {
    const unsigned row = warp * 16 + lane / 4 + n / 2 % 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + n % 2;
    f32 sum = as<f32>(d[n]);
    for (unsigned k = 0; k < 16; k++)
      sum += in_blocks<T>(left, shared, size, k, row, left_turned) * in_blocks<T>(right, shared, size, k, column, right_turned);
    d[n] = bits_of<u32>(sum);
  }
}
#endif
