/* Runs a bundle on raw input files: sterna_run DIRECTORY [--threads N] [--repeat N] [--profile] [--dim NAME=SIZE] in0.bin ... --out PREFIX
 * or on its golden sets, with their outputs compared: sterna_run DIRECTORY --golden [--threads N]
 *
 * Inputs come in the model's order, dense and row-major; PREFIX0.bin, PREFIX1.bin ... get the outputs. --dim NAME=SIZE, once
 * per dimension that was left open, says how large it is; else it has its greatest size.
 *
 * What drives the devices of a bundle is opened by its name, such as libsterna_opencl.so, and keeps nothing: kernels are compiled
 * by the driver in every run, unless the driver itself keeps them.
 *
 * With -DSTERNA_LINKED=sterna_<model>_library the kernels are linked into the program and only graph.json and params.bin
 * are read: for static programs, which cannot open libraries. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drivers.h"
#include "golden.h"
#include "sterna.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* WIN32_LEAN_AND_MEAN leaves it out. */
#include <shellapi.h>

static double now_ms(void) {
  LARGE_INTEGER now, per_second;
  (void)QueryPerformanceCounter(&now);
  (void)QueryPerformanceFrequency(&per_second);
  return (double)now.QuadPart * 1e3 / (double)per_second.QuadPart;
}

/* fopen for UTF-8: Windows would take it for text of the user's code page. */
static FILE *open_file(const char *path, const char *mode) {
  wchar_t wide[4096], how[8];
  errno = ENOENT;
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, 4096) <= 0) return NULL;
  if (MultiByteToWideChar(CP_UTF8, 0, mode, -1, how, 8) <= 0) return NULL;
  return _wfopen(wide, how);
}

/* The arguments in UTF-8, in memory that is never given back; those of main have lost what the code page lacks. */
static char **arguments(int *count, char **given) {
  wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), count);
  char **all = wide != NULL ? calloc((size_t)*count + 1, sizeof *all) : NULL;
  for (int i = 0; all != NULL && i < *count; i++) {
    int bytes = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
    all[i] = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (all[i] == NULL) return given;
    (void)WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, all[i], bytes, NULL, NULL);
  }
  (void)SetConsoleOutputCP(CP_UTF8);
  return all != NULL ? all : given;
}
#else
#define open_file fopen

static double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static char **arguments(int *count, char **given) {
  (void)count;
  return given;
}
#endif

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_node(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  sterna_node info;
  if (sterna_node_info(user, node, &info) == STERNA_OK)
    printf("%4u  %10.3f us  %-32s %s\n", (unsigned)node, (double)nanoseconds * 1e-3, name, info.kernel);
}

static int read_file(const char *path, void *to, size_t bytes) {
  FILE *file = open_file(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "sterna_run: %s: %s\n", path, strerror(errno));
    return 0;
  }
  size_t got = fread(to, 1, bytes, file);
  int more = fgetc(file) != EOF;
  (void)fclose(file);
  if (got == bytes && !more) return 1;
  fprintf(stderr, "sterna_run: %s: has %s %llu bytes; the input needs %llu\n", path, more ? "more than" : "only",
          (unsigned long long)got, (unsigned long long)bytes);
  return 0;
}

static int write_file(const char *prefix, unsigned index, const void *from, size_t bytes) {
  char path[4096];
  int used = snprintf(path, sizeof path, "%s%u.bin", prefix, index);
  if (used < 0 || (size_t)used >= sizeof path) return 0;
  FILE *file = open_file(path, "wb");
  int good = file != NULL && fwrite(from, 1, bytes, file) == bytes;
  if (file != NULL && fclose(file) != 0) good = 0;
  if (!good) fprintf(stderr, "sterna_run: %s: %s\n", path, strerror(errno));
  return good;
}

#ifdef STERNA_LINKED
extern const sterna_library *STERNA_LINKED(void);

/* The whole file at a multiple of 64, in memory that is never given back. */
static void *slurp(const char *directory, const char *name, size_t *bytes) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = open_file(path, "rb");
  long end = file != NULL && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  char *memory = end >= 0 ? malloc((size_t)end + 64) : NULL;
  if (memory != NULL) {
    memory += (64 - (uintptr_t)memory % 64) % 64;
    rewind(file);
    *bytes = fread(memory, 1, (size_t)end, file);
  }
  if (file != NULL) (void)fclose(file);
  return memory;
}

static sterna_status load(const char *directory, const sterna_options *options, sterna_model **out,
                          sterna_error *error) {
  size_t graph_bytes = 0, params_bytes = 0;
  void *graph = slurp(directory, "graph.json", &graph_bytes), *params = slurp(directory, "params.bin", &params_bytes);
  return sterna_load_table(graph, graph_bytes, params, params_bytes, STERNA_LINKED(), options, out, error);
}
#else
#define load sterna_load
#endif

