/* The CUDA driver: opening its library, the device, what it has and lacks, its errors, and the compilation of PTX. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "sterna_cuda.h"
#include "system.h"

#define LOG_BYTES 4096

static system_lock lock;
cuda_driver sterna_cuda_shared;
#define shared sterna_cuda_shared

/* ---- Errors ---- */

/* Whether nothing more can be done in the context: every call that follows fails with the same error. */
static bool loses_device(cuda_result code) {
  switch (code) {
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_LAUNCH_TIMEOUT:
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK:
    case CUDA_MPS_CLIENT_TERMINATED:
      return true;
    default:
      return false;
  }
}

/* What the driver calls an error. */
static const char *name_of(cuda_result code) {
  const char *name = NULL;
  return shared.cu.GetErrorName(code, &name) == CUDA_SUCCESS && name != NULL ? name : "an error that it has no name for";
}

static const char *words_of(cuda_result code) {
  const char *words = NULL;
  return shared.cu.GetErrorString(code, &words) == CUDA_SUCCESS && words != NULL ? words : "";
}

/* What to do about an error that is of the machine or the process, and not of the model; NULL: nothing is known. */
static const char *fix_of(cuda_result code) {
  switch (code) {
    case CUDA_NOT_INITIALIZED: return "start processes that use CUDA by spawn: those forked off one that uses it cannot";
    case CUDA_STUB_LIBRARY: return "change the search path of libraries: it leads to the toolkit's stub of the driver";
    case CUDA_DEVICE_UNAVAILABLE: return "close the process that has the device for itself";
    case CUDA_JIT_COMPILER_NOT_FOUND: return "install all of the driver: libnvidia-ptxjitcompiler is missing";
    case CUDA_JIT_COMPILATION_DISABLED: return "change CUDA_DISABLE_PTX_JIT, which forbids the driver to compile kernels";
    case CUDA_SYSTEM_NOT_READY: return "start NVIDIA's fabric manager, which GPUs with NVSwitch wait for, or compile with --target host";
    case CUDA_SYSTEM_DRIVER_MISMATCH: return "restart the machine: the driver was replaced while its old module was loaded";
    default: return NULL;
  }
}

sterna_status sterna_cuda_said(sterna_error *error, cuda_result code, const char *what, const char *about) {
  const char *name = name_of(code), *words = words_of(code);
  if (code == CUDA_OUT_OF_MEMORY)
    return system_fail(error, STERNA_RESOURCES, "CUDA (%.60s): %s%.64s: %.48s: %.60s: take a smaller batch or model, or compile with --target host",
                            shared.name, what, about, name, words);
  const char *fix = fix_of(code);
  if (!loses_device(code))
    return system_fail(error, STERNA_KERNEL_FAILED, "CUDA (%.40s): %.24s%.48s: %.48s: %.40s (%d)%s%s", shared.name, what, about, name, words,
                       code, fix != NULL ? ": " : "", fix != NULL ? fix : "");
  shared.lost = true;
  return system_fail(error, STERNA_KERNEL_FAILED,
                          "CUDA (%.28s): %.24s%.28s: %.36s: %.28s (%d): close all models of the device and load again, or if that fails restart the process",
                          shared.name, what, about, name, words, code);
}

/* ---- Finding the device ---- */

static sterna_status open_library(sterna_error *error) {
#if defined(_WIN32)
  static const char *const names[] = {"nvcuda.dll"};
#else
  /* Where Windows and clusters of containers have it, if the loader is not told. */
  static const char *const names[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"};
#endif
  if (shared.opened) return STERNA_OK;
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) library = system_open(names[i]);
  if (library == NULL)
    return system_fail(error, STERNA_WRONG_MACHINE,
                            "CUDA: %s cannot be opened: install NVIDIA's driver, or compile with --target opencl or host", names[0]);
#define CUDA_LOOK_UP(member, symbol, parameters) \
  shared.cu.member = (cuda_result(CUDA_CALL *) parameters)system_symbol(library, symbol);
  CUDA_FUNCTIONS(CUDA_LOOK_UP)
  CUDA_GRAPH_FUNCTIONS(CUDA_LOOK_UP)
#undef CUDA_LOOK_UP
#define CUDA_LOOK_UP(member, symbol, parameters) \
  if (shared.cu.member == NULL) shared.cu.member = (cuda_result(CUDA_CALL *) parameters)system_symbol(library, symbol);
  CUDA_OLDER_NAMES(CUDA_LOOK_UP)
#undef CUDA_LOOK_UP
#define CUDA_CHECK(member, symbol, parameters) \
  if (shared.cu.member == NULL)                \
    return system_fail(error, STERNA_WRONG_MACHINE, "CUDA: the driver has no " symbol ": update the driver, or compile with --target host");
  CUDA_FUNCTIONS(CUDA_CHECK)
#undef CUDA_CHECK
  shared.has_graphs = true;
#define CUDA_CHECK(member, symbol, parameters) shared.has_graphs = shared.has_graphs && shared.cu.member != NULL;
  CUDA_GRAPH_FUNCTIONS(CUDA_CHECK)
#undef CUDA_CHECK
  shared.opened = true;
  return STERNA_OK;
}

