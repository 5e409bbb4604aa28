/* OpenCL's driver: opening its library, the device, what it has and lacks, its errors, and the compilation of kernels, of
 * which it keeps what the driver made. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif

#include "sterna_opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"
#include "system.h"

#define MOST_OF_EACH 32u /* platforms, and devices of a platform, that are looked at */
#define MOST_AXES 8      /* of a group, of which drivers have three */
/* What drivers need besides: build options where a platform's name begins so. PoCL makes vectors of work-items and then
 * runs stores whose conditions do not hold (seen with 3.1, in kernels of groups); not if told not to optimize. */
static const struct {
  const char *platform, *of_groups;
} quirks[] = {{"Portable Computing Language", " -cl-opt-disable"}};

static system_lock lock;
opencl_driver sterna_opencl_shared;
#define shared sterna_opencl_shared

/* ---- Errors ---- */

/* The names of the codes that drivers give in practice. */
static const char *code_name(cl_int code) {
  static const struct {
    cl_int code;
    const char *name;
  } names[] = {{-1, "CL_DEVICE_NOT_FOUND"},          {-2, "CL_DEVICE_NOT_AVAILABLE"},     {-3, "CL_COMPILER_NOT_AVAILABLE"},
               {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "CL_OUT_OF_RESOURCES"},     {-6, "CL_OUT_OF_HOST_MEMORY"},
               {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"}, {-11, "CL_BUILD_PROGRAM_FAILURE"}, {-14, "CL_EXEC_STATUS_ERROR"},
               {-33, "CL_INVALID_DEVICE"},           {-34, "CL_INVALID_CONTEXT"},         {-36, "CL_INVALID_COMMAND_QUEUE"},
               {-38, "CL_INVALID_MEM_OBJECT"},       {-42, "CL_INVALID_BINARY"},          {-43, "CL_INVALID_BUILD_OPTIONS"},
               {-46, "CL_INVALID_KERNEL_NAME"},      {-48, "CL_INVALID_KERNEL"},          {-51, "CL_INVALID_ARG_SIZE"},
               {-52, "CL_INVALID_KERNEL_ARGS"},      {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-55, "CL_INVALID_WORK_ITEM_SIZE"},
               {-61, "CL_INVALID_BUFFER_SIZE"},      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == code) return names[i].name;
  return "error";
}

sterna_status sterna_opencl_said(sterna_error *error, cl_int code, const char *what, const char *about) {
  bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  /* What drivers say where a device was reset or taken away, among other things. */
  bool lost = code == CL_DEVICE_NOT_AVAILABLE || code == CL_OUT_OF_RESOURCES || code == CL_INVALID_COMMAND_QUEUE || code == CL_LOST_BY_NVIDIA;
  return system_fail(error, memory ? STERNA_RESOURCES : STERNA_KERNEL_FAILED, "OpenCL (%.60s): %s%s%.64s: %s (%d)%s",
                            shared.name, what, about[0] != 0 ? " of " : "", about, code_name(code), (int)code,
                            lost ? ": if the device was lost, unload all of its models and load them again"
                            : memory ? ": take a smaller batch or model, or compile with --target host" : "");
}

/* ---- Finding a device ---- */

static sterna_status open_library(sterna_error *error) {
  static const char *const names[] = {
#if defined(_WIN32)
      "OpenCL.dll",
#elif defined(__APPLE__)
      "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#else
      "libOpenCL.so.1", "libOpenCL.so", "/vendor/lib64/libOpenCL.so", "/vendor/lib/libOpenCL.so",
#endif
  };
  if (shared.opened) return STERNA_OK;
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) library = system_open(names[i]);
  if (library == NULL)
    return system_fail(error, STERNA_WRONG_MACHINE,
                              "OpenCL: %s cannot be opened: install the driver of the GPU with its OpenCL, or compile with --target host", names[0]);
#define OPENCL_LOOK_UP(result, name, parameters)                                               \
  shared.cl.name = (result(CL_CALL *) parameters)system_symbol(library, "cl" #name);           \
  if (shared.cl.name == NULL)                                                                  \
    return system_fail(error, STERNA_WRONG_MACHINE, "OpenCL: the library has no cl" #name                            \
                       ": version 1.2 is needed: update the driver, or compile with --target host");
  OPENCL_FUNCTIONS(OPENCL_LOOK_UP)
#undef OPENCL_LOOK_UP
  shared.GetKernelSubGroupInfo = (opencl_subgroup_info)system_symbol(library, "clGetKernelSubGroupInfo");
  shared.opened = true;
  return STERNA_OK;
}

static void device_text(cl_object device, cl_uint what, char text[TEXT_BYTES]) {
  if (shared.cl.GetDeviceInfo(device, what, TEXT_BYTES, text, NULL) != CL_SUCCESS) text[0] = 0;
  text[TEXT_BYTES - 1] = 0;
}

uint64_t sterna_opencl_number(cl_uint what) {
  uint64_t number = 0; /* some are of 32 bits: little-endian, as every machine that this runs on */
  return shared.cl.GetDeviceInfo(shared.device, what, sizeof number, &number, NULL) == CL_SUCCESS ? number : 0;
}

/* The device that is named, or the best one; sets names. */
static sterna_status find_device(sterna_error *error) {
  static const cl_bits types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU};
  const char *wanted = getenv("STERNA_OPENCL_DEVICE");
  cl_object platforms[MOST_OF_EACH], devices[MOST_OF_EACH];
  cl_uint n_platforms = 0, n;
  if (wanted != NULL && wanted[0] == 0) wanted = NULL;
  if (shared.cl.GetPlatformIDs(MOST_OF_EACH, platforms, &n_platforms) != CL_SUCCESS) n_platforms = 0;
  if (n_platforms > MOST_OF_EACH) n_platforms = MOST_OF_EACH;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    for (cl_uint p = 0; p < n_platforms; p++) {
      if (shared.cl.GetPlatformInfo(platforms[p], CL_PLATFORM_NAME, TEXT_BYTES, shared.platform_name, NULL) != CL_SUCCESS)
        shared.platform_name[0] = 0;
      shared.platform_name[TEXT_BYTES - 1] = 0;
      if (shared.cl.GetDeviceIDs(platforms[p], types[t], MOST_OF_EACH, devices, &n) != CL_SUCCESS) continue;
      for (cl_uint d = 0; d < n && d < MOST_OF_EACH; d++) {
        device_text(devices[d], CL_DEVICE_NAME, shared.name);
        if (wanted != NULL && strstr(shared.name, wanted) == NULL && strstr(shared.platform_name, wanted) == NULL) continue;
        device_text(devices[d], CL_DRIVER_VERSION, shared.version);
        shared.platform = platforms[p];
        shared.device = devices[d];
        return STERNA_OK;
      }
    }
  }
  shared.name[0] = 0;
  if (wanted != NULL)
    return system_fail(error, STERNA_WRONG_MACHINE, "OpenCL: none of the devices is called \"%.80s\": change or unset STERNA_OPENCL_DEVICE",
                              wanted);
  return system_fail(error, STERNA_WRONG_MACHINE,
                            "OpenCL: there are %u platforms, and no device: install the driver of the GPU, or compile with --target host",
                            (unsigned)n_platforms);
}

