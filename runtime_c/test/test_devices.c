/* Nodes of devices, on a device that is none: it has memory here, checks what it is told, computes nothing, and fails at a
 * chosen call. Every call is failed once; nothing may be lost, and a model whose run failed can be run again.
 *
 *   test_devices BUNDLE BUNDLE    # of digits for opencl, with a node on the CPU, and with none */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sterna_device.h"
#include "../devices/nodes.h"

#define WORDS "the device's own words"

static unsigned calls, fail_at, opened, closed, launched;

typedef struct block {
  struct block *next;
  uint64_t bytes;
  unsigned char data[];
} block;

/* A copy out, which is done when somebody waits. */
typedef struct result {
  void *to;
  const unsigned char *from;
  uint64_t bytes;
} result;

#define MOST_RESULTS 16u

typedef struct fake {
  block *blocks;
  unsigned n_results;
  result results[MOST_RESULTS];
  uint32_t n_kernels;
  uint32_t spans[64];
} fake;

static int fails(sterna_error *error) {
  if (++calls != fail_at) return 0;
  if (error != NULL) {
    error->status = STERNA_RESOURCES;
    (void)strcpy(error->message, WORDS);
  }
  return 1;
}

static sterna_status open_fake(const sterna_device_module *module, void **device, sterna_error *error) {
  if (fails(error)) return STERNA_RESOURCES;
  CHECK(module->size == sizeof *module && module->bytes > 0 && module->n_kernels > 0 && module->n_kernels < 64);
  CHECK(strcmp(module->name, "kernels.cl") == 0 && module->needs[0] == 0 && strcmp(module->cache, "a folder") == 0);
  CHECK(module->hash == sterna_hash64(module->text, module->bytes));
  fake *f = calloc(1, sizeof *f);
  f->n_kernels = module->n_kernels;
  for (uint32_t i = 0; i < module->n_kernels; i++) {
    const sterna_device_kernel *k = &module->kernels[i];
    CHECK(k->name[0] == 'k' && (k->threads[0] > 0) != (k->most_threads > 0));
    f->spans[i] = k->n_spans;
  }
  opened++;
  *device = f;
  return STERNA_OK;
}

static void close_fake(void *device) {
  fake *f = device;
  while (f->blocks != NULL) {
    block *b = f->blocks;
    f->blocks = b->next;
    free(b);
  }
  free(f);
  closed++;
}

static sterna_status allocate_fake(void *device, uint64_t bytes, void **memory, sterna_error *error) {
  fake *f = device;
  if (fails(error)) return STERNA_RESOURCES;
  CHECK(bytes > 0);
  block *b = calloc(1, sizeof *b + bytes);
  b->bytes = bytes;
  b->next = f->blocks;
  f->blocks = b;
  *memory = b;
  return STERNA_OK;
}

static int inside(const sterna_device_span *span, uint64_t bytes) {
  const block *b = span->memory;
  return span->first <= b->bytes && bytes <= b->bytes - span->first;
}

static sterna_status copy_in_fake(void *device, const sterna_device_span *to, const void *from, uint64_t bytes, sterna_error *error) {
  (void)device;
  if (fails(error)) return STERNA_RESOURCES;
  CHECK(inside(to, bytes));
  memcpy(((block *)to->memory)->data + to->first, from, bytes);
  return STERNA_OK;
}

static sterna_status copy_out_fake(void *device, void *to, const sterna_device_span *from, uint64_t bytes, sterna_error *error) {
  fake *f = device;
  if (fails(error)) return STERNA_RESOURCES;
  CHECK(inside(from, bytes) && f->n_results < MOST_RESULTS);
  result *r = &f->results[f->n_results++];
  r->to = to;
  r->from = ((block *)from->memory)->data + from->first;
  r->bytes = bytes;
  return STERNA_OK;
}

static sterna_status launch_fake(void *device, const sterna_device_launch *launch, sterna_error *error) {
  const fake *f = device;
  if (fails(error)) return STERNA_RESOURCES;
  CHECK(launch->size == sizeof *launch && launch->kernel < f->n_kernels && launch->tasks > 0);
  CHECK(launch->n_spans <= f->spans[launch->kernel] && launch->sizes != NULL && launch->scratch != NULL && launch->status != NULL);
  for (uint32_t i = 0; i < launch->n_spans; i++) CHECK(inside(&launch->spans[i], 1));
  launched++;
  return STERNA_OK;
}

static sterna_status wait_fake(void *device, uint64_t *nanoseconds, sterna_error *error) {
  fake *f = device;
  unsigned n = f->n_results;
  f->n_results = 0;
  if (fails(error)) return STERNA_RESOURCES;
  for (unsigned i = 0; i < n; i++) memcpy(f->results[i].to, f->results[i].from, f->results[i].bytes);
  if (nanoseconds != NULL) *nanoseconds = 7;
  return STERNA_OK;
}

static unsigned timed;

