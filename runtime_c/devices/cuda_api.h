/* What of the CUDA driver's interface is called, declared here so that no toolkit is needed. Numbers and types are those
 * of NVIDIA's documentation of the driver API; the names behind _v2 are what its header makes of those without. */
#ifndef STERNA_CUDA_API_H
#define STERNA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define CUDA_CALL __stdcall
#else
#define CUDA_CALL
#endif

typedef int cuda_result;
typedef int cuda_device;
typedef void *cuda_object;    /* a context, module, function, stream, event, graph, node of one, or executable graph */
typedef uint64_t cuda_memory; /* an address of the device */

enum {
  CUDA_SUCCESS = 0,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NOT_INITIALIZED = 3,
  CUDA_STUB_LIBRARY = 34,
  CUDA_DEVICE_UNAVAILABLE = 46,
  CUDA_NO_DEVICE = 100,
  CUDA_NO_BINARY_FOR_GPU = 209,
  CUDA_ECC_UNCORRECTABLE = 214,
  CUDA_INVALID_PTX = 218,
  CUDA_NVLINK_UNCORRECTABLE = 220,
  CUDA_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_JIT_COMPILATION_DISABLED = 223,
  CUDA_CONTAINED = 226,
  CUDA_NOT_FOUND = 500,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_LAUNCH_TIMEOUT = 702,
  CUDA_CONTEXT_IS_DESTROYED = 709,
  CUDA_ASSERT = 710,
  CUDA_HARDWARE_STACK_ERROR = 714,
  CUDA_ILLEGAL_INSTRUCTION = 715,
  CUDA_MISALIGNED_ADDRESS = 716,
  CUDA_INVALID_ADDRESS_SPACE = 717,
  CUDA_INVALID_PC = 718,
  CUDA_LAUNCH_FAILED = 719,
  CUDA_TENSOR_MEMORY_LEAK = 721,
  CUDA_SYSTEM_NOT_READY = 802,
  CUDA_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_MPS_CLIENT_TERMINATED = 810,
  CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CUDA_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CUDA_JIT_ERROR_LOG_BUFFER = 5,
  CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_MEMORY_HOST = 1,
  CUDA_MEMORY_DEVICE = 2,
  CUDA_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
};

/* CUDA_KERNEL_NODE_PARAMS_v1 */
typedef struct cuda_launch {
  cuda_object function;
  unsigned grid[3], block[3], shared_bytes;
  void **parameters, **extra;
} cuda_launch;

/* One side of CUDA_MEMCPY3D_v2. */
typedef struct cuda_copy_side {
  size_t x_bytes, y, z, lod;
  int memory;
  void *host;
  cuda_memory device;
  void *array, *reserved;
  size_t pitch, height;
} cuda_copy_side;

/* CUDA_MEMCPY3D_v2 */
typedef struct cuda_copy {
  cuda_copy_side from, to;
  size_t width_bytes, height, depth;
} cuda_copy;

/* X(member, symbol, parameters): what every driver has that kernels are compiled for. */
#define CUDA_FUNCTIONS(X)                                                                                                 \
  X(Init, "cuInit", (unsigned))                                                                                           \
  X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                                      \
  X(GetErrorName, "cuGetErrorName", (cuda_result, const char **))                                                         \
  X(GetErrorString, "cuGetErrorString", (cuda_result, const char **))                                                     \
  X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                                          \
  X(DeviceGet, "cuDeviceGet", (cuda_device *, int))                                                                       \
  X(DeviceGetName, "cuDeviceGetName", (char *, int, cuda_device))                                                         \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, cuda_device))                                                \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cuda_object *, cuda_device))                                     \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (cuda_device))                                                 \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (cuda_object))                                                                 \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (cuda_object *))                                                                 \
  X(CtxSynchronize, "cuCtxSynchronize", (void))                                                                           \
  X(PointerGetAttribute, "cuPointerGetAttribute", (void *, int, cuda_memory))                                             \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                                  \
  X(MemAlloc, "cuMemAlloc_v2", (cuda_memory *, size_t))                                                                   \
  X(MemFree, "cuMemFree_v2", (cuda_memory))                                                                               \
  X(MemAllocHost, "cuMemAllocHost_v2", (void **, size_t))                                                                 \
  X(MemFreeHost, "cuMemFreeHost", (void *))                                                                               \
  X(MemsetD8Async, "cuMemsetD8Async", (cuda_memory, unsigned char, size_t, cuda_object))                                  \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (cuda_memory, const void *, size_t, cuda_object))                            \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, cuda_memory, size_t, cuda_object))                                  \
  X(ModuleLoadDataEx, "cuModuleLoadDataEx", (cuda_object *, const void *, unsigned, int *, void **))                      \
  X(ModuleUnload, "cuModuleUnload", (cuda_object))                                                                        \
  X(ModuleGetFunction, "cuModuleGetFunction", (cuda_object *, cuda_object, const char *))                                 \
  X(FuncSetAttribute, "cuFuncSetAttribute", (cuda_object, int, int))                                                      \
  X(LaunchKernel, "cuLaunchKernel",                                                                                       \
    (cuda_object, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cuda_object, void **, void **))   \
  X(StreamCreate, "cuStreamCreate", (cuda_object *, unsigned))                                                            \
  X(StreamDestroy, "cuStreamDestroy_v2", (cuda_object))                                                                   \
  X(StreamSynchronize, "cuStreamSynchronize", (cuda_object))                                                              \
  X(EventCreate, "cuEventCreate", (cuda_object *, unsigned))                                                              \
  X(EventDestroy, "cuEventDestroy_v2", (cuda_object))                                                                     \
  X(EventRecord, "cuEventRecord", (cuda_object, cuda_object))                                                             \
  X(EventElapsedTime, "cuEventElapsedTime", (float *, cuda_object, cuda_object))

/* What some were called before CUDA 11. */
#define CUDA_OLDER_NAMES(X) X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", (cuda_device))

/* For graphs, since CUDA 11.4; without them kernels are launched one by one. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                                                           \
  X(GraphCreate, "cuGraphCreate", (cuda_object *, unsigned))                                                              \
  X(GraphAddKernelNode, "cuGraphAddKernelNode",                                                                           \
    (cuda_object *, cuda_object, const cuda_object *, size_t, const cuda_launch *))                                       \
  X(GraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                                           \
    (cuda_object *, cuda_object, const cuda_object *, size_t, const cuda_copy *, cuda_object))                            \
  X(GraphAddEventRecordNode, "cuGraphAddEventRecordNode",                                                                 \
    (cuda_object *, cuda_object, const cuda_object *, size_t, cuda_object))                                               \
  X(GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (cuda_object *, cuda_object, unsigned long long))           \
  X(GraphLaunch, "cuGraphLaunch", (cuda_object, cuda_object))                                                             \
  X(GraphDestroy, "cuGraphDestroy", (cuda_object))                                                                        \
  X(GraphExecDestroy, "cuGraphExecDestroy", (cuda_object))

typedef struct cuda_api {
#define CUDA_MEMBER(name, symbol, parameters) cuda_result(CUDA_CALL *name) parameters;
  CUDA_FUNCTIONS(CUDA_MEMBER)
  CUDA_GRAPH_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda_api;

#endif
