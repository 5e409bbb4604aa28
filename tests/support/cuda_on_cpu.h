/* CUDA's built-ins over fibers of one CPU thread, so that the text of a kernel runs where there is no GPU: the threads
 * of a block run one after another, in a random order drawn anew between barriers; so do blocks. */
#ifndef CUDA_ON_CPU_H
#define CUDA_ON_CPU_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define STERNA_ASKED(name, boundary) alignas(boundary) static unsigned char name[MOST_SHARED]
enum { MOST_SHARED = 227 << 10 }; /* that a launch may ask for */
#define __forceinline__ inline __attribute__((unused))
#define __launch_bounds__(...)

struct cuda_place { unsigned x, y, z; };
static cuda_place blockIdx, blockDim, gridDim;

static inline float __int_as_float(int bits) { float value; memcpy(&value, &bits, 4); return value; }

enum { FIBER_STACK = 1 << 18, WARP = 32, RUNS = 0, WAITS = 1, ENDED = 2, MEETS = 3 };
struct cuda_fiber {
  ucontext_t context;
  cuda_place place;
  int state;
  unsigned together; /* of its warp's threads, how many it waits for */
  std::unique_ptr<char[]> stack;
  unsigned batches = 0; /* of asynchronous copies */
  std::vector<std::pair<unsigned, std::function<void()>>> later; /* by batch, what copies do when they are waited for */
  std::vector<std::function<void()>> issued; /* what products of warpgroups do when they are waited for */
  std::vector<std::vector<std::function<void()>>> begun; /* by group */
  unsigned asked = 0; /* how often it came to a barrier that asks */
  bool fenced = false; /* whether such products may have the registers */
  bool unseen = false; /* whether it has written what no such product would see */
};
static std::vector<cuda_fiber> cuda_fibers;
static cuda_fiber *cuda_now;
static ucontext_t cuda_scheduler;
static std::function<void()> cuda_kernel;
static unsigned cuda_seed;
#define threadIdx (cuda_now->place)

static void cuda_begin() { cuda_kernel(); cuda_now->state = ENDED; }
static inline void __syncthreads() { cuda_now->state = WAITS; swapcontext(&cuda_now->context, &cuda_scheduler); }

/* Blocks run one after another, and each sees what those before it wrote. */
static inline void __threadfence() {}
static inline unsigned atomicInc(unsigned *counter, unsigned last) {
  const unsigned before = *counter;
  *counter = before >= last ? 0 : before + 1;
  return before;
}

/* A barrier, and whether any thread says so: of threads that run one after another the first one behind it forgets. */
static int cuda_said[2], cuda_asked;
static inline int __syncthreads_or(int says) {
  const int turn = cuda_now->asked++ % 2;
  if (turn != cuda_asked) cuda_asked = turn, cuda_said[turn] = 0;
  cuda_said[turn] |= says;
  __syncthreads();
  return cuda_said[turn];
}

/* Waits for the other threads of the warp, so many in all. */
static inline void cuda_warp_wait(unsigned together = WARP) {
  cuda_now->together = together;
  cuda_now->state = MEETS; swapcontext(&cuda_now->context, &cuda_scheduler);
}

/* Exchanges: each thread of a mask gives a value, then takes that of another; both times all of them wait. */
static uint64_t cuda_given[32][WARP];
static inline unsigned cuda_thread();
template <class T> static inline T cuda_from(unsigned mask, T value, unsigned lane_xor) {
  const unsigned warp = cuda_thread() / WARP, lane = cuda_thread() % WARP, count = __builtin_popcount(mask);
  cuda_given[warp][lane] = 0;
  memcpy(&cuda_given[warp][lane], &value, sizeof value);
  cuda_warp_wait(count);
  /* What a thread outside of the mask has is not known. */
  const uint64_t bits = mask >> (lane ^ lane_xor) & 1 ? cuda_given[warp][lane ^ lane_xor] : 0x7e7e7e7e7e7e7e7eu;
  memcpy(&value, &bits, sizeof value);
  cuda_warp_wait(count);
  return value;
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lane_xor) {
  return cuda_from(mask, value, lane_xor);
}

