/* A model from memory with kernels linked into the program: loading, binding, threads, barriers, failures.
 *
 * The graph: y[i] = x[i] + 1 in 64 tasks into a strided buffer, then its running sum in two phases with a barrier. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "internal.h"

#define N 64

#ifdef STERNA_PORT_NONE
#define MOST_THREADS 1
#else
#define MOST_THREADS 5
#endif

static int32_t add_one(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0];
  int32_t *y = call->out[0];
  for (uint32_t i = first; i < last; i++) y[2 * i + 1] = x[i] + 1;
  call->scratch[63] = (uint8_t)call->worker; /* ThreadSanitizer would see two workers with one scratch */
  return 0;
}

/* Each worker writes the sum of its share, for others into the scratch that all have, and after the barrier adds the
 * shares before its own. */
static int32_t running_sum(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0];
  int32_t *y = call->out[0];
  int32_t sum = 0;
  for (uint32_t i = first; i < last; i++) y[i] = sum += x[2 * i + 1];
  int32_t *sums = (int32_t *)(void *)call->scratch;
  sums[call->worker] = sum;
  call->barrier(call->pool);
  int32_t before = 0;
  for (uint32_t w = 0; w < call->worker; w++) before += sums[w];
  for (uint32_t i = first; i < last; i++) y[i] += before;
  return 0;
}

static int32_t failing(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0];
  (void)last;
  return x[0] == -1 && first == 0 ? -7 : 0;
}

