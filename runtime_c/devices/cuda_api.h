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
typedef void *cuda_object;    /* a context, module, function, stream, event or graph */
typedef uint64_t cuda_memory; /* an address of the device */

enum {
  CUDA_SUCCESS = 0,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NO_DEVICE = 100,
  CUDA_NO_BINARY_FOR_GPU = 209,
  CUDA_ECC_UNCORRECTABLE = 214,
  CUDA_INVALID_PTX = 218,
  CUDA_NVLINK_UNCORRECTABLE = 220,
  CUDA_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_NOT_FOUND = 500,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_LAUNCH_TIMEOUT = 702,
  CUDA_CONTEXT_IS_DESTROYED = 709,
  CUDA_ASSERT = 710,
  CUDA_HARDWARE_STACK_ERROR = 714,
  CUDA_LAUNCH_FAILED = 719,
  CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CUDA_JIT_ERROR_LOG_BUFFER = 5,
  CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_STREAM_CAPTURE_THREAD_LOCAL = 1,
  CUDA_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
};

/* X(member, symbol, parameters): what every driver since CUDA 10.1 has. */
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
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", (cuda_device))                                                  \
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
  X(LaunchKernel, "cuLaunchKernel",                                                                                       \
    (cuda_object, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cuda_object, void **, void **))   \
  X(StreamCreate, "cuStreamCreate", (cuda_object *, unsigned))                                                            \
  X(StreamDestroy, "cuStreamDestroy_v2", (cuda_object))                                                                   \
  X(StreamSynchronize, "cuStreamSynchronize", (cuda_object))                                                              \
  X(EventCreate, "cuEventCreate", (cuda_object *, unsigned))                                                              \
  X(EventDestroy, "cuEventDestroy_v2", (cuda_object))                                                                     \
  X(EventRecord, "cuEventRecord", (cuda_object, cuda_object))                                                             \
  X(EventElapsedTime, "cuEventElapsedTime", (float *, cuda_object, cuda_object))

/* For graphs, since CUDA 11.4; without them kernels are launched one by one. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                                                           \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (cuda_object, int))                                                    \
  X(StreamEndCapture, "cuStreamEndCapture", (cuda_object, cuda_object *))                                                 \
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
