/* The CUDA driver's entry points that sterna_cuda calls, on this CPU: a *test driver*, not NVIDIA's. A module's PTX is
 * translated by ptx_on_cpu.py and compiled for the CPU, threads are fibers in random orders. As on a device, streams are
 * done only when somebody waits, accesses out of bounds lose the context until everybody has released it, and memory ends.
 *
 * It is no kinder than the documentation of the real one: nothing is asked before cuInit, nor in a forked process; handles are
 * of objects that live; contexts are current in one thread each; blocks, copies of graphs and events are held to their rules.
 *
 * Tests set what the driver and its device are like, and which call fails, by test_cuda_set; `kept` is another library's
 * use of the context, which a lost one outlives. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>
#include <unistd.h>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_modules.h"

#define API extern "C" __attribute__((visibility("default")))
typedef uint64_t address;

namespace {
const std::map<std::string, long> usual = {{"version", 12040}, {"capability", 75}, {"memory", 1L << 32}, {"devices", 1}, {"seed", 1}, {"kept", 0}};
std::map<std::string, long> settings = usual;
std::map<std::string, long> calls, failures; /* by function: calls so far; the code that the next one gives */
std::map<address, size_t> allocations, pinned;
size_t used;
int retained;
pid_t initialized; /* the process that called cuInit */
result lost; /* what every call in the context gives */
thread_local std::vector<void *> stack;
int context; /* its address is the context */
std::recursive_mutex mutex;
enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600 };

std::set<Stream *> streams;
std::set<Event *> events;
std::set<Graph *> graphs;
std::set<Exec *> executables;
std::set<Function *> functions;
std::set<Module *> modules;

template <class T> bool lives(const std::set<T *> &all, void *handle) { return all.count((T *)handle) != 0; }

result enter(const char *name, bool in_context = true) {
  calls[name]++;
  if (initialized != getpid() && strcmp(name, "cuInit") != 0) return NOT_INITIALIZED;
  auto found = failures.find(name);
  if (found != failures.end() && found->second != 0) {
    long code = found->second;
    failures.erase(found);
    return (result)code;
  }
  if (!in_context) return 0;
  if (lost) return lost;
  return stack.empty() || stack.back() != &context ? INVALID_CONTEXT : 0;
}

/* Whether bytes lie in one allocation. */
int valid(uint64_t at, uint64_t bytes) {
  auto after = allocations.upper_bound(at);
  if (after == allocations.begin()) return 0;
  --after;
  return at + bytes <= after->first + after->second;
}

result put(Stream *stream, Step step) {
  if (!lives(streams, stream)) return INVALID_HANDLE;
  stream->waiting.push_back(step);
  return 0;
}

result run(Stream *stream) {
  if (!lives(streams, stream)) return INVALID_HANDLE;
  while (!stream->waiting.empty() && !lost) {
    result code = stream->waiting.front()();
    stream->waiting.pop_front();
    if (code) lost = code;
  }
  return lost;
}