static void on_node(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  (void)user, (void)node, (void)name;
  timed += nanoseconds == 7;
}

static const sterna_device_api *const *fakes(void) {
  static const sterna_device_api api = {sizeof(sterna_device_api), "opencl", open_fake, close_fake, allocate_fake, copy_in_fake,
                                        copy_out_fake, launch_fake, wait_fake, &sterna_device_nodes,
                                        NULL, NULL, NULL, NULL, NULL};
  static const sterna_device_api *const devices[] = {&api};
  return devices;
}

/* One life of a model; whether it came to its end. */
static int life(const char *bundle) {
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.devices = fakes();
  options.n_devices = 1;
  options.device_cache = "a folder";
  options.on_node = on_node;
  sterna_status status = sterna_load(bundle, &options, &model, &error);
  if (status != STERNA_OK) {
    CHECK(status == STERNA_RESOURCES && strcmp(error.message, WORDS) == 0 && model == NULL);
    return 0;
  }
  status = sterna_run(model);
  int whole = status == STERNA_OK;
  if (!whole) {
    CHECK(status == STERNA_RESOURCES && strcmp(sterna_last_error(model)->message, WORDS) == 0);
    CHECK(sterna_run(model) == STERNA_OK);
  }
  sterna_unload(model);
  return whole;
}

/* Aligned as weights are; the word before it is where it was allocated. */
static void *take(size_t bytes) {
  unsigned char *base = malloc(bytes + 2 * STERNA_ALIGNMENT), *data;
  CHECK(base != NULL);
  data = base + 2 * STERNA_ALIGNMENT - (uintptr_t)base % STERNA_ALIGNMENT;
  memcpy(data - sizeof base, &base, sizeof base);
  return data;
}

static void give(void *data) {
  unsigned char *base;
  memcpy(&base, (unsigned char *)data - sizeof base, sizeof base);
  free(base);
}

static void *read_whole(const char *bundle, const char *name, size_t *bytes) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", bundle, name);
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  void *data = take(*bytes);
  CHECK(fread(data, 1, *bytes, file) == *bytes);
  (void)fclose(file);
  return data;
}

/* A bundle in memory, of which all nodes are the device's: there is no library. */
static void from_memory(const char *bundle, const char *mixed) {
  size_t graph_bytes, params_bytes, mixed_bytes;
  void *graph = read_whole(bundle, "graph.json", &graph_bytes), *params = read_whole(bundle, "params.bin", &params_bytes);
  void *other = read_whole(mixed, "graph.json", &mixed_bytes);
  sterna_file files[] = {{"another", "text", 4}, {"kernels.cl", NULL, 0}};
  char *text = read_whole(bundle, "kernels.cl", &files[1].bytes);
  files[1].data = text;
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  CHECK(sterna_load_table(graph, graph_bytes, params, params_bytes, NULL, &options, &model, &error) == STERNA_WRONG_MACHINE);
  options.devices = fakes();
  options.n_devices = 1;
  options.device_cache = "a folder";
  CHECK(sterna_load_table(graph, graph_bytes, params, params_bytes, NULL, &options, &model, &error) == STERNA_UNREADABLE);
  CHECK(strstr(error.message, "kernels.cl: is not among options.files") != NULL && model == NULL);
  options.files = files;
  options.n_files = 2;
  text[9] ^= 1;
  CHECK(sterna_load_table(graph, graph_bytes, params, params_bytes, NULL, &options, &model, &error) == STERNA_DAMAGED);
  text[9] ^= 1;
  CHECK(sterna_load_table(graph, graph_bytes, params, params_bytes, NULL, &options, &model, &error) == STERNA_OK);
  give(text);
  give(graph);
  CHECK(sterna_run(model) == STERNA_OK);
  sterna_unload(model);
  give(params);
  size_t kernels_bytes;
  files[1].data = text = read_whole(mixed, "kernels.cl", &kernels_bytes);
  files[1].bytes = kernels_bytes;
  params = read_whole(mixed, "params.bin", &params_bytes);
  CHECK(sterna_load_table(other, mixed_bytes, params, params_bytes, NULL, &options, &model, &error) == STERNA_BAD_ARGUMENT);
  give(text);
  give(params);
  give(other);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  sterna_model *model;
  sterna_error error;
  CHECK(sterna_load(arguments[1], NULL, &model, &error) == STERNA_WRONG_MACHINE);
  CHECK(strstr(error.message, "needs the device \"opencl\", which is not here") != NULL);
  fail_at = 0;
  CHECK(life(arguments[1]));
  CHECK(launched > 3 && timed == launched);
  unsigned all = calls;
  CHECK(all > 3 * launched);
  for (fail_at = 1; fail_at <= all; fail_at++) {
    calls = 0;
    CHECK(!life(arguments[1]));
  }
  fail_at = 0;
  from_memory(arguments[2], arguments[1]);
  CHECK(opened == closed && opened > 1);
  printf("%d failures\n", failures);
  return failures != 0;
}
