/* What the test driver of CUDA has: streams, events and graphs, modules and kernels; and how much shared memory there is. */
#ifndef CUDA_MODULES_H
#define CUDA_MODULES_H
#include <stddef.h>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

typedef int result;
typedef std::function<result()> Step;
struct Stream { std::deque<Step> waiting; };
struct Event { bool recorded = false, done = false; std::chrono::steady_clock::time_point time; };
struct Graph { std::vector<Step> steps; std::vector<void *> nodes; };
struct Exec { std::vector<Step> steps; };

struct Function {
  int (*launch)(const unsigned *, const unsigned *, unsigned, unsigned, void **);
  const unsigned *block;
  std::vector<int> sizes;
  std::string name;
  size_t own, asked; /* bytes of shared memory that are the kernel's, and that a launch may ask for */
};
struct Entry { std::vector<int> sizes; size_t shared = 0; };
struct Module { void *library; std::map<std::string, Entry> entries; std::vector<Function *> functions; };

/* Shared memory of a block, and what it may ask for (the documentation's table of compute capabilities). */
enum { SHARED = 49152 };
static inline long most_shared(long capability) {
  return capability < 80 ? 64 << 10 : capability == 86 || capability == 89 || capability >= 120 ? 99 << 10 : capability < 90 ? 163 << 10 : 227 << 10;
}
#endif
