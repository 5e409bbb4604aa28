/* The C runtime: loads a bundle made by `sterna compile` and runs it. C99, also usable from C++.
 *
 *   sterna_error error;
 *   sterna_model *model;
 *   if (sterna_load("mobilenet", NULL, &model, &error)) { fprintf(stderr, "%s\n", error.message); return 1; }
 *   memcpy(sterna_input_buffer(model, 0), image, image_bytes);
 *   sterna_run(model);
 *   use(sterna_output_buffer(model, 0));
 *   sterna_unload(model);
 *
 * Rules that hold for every call:
 * - The library has no global state. A model belongs to one thread at a time; different models are independent.
 * - All memory is allocated in sterna_load and freed in sterna_unload; sterna_run allocates none.
 * - A damaged or foreign bundle is refused with a status and a message; it is never undefined behaviour. The kernels
 *   themselves are native code and are trusted as code is.
 * - Strings are UTF-8 and stay the model's. */
#ifndef STERNA_H
#define STERNA_H

#include <stddef.h>
#include <stdint.h>

#include "sterna_kernel.h"

#define STERNA_VERSION "0.1.0"
/* Versions of graph.json that this runtime reads. Version 2 adds control flow to version 1, version 3 memories,
 * version 4 widened weights, version 5 devices. */
#define STERNA_OLDEST_FORMAT 1u
#define STERNA_FORMAT 5u
/* The first that may have devices. A bundle has the oldest that says all of it. */
#define STERNA_FORMAT_WITH_DEVICES 5u
/* Bytes: of parameters, and of the memory of inputs and outputs that the runtime gives. */
#define STERNA_ALIGNMENT 64u

#if defined(STERNA_SHARED) && defined(_WIN32)
#ifdef STERNA_BUILDING
#define STERNA_API __declspec(dllexport)
#else
#define STERNA_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define STERNA_API __attribute__((visibility("default")))
#else
#define STERNA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, code, meaning). The code is the one that every Sterna tool prints. */
#define STERNA_STATUSES(X)                                                                      \
  X(OK, 0, "", "success")                                                                       \
  X(BAD_ARGUMENT, -1, "E0501", "an argument is NULL, out of range or misaligned")               \
  X(RESOURCES, -2, "E0502", "memory or a thread could not be obtained")                         \
  X(UNREADABLE, -3, "E0503", "a file cannot be opened or read")                                 \
  X(MALFORMED, -4, "E0504", "a file is malformed or contradicts itself")                        \
  X(DAMAGED, -5, "E0505", "a file's size or hash is not the one written at compile time")       \
  X(WRONG_VERSION, -6, "E0506", "the format or ABI version is not one that this runtime reads") \
  X(WRONG_MACHINE, -7, "E0507", "compiled for another processor, pointer width or CPU feature") \
  X(BAD_LIBRARY, -8, "E0508", "the kernel library cannot be opened or does not fit the graph")  \
  X(NOT_FOUND, -9, "E0509", "no tensor has that name")                                          \
  X(NOT_AVAILABLE, -10, "E0510", "the tensor's memory does not hold its value")                 \
  X(KERNEL_FAILED, -11, "E0511", "a kernel reported a failure")                                 \
  X(UNSUPPORTED, -12, "E0512", "this build of the runtime lacks what was asked for")

typedef enum sterna_status {
#define STERNA_STATUS_ENUM(name, value, code, meaning) STERNA_##name = (value),
  STERNA_STATUSES(STERNA_STATUS_ENUM)
#undef STERNA_STATUS_ENUM
  STERNA_STATUS_FORCE_INT = 0x7fffffff /* the enum is 32 bits wide under every compiler option */
} sterna_status;

/* Static strings, for any value: "DAMAGED", "E0505", "a file's size or hash ...". */
STERNA_API const char *sterna_status_name(sterna_status status);
STERNA_API const char *sterna_status_code(sterna_status status);
STERNA_API const char *sterna_status_meaning(sterna_status status);

/* The message says what was expected and what was found; one line, always terminated. */
typedef struct sterna_error {
  sterna_status status;
  char message[252];
} sterna_error;

typedef struct sterna_model sterna_model;

/* Where a model's memory comes from. `allocate` returns memory aligned like malloc's, or NULL; `release` gets the same
 * number of bytes. */
typedef struct sterna_allocator {
  void *context;
  void *(*allocate)(void *context, size_t bytes);
  void (*release)(void *context, void *memory, size_t bytes);
} sterna_allocator;

/* Called after each node, on the thread that called sterna_run. It may ask for infos and copy tensors; calls that change the
 * model, such as sterna_run, sterna_set_dims or sterna_bind_input, are STERNA_BAD_ARGUMENT there. */
typedef void (*sterna_on_node)(void *user, uint32_t node, const char *name, uint64_t nanoseconds);

/* What drives a device that nodes may run on, such as sterna_opencl(); sterna_device.h declares it. */
typedef struct sterna_device_api sterna_device_api;