static int attribute(int which) {
  int value = 0;
  return shared.cu.DeviceGetAttribute(&value, which, shared.device) == CUDA_SUCCESS ? value : 0;
}

/* The device that is named, or the first one; sets its name. */
static sterna_status find_device(sterna_error *error) {
  const char *wanted = getenv("STERNA_CUDA_DEVICE");
  int n = 0;
  cuda_result code = shared.cu.Init(0);
  shared.name[0] = 0;
  if (code == CUDA_SUCCESS) code = shared.cu.DeviceGetCount(&n);
  if (code == CUDA_SUCCESS && n == 0) code = CUDA_NO_DEVICE;
  if (code != CUDA_SUCCESS) {
    const char *fix = fix_of(code);
    return system_fail(error, STERNA_WRONG_MACHINE, "CUDA: cuInit: %.40s: %.60s (%d): %s", name_of(code), words_of(code), code,
                       fix != NULL ? fix : "compile with --target opencl or host");
  }
  if (wanted != NULL && wanted[0] == 0) wanted = NULL;
  bool names_one = wanted != NULL && wanted[strspn(wanted, "0123456789")] != 0; /* else it is a number */
  for (int d = 0; d < n; d++) {
    char number[16];
    (void)snprintf(number, sizeof number, "%d", d);
    if (shared.cu.DeviceGet(&shared.device, d) != CUDA_SUCCESS ||
        shared.cu.DeviceGetName(shared.name, TEXT_BYTES - 1, shared.device) != CUDA_SUCCESS)
      continue;
    if (wanted == NULL || strcmp(wanted, number) == 0 || (names_one && strstr(shared.name, wanted) != NULL)) return STERNA_OK;
  }
  return system_fail(error, STERNA_WRONG_MACHINE, "CUDA: none of the %d devices is \"%.80s\": change or unset STERNA_CUDA_DEVICE", n,
                          wanted != NULL ? wanted : "");
}

/* Opens the driver and finds the device, where nobody has it yet; called with the lock. */
static sterna_status find(sterna_error *error) {
  if (shared.users > 0) return STERNA_OK;
  shared.lost = false;
  sterna_status status = open_library(error);
  if (status == STERNA_OK) status = find_device(error);
  if (status != STERNA_OK) return status;
  shared.capability = attribute(CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 + attribute(CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (shared.cu.DriverGetVersion(&shared.version) != CUDA_SUCCESS) shared.version = 0;
  return STERNA_OK;
}

sterna_status sterna_cuda_acquire(sterna_error *error) {
  system_acquire(&lock);
  sterna_status status = find(error);
  if (shared.users > 0 && shared.lost)
    status = system_fail(error, STERNA_KERNEL_FAILED,
                              "CUDA (%.60s): the device was lost, and models that had it are still loaded: close them first", shared.name);
  if (status == STERNA_OK && shared.users == 0) {
    cuda_result code = shared.cu.DevicePrimaryCtxRetain(&shared.context, shared.device);
    if (code != CUDA_SUCCESS) status = sterna_cuda_said(error, code, "cuDevicePrimaryCtxRetain", "");
  }
  if (status == STERNA_OK) shared.users++;
  system_release(&lock);
  return status;
}

void sterna_cuda_release(void) {
  system_acquire(&lock);
  if (--shared.users == 0) (void)shared.cu.DevicePrimaryCtxRelease(shared.device);
  system_release(&lock);
}

/* ---- What a module needs ---- */

/* The targets, by the compute capability and the driver that their kernels need, the most capable first. */
static const struct {
  int capability, version;
  const char *target;
} targets[] = {{90, 11080, "cuda-sm90"}, {80, 11000, "cuda-sm80"}, {75, 10000, "cuda"}};

/* What to compile with for this device and driver. */
static const char *advised(void) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (shared.capability >= targets[i].capability && shared.version >= targets[i].version) return targets[i].target;
  return "opencl or host";
}

static sterna_status check_need(const char *need, size_t length, sterna_error *error) {
  char word[32], more, alone[2];
  int first, second;
  (void)snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 0, need);
  if (strcmp(word, "float64") == 0 || strcmp(word, "asked_bytes") == 0) return STERNA_OK;
  if (sscanf(word, "sm_%d%c", &first, &more) == 1) {
    if (shared.capability >= first) return STERNA_OK;
    return system_fail(error, STERNA_WRONG_MACHINE,
                            "CUDA: kernels are for compute capability %d.%d, and %.60s has %d.%d: compile with --target %s", first / 10,
                            first % 10, shared.name, shared.capability / 10, shared.capability % 10, advised());
  }
  /* What one architecture has, and no later one. */
  if (sscanf(word, "sm_%d%1[a]%c", &first, alone, &more) == 2) {
    if (shared.capability == first) return STERNA_OK;
    return system_fail(error, STERNA_WRONG_MACHINE,
                            "CUDA: kernels are for compute capability %d.%d alone, and %.60s has %d.%d: compile with --target %s", first / 10,
                            first % 10, shared.name, shared.capability / 10, shared.capability % 10, advised());
  }
  if (sscanf(word, "cuda_%d.%d%c", &first, &second, &more) == 2) {
    if (shared.version >= first * 1000 + second * 10) return STERNA_OK;
    return system_fail(error, STERNA_WRONG_MACHINE,
                            "CUDA: the driver of %.60s is of CUDA %d.%d, and kernels need %d.%d: update the driver, or compile with --target %s",
                            shared.name, shared.version / 1000, shared.version % 1000 / 10, first, second, advised());
  }
  return system_fail(error, STERNA_WRONG_MACHINE, "CUDA: the bundle needs \"%.*s\", which this runtime does not know: update the runtime",
                          length < 64 ? (int)length : 64, need);
}