/* Lets go on what waits for its warp, where all of that has come; false if some thread never will. */
static inline bool cuda_warps_meet(std::vector<cuda_fiber *> &ready) {
  ready.clear();
  bool missing = false;
  for (size_t first = 0; first < cuda_fibers.size(); first += WARP) {
    size_t end = std::min(first + WARP, cuda_fibers.size()), meeting = 0;
    bool alike = true;
    for (size_t n = first; n < end; n++) meeting += cuda_fibers[n].state == MEETS;
    for (size_t n = first; n < end; n++) alike = alike && cuda_fibers[n].together == meeting;
    if (meeting && (meeting < end - first || !alike)) missing = true;
    else if (meeting)
      for (size_t n = first; n < end; n++) cuda_fibers[n].state = RUNS, ready.push_back(&cuda_fibers[n]);
  }
  return !missing;
}

static inline unsigned cuda_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* Runs a kernel whose threads never wait: they need no stacks of their own. */
static inline int cuda_launch_alone(cuda_place grid, cuda_place block, unsigned seed, std::function<void()> kernel) {
  std::mt19937 random(seed);
  cuda_seed = seed;
  cuda_fiber alone;
  std::vector<unsigned> order(block.x * block.y * block.z);
  for (unsigned n = 0; n < order.size(); n++) order[n] = n;
  cuda_now = &alone, gridDim = grid, blockDim = block;
  for (blockIdx = {0, 0, 0}; blockIdx.x < grid.x; blockIdx.x++) {
    if (seed) std::shuffle(order.begin(), order.end(), random);
    for (unsigned n : order) {
      alone.place = {n % block.x, n / block.x % block.y, n / block.x / block.y};
      kernel();
    }
  }
  return 0;
}

static std::vector<unsigned> cuda_blocks;
static void cuda_order(unsigned count, unsigned seed) {
  std::mt19937 random(seed);
  cuda_blocks.clear();
  for (unsigned n = 0; n < count; n++) cuda_blocks.push_back(n);
  if (seed) std::shuffle(cuda_blocks.begin(), cuda_blocks.end(), random);
}

/* Runs a kernel; 1 if threads of a block wait at a barrier, or for their warp, where others never come. */
static inline int cuda_launch(cuda_place grid, cuda_place block, unsigned seed, std::function<void()> kernel) {
  std::mt19937 random(seed);
  cuda_seed = seed, cuda_kernel = kernel, gridDim = grid, blockDim = block;
  cuda_order(grid.x, seed);
  for (unsigned run = 0; run < grid.x; run++) {
    blockIdx = {cuda_blocks[run], 0, 0};
    cuda_fibers.clear();
    cuda_asked = 1; /* the turn before the first */
    cuda_fibers.resize(block.x * block.y * block.z);
    for (size_t n = 0; n < cuda_fibers.size(); n++) {
      cuda_fiber &f = cuda_fibers[n];
      f.place = {unsigned(n % block.x), unsigned(n / block.x % block.y), unsigned(n / block.x / block.y)};
      f.state = RUNS, f.together = WARP, f.stack.reset(new char[FIBER_STACK]);
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = FIBER_STACK;
      f.context.uc_link = &cuda_scheduler;
      makecontext(&f.context, cuda_begin, 0);
    }
    for (;;) {
      std::vector<cuda_fiber *> ready;
      for (cuda_fiber &f : cuda_fibers) if (f.state != ENDED) f.state = RUNS, ready.push_back(&f);
      if (ready.empty()) break;
      if (ready.size() < cuda_fibers.size()) return 1;
      do {
        if (seed) std::shuffle(ready.begin(), ready.end(), random);
        for (cuda_fiber *f : ready) cuda_now = f, swapcontext(&cuda_scheduler, &f->context);
        if (!cuda_warps_meet(ready)) return 1;
      } while (!ready.empty());
    }
  }
  return 0;
}
#endif
