/* The Objective-C runtime and of Metal what sterna_metal speaks to, on this CPU: a *stand-in*, not Apple's. Messages are sent
 * through registers and the stack as on x86-64, so that a wrong prototype is a wrong argument. Objects are counted, autoreleased ones
 * need a pool, and buffers, encoders and groups are held to the rules of Metal's documentation; what breaks one aborts. Kernels are
 * those of `kernels` below.
 *
 * main() drives the table of sterna_metal and prints what it found. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sterna_metal.h"

extern "C" {
void *fake_open(const char *name);
void (*fake_symbol(void *library, const char *name))(void);
void test_send(void);
void *test_lookup(void *self, const char *selector);
}

namespace {
struct Size { unsigned long x, y, z; };
struct Object;
typedef std::map<unsigned long, std::pair<Object *, unsigned long>> Bound;
struct Dispatch { std::string kernel; Bound buffers; std::vector<char> bytes; unsigned long bytes_at; Size groups, threads; };
struct Object {
  std::string kind, text;
  int count = 1;
  std::vector<uint8_t> memory;
  std::vector<Dispatch> steps; /* of commands */
  Object *owner = nullptr;     /* of an encoder: its commands */
  Dispatch next;
  bool ended = false, committed = false;
};
std::set<Object *> alive;
std::vector<std::vector<Object *>> pools;
std::set<std::string> opened;
bool fails; /* the next commands */
unsigned long most_threads = 1024;

[[noreturn]] void broken(const std::string &what) { std::fprintf(stderr, "broken: %s\n", what.c_str()); std::abort(); }
Object *make(const char *kind, std::string text = "") {
  Object *o = new Object;
  o->kind = kind, o->text = text;
  alive.insert(o);
  return o;
}
void release(Object *o) {
  if (!alive.count(o)) broken("released once too often");
  if (--o->count == 0) alive.erase(o), delete o;
}
Object *autoreleased(Object *o) {
  if (pools.empty()) broken(o->kind + " is autoreleased, and there is no pool");
  pools.back().push_back(o);
  return o;
}
std::string text_in(Object *o) { return std::string((const char *)o->memory.data(), o->memory.size()); }

/* By name, what a task does: buffers by place, the number of the task. */
typedef std::function<void(const std::function<uint8_t *(unsigned long)> &, uint32_t)> Kernel;
const std::map<std::string, Kernel> kernels = {
    {"increment", [](auto at, uint32_t task) { ((float *)at(1))[task] = ((float *)at(0))[task] + 1; }},
    {"twice", [](auto at, uint32_t task) { ((float *)at(1))[task] = ((float *)at(0))[task] * 2; }},
};

void run(const Dispatch &d) {
  uint32_t tasks;
  memcpy(&tasks, d.bytes.data(), sizeof tasks);
  bool groups = d.kernel == "twice"; /* else threads share the tasks */
  if (groups && d.groups.x != tasks) broken("a group for each task");
  if (!groups && d.groups.x * d.threads.x < 1) broken("no threads");
  for (uint32_t task = 0; task < tasks; task++)
    kernels.at(d.kernel)([&](unsigned long place) { return d.buffers.at(place).first->memory.data() + d.buffers.at(place).second; }, task);
}