sterna_status sterna_opencl_acquire(sterna_error *error) {
  sterna_status status = STERNA_OK;
  system_acquire(&lock);
  if (shared.users == 0) {
    status = open_library(error);
    if (status == STERNA_OK) status = find_device(error);
    if (status == STERNA_OK) {
      cl_int code = CL_SUCCESS;
      const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)shared.platform, 0};
      shared.context = shared.cl.CreateContext(properties, 1, &shared.device, NULL, NULL, &code);
      if (shared.context == NULL || code != CL_SUCCESS) status = sterna_opencl_said(error, code, "clCreateContext", "");
    }
  }
  if (status == STERNA_OK) shared.users++;
  system_release(&lock);
  return status;
}

void sterna_opencl_release(void) {
  system_acquire(&lock);
  if (--shared.users == 0) (void)shared.cl.ReleaseContext(shared.context);
  system_release(&lock);
}

/* ---- Compiling kernels ---- */

/* Whether the device says that it has an extension. */
static bool has_extension(const char *name) {
  size_t bytes = 0;
  if (shared.cl.GetDeviceInfo(shared.device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) != CL_SUCCESS) return false;
  char *list = calloc(bytes + 1, 1);
  bool found = false;
  if (list != NULL && shared.cl.GetDeviceInfo(shared.device, CL_DEVICE_EXTENSIONS, bytes, list, NULL) == CL_SUCCESS) {
    size_t length = strlen(name);
    for (const char *at = list; !found && (at = strstr(at, name)) != NULL; at += length)
      found = (at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0);
  }
  free(list);
  return found;
}

