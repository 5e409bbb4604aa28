/* The CUDA driver's entry points that sterna_cuda calls, on this CPU: a *test driver*, not NVIDIA's. A module's PTX is
 * translated by ptx_on_cpu.py and compiled for the CPU, threads are fibers in random orders. As on a device, streams are
 * done only when somebody waits, accesses out of bounds lose the context until everybody has released it, and memory ends.
 *
 * Tests set what the driver and its device are like, and which call fails, by test_cuda_set. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>
#include <unistd.h>
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
typedef int result;
typedef uint64_t address;

namespace {
std::map<std::string, long> settings = {{"version", 12040}, {"capability", 75}, {"memory", 1L << 32}, {"devices", 1}, {"seed", 1}};
std::map<std::string, long> calls, failures; /* by function: calls so far; the code that the next one gives */
std::map<address, size_t> allocations, pinned;
size_t used;
int retained, generation;
result lost; /* what every call in the context gives */
std::vector<void *> stack;
int context; /* its address is the context */

struct Stream {
  std::deque<std::function<result()>> waiting;
  std::vector<std::function<result()>> *captured = nullptr;
};
struct Event { std::chrono::steady_clock::time_point time; };
struct Graph { std::vector<std::function<result()>> steps; };
struct Function { int (*launch)(const unsigned *, const unsigned *, unsigned, void **); const unsigned *block; std::vector<int> sizes; std::string name; };
struct Module { void *library; std::map<std::string, std::vector<int>> entries; std::vector<Function *> functions; };
std::set<Stream *> streams;
std::map<Stream *, Graph *> capturing;

result enter(const char *name, bool in_context = true) {
  calls[name]++;
  auto found = failures.find(name);
  if (found != failures.end() && found->second != 0) {
    long code = found->second;
    failures.erase(found);
    return (result)code;
  }
  if (!in_context) return 0;
  if (lost) return lost;
  return stack.empty() || stack.back() != &context ? 201 : 0; /* CUDA_ERROR_INVALID_CONTEXT */
}

/* Whether bytes lie in one allocation. */
int valid(uint64_t at, uint64_t bytes) {
  auto after = allocations.upper_bound(at);
  if (after == allocations.begin()) return 0;
  --after;
  return at + bytes <= after->first + after->second;
}

result put(Stream *stream, std::function<result()> step) {
  auto graph = capturing.find(stream);
  if (graph != capturing.end()) graph->second->steps.push_back(step);
  else stream->waiting.push_back(step);
  return 0;
}

result run(Stream *stream) {
  while (!stream->waiting.empty() && !lost) {
    result code = stream->waiting.front()();
    stream->waiting.pop_front();
    if (code) lost = code;
  }
  return lost;
}

std::string shell(const std::string &command, int *status) {
  std::string text;
  char part[512];
  FILE *pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  while (pipe && fgets(part, sizeof part, pipe)) text += part;
  *status = pipe ? pclose(pipe) : -1;
  return text;
}
}  // namespace

#define ENTER(name)                           \
  if (result entered = enter(name)) return entered
#define ENTER_OUTSIDE(name)                          \
  if (result entered = enter(name, false)) return entered

API void test_cuda_set(const char *key, long value) {
  if (strncmp(key, "fail ", 5) == 0) failures[key + 5] = value;
  else settings[key] = value;
}
API long test_cuda_calls(const char *name) { return calls[name]; }
API void test_cuda_reset() { calls.clear(), failures.clear(), settings = {{"version", 12040}, {"capability", 75}, {"memory", 1L << 32}, {"devices", 1}, {"seed", 1}}; }
/* What is still held: memory, pinned memory, streams, uses of the context. */
API long test_cuda_held() { return (long)(allocations.size() + pinned.size() + streams.size()) + retained; }