void destroy_context() {
  for (auto &each : allocations) free((void *)each.first);
  for (auto &each : pinned) free((void *)each.first);
  allocations.clear(), pinned.clear(), streams.clear(), events.clear(), graphs.clear(), executables.clear(), modules.clear(), functions.clear();
  used = 0, lost = 0;
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

#define ENTER(name)                                        \
  std::lock_guard<std::recursive_mutex> guard(mutex);      \
  if (result entered = enter(name)) return entered
#define ENTER_OUTSIDE(name)                                \
  std::lock_guard<std::recursive_mutex> guard(mutex);      \
  if (result entered = enter(name, false)) return entered
/* Of what destroys: also in a context that is lost, as the driver then frees on this side. */
#define ENTER_LAST(name, all, handle)                      \
  std::lock_guard<std::recursive_mutex> guard(mutex);      \
  if (result entered = enter(name)) {                      \
    if (!lost) return entered;                             \
  }                                                        \
  if (!lives(all, handle)) return INVALID_HANDLE

API void test_cuda_set(const char *key, long value) {
  if (strncmp(key, "fail ", 5) == 0) failures[key + 5] = value;
  else settings[key] = value;
}
API long test_cuda_calls(const char *name) { return calls[name]; }
API void test_cuda_reset() { calls.clear(), failures.clear(), settings = usual; if (retained == 0) destroy_context(); }
/* What is still held: memory, pinned memory, streams, uses of the context. */
API long test_cuda_held() {
  return (long)(allocations.size() + pinned.size() + streams.size() + events.size() + graphs.size() + executables.size() + modules.size()) + retained;
}

API result cuInit(unsigned flags) {
  ENTER_OUTSIDE("cuInit");
  if (flags != 0) return INVALID_VALUE;
  if (initialized != 0 && initialized != getpid()) return NOT_INITIALIZED; /* forked off a process that uses it */
  initialized = getpid();
  return 0;
}
API result cuDriverGetVersion(int *version) { /* before cuInit too */ *version = (int)settings["version"]; return 0; }
API result cuGetErrorName(result code, const char **name) {
  static const std::map<int, const char *> names = {
      {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {34, "CUDA_ERROR_STUB_LIBRARY"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
      {100, "CUDA_ERROR_NO_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"}, {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
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
API result cuDeviceGet(int *device, int n) {
  ENTER_OUTSIDE("cuDeviceGet");
  if (n < 0 || n >= settings["devices"]) return INVALID_DEVICE;
  *device = n;
  return 0;
}
API result cuDeviceGetName(char *name, int bytes, int device) { ENTER_OUTSIDE("cuDeviceGetName"); snprintf(name, (size_t)bytes, "Test GPU %d", device); return 0; }
/* Of the same table; attributes that nothing asks for are none. */
API result cuDeviceGetAttribute(int *value, int which, int) {
  ENTER_OUTSIDE("cuDeviceGetAttribute");
  long capability = settings["capability"];
  const std::map<int, long> values = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {8, SHARED}, {97, most_shared(settings["capability"])}, {75, capability / 10}, {76, capability % 10}};
  auto found = values.find(which);
  if (found == values.end()) return INVALID_VALUE;
  *value = (int)found->second;
  return 0;
}
API result cuDevicePrimaryCtxRetain(void **out, int) { ENTER_OUTSIDE("cuDevicePrimaryCtxRetain"); retained++; *out = &context; return 0; }
#ifdef OLDER_NAMES
#define cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease
#endif
API result cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (retained == 0) return INVALID_CONTEXT;
  if (--retained > 0 || settings["kept"]) return 0;
  destroy_context();
  return 0;
}
API result cuCtxPushCurrent_v2(void *which) {
  ENTER_OUTSIDE("cuCtxPushCurrent");
  if (which != &context || (retained == 0 && !settings["kept"])) return INVALID_CONTEXT;
  stack.push_back(which);
  return 0;
}
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
  if (bytes == 0) return INVALID_VALUE;
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
  if (bytes == 0) return INVALID_VALUE;
  *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  pinned[(address)*out] = bytes;
  return 0;
}
API result cuMemFreeHost(void *at) {
  ENTER("cuMemFreeHost");
  if (pinned.erase((address)at) == 0) return INVALID_VALUE;
  free(at);
  return 0;
}

static bool is_pinned(address at, size_t bytes) {
  for (auto &each : pinned)
    if (at >= each.first && at + bytes <= each.first + each.second) return true;
  return false;
}
/* A copy as it runs. */
static Step copies(address to, address from, size_t bytes, bool in) {
  return [=] { return valid(in ? to : from, bytes) ? (memcpy((void *)to, (const void *)from, bytes), 0) : 700; };
}
API result cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream) {
  ENTER("cuMemsetD8Async");
  if (!valid(at, bytes)) return INVALID_VALUE;
  return put((Stream *)stream, [=] { return valid(at, bytes) ? (memset((void *)at, value, bytes), 0) : 700; });
}
API result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (!valid(to, bytes)) return INVALID_VALUE;
  if (is_pinned((address)from, bytes)) return put((Stream *)stream, copies(to, (address)from, bytes, true));
  std::vector<char> copy((const char *)from, (const char *)from + bytes);
  return put((Stream *)stream, [=] { return valid(to, bytes) ? (memcpy((void *)to, copy.data(), bytes), 0) : 700; });
}
API result cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream) {
  ENTER("cuMemcpyDtoHAsync");
  if (!valid(from, bytes)) return INVALID_VALUE;
  if (result code = put((Stream *)stream, copies((address)to, from, bytes, false))) return code;
  return is_pinned((address)to, bytes) ? 0 : run((Stream *)stream);
}

