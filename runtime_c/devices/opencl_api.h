/* What of OpenCL 1.2 is called, declared here so that no SDK is needed. Numbers and types are those of the Khronos
 * specification. */
#ifndef STERNA_OPENCL_API_H
#define STERNA_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define CL_CALL __stdcall
#else
#define CL_CALL
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_bits;
typedef void *cl_object; /* a platform, device, context, queue, program, kernel, memory or event */

enum {
  CL_SUCCESS = 0,
  CL_DEVICE_NOT_FOUND = -1,
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_INVALID_COMMAND_QUEUE = -36,
  CL_INVALID_BUFFER_SIZE = -61,
  CL_LOST_BY_NVIDIA = -9999, /* no code of the specification: what that driver says after a reset */
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE_CPU = 1 << 1,
  CL_DEVICE_TYPE_GPU = 1 << 2,
  CL_DEVICE_TYPE_ACCELERATOR = 1 << 3,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_MAX_PARAMETER_SIZE = 0x1017,
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
  CL_CONTEXT_PLATFORM = 0x1084,
  CL_QUEUE_PROFILING_ENABLE = 1 << 1,
  CL_MEM_READ_WRITE = 1 << 0,
  CL_MEM_SIZE = 0x1102,
  CL_MEM_CONTEXT = 0x1106,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
  CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE = 0x2033,
  CL_PROFILING_COMMAND_START = 0x1282,
  CL_PROFILING_COMMAND_END = 0x1283
};

/* X(result, name, parameters) */
#define OPENCL_FUNCTIONS(X)                                                                                               \
  X(cl_int, GetPlatformIDs, (cl_uint, cl_object *, cl_uint *))                                                            \
  X(cl_int, GetPlatformInfo, (cl_object, cl_uint, size_t, void *, size_t *))                                              \
  X(cl_int, GetDeviceIDs, (cl_object, cl_bits, cl_uint, cl_object *, cl_uint *))                                          \
  X(cl_int, GetDeviceInfo, (cl_object, cl_uint, size_t, void *, size_t *))                                                \
  X(cl_object, CreateContext, (const intptr_t *, cl_uint, const cl_object *, void *, void *, cl_int *))                   \
  X(cl_int, ReleaseContext, (cl_object))                                                                                  \
  X(cl_object, CreateCommandQueue, (cl_object, cl_object, cl_bits, cl_int *))                                             \
  X(cl_int, ReleaseCommandQueue, (cl_object))                                                                             \
  X(cl_object, CreateProgramWithSource, (cl_object, cl_uint, const char **, const size_t *, cl_int *))                    \
  X(cl_object, CreateProgramWithBinary,                                                                                   \
    (cl_object, cl_uint, const cl_object *, const size_t *, const unsigned char **, cl_int *, cl_int *))                  \
  X(cl_int, BuildProgram, (cl_object, cl_uint, const cl_object *, const char *, void *, void *))                          \
  X(cl_int, GetProgramInfo, (cl_object, cl_uint, size_t, void *, size_t *))                                               \
  X(cl_int, GetProgramBuildInfo, (cl_object, cl_object, cl_uint, size_t, void *, size_t *))                               \
  X(cl_int, ReleaseProgram, (cl_object))                                                                                  \
  X(cl_object, CreateKernel, (cl_object, const char *, cl_int *))                                                         \
  X(cl_int, ReleaseKernel, (cl_object))                                                                                   \
  X(cl_int, GetKernelWorkGroupInfo, (cl_object, cl_object, cl_uint, size_t, void *, size_t *))                            \
  X(cl_int, SetKernelArg, (cl_object, cl_uint, size_t, const void *))                                                     \
  X(cl_object, CreateBuffer, (cl_object, cl_bits, size_t, void *, cl_int *))                                              \
  X(cl_int, GetMemObjectInfo, (cl_object, cl_uint, size_t, void *, size_t *))                                             \
  X(cl_int, RetainMemObject, (cl_object))                                                                                 \
  X(cl_int, ReleaseMemObject, (cl_object))                                                                                \
  X(cl_int, EnqueueFillBuffer,                                                                                            \
    (cl_object, cl_object, const void *, size_t, size_t, size_t, cl_uint, const cl_object *, cl_object *))                \
  X(cl_int, EnqueueReadBuffer,                                                                                            \
    (cl_object, cl_object, cl_uint, size_t, size_t, void *, cl_uint, const cl_object *, cl_object *))                     \
  X(cl_int, EnqueueWriteBuffer,                                                                                           \
    (cl_object, cl_object, cl_uint, size_t, size_t, const void *, cl_uint, const cl_object *, cl_object *))               \
  X(cl_int, EnqueueNDRangeKernel,                                                                                         \
    (cl_object, cl_object, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, const cl_object *,           \
     cl_object *))                                                                                                        \
  X(cl_int, Flush, (cl_object))                                                                                           \
  X(cl_int, Finish, (cl_object))                                                                                          \
  X(cl_int, GetEventProfilingInfo, (cl_object, cl_uint, size_t, void *, size_t *))                                        \
  X(cl_int, ReleaseEvent, (cl_object))

typedef cl_int(CL_CALL *opencl_subgroup_info)(cl_object, cl_object, cl_uint, size_t, const void *, size_t, void *, size_t *);

typedef struct opencl_api {
#define OPENCL_MEMBER(result, name, parameters) result(CL_CALL *name) parameters;
  OPENCL_FUNCTIONS(OPENCL_MEMBER)
#undef OPENCL_MEMBER
} opencl_api;

#endif