API result cuInit(unsigned) { ENTER_OUTSIDE("cuInit"); return 0; }
API result cuDriverGetVersion(int *version) { *version = (int)settings["version"]; return 0; }
API result cuGetErrorName(result code, const char **name) {
  static const std::map<int, const char *> names = {
      {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
  auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? 1 : 0;
}
API result cuGetErrorString(result code, const char **text) {
  *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : "words of the test driver";
  return 0;
}
API result cuDeviceGetCount(int *n) { ENTER_OUTSIDE("cuDeviceGetCount"); *n = (int)settings["devices"]; return 0; }
API result cuDeviceGet(int *device, int n) { *device = n; return 0; }
API result cuDeviceGetName(char *name, int bytes, int device) { snprintf(name, (size_t)bytes, "Test GPU %d", device); return 0; }
API result cuDeviceGetAttribute(int *value, int which, int) {
  long capability = settings["capability"];
  *value = which == 1 ? 1024 : which == 8 ? 49152 : which == 75 ? (int)(capability / 10) : which == 76 ? (int)(capability % 10) : 0;
  return 0;
}
API result cuDevicePrimaryCtxRetain(void **out, int) { ENTER_OUTSIDE("cuDevicePrimaryCtxRetain"); retained++; *out = &context; return 0; }
API result cuDevicePrimaryCtxRelease(int) {
  if (--retained > 0) return 0;
  for (auto &each : allocations) free((void *)each.first);
  for (auto &each : pinned) free((void *)each.first);
  allocations.clear(), pinned.clear(), streams.clear();
  used = 0, lost = 0, generation++;
  return 0;
}
API result cuCtxPushCurrent_v2(void *which) { ENTER_OUTSIDE("cuCtxPushCurrent"); stack.push_back(which); return 0; }
API result cuCtxPopCurrent_v2(void **which) {
  if (stack.empty()) abort(); /* more pops than pushes */
  *which = stack.back();
  stack.pop_back();
  return 0;
}
API long test_cuda_current() { return (long)stack.size(); }

API result cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  for (Stream *stream : streams)
    if (result code = run(stream)) return code;
  return 0;
}
API result cuPointerGetAttribute(void *out, int which, address at) {
  ENTER("cuPointerGetAttribute");
  if (which != 9 || !valid(at, 1)) return 1;
  *(int *)out = 0;
  return 0;
}
API result cuMemGetInfo_v2(size_t *unused, size_t *all) { *all = (size_t)settings["memory"], *unused = *all - used; return 0; }
API result cuMemAlloc_v2(address *out, size_t bytes) {
  ENTER("cuMemAlloc");
  if (used + bytes > (size_t)settings["memory"]) return 2;
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(memory, 0xA5, bytes);
  *out = (address)memory;
  allocations[*out] = bytes, used += bytes;
  return 0;
}
API result cuMemFree_v2(address at) {
  ENTER("cuMemFree");
  auto found = allocations.find(at);
  if (found == allocations.end()) return 1;
  used -= found->second;
  allocations.erase(found);
  free((void *)at);
  return 0;
}
API result cuMemAllocHost_v2(void **out, size_t bytes) {
  ENTER("cuMemAllocHost");
  *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  pinned[(address)*out] = bytes;
  return 0;
}
API result cuMemFreeHost(void *at) { ENTER("cuMemFreeHost"); pinned.erase((address)at); free(at); return 0; }

static bool is_pinned(address at, size_t bytes) {
  for (auto &each : pinned)
    if (at >= each.first && at + bytes <= each.first + each.second) return true;
  return false;
}
API result cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream) {
  ENTER("cuMemsetD8Async");
  return put((Stream *)stream, [=] { return valid(at, bytes) ? (memset((void *)at, value, bytes), 0) : 700; });
}
API result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (is_pinned((address)from, bytes)) return put((Stream *)stream, [=] { return valid(to, bytes) ? (memcpy((void *)to, from, bytes), 0) : 700; });
  std::vector<char> copy((const char *)from, (const char *)from + bytes);
  return put((Stream *)stream, [=] { return valid(to, bytes) ? (memcpy((void *)to, copy.data(), bytes), 0) : 700; });
}
API result cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream) {
  ENTER("cuMemcpyDtoHAsync");
  put((Stream *)stream, [=] { return valid(from, bytes) ? (memcpy(to, (const void *)from, bytes), 0) : 700; });
  return is_pinned((address)to, bytes) ? 0 : run((Stream *)stream);
}

API result cuStreamCreate(void **out, unsigned) { ENTER("cuStreamCreate"); *out = *streams.insert(new Stream).first; return 0; }
API result cuStreamDestroy_v2(void *stream) { streams.erase((Stream *)stream); delete (Stream *)stream; return 0; }
API result cuStreamSynchronize(void *stream) {
  ENTER("cuStreamSynchronize");
  return run((Stream *)stream);
}
#ifndef WITHOUT_EVENTS
API result cuEventCreate(void **out, unsigned) { ENTER("cuEventCreate"); *out = new Event; return 0; }
API result cuEventDestroy_v2(void *event) { delete (Event *)event; return 0; }
API result cuEventRecord(void *event, void *stream) {
  ENTER("cuEventRecord");
  return put((Stream *)stream, [=] { ((Event *)event)->time = std::chrono::steady_clock::now(); return 0; });
}
API result cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  ENTER("cuEventElapsedTime");
  *milliseconds = std::chrono::duration<float, std::milli>(((Event *)end)->time - ((Event *)start)->time).count();
  return 0;
}
#endif