API result cuStreamCreate(void **out, unsigned flags) {
  ENTER("cuStreamCreate");
  if (flags > 1) return INVALID_VALUE;
  *out = *streams.insert(new Stream).first;
  return 0;
}
API result cuStreamDestroy_v2(void *stream) {
  ENTER_LAST("cuStreamDestroy", streams, stream);
  streams.erase((Stream *)stream);
  delete (Stream *)stream;
  return 0;
}
API result cuStreamSynchronize(void *stream) { ENTER("cuStreamSynchronize"); return run((Stream *)stream); }
#ifndef WITHOUT_EVENTS
API result cuEventCreate(void **out, unsigned) { ENTER("cuEventCreate"); *out = *events.insert(new Event).first; return 0; }
API result cuEventDestroy_v2(void *event) {
  ENTER_LAST("cuEventDestroy", events, event);
  events.erase((Event *)event);
  delete (Event *)event;
  return 0;
}
API result cuEventRecord(void *event, void *stream) {
  ENTER("cuEventRecord");
  if (!lives(events, event)) return INVALID_HANDLE;
  Event *e = (Event *)event;
  e->recorded = true, e->done = false;
  return put((Stream *)stream, [=] { e->time = std::chrono::steady_clock::now(), e->done = true; return 0; });
}
API result cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  ENTER("cuEventElapsedTime");
  for (void *each : {start, end})
    if (!lives(events, each) || !((Event *)each)->recorded) return INVALID_HANDLE;
  for (void *each : {start, end})
    if (!((Event *)each)->done) return NOT_READY;
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
    else if (options[i] == 6) room = (size_t)values[i], values[i] = nullptr; /* how much of it is filled comes back here */
    else return INVALID_VALUE;
  int major = 0, minor = 0, capability = 0;
  char letter = 0;
  const char *version = strstr(text, "\n.version "), *target = strstr(text, "\n.target sm_");
  if (!version || !target || sscanf(version, "\n.version %d.%d", &major, &minor) != 2 || sscanf(target, "\n.target sm_%d%c", &capability, &letter) < 1) {
    snprintf(log, room, "ptxas fatal: no .version or .target");
    return 218;
  }
  /* The first release that reads a version of PTX: 6.3 is of CUDA 10.0, 7.0 of 11.0, 7.8 of 11.8. */
  int needed = major == 6 ? 10000 + (minor - 3) * 10 : (major + 4) * 1000 + minor * 10;
  if (settings["version"] < needed) return 222;
  bool is_of_one = letter == 'a'; /* sm_90a: of 9.0 and no other */
  if (is_of_one ? settings["capability"] != capability : settings["capability"] < capability) return 209;
  for (const char *at = strstr(text, ".shared ."); at; at = strstr(at + 1, ".shared .")) {
    const char *size = strchr(at, '['), *end = strchr(at, ';');
    if (size && end && size < end && strtol(size + 1, nullptr, 10) > 49152) {
      snprintf(log, room, "ptxas error   : Entry function uses too much shared data (%ld bytes, 49152 max)", strtol(size + 1, nullptr, 10));
      return 218;
    }
  }
  std::ostringstream stem;
  stem << FOLDER << "/" << std::hash<std::string>()(text);
  std::string library = stem.str() + ".so";
  if (access(library.c_str(), R_OK) != 0) {
    std::ofstream(stem.str() + ".ptx") << text;
    int status = 0;
    std::string own = stem.str() + "." + std::to_string(getpid());
    std::string said = shell("'" PYTHON "' '" SUPPORT "/ptx_on_cpu.py' '" + stem.str() + ".ptx' > '" + own + ".cpp' && " COMPILER
                             " " OPTIONS " -shared -I'" FOLDER "' -I'" SUPPORT "' '" + own +
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
    Entry &entry = module->entries[name];
    for (const char *p = strstr(at, ".param ."); p && p < end; p = strstr(p + 1, ".param ."))
      entry.sizes.push_back(atoi(p + 9) / 8);
    const char *body = strstr(end, "\n}"), *array = strstr(end, ".shared .align");
    if (array && body && array < body) entry.shared = (size_t)atol(strchr(array, '[') + 1);
  }
  *out = *modules.insert(module).first;
  return 0;
}
API result cuModuleUnload(void *module) {
  ENTER_LAST("cuModuleUnload", modules, module);
  for (Function *f : ((Module *)module)->functions) functions.erase(f), delete f;
  modules.erase((Module *)module);
  delete (Module *)module; /* its library may run in graphs that are destroyed later */
  return 0;
}
API result cuModuleGetFunction(void **out, void *module, const char *name) {
  ENTER("cuModuleGetFunction");
  if (!lives(modules, module)) return INVALID_HANDLE;
  Module *m = (Module *)module;
  auto entry = m->entries.find(name);
  if (entry == m->entries.end()) return 500;
  Function *f = new Function;
  *(void **)&f->launch = dlsym(m->library, (std::string("ptx_launch_") + name).c_str());
  f->block = (const unsigned *)dlsym(m->library, (std::string("ptx_block_") + name).c_str());
  f->sizes = entry->second.sizes, f->name = name;
  f->own = entry->second.shared, f->asked = SHARED - f->own;
  m->functions.push_back(f);
  *out = *functions.insert(f).first;
  return 0;
}
/* How many bytes of shared memory launches may ask for; more than a block has otherwise only where this says so. */
API result cuFuncSetAttribute(void *function, int which, int value) {
  ENTER("cuFuncSetAttribute");
  if (!lives(functions, function)) return INVALID_HANDLE;
  Function *f = (Function *)function;
  if (which != 8 || value < 0 || f->own + (size_t)value > (size_t)most_shared(settings["capability"])) return INVALID_VALUE;
  f->asked = (size_t)value;
  return 0;
}
/* A launch as it runs, or why there is none. */
static result launches(void *function, const unsigned *grid, const unsigned *block, unsigned shared, void **parameters, Step *out) {
  Function *f = (Function *)function;
  if (!lives(functions, function)) return INVALID_HANDLE;
  const unsigned most_blocks[3] = {0x7fffffffu, 65535, 65535}, most_threads[3] = {1024, 1024, 64};
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] == 0 || grid[axis] > most_blocks[axis] || block[axis] == 0 || block[axis] > most_threads[axis]) return INVALID_VALUE;
  if (grid[1] != 1 || grid[2] != 1 || block[0] * block[1] * block[2] > 1024 || shared > (settings["unannounced"] ? SHARED - f->own : f->asked)) return INVALID_VALUE;
  if (f->block[0] && memcmp(block, f->block, 3 * sizeof *block) != 0) return INVALID_VALUE; /* .reqntid */
  std::vector<uint64_t> given(f->sizes.size());
  for (size_t i = 0; i < given.size(); i++) memcpy(&given[i], parameters[i], (size_t)f->sizes[i]);
  auto launch = f->launch;
  std::vector<unsigned> at(grid, grid + 3), threads(block, block + 3);
  *out = [=]() mutable {
    std::vector<void *> pointers;
    for (uint64_t &value : given) pointers.push_back(&value);
    if (++calls["kernels"] == settings["lose kernel"]) return 719;
    return launch(at.data(), threads.data(), (unsigned)settings["seed"]++, shared, pointers.data());
  };
  return 0;
}
API result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                          void **parameters, void **) {
  ENTER("cuLaunchKernel");
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  Step step;
  if (result code = launches(function, grid, block, shared, parameters, &step)) return code;
  return put((Stream *)stream, step);
}