static int usage(void) {
  fputs("usage: sterna_run DIRECTORY [--threads N] [--repeat N] [--profile] [--dim NAME=SIZE ...] IN0 [IN1 ...] "
        "[--out PREFIX]\n"
        "       sterna_run DIRECTORY --golden [--threads N]\n",
        stderr);
  return 2;
}

/* A whole number of at least 1, or 0. */
static uint32_t number(const char *text) {
  char *end;
  unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
  return text != NULL && *end == 0 && value <= 1000000 ? (uint32_t)value : 0;
}

static int set_dim(sterna_model *model, char *assignment) {
  char *value = strrchr(assignment, '='), *end = NULL;
  long long size = value != NULL ? strtoll(value + 1, &end, 10) : 0;
  if (value == NULL || end == value + 1 || *end != 0) {
    fprintf(stderr, "sterna_run: --dim %s: not of the form NAME=SIZE\n", assignment);
    return 0;
  }
  *value = 0;
  sterna_status status = sterna_set_dim(model, assignment, size);
  if (status == STERNA_OK) return 1;
  fprintf(stderr, "error[%s]: %s\n", sterna_status_code(status), sterna_last_error(model)->message);
  return 0;
}

static int run(sterna_model *model, uint32_t repeat, int profile, const char *prefix) {
  double *times = malloc(repeat * sizeof *times);
  if (times == NULL) return 1;
  sterna_status status = STERNA_OK;
  for (uint32_t i = 0; i < repeat && status == STERNA_OK; i++) {
    if (profile && i + 1 == repeat) sterna_set_on_node(model, print_node, model);
    double start = now_ms();
    status = sterna_run(model);
    times[i] = now_ms() - start;
  }
  if (status == STERNA_OK) {
    qsort(times, repeat, sizeof *times, by_size);
    printf("%u runs: median %.3f ms, fastest %.3f ms\n", (unsigned)repeat, times[repeat / 2], times[0]);
  } else {
    fprintf(stderr, "error[%s]: %s\n", sterna_status_code(status), sterna_last_error(model)->message);
  }
  free(times);
  for (uint32_t i = 0; prefix != NULL && status == STERNA_OK && i < sterna_output_count(model); i++) {
    sterna_tensor tensor;
    status = sterna_output_info(model, i, &tensor);
    if (status == STERNA_OK && !write_file(prefix, i, sterna_output_buffer(model, i), tensor.bytes)) return 1;
  }
  return status == STERNA_OK ? 0 : 1;
}

int main(int argc, char **argv) {
  argv = arguments(&argc, argv);
  const char *directory = NULL, *prefix = NULL, **inputs = calloc((size_t)argc + 1, sizeof *inputs);
  char **dims = calloc((size_t)argc + 1, sizeof *dims);
  uint32_t n_inputs = 0, n_dims = 0, repeat = 1;
  int profile = 0, golden = 0, result = 1;
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 1;
  for (int i = 1; inputs != NULL && dims != NULL && i < argc; i++) {
    int option = 1;
    if (strcmp(argv[i], "--profile") == 0)
      profile = 1;
    else if (strcmp(argv[i], "--golden") == 0)
      golden = 1;
    else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
      options.threads = number(argv[++i]);
    else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
      repeat = number(argv[++i]);
    else if (strcmp(argv[i], "--dim") == 0 && i + 1 < argc)
      dims[n_dims++] = argv[++i];
    else if (strcmp(argv[i], "--out") == 0 && i + 1 < argc)
      prefix = argv[++i];
    else
      option = 0;
    if (option) continue;
    if (strncmp(argv[i], "--", 2) == 0) return usage();
    if (directory == NULL)
      directory = argv[i];
    else
      inputs[n_inputs++] = argv[i];
  }
  if (directory == NULL || repeat == 0 || options.threads == 0) return usage();

  drivers found;
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/graph.json", directory);
  drivers_find(open_file(path, "rb"), &found, &options);
  sterna_status status = load(directory, &options, &model, &error);
  if (status != STERNA_OK) {
    const char *advice = drivers_advice(&found, &error);
    fprintf(stderr, "error[%s]: %s\n  %s\n", sterna_status_code(status), error.message, directory);
    if (advice != NULL) fprintf(stderr, "  fix: %s\n", advice);
  } else if (golden) {
    result = golden_replay(model, directory, open_file);
  } else if (n_inputs != sterna_input_count(model)) {
    fprintf(stderr, "sterna_run: the model has %u inputs; %u files were given\n", (unsigned)sterna_input_count(model),
            (unsigned)n_inputs);
  } else {
    int good = 1;
    for (uint32_t i = 0; good && i < n_dims; i++) good = set_dim(model, dims[i]);
    for (uint32_t i = 0; good && i < n_inputs; i++) {
      sterna_tensor tensor;
      good = sterna_input_info(model, i, &tensor) == STERNA_OK &&
             read_file(inputs[i], sterna_input_buffer(model, i), tensor.bytes);
    }
    if (good) result = run(model, repeat, profile, prefix);
  }
  sterna_unload(model);
  free(inputs);
  free(dims);
  return result;
}