typedef const char *Sel;
typedef void (*Method)(void);
#define METHOD(...) ((Method)(__VA_ARGS__))
const std::map<std::string, Method> methods = {
    {"class NSString alloc", METHOD(+[](Object *, Sel) { return make("NSString"); })},
    {"NSString initWithBytes:length:encoding:", METHOD(+[](Object *o, Sel, const char *text, unsigned long n, unsigned long encoding) {
       if (encoding != 4) broken("not UTF-8");
       o->memory.assign(text, text + n);
       return o;
     })},
    {"NSString UTF8String", METHOD(+[](Object *o, Sel) { return o->text.c_str(); })},
    {"class MTLCompileOptions alloc", METHOD(+[](Object *, Sel) { return make("MTLCompileOptions", "fast"); })},
    {"MTLCompileOptions init", METHOD(+[](Object *o, Sel) { return o; })},
    {"MTLCompileOptions setFastMathEnabled:", METHOD(+[](Object *o, Sel, bool on) { o->text = on ? "fast" : "exact"; })},
    {"device name", METHOD(+[](Object *, Sel) { return autoreleased(make("NSString", "Test GPU")); })},
    {"device maxThreadgroupMemoryLength", METHOD(+[](Object *, Sel) { return 32768ul; })},
    {"device newCommandQueue", METHOD(+[](Object *, Sel) { return make("queue"); })},
    {"device newBufferWithLength:options:", METHOD(+[](Object *, Sel, unsigned long bytes, unsigned long options) -> Object * {
       if (options != 0) broken("not shared, as its contents are used");
       if (bytes == 0 || bytes > (1ul << 30)) return nullptr;
       Object *o = make("buffer");
       o->memory.resize(bytes);
       return o;
     })},
    {"device newLibraryWithSource:options:error:", METHOD(+[](Object *, Sel, Object *text, Object *options, Object **problem) -> Object * {
       if (options->text != "exact") broken("compiled with fast math");
       std::string source = text_in(text);
       if (source.find("kernel") != std::string::npos) return make("library", source);
       *problem = autoreleased(make("NSError", "program_source:1:1: error: expected a kernel"));
       return nullptr;
     })},
    {"library newFunctionWithName:", METHOD(+[](Object *o, Sel, Object *name) -> Object * {
       return o->text.find("kernel void " + text_in(name)) != std::string::npos ? make("function", text_in(name)) : nullptr;
     })},
    {"device newComputePipelineStateWithFunction:error:", METHOD(+[](Object *, Sel, Object *function, Object **) {
       return make("pipeline", function->text);
     })},
    {"pipeline maxTotalThreadsPerThreadgroup", METHOD(+[](Object *, Sel) { return most_threads; })},
    {"buffer contents", METHOD(+[](Object *o, Sel) { return o->memory.data(); })},
    {"queue commandBuffer", METHOD(+[](Object *, Sel) { return autoreleased(make("commands")); })},
    {"commands computeCommandEncoder", METHOD(+[](Object *o, Sel) {
       Object *encoder = make("encoder");
       encoder->owner = o;
       return autoreleased(encoder);
     })},
    {"encoder setComputePipelineState:", METHOD(+[](Object *o, Sel, Object *pipeline) { o->next.kernel = pipeline->text; })},
    {"encoder setBuffer:offset:atIndex:", METHOD(+[](Object *o, Sel, Object *buffer, unsigned long offset, unsigned long at) {
       if (at > 30 || offset % 4 != 0 || offset >= buffer->memory.size() || buffer->kind != "buffer") broken("a buffer's place or offset");
       o->next.buffers[at] = {buffer, offset};
     })},
    {"encoder setBytes:length:atIndex:", METHOD(+[](Object *o, Sel, const char *bytes, unsigned long n, unsigned long at) {
       if (at > 30 || n > 4096) broken("bytes of a launch");
       o->next.bytes.assign(bytes, bytes + n);
       o->next.bytes_at = at;
     })},
    {"encoder dispatchThreadgroups:threadsPerThreadgroup:", METHOD(+[](Object *o, Sel, Size groups, Size threads) {
       if (o->ended) broken("an encoder that has ended");
       for (unsigned long n : {groups.x, groups.y, groups.z, threads.x, threads.y, threads.z})
         if (n == 0) broken("groups of nothing");
       if (threads.x * threads.y * threads.z > most_threads) broken("too many threads of a group");
       if (o->next.bytes_at != o->next.buffers.size()) broken("buffers that are not one after another");
       o->next.groups = groups, o->next.threads = threads;
       o->owner->steps.push_back(o->next);
     })},
    {"encoder endEncoding", METHOD(+[](Object *o, Sel) { o->ended = o->owner->ended = true; })},
    {"commands commit", METHOD(+[](Object *o, Sel) {
       if (!o->ended || o->committed) broken("committed before its encoder ended, or twice");
       o->committed = true;
     })},
    {"commands waitUntilCompleted", METHOD(+[](Object *o, Sel) {
       if (!o->committed) broken("waits for what was not committed");
       if (!fails) for (const Dispatch &each : o->steps) run(each);
     })},
    {"commands status", METHOD(+[](Object *, Sel) { return fails ? 5ul : 4ul; })},
    {"commands error", METHOD(+[](Object *, Sel) { return autoreleased(make("NSError", "Caused GPU Hang Error")); })},
    {"NSError localizedDescription", METHOD(+[](Object *o, Sel) { return autoreleased(make("NSString", o->text)); })},
    {"commands GPUStartTime", METHOD(+[](Object *, Sel) { return 1.0; })},
    {"commands GPUEndTime", METHOD(+[](Object *, Sel) { return 1.5; })},
};
}  // namespace

extern "C" void *test_lookup(void *self, const char *selector) {
  if (self == nullptr) return (void *)+[]() -> void * { return nullptr; };
  Object *o = (Object *)self;
  if (!alive.count(o)) broken(std::string("a message to what is gone: ") + selector);
  std::string what = selector;
  if (what == "retain") return (void *)+[](Object *each, Sel) { each->count++; return each; };
  if (what == "release") return (void *)+[](Object *each, Sel) { release(each); };
  auto found = methods.find(o->kind + " " + what);
  if (found == methods.end()) broken(o->kind + " does not know " + what);
  return (void *)found->second;
}

/* As objc_msgSend: finds the method, and jumps there with all arguments as they were. */
asm(".globl test_send\ntest_send:\n"
    "pushq %rdi\npushq %rsi\npushq %rdx\npushq %rcx\npushq %r8\npushq %r9\nsubq $8, %rsp\n"
    "call test_lookup@PLT\n"
    "addq $8, %rsp\npopq %r9\npopq %r8\npopq %rcx\npopq %rdx\npopq %rsi\npopq %rdi\n"
    "jmpq *%rax\n");