/* A file of a bundle, in memory. */
typedef struct sterna_file {
  const char *name; /* as graph.json has it */
  const void *data;
  size_t bytes;
} sterna_file;

/* A member that is zero has its default value. */
typedef struct sterna_options {
  size_t size;                             /* sizeof(sterna_options): the record grows at the end */
  uint32_t threads;                        /* workers, including the caller: 0 or 1 makes no thread; at most 32 share a kernel */
  uint32_t reserved;
  const sterna_allocator *allocator;       /* copied; NULL: the system's */
  sterna_on_node on_node;                  /* NULL: nothing is timed */
  void *user;                              /* first argument of on_node */
  uint32_t n_devices;
  uint32_t reserved2;
  const sterna_device_api *const *devices; /* n_devices of them; NULL: none */
  const char *device_cache;                /* folder for what drivers make of kernels, of this user alone; NULL: none */
  uint32_t n_files;
  uint32_t reserved3;
  const sterna_file *files;                /* for sterna_load_table: n_files with kernels of devices; NULL: none */
} sterna_options;

/* Loads the bundle in `directory`. `options` and `error` may be NULL. On failure *out is NULL. */
STERNA_API sterna_status sterna_load(const char *directory, const sterna_options *options, sterna_model **out,
                                     sterna_error *error);

/* Loads from memory, with kernels that are linked into the program: `graph` is graph.json and is not needed
 * afterwards; `params` is params.bin, 64-byte aligned, and must outlive the model. Kernels of devices are among
 * options.files; where all nodes run there, `library` is NULL. */
STERNA_API sterna_status sterna_load_table(const void *graph, size_t graph_bytes, const void *params,
                                           size_t params_bytes, const sterna_library *library,
                                           const sterna_options *options, sterna_model **out, sterna_error *error);

/* Stops the model's threads and frees all memory. NULL is allowed. */
STERNA_API void sterna_unload(sterna_model *model);

/* Runs all nodes. After a failure the model is as before its first run at these sizes: computed dimensions have their
 * greatest size, tensors that nodes write have no value, and it may be run again. */
STERNA_API sterna_status sterna_run(sterna_model *model);

/* Resets recurrent states and caches to what they are after loading. Does nothing to a model without states. */
STERNA_API sterna_status sterna_reset_state(sterna_model *model);

/* The error of the latest call on this model that failed. Valid until the model's next call. */
STERNA_API const sterna_error *sterna_last_error(const sterna_model *model);

/* Replaces the callback of the options; NULL stops timing. */
STERNA_API void sterna_set_on_node(sterna_model *model, sterna_on_node on_node, void *user);

/* ---- Tensors. Inputs, outputs and values are each numbered from 0, inputs and outputs in the model's order. ---- */

/* X(name, value, bytes per element). Names as in graph.json. */
#define STERNA_DTYPES(X)                                                                            \
  X(float32, 1, 4) X(float64, 2, 8) X(float16, 3, 2) X(bfloat16, 4, 2)                              \
  X(int8, 5, 1) X(int16, 6, 2) X(int32, 7, 4) X(int64, 8, 8)                                        \
  X(uint8, 9, 1) X(uint16, 10, 2) X(uint32, 11, 4) X(uint64, 12, 8) X(bool, 13, 1)                  \
  X(float8_e4m3fn, 14, 1) X(float8_e4m3fnuz, 15, 1) X(float8_e5m2, 16, 1) X(float8_e5m2fnuz, 17, 1) \
  X(float8_e8m0fnu, 18, 1) X(float4_e2m1fn, 19, 1) X(int4, 20, 1) X(uint4, 21, 1) X(int2, 22, 1) X(uint2, 23, 1)

#define STERNA_MAX_RANK 16

typedef struct sterna_tensor {
  const char *name;
  const char *dtype;   /* as in graph.json: "float32" ... */
  uint32_t dtype_code; /* the number in STERNA_DTYPES */
  uint32_t rank;
  const int64_t *dims; /* `rank` sizes; the model's, which change in sterna_set_dims, computed ones in sterna_run */
  size_t bytes;        /* of the dense row-major tensor, at the sizes of this moment */
  /* What an input's or output's elements stand for, as far as the model says so; else 0 and NULL. An integer q stands
   * for scale * (q - zero_point): one of each for the whole tensor, or one for every index along `axis`. Element i of an
   * output stands for labels[i], such as the name of a class; of the first 16 outputs. */
  uint32_t n_scales;
  uint32_t axis;
  const float *scales;
  const int32_t *zero_points;
  const char *const *labels;
  uint32_t n_labels;
} sterna_tensor;

/* How many the model has, at least 0. */
STERNA_API uint32_t sterna_input_count(const sterna_model *model);
STERNA_API uint32_t sterna_output_count(const sterna_model *model);

/* Fill in *tensor, or return STERNA_BAD_ARGUMENT. */
STERNA_API sterna_status sterna_input_info(const sterna_model *model, uint32_t input, sterna_tensor *tensor);
STERNA_API sterna_status sterna_output_info(const sterna_model *model, uint32_t output, sterna_tensor *tensor);