sterna_status sterna_cuda_check(const sterna_device_module *module, sterna_error *error) {
  uint64_t bytes = 0, asked = 0, threads = 0, axes[3] = {0};
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *k = &module->kernels[i];
    uint64_t group = (uint64_t)k->threads[0] * k->threads[1] * k->threads[2];
    uint64_t own = k->shared_bytes - k->asked_bytes;
    if (own > bytes) bytes = own;
    if (k->asked_bytes > 0 && k->shared_bytes > asked) asked = k->shared_bytes;
    if (group > threads) threads = group;
    for (int axis = 0; axis < 3; axis++)
      if (k->threads[axis] > axes[axis]) axes[axis] = k->threads[axis];
  }
  for (const char *need = module->needs; *need != 0; need += strspn(need, " ")) {
    size_t length = strcspn(need, " ");
    sterna_status status = check_need(need, length, error);
    if (status != STERNA_OK) return status;
    need += length;
  }
  const struct {
    int what;
    uint64_t needed;
    const char *name;
  } limits[] = {{CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, bytes, "bytes of shared memory"},
                {CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, asked, "bytes of shared memory"},
                {CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK, threads, "threads of a block"},
                {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_X, axes[0], "threads along a block's first axis"},
                {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Y, axes[1], "threads along a block's second axis"},
                {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Z, axes[2], "threads along a block's third axis"}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    int has = 0;
    cuda_result code = shared.cu.DeviceGetAttribute(&has, limits[i].what, shared.device);
    if (code != CUDA_SUCCESS) return sterna_cuda_said(error, code, "cuDeviceGetAttribute", "");
    if ((uint64_t)(has > 0 ? has : 0) < limits[i].needed)
      return system_fail(error, STERNA_WRONG_MACHINE,
                              "CUDA: kernels need %llu %s, and %.60s has %d: compile with --target cuda, or a description with less",
                              (unsigned long long)limits[i].needed, limits[i].name, shared.name, has);
  }
  return STERNA_OK;
}

/* ---- Compiling ---- */

sterna_status sterna_cuda_load(const sterna_device_module *module, cuda_object *out, sterna_error *error) {
  char log[LOG_BYTES] = "";
  int options[] = {CUDA_JIT_ERROR_LOG_BUFFER, CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  char *text = malloc(module->bytes + 1); /* the driver looks for a zero at its end */
  if (text == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for %llu bytes of kernels", (unsigned long long)module->bytes);
  memcpy(text, module->text, module->bytes);
  text[module->bytes] = 0;
  cuda_result code = shared.cu.ModuleLoadDataEx(out, text, 2, options, values);
  free(text);
  if (code == CUDA_SUCCESS) return STERNA_OK;
  if (code == CUDA_OUT_OF_MEMORY || loses_device(code)) return sterna_cuda_said(error, code, "cuModuleLoadDataEx of ", module->name);
  const char *fix = fix_of(code);
  bool is_old = code == CUDA_UNSUPPORTED_PTX_VERSION || code == CUDA_NO_BINARY_FOR_GPU;
  if (fix != NULL || is_old)
    return system_fail(error, STERNA_WRONG_MACHINE, "CUDA (%.40s): %.32s: %.40s: %.40s (%d): %s%s", shared.name, module->name, name_of(code),
                       words_of(code), code, is_old ? "update the driver, or compile with --target " : fix, is_old ? advised() : "");
  return system_fail(error, STERNA_BAD_LIBRARY, "CUDA (%.40s): %.32s: %.40s (%d): %.110s", shared.name, module->name, name_of(code), code, log);
}

/* Without a context, which takes a while to make. */
sterna_status sterna_cuda_describe(char *text, size_t bytes, sterna_error *error) {
  system_acquire(&lock);
  sterna_status status = find(error);
  if (status == STERNA_OK)
    (void)snprintf(text, bytes, "%s (compute capability %d.%d, driver of CUDA %d.%d)", shared.name, shared.capability / 10,
                   shared.capability % 10, shared.version / 1000, shared.version % 1000 / 10);
  system_release(&lock);
  return status;
}