void *fake_open(const char *name) {
  opened.insert(strrchr(name, '/') + 1);
  return &opened;
}
void (*fake_symbol(void *, const char *name))(void) {
  static const std::map<std::string, Method> symbols = {
      {"objc_getClass", METHOD(+[](const char *of) {
         static auto &classes = *new std::map<std::string, Object *>; /* for good */
         Object *&found = classes[of];
         if (!found) found = make(("class " + std::string(of)).c_str());
         return found;
       })},
      {"sel_registerName", METHOD(+[](const char *of) { return of; })},
      {"objc_autoreleasePoolPush", METHOD(+[]() { pools.emplace_back(); return (void *)(uintptr_t)pools.size(); })},
      {"objc_autoreleasePoolPop", METHOD(+[](void *pool) {
         if ((uintptr_t)pool != pools.size()) broken("pools are popped in another order");
         std::vector<Object *> last = pools.back();
         pools.pop_back();
         for (Object *each : last) release(each);
       })},
      {"objc_msgSend", test_send},
      {"MTLCreateSystemDefaultDevice", METHOD(+[]() { return opened.count("CoreGraphics") ? make("device") : nullptr; })},
  };
  return symbols.at(name);
}

/* ---- What is tried ---- */
static void expect(bool good, const char *what, const char *said = "") { if (!good) broken(std::string(what) + ": " + said); }

int main() {
  const sterna_device_api *api = sterna_metal();
  sterna_error error = {};
  char text[64];
  expect(sterna_metal_describe(text, sizeof text, &error) == STERNA_OK, "describe", error.message);
  std::printf("%s\n", text);
  std::string source = "kernel void increment() {} kernel void twice() {}";
  sterna_device_kernel list[2] = {{"increment", {0, 0, 0}, 200, 3, 0, 0}, {"twice", {32, 2, 1}, 0, 3, 0, 64}};
  sterna_device_module module = {sizeof module, "kernels.metal", source.data(), source.size(), 0, "", nullptr, 2, 0, list};
  void *device = nullptr;
  auto refused = [&](const char *what) {
    error = {};
    expect(api->open(&module, &device, &error) != STERNA_OK, what);
    std::printf("%s: %d %s\n", what, (int)error.status, error.message);
  };
  list[0].n_spans = 28;
  refused("buffers");
  list[0].n_spans = 27, list[1].shared_bytes = 40000;
  refused("memory");
  list[1].shared_bytes = 64, most_threads = 32;
  refused("threads");
  most_threads = 1024, list[1].name = "thrice";
  refused("name");
  list[1].name = "twice", module.text = "nothing", module.bytes = 7;
  refused("text");
  module.text = source.data(), module.bytes = source.size();
  expect(api->open(&module, &device, &error) == STERNA_OK, "open", error.message);

  const uint32_t n = 300;
  std::vector<float> x(n), y(n);
  for (uint32_t i = 0; i < n; i++) x[i] = (float)i;
  void *memory[5];
  for (void *&each : memory) expect(api->allocate(device, 2 * n * sizeof(float), &each, &error) == STERNA_OK, "allocate", error.message);
  void *none = nullptr;
  expect(api->allocate(device, 1ull << 40, &none, &error) == STERNA_RESOURCES, "too large");
  std::printf("room: %s\n", error.message);
  sterna_device_span spans[3] = {{memory[0], 0}, {memory[1], n * sizeof(float)}, {memory[2], 0}};
  sterna_device_launch launch = {sizeof launch, 0, n, 3, 0, spans, memory[2], memory[3], memory[4]};
  sterna_device_span back[3] = {spans[1], spans[0], spans[2]};
  sterna_device_launch other = launch;
  other.kernel = 1, other.spans = back;
  for (int run = 0; run < 3; run++) {
    uint64_t spent = 0;
    launch.timed = run == 2;
    expect(api->copy_in(device, &spans[0], x.data(), n * sizeof(float), &error) == STERNA_OK, "copy_in", error.message);
    expect(api->launch(device, &launch, &error) == STERNA_OK, "launch", error.message);
    expect(api->launch(device, &other, &error) == STERNA_OK, "launch", error.message);
    expect(api->copy_out(device, y.data(), &spans[0], n * sizeof(float), &error) == STERNA_OK, "copy_out", error.message);
    expect(api->wait(device, &spent, &error) == STERNA_OK, "wait", error.message);
    for (uint32_t i = 0; i < n; i++) expect(y[i] == 2 * (x[i] + 1), "results");
    expect(spent == 500000000, "time");
  }
  fails = true;
  expect(api->launch(device, &launch, &error) == STERNA_KERNEL_FAILED || api->wait(device, nullptr, &error) == STERNA_KERNEL_FAILED, "failure");
  std::printf("lost: %s\n", error.message);
  api->close(device);
  size_t classes = 0;
  for (Object *each : alive) classes += each->kind.rfind("class ", 0) == 0;
  std::printf("left: %zu objects, %zu pools\n", alive.size() - classes, pools.size());
  return 0;
}