#ifndef WITHOUT_GRAPHS
/* CUDA_KERNEL_NODE_PARAMS_v1 and CUDA_MEMCPY3D_v2 */
struct KernelNode { void *function; unsigned grid[3], block[3], shared; void **parameters, **extra; };
struct Side { size_t x, y, z, lod; int kind; void *host; address device; void *array, *reserved; size_t pitch, height; };
struct Copy { Side from, to; size_t width, height, depth; };

/* A node behind another: nodes of this driver are done in the order in which they were added, which has to be theirs. */
static result add(void **node, void *graph, void *const *before, size_t n, Step step) {
  if (!lives(graphs, graph)) return INVALID_VALUE;
  Graph *g = (Graph *)graph;
  if (n != (g->nodes.empty() ? 0 : 1) || (n == 1 && before[0] != g->nodes.back())) return INVALID_VALUE;
  static char names[1 << 16];
  g->steps.push_back(step);
  g->nodes.push_back(*node = &names[g->nodes.size()]);
  return 0;
}
API result cuGraphCreate(void **out, unsigned) { ENTER("cuGraphCreate"); *out = *graphs.insert(new Graph).first; return 0; }
API result cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t n, const KernelNode *k) {
  ENTER("cuGraphAddKernelNode");
  Step step;
  if ((k->parameters == nullptr) == (k->extra == nullptr)) return INVALID_VALUE;
  if (result code = launches(k->function, k->grid, k->block, k->shared, k->parameters, &step)) return code;
  return add(node, graph, before, n, step);
}
API result cuGraphAddMemcpyNode(void **node, void *graph, void *const *before, size_t n, const Copy *c, void *in) {
  ENTER("cuGraphAddMemcpyNode");
  if (in != &context) return INVALID_CONTEXT;
  if (c->width == 0 || c->height != 1 || c->depth != 1) return INVALID_VALUE;
  for (const Side *side : {&c->from, &c->to}) {
    if (side->x || side->y || side->z || side->lod || side->array || side->reserved || side->pitch < c->width || side->height < 1) return INVALID_VALUE;
    if (side->kind == 1 ? !is_pinned((address)side->host, c->width) : side->kind != 2 || !valid(side->device, c->width)) return INVALID_VALUE;
  }
  if (c->from.kind == c->to.kind) return INVALID_VALUE; /* the runtime has no such copies */
  auto at = [](const Side &side) { return side.kind == 1 ? (address)side.host : side.device; };
  return add(node, graph, before, n, copies(at(c->to), at(c->from), c->width, c->to.kind == 2));
}
API result cuGraphAddEventRecordNode(void **node, void *graph, void *const *before, size_t n, void *event) {
  ENTER("cuGraphAddEventRecordNode");
  if (!lives(events, event)) return INVALID_HANDLE;
  Event *e = (Event *)event;
  e->recorded = true;
  return add(node, graph, before, n, [=] { e->time = std::chrono::steady_clock::now(), e->done = true; return 0; });
}
API result cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
  ENTER("cuGraphInstantiate");
  if (!lives(graphs, graph) || flags != 0) return INVALID_VALUE;
  *out = *executables.insert(new Exec{((Graph *)graph)->steps}).first;
  return 0;
}
API result cuGraphLaunch(void *executable, void *stream) {
  ENTER("cuGraphLaunch");
  if (!lives(executables, executable)) return INVALID_VALUE;
  for (auto &step : ((Exec *)executable)->steps)
    if (result code = put((Stream *)stream, step)) return code;
  return 0;
}
API result cuGraphDestroy(void *graph) {
  ENTER_LAST("cuGraphDestroy", graphs, graph);
  graphs.erase((Graph *)graph);
  delete (Graph *)graph;
  return 0;
}
API result cuGraphExecDestroy(void *executable) {
  ENTER_LAST("cuGraphExecDestroy", executables, executable);
  executables.erase((Exec *)executable);
  delete (Exec *)executable;
  return 0;
}
#endif