/* The number of an input or output, or STERNA_NOT_FOUND (negative). */
STERNA_API int32_t sterna_find_input(const sterna_model *model, const char *name);
STERNA_API int32_t sterna_find_output(const sterna_model *model, const char *name);

/* The runtime's own memory for it, 64-byte aligned; the model uses it unless the caller binds another. NULL if out of range.
 * Zero before the first write. */
STERNA_API void *sterna_input_buffer(sterna_model *model, uint32_t input);
STERNA_API void *sterna_output_buffer(sterna_model *model, uint32_t output);

/* Lets every following run read (write) the caller's memory, without a copy: dense, row-major, aligned to its element,
 * at least `bytes` of the info long, alive until the next bind or unload. NULL goes back to the runtime's memory.
 * Memory bound to an output must not overlap that of any other tensor. Where the model computes a dimension of an output,
 * `bytes` is the most that it may be only before the first run: ask then. */
STERNA_API sterna_status sterna_bind_input(sterna_model *model, uint32_t input, const void *memory);
STERNA_API sterna_status sterna_bind_output(sterna_model *model, uint32_t output, void *memory);

/* Every tensor of the compiled model, the intermediate ones included. */
STERNA_API uint32_t sterna_value_count(const sterna_model *model);
STERNA_API sterna_status sterna_value_info(const sterna_model *model, uint32_t value, sterna_tensor *tensor);
STERNA_API int32_t sterna_find_value(const sterna_model *model, const char *name);

/* Copies a tensor into dense row-major memory of `bytes` bytes, which must be exactly the info's. STERNA_NOT_AVAILABLE
 * for a value that a later node overwrites (compile with debug=True to keep it), before the first run
 * at these sizes, and after a run that failed. */
STERNA_API sterna_status sterna_value_copy(sterna_model *model, uint32_t value, void *memory, size_t bytes);

/* ---- Dimensions that were left open when the model was compiled, numbered from 0 ----
 *
 * First those that the caller sets. Then those that the model computes while it runs, such as how many boxes were found:
 * until the run an output's dims and bytes show the most that they may be, afterwards what they are. */

typedef struct sterna_dim {
  const char *name;
  int64_t lo;       /* the least size */
  int64_t hi;       /* the greatest */
  int64_t size;     /* now; `hi` after loading */
  int32_t computed; /* not 0: by the model while it runs */
} sterna_dim;

/* How many there are, and one of them: STERNA_BAD_ARGUMENT if there is none of that number. */
STERNA_API uint32_t sterna_dim_count(const sterna_model *model);
STERNA_API sterna_status sterna_dim_info(const sterna_model *model, uint32_t dim, sterna_dim *info);

/* Sets the sizes of all dimensions that are not computed, or of one. Every tensor's dims and bytes follow; buffers stay where they are, and
 * what they hold is no tensor's value any more: write the inputs afterwards, densely, and see that memory bound to inputs and
 * outputs is large enough. Takes no memory, and next to no time if nothing changes. After a failure the sizes are those
 * before: STERNA_BAD_ARGUMENT for a size out of its bounds. */
STERNA_API sterna_status sterna_set_dims(sterna_model *model, const int64_t *sizes, uint32_t count);
STERNA_API sterna_status sterna_set_dim(sterna_model *model, const char *name, int64_t size);

/* ---- Nodes, in execution order ---- */

typedef struct sterna_node {
  const char *name;
  const char *kernel;
  uint32_t tasks; /* at the sizes of this moment */
} sterna_node;

/* How many there are, and one of them: STERNA_BAD_ARGUMENT if there is none of that number. */
STERNA_API uint32_t sterna_node_count(const sterna_model *model);
STERNA_API sterna_status sterna_node_info(const sterna_model *model, uint32_t node, sterna_node *info);

/* ---- Facts ---- */

/* The name that the model was compiled under. */
STERNA_API const char *sterna_model_name(const sterna_model *model);
/* Of the library, to be compared with STERNA_VERSION of the header. */
STERNA_API const char *sterna_version(void);

/* Bytes that the model's tensors need at their largest: the arena, one worker's scratch, and the inputs and outputs. */
typedef struct sterna_memory {
  size_t arena;
  size_t scratch;
  size_t signature;
  size_t params;
} sterna_memory;

/* Fills in *info. */
STERNA_API sterna_status sterna_memory_info(const sterna_model *model, sterna_memory *info);

/* 1 if this machine has the CPU feature, 0 if it lacks it, -1 if the name is unknown here. Names are LLVM's:
 * x86 "sse4.2" "avx2" "fma" "avx512f" "avx512vnni" "amx-int8" ...; ARM "neon" "dotprod" "fullfp16" "i8mm" "bf16" "sve"
 * ...; RISC-V "v". */
STERNA_API int sterna_cpu_has(const char *feature);

/* XXH64 with seed 0: the hash of a bundle's files. */
STERNA_API uint64_t sterna_hash64(const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