bool sterna_opencl_exchanges(void) {
  return shared.GetKernelSubGroupInfo != NULL && (has_extension("cl_khr_subgroup_shuffle") || has_extension("cl_intel_subgroups"));
}

uint32_t sterna_opencl_subgroup(const char *needs) {
  unsigned threads = 0;
  const char *at = strstr(needs, "subgroup_");
  return at != NULL && sscanf(at, "subgroup_%5u", &threads) == 1 ? threads : 0;
}

sterna_status sterna_opencl_check(const sterna_device_module *module, sterna_error *error) {
  uint64_t shared_bytes = 0, group = 0, spans = 0;
  size_t axes[MOST_AXES] = {0}, wanted[3] = {0};
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *k = &module->kernels[i];
    uint64_t threads = (uint64_t)k->threads[0] * k->threads[1] * k->threads[2];
    if (k->shared_bytes > shared_bytes) shared_bytes = k->shared_bytes;
    if (threads > group) group = threads;
    for (int axis = 0; axis < 3; axis++)
      if (k->threads[axis] > wanted[axis]) wanted[axis] = k->threads[axis];
    if (k->n_spans > spans) spans = k->n_spans;
  }
  const char *need = module->needs;
  while (*need != 0) {
    size_t length = strcspn(need, " ");
    if (length == 7 && memcmp(need, "float64", 7) == 0) {
      if (sterna_opencl_number(CL_DEVICE_DOUBLE_FP_CONFIG) == 0)
        return system_fail(error, STERNA_WRONG_MACHINE,
                                  "OpenCL: %.60s does not compute in float64, which a kernel needs: compile with --target opencl-mali", shared.name);
    } else if (strncmp(need, "subgroup_", 9) == 0) {
      if (!sterna_opencl_exchanges())
        return system_fail(error, STERNA_WRONG_MACHINE,
                                  "OpenCL: %.60s has no cl_khr_subgroup_shuffle, by which %u threads exchange values: compile with --target opencl",
                                  shared.name, (unsigned)sterna_opencl_subgroup(need));
    } else {
      return system_fail(error, STERNA_WRONG_MACHINE, "OpenCL: the bundle needs \"%.*s\", which this runtime does not know: update the runtime",
                                (int)length, need);
    }
    need += length;
    need += strspn(need, " ");
  }
  const struct {
    cl_uint what;
    uint64_t needed;
    const char *name;
  } limits[] = {{CL_DEVICE_LOCAL_MEM_SIZE, shared_bytes, "bytes of local memory"},
                {CL_DEVICE_MAX_WORK_GROUP_SIZE, group, "work-items of a group"},
                {CL_DEVICE_MAX_PARAMETER_SIZE, spans * 16 + 28, "bytes of parameters"}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    uint64_t has = sterna_opencl_number(limits[i].what);
    if (has < limits[i].needed)
      return system_fail(error, STERNA_WRONG_MACHINE,
                                "OpenCL: kernels need %llu %s; %.60s has %llu: compile with --target opencl-mali, or for a description with less",
                                (unsigned long long)limits[i].needed, limits[i].name, shared.name, (unsigned long long)has);
  }
  if (shared.cl.GetDeviceInfo(shared.device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof axes, axes, NULL) != CL_SUCCESS) return STERNA_OK;
  for (int axis = 0; axis < 3; axis++)
    if (axes[axis] < wanted[axis])
      return system_fail(error, STERNA_WRONG_MACHINE,
                         "OpenCL: kernels need %llu work-items along axis %d of a group; %.60s has %llu: compile with --target opencl-mali, "
                         "or for a description with less",
                         (unsigned long long)wanted[axis], axis, shared.name, (unsigned long long)axes[axis]);
  return STERNA_OK;
}