static const sterna_kernel kernels[] = {{add_one, N, 64, 0, 0},
                                        {running_sum, N, 64, STERNA_KERNEL_NEEDS_BARRIER, 0},
                                        {failing, N, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, 3, 0, kernels, ""};

#define BODY                                                                                                   \
  "\"abi\":1,\"model\":\"sums\",\"target\":{\"pointer_bits\":%u,\"cpu_features\":[]},\"library\":\"k\","       \
  "\"files\":{\"params.bin\":{\"bytes\":0,\"hash\":\"ef46db3751d8e999\"},\"k\":{\"bytes\":0,\"hash\":"         \
  "\"ef46db3751d8e999\"}},\"arena\":{\"bytes\":512},\"scratch_bytes\":64,\"kernels\":[{\"name\":\"add_one\"}," \
  "{\"name\":\"running_sum\"},{\"name\":\"failing\"}],\"values\":["                                            \
  "{\"name\":\"x\",\"dtype\":\"int32\",\"dims\":[64],\"storage\":{\"class\":\"input\",\"offset\":0,"           \
  "\"bytes\":256,\"origin\":0,\"strides\":[1]}},"                                                              \
  "{\"name\":\"mid\",\"dtype\":\"int32\",\"dims\":[8,8],\"storage\":{\"class\":\"arena\",\"offset\":0,"        \
  "\"bytes\":512,\"origin\":1,\"strides\":[16,2]}},"                                                           \
  "{\"name\":\"y\",\"dtype\":\"int32\",\"dims\":[64],\"storage\":{\"class\":\"output\",\"offset\":0,"          \
  "\"bytes\":256,\"origin\":0,\"strides\":[1]}%s}],\"inputs\":[0],\"outputs\":[2]%s,\"nodes\":["               \
  "{\"name\":\"a\",\"kernel\":0,\"in\":[0],\"out\":[1],\"tasks\":64},"                                         \
  "{\"name\":\"b\",\"kernel\":1,\"in\":[1],\"out\":[2],\"tasks\":64},"                                         \
  "{\"name\":\"c\",\"kernel\":2,\"in\":[0],\"out\":[],\"tasks\":64}]}"

/* `of_output`: further members of the output; `further`: of the whole. */
static size_t make_graph_with(char *text, size_t room, const char *of_output, const char *further) {
  char body[4096];
  int bytes = snprintf(body, sizeof body, BODY, (unsigned)(sizeof(void *) * 8), of_output, further);
  uint64_t hash = sterna_hash64(body, (size_t)bytes);
  int total = snprintf(text, room, "{\"sterna\":1,\"hash\":\"%08lx%08lx\",\n%s", (unsigned long)(hash >> 32),
                       (unsigned long)(hash & 0xffffffffu), body);
  return (size_t)total;
}

static size_t make_graph(char *text, size_t room) { return make_graph_with(text, room, "", ""); }

/* An allocator that counts, and fails when told to. */
typedef struct counter {
  size_t live, calls, fail_at;
} counter;

static void *count_allocate(void *context, size_t bytes) {
  counter *c = context;
  if (++c->calls == c->fail_at) return NULL;
  void *memory = malloc(bytes);
  if (memory == NULL) return NULL;
  memset(memory, 0xa5, bytes);
  c->live += bytes;
  return memory;
}

static void count_release(void *context, void *memory, size_t bytes) {
  ((counter *)context)->live -= bytes;
  free(memory);
}

static sterna_model *load(uint32_t threads, counter *c, sterna_error *error) {
  char text[8192];
  size_t bytes = make_graph(text, sizeof text);
  sterna_allocator allocator = {c, count_allocate, count_release};
  sterna_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads;
  options.allocator = &allocator;
  sterna_model *model;
  (void)sterna_load_table(text, bytes, NULL, 0, &library, &options, &model, error);
  return model;
}

static void check_run(sterna_model *model, int32_t start) {
  int32_t *x = sterna_input_buffer(model, 0);
  for (int32_t i = 0; i < N; i++) x[i] = start + i;
  CHECK(sterna_run(model) == STERNA_OK);
  const int32_t *y = sterna_output_buffer(model, 0);
  int32_t sum = 0;
  for (int32_t i = 0; i < N; i++) CHECK(y[i] == (sum += start + i + 1));
}

static void test_threads(void) {
  for (uint32_t threads = 0; threads <= MOST_THREADS; threads++) {
    counter c = {0, 0, 0};
    sterna_error error;
    sterna_model *model = load(threads, &c, &error);
    CHECK(model != NULL);
    if (model == NULL) continue;
    for (int32_t i = 0; i < 200; i++) check_run(model, i);
    size_t calls = c.calls;
    check_run(model, 7);
    CHECK(c.calls == calls); /* a run takes no memory */
    sterna_unload(model);
    CHECK(c.live == 0);
  }
}

static void test_out_of_memory(void) {
  for (uint32_t threads = 1; threads <= 2 && threads <= MOST_THREADS; threads++) {
    size_t fail_at = 1;
    for (;; fail_at++) {
      counter c = {0, 0, fail_at};
      sterna_error error;
      sterna_model *model = load(threads, &c, &error);
      if (model != NULL) {
        sterna_unload(model);
        CHECK(c.live == 0);
        break;
      }
      CHECK(error.status == STERNA_RESOURCES);
      CHECK(c.live == 0 && error.message[0] != 0);
    }
    CHECK(fail_at > 3);
  }
}

/* Memory of the caller at an address that kernels may not be given. */
static void test_alignment(void) {
  static unsigned char room[3 * ALIGNMENT];
  unsigned char *aligned = room + (ALIGNMENT - (uintptr_t)room % ALIGNMENT) % ALIGNMENT;
  char text[8192];
  size_t bytes = make_graph(text, sizeof text);
  sterna_error error;
  sterna_model *model;
  for (size_t by = 1; by < ALIGNMENT; by++) {
    CHECK(sterna_load_table(text, bytes, aligned + by, 1, &library, NULL, &model, &error) == STERNA_BAD_ARGUMENT && model == NULL);
    CHECK(strstr(error.message, "not aligned to 64 bytes") != NULL);
  }
  CHECK(sterna_load_table(text, bytes, aligned, 1, &library, NULL, &model, &error) == STERNA_DAMAGED);
  CHECK(sterna_load_table(text, bytes, NULL, 0, &library, NULL, &model, &error) == STERNA_OK);
  for (size_t by = 1; by < 4 && model != NULL; by++) {
    CHECK(sterna_bind_input(model, 0, aligned + by) == STERNA_BAD_ARGUMENT);
    CHECK(sterna_bind_output(model, 0, aligned + by) == STERNA_BAD_ARGUMENT);
    CHECK(strstr(sterna_last_error(model)->message, "not aligned") != NULL);
  }
  sterna_unload(model);
}

static void test_tensors(void) {
  counter c = {0, 0, 0};
  sterna_error error;
  sterna_model *model = load(1, &c, &error);
  CHECK(model != NULL);
  if (model == NULL) return;
  int32_t mid[N], memory[N + 1], result[N];
  sterna_tensor tensor;
  sterna_node node;
  int32_t value = sterna_find_value(model, "mid");
  CHECK(value == 1 && sterna_find_value(model, "none") == STERNA_NOT_FOUND);
  CHECK(sterna_find_input(model, "x") == 0 && sterna_find_output(model, "y") == 0);
  CHECK(sterna_value_info(model, 1, &tensor) == STERNA_OK && tensor.rank == 2 && tensor.bytes == sizeof mid);
  CHECK(sterna_value_info(model, 3, &tensor) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_node_info(model, 1, &node) == STERNA_OK && strcmp(node.kernel, "running_sum") == 0);
  CHECK(sterna_value_copy(model, 1, mid, sizeof mid) == STERNA_NOT_AVAILABLE);
  check_run(model, 5);
  CHECK(sterna_value_copy(model, 1, mid, sizeof mid - 1) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_value_copy(model, 1, mid, sizeof mid) == STERNA_OK);
  for (int32_t i = 0; i < N; i++) CHECK(mid[i] == 5 + i + 1);

  /* The caller's memory in place of the runtime's, and back. */
  for (int32_t i = 0; i < N; i++) memory[i] = 100;
  CHECK(sterna_bind_input(model, 0, (const char *)memory + 1) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_bind_input(model, 1, memory) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_bind_input(model, 0, memory) == STERNA_OK && sterna_bind_output(model, 0, result) == STERNA_OK);
  CHECK(sterna_run(model) == STERNA_OK && result[0] == 101 && result[63] == 64 * 101);
  CHECK(sterna_bind_input(model, 0, NULL) == STERNA_OK && sterna_bind_output(model, 0, NULL) == STERNA_OK);
  check_run(model, 6);

  ((int32_t *)sterna_input_buffer(model, 0))[0] = -1;
  CHECK(sterna_run(model) == STERNA_KERNEL_FAILED);
  CHECK(strcmp(sterna_last_error(model)->message, "node 2 (\"c\"): kernel \"failing\" returned -7") == 0);
  check_run(model, 8);
  sterna_unload(model);
}

/* What the elements stand for. */
static void test_meaning(void) {
  char text[8192];
  sterna_error error;
  sterna_model *model;
  sterna_tensor tensor;
  size_t bytes = make_graph_with(text, sizeof text, ",\"quantization\":{\"scale\":[0.05],\"zero_point\":[-3]}",
                                 ",\"metadata\":{\"labels\":{\"y\":[\"tern\",\"gull\"],\"other\":[]}}");
  CHECK(sterna_load_table(text, bytes, NULL, 0, &library, NULL, &model, &error) == STERNA_OK || !puts(error.message));
  if (model == NULL) return;
  CHECK(sterna_output_info(model, 0, &tensor) == STERNA_OK && tensor.n_scales == 1 && tensor.n_labels == 2);
  CHECK(memcmp(tensor.scales, &(float){0.05f}, sizeof(float)) == 0 && tensor.zero_points[0] == -3);
  CHECK(strcmp(tensor.labels[0], "tern") == 0 && strcmp(tensor.labels[1], "gull") == 0);
  CHECK(sterna_input_info(model, 0, &tensor) == STERNA_OK && tensor.n_scales == 0 && tensor.n_labels == 0);
  CHECK(tensor.scales == NULL && tensor.labels == NULL);
  sterna_unload(model);

  static const char *const bad[][2] = {
      {",\"quantization\":{\"scale\":[0.5],\"zero_point\":[]}", ""},
      {",\"quantization\":{\"scale\":[],\"zero_point\":[]}", ""},
      {",\"quantization\":{\"scale\":[0],\"zero_point\":[1]}", ""},
      {",\"quantization\":{\"scale\":[-1],\"zero_point\":[1]}", ""},
      {",\"quantization\":{\"scale\":[1e39],\"zero_point\":[1]}", ""},
      {",\"quantization\":{\"scale\":[1],\"zero_point\":[2147483648]}", ""},
      {",\"quantization\":{\"scale\":[1,2],\"zero_point\":[1,2]}", ""},
      {",\"quantization\":{\"scale\":[1,2],\"zero_point\":[1,2],\"axis\":0}", ""},
      {",\"quantization\":{\"scale\":[1,2],\"zero_point\":[1,2],\"axis\":1}", ""},
      {",\"quantization\":[1]", ""},
      {"", ",\"metadata\":[]"},
      {"", ",\"metadata\":{\"labels\":[]}"},
      {"", ",\"metadata\":{\"labels\":{\"y\":[1]}}"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    bytes = make_graph_with(text, sizeof text, bad[i][0], bad[i][1]);
    CHECK(sterna_load_table(text, bytes, NULL, 0, &library, NULL, &model, &error) == STERNA_MALFORMED);
    CHECK(model == NULL);
  }
}

static void test_arguments(void) {
  sterna_error error;
  sterna_model *model;
  sterna_options options;
  memset(&options, 0, sizeof options);
  CHECK(sterna_load(NULL, NULL, &model, &error) == STERNA_BAD_ARGUMENT && model == NULL);
  CHECK(sterna_load("nowhere", NULL, NULL, &error) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_load_table("", 0, NULL, 0, &library, &options, &model, &error) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_load("nowhere/at/all", NULL, &model, &error) != STERNA_OK && error.message[0] != 0);
  CHECK(sterna_load("nowhere/at/all", NULL, &model, NULL) != STERNA_OK);
  CHECK(sterna_load_table("", 0, NULL, 0, &library, NULL, &model, &error) == STERNA_MALFORMED);
  CHECK(sterna_load_table(NULL, 0, NULL, 0, &library, NULL, &model, &error) == STERNA_BAD_ARGUMENT);
  options.size = sizeof options;
  options.threads = UINT32_MAX;
  CHECK(sterna_load_table("", 0, NULL, 0, &library, &options, &model, &error) == STERNA_BAD_ARGUMENT);
  sterna_unload(NULL);
#ifdef STERNA_PORT_NONE
  counter c = {0, 0, 0};
  CHECK(sterna_load("somewhere", NULL, &model, &error) == STERNA_UNSUPPORTED);
  CHECK(load(2, &c, &error) == NULL && error.status == STERNA_UNSUPPORTED);
#endif
}

int main(void) {
  test_threads();
  test_out_of_memory();
  test_alignment();
  test_tensors();
  test_meaning();
  test_arguments();
  printf("%d failures\n", failures);
  return failures != 0;
}