API result cuModuleLoadDataEx(void **out, const char *text, unsigned n, int *options, void **values) {
  ENTER("cuModuleLoadDataEx");
  char *log = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < n; i++)
    if (options[i] == 5) log = (char *)values[i];
    else if (options[i] == 6) room = (size_t)values[i];
  int major = 0, minor = 0, capability = 0;
  const char *version = strstr(text, "\n.version "), *target = strstr(text, "\n.target sm_");
  if (!version || !target || sscanf(version, "\n.version %d.%d", &major, &minor) != 2 || sscanf(target, "\n.target sm_%d", &capability) != 1) {
    snprintf(log, room, "ptxas fatal: no .version or .target");
    return 218;
  }
  /* The first release that reads a version of PTX: 6.3 is of CUDA 10.0, 7.0 of 11.0, 7.8 of 11.8. */
  int needed = major == 6 ? 10000 + (minor - 3) * 10 : (major + 4) * 1000 + minor * 10;
  if (settings["version"] < needed) return 222;
  if (settings["capability"] < capability) return 209;
  std::ostringstream stem;
  stem << FOLDER << "/" << std::hash<std::string>()(text);
  std::string library = stem.str() + ".so";
  if (access(library.c_str(), R_OK) != 0) {
    std::ofstream(stem.str() + ".ptx") << text;
    int status = 0;
    std::string own = stem.str() + "." + std::to_string(getpid());
    std::string said = shell("'" PYTHON "' '" SUPPORT "/ptx_on_cpu.py' '" + stem.str() + ".ptx' > '" + own + ".cpp' && " COMPILER
                             " -std=gnu++17 -O1 -ffp-contract=off -fno-strict-aliasing -fPIC -shared -w -I'" SUPPORT "' '" + own +
                             ".cpp' -o '" + own + ".so' && mv '" + own + ".so' '" + library + "'", &status);
    if (status != 0) {
      size_t last = said.find_last_not_of("\n"), line = last == std::string::npos ? 0 : said.rfind('\n', last);
      snprintf(log, room, "%s", said.c_str() + (line == std::string::npos ? 0 : line + 1));
      return 218;
    }
  }
  Module *module = new Module;
  module->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module->library) abort();
  *(int (**)(uint64_t, uint64_t))dlsym(module->library, "ptx_valid") = valid;
  for (const char *at = strstr(text, ".visible .entry "); at; at = strstr(at + 1, ".visible .entry ")) {
    std::string name(at + 16, strcspn(at + 16, "("));
    const char *end = strchr(at, ')');
    for (const char *p = strstr(at, ".param ."); p && p < end; p = strstr(p + 1, ".param ."))
      module->entries[name].push_back(atoi(p + 9) / 8);
  }
  *out = module;
  return 0;
}
API result cuModuleUnload(void *module) {
  for (Function *f : ((Module *)module)->functions) delete f;
  delete (Module *)module; /* its library may run in graphs that are destroyed later */
  return 0;
}
API result cuModuleGetFunction(void **out, void *module, const char *name) {
  ENTER("cuModuleGetFunction");
  Module *m = (Module *)module;
  auto entry = m->entries.find(name);
  if (entry == m->entries.end()) return 500;
  Function *f = new Function;
  *(void **)&f->launch = dlsym(m->library, (std::string("ptx_launch_") + name).c_str());
  f->block = (const unsigned *)dlsym(m->library, (std::string("ptx_block_") + name).c_str());
  f->sizes = entry->second, f->name = name;
  m->functions.push_back(f);
  *out = f;
  return 0;
}
API result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                          void **parameters, void **) {
  ENTER("cuLaunchKernel");
  Function *f = (Function *)function;
  const unsigned block[3] = {bx, by, bz};
  if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || by == 0 || bz == 0 || bx * by * bz > 1024 || shared != 0) return 1;
  if (f->block[0] && memcmp(block, f->block, sizeof block) != 0) return 1; /* .reqntid */
  std::vector<uint64_t> given(f->sizes.size());
  for (size_t i = 0; i < given.size(); i++) memcpy(&given[i], parameters[i], (size_t)f->sizes[i]);
  auto launch = f->launch;
  return put((Stream *)stream, [=]() mutable {
    std::vector<void *> pointers;
    for (uint64_t &value : given) pointers.push_back(&value);
    const unsigned grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    calls["kernels"]++;
    return launch(grid, threads, (unsigned)settings["seed"]++, pointers.data());
  });
}

#ifndef WITHOUT_GRAPHS
API result cuStreamBeginCapture_v2(void *stream, int) { ENTER("cuStreamBeginCapture"); capturing[(Stream *)stream] = new Graph; return 0; }
API result cuStreamEndCapture(void *stream, void **out) {
  *out = capturing[(Stream *)stream];
  capturing.erase((Stream *)stream);
  ENTER("cuStreamEndCapture");
  return 0;
}
API result cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long) { ENTER("cuGraphInstantiate"); *out = new Graph(*(Graph *)graph); return 0; }
API result cuGraphLaunch(void *graph, void *stream) {
  ENTER("cuGraphLaunch");
  for (auto &step : ((Graph *)graph)->steps) put((Stream *)stream, step);
  return 0;
}
API result cuGraphDestroy(void *graph) { delete (Graph *)graph; return 0; }
API result cuGraphExecDestroy(void *graph) { delete (Graph *)graph; return 0; }
#endif