static void build_options(const sterna_device_module *module, char options[TEXT_BYTES]) {
  bool groups = false;
  for (uint32_t i = 0; i < module->n_kernels; i++) groups = groups || module->kernels[i].threads[0] > 0;
  uint64_t floats = sterna_opencl_number(CL_DEVICE_SINGLE_FP_CONFIG);
  bool rounds = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  (void)snprintf(options, TEXT_BYTES, "-cl-std=CL1.2%s", rounds ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
    if (groups && strncmp(shared.platform_name, quirks[i].platform, strlen(quirks[i].platform)) == 0)
      (void)strncat(options, quirks[i].of_groups, TEXT_BYTES - strlen(options) - 1);
}

/* The kept file of a program: named by all that it was made from. */
static bool cache_path(const sterna_device_module *module, const char *options, char *path, size_t bytes) {
  char all[4 * TEXT_BYTES + 64];
  if (module->cache == NULL || module->cache[0] == 0) return false;
  int used = snprintf(all, sizeof all, "%s\n%s\n%s\n%s\n%016llx", shared.platform_name, shared.name, shared.version, options,
                      (unsigned long long)module->hash);
  uint64_t hash = sterna_hash64(all, (size_t)used);
  used = snprintf(path, bytes, "%s/opencl-%016llx.bin", module->cache, (unsigned long long)hash);
  return used > 0 && (size_t)used < bytes - 16;
}

/* Of a file of the cache, the first eight bytes are the hash of the rest: one that was cut off is no program. */
static cl_object from_cache(const char *path, const char *options) {
  size_t bytes = 0;
  unsigned char *data = system_read(path, &bytes);
  cl_object program = NULL;
  uint64_t hash;
  if (data != NULL && bytes > sizeof hash) {
    memcpy(&hash, data, sizeof hash);
    const unsigned char *binary = data + sizeof hash;
    size_t length = bytes - sizeof hash;
    cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
    if (hash == sterna_hash64(binary, length)) {
      program = shared.cl.CreateProgramWithBinary(shared.context, 1, &shared.device, &length, &binary, &of_binary, &code);
      if (program != NULL &&
          (code != CL_SUCCESS || of_binary != CL_SUCCESS || shared.cl.BuildProgram(program, 1, &shared.device, options, NULL, NULL) != CL_SUCCESS)) {
        (void)shared.cl.ReleaseProgram(program);
        program = NULL;
      }
    }
  }
  free(data);
  return program;
}

/* What cannot be kept is compiled again the next time. */
static void into_cache(const char *path, cl_object program) {
  size_t bytes = 0;
  if (shared.cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0) return;
  unsigned char *data = malloc(bytes + sizeof(uint64_t));
  if (data == NULL) return;
  unsigned char *binary = data + sizeof(uint64_t);
  if (shared.cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS) {
    uint64_t hash = sterna_hash64(binary, bytes);
    memcpy(data, &hash, sizeof hash);
    system_write(path, data, bytes + sizeof hash);
  }
  free(data);
}

sterna_status sterna_opencl_compile(const sterna_device_module *module, cl_object *out, sterna_error *error) {
  char options[TEXT_BYTES], path[4096];
  build_options(module, options);
  bool kept = cache_path(module, options, path, sizeof path);
  if (kept && (*out = from_cache(path, options)) != NULL) return STERNA_OK;
  const char *text = module->text;
  cl_int code = CL_SUCCESS;
  cl_object program = shared.cl.CreateProgramWithSource(shared.context, 1, &text, &module->bytes, &code);
  if (program == NULL) return sterna_opencl_said(error, code, "clCreateProgramWithSource", module->name);
  code = shared.cl.BuildProgram(program, 1, &shared.device, options, NULL, NULL);
  if (code != CL_SUCCESS) {
    char log[16 * TEXT_BYTES];
    if (shared.cl.GetProgramBuildInfo(program, shared.device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) != CL_SUCCESS) log[0] = 0;
    log[sizeof log - 1] = 0;
    const char *first = strstr(log, "error: "); /* of long logs, what matters, without the path of a temporary file */
    if (first != NULL && first[7] == '/' && strchr(first + 7, ' ') != NULL) first = strchr(first + 7, ' ') + 1;
    (void)shared.cl.ReleaseProgram(program);
    return system_fail(error, STERNA_BAD_LIBRARY, "OpenCL (%.60s): %.40s cannot be compiled: %.120s", shared.name, module->name,
                              first != NULL ? first : log[0] != 0 ? log : code_name(code));
  }
  if (kept) into_cache(path, program);
  *out = program;
  return STERNA_OK;
}

sterna_status sterna_opencl_describe(char *text, size_t bytes, sterna_error *error) {
  sterna_status status = sterna_opencl_acquire(error);
  if (status != STERNA_OK) return status;
  (void)snprintf(text, bytes, "%s (%s, driver %s)", shared.name, shared.platform_name, shared.version);
  sterna_opencl_release();
  return STERNA_OK;
}
