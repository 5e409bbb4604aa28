/* Dimensions of variable size: expressions read and evaluated, a model run at many sizes, refusals that change nothing.
 *
 * The graph: mid[i][j] = x[i] + j, in n tasks, into a strided buffer; y = mid, dense, in blocks of 8 rows. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json.h"

#define MOST_N 64
#define MOST_M 8

#ifdef STERNA_PORT_NONE
#define MOST_THREADS 1
#else
#define MOST_THREADS 4
#endif

/* ---- Expressions ---- */

static bool read(const char *text, const int64_t *sizes, uint32_t n_sizes, int64_t *result) {
  size_t at;
  uint32_t stage = 0;
  bool good = json_check(text, strlen(text), &at);
  CHECK(good || printf("no JSON: %s\n", text) < 0);
  sterna_model model;
  int64_t copy[4] = {0};
  memset(&model, 0, sizeof model);
  memcpy(copy, sizes, n_sizes * sizeof *sizes);
  heap_open(&model.heap, NULL);
  model.sizes = copy;
  model.n_dims = model.n_open = n_sizes;
  good = good && dims_read(&model, text, 0, result, &stage);
  CHECK(stage == (model.formulas != NULL ? 1u : 0u));
  heap_close(&model.heap);
  return good;
}

static void test_expressions(void) {
  static const struct {
    const char *text;
    int64_t result;
  } good[] = {
      {"7", 7},
      {"[\"d\",0]", 5},
      {"[ \"d\" , 1 ] ", 3},
      {"[\"+\",[\"d\",0],1]", 6},
      {"[\"+\",1]", 1},
      {"[\"+\",1,2,3,[\"d\",0],-4]", 7},
      {"[\"*\",2,[\"d\",0],[\"d\",1]]", 30},
      {"[\"+\",[\"*\",-2,[\"d\",0]],[\"*\",[\"d\",1],-1],20]", 7},
      {"[\"/\",[\"d\",0],2]", 2},
      {"[\"+\",[\"/\",[\"*\",-1,[\"d\",0]],2],3]", 0},  /* floor(-5 / 2) = -3 */
      {"[\"+\",[\"/\",-6,3],2]", 0},
      {"[\"%\",[\"*\",-1,[\"d\",0]],4]", 3},
      {"[\"%\",-8,4]", 0},
      {"[\"%\",[\"d\",0],4]", 1},
      {"[\"min\",[\"d\",0],[\"d\",1]]", 3},
      {"[\"max\",[\"d\",0],[\"d\",1],-9]", 5},
      {"[\"/\",[\"+\",[\"/\",[\"+\",[\"d\",0],-1],2],[\"%\",[\"d\",1],2]],1]", 3},
      {"[\"+\",9223372036854775807,-9223372036854775807]", 0},
      {"[\"*\",0,9223372036854775807,9223372036854775807]", 0},
      {"[\"*\",-3037000499,-3037000499]", 3037000499 * 3037000499},
  };
  static const char *const bad[] = {
      "-1", "1.5", "1e3", "9223372036854775808", "null", "true", "\"d\"", "{}", "[]", "[\"d\"]", "[\"+\"]", "[1,2]",
      "[\"d\",2]", "[\"d\",-1]", "[\"d\",4294967296]", "[\"d\",0,0]", "[\"d\",[\"d\",0]]", "[\"d\",\"n\"]", "[\"-\",1,2]",
      "[\"\",1]", "[\"/\",4]", "[\"/\",4,0]", "[\"/\",4,-2]", "[\"/\",4,[\"d\",0]]", "[\"/\",4,2,1]", "[\"%\",4,0]",
      "[\"%\",4,1.5]", "[\"+\",1,null]", "[\"+\",1,{\"d\":0}]", "[\"*\",-1,[\"d\",0]]", "[\"+\",[\"d\",0],-6]",
      "[\"+\",9223372036854775807,1]", "[\"+\",-9223372036854775807,-2,9223372036854775807]", "[\"+\",1,18446744073709551616]",
      "[\"*\",4294967296,4294967296]", "[\"*\",-4294967296,2147483648,-1]", "[\"*\",3037000500,3037000500]"};
  const int64_t sizes[] = {5, 3};
  int64_t result;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    CHECK((read(good[i].text, sizes, 2, &result) && result == good[i].result) || printf("wrong: %s\n", good[i].text) < 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!read(bad[i], sizes, 2, &result) || printf("accepted: %s\n", bad[i]) < 0);
}

/* As deep as the JSON may be, and as long as an expression may be. */
static void test_large_expressions(void) {
  const int64_t one = 1;
  int64_t result;
  char text[8192];
  for (int deep = 1; deep <= JSON_MAX_DEPTH; deep++) {
    size_t used = 0;
    for (int i = 1; i < deep; i++) used += (size_t)snprintf(text + used, sizeof text - used, "[\"+\",1,");
    used += (size_t)snprintf(text + used, sizeof text - used, "[\"d\",0]");
    for (int i = 1; i < deep; i++) text[used++] = ']';
    text[used] = 0;
    CHECK(read(text, &one, 1, &result) && result == deep);
  }
  for (int n = 100; n <= 140; n++) { /* n numbers and n - 1 additions; at most 256 terms */
    size_t used = (size_t)snprintf(text, sizeof text, "[\"+\"");
    for (int i = 0; i < n; i++) used += (size_t)snprintf(text + used, sizeof text - used, ",1");
    (void)snprintf(text + used, sizeof text - used, "]");
    CHECK(read(text, &one, 1, &result) == (2 * n - 1 <= 256));
  }
}

/* ---- A model ---- */

static int32_t spread(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0];
  int32_t *mid = call->out[0];
  int64_t m = call->dims[1];
  for (int64_t i = first; i < (int64_t)last; i++)
    for (int64_t j = 0; j <= m; j++) mid[m + i * (m + 2) + j] = x[i] + (int32_t)j;
  return 0;
}

static int32_t copy_blocks(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *mid = call->in[0];
  int32_t *y = call->out[0];
  int64_t n = call->dims[0], m = call->dims[1];
  for (int64_t i = (int64_t)first * 8; i < (int64_t)last * 8 && i < n; i++)
    for (int64_t j = 0; j <= m; j++) y[i * (m + 1) + j] = mid[m + i * (m + 2) + j];
  return 0;
}

static const sterna_kernel kernels[] = {{spread, MOST_N, 0, 0, 0}, {copy_blocks, MOST_N / 8, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, 2, 0, kernels, ""};

#define BODY                                                                                                      \
  "\"abi\":1,\"model\":\"open\",\"target\":{\"pointer_bits\":%u,\"cpu_features\":[]},"                            \
  "\"files\":{\"params.bin\":{\"bytes\":0,\"hash\":\"ef46db3751d8e999\"}},\"arena\":{\"bytes\":2624},"            \
  "\"scratch_bytes\":0,\"kernels\":[{\"name\":\"spread\"},{\"name\":\"copy_blocks\"}],%s\"values\":["              \
  "{\"name\":\"x\",\"dtype\":\"int32\",\"dims\":[[\"d\",0]],\"storage\":{\"class\":\"input\",\"offset\":0,"        \
  "\"bytes\":256,\"origin\":0,\"strides\":[1]}},"                                                                 \
  "{\"name\":\"mid\",\"dtype\":\"int32\",\"dims\":[[\"d\",0],[\"+\",[\"d\",1],1]],\"storage\":{\"class\":"         \
  "\"arena\",\"offset\":0,\"bytes\":2592,\"origin\":[\"d\",1],\"strides\":[[\"+\",2,[\"d\",1]],1]}},"              \
  "{\"name\":\"y\",\"dtype\":\"int32\",\"dims\":[[\"d\",0],[\"+\",[\"d\",1],1]],\"storage\":{\"class\":"           \
  "\"output\",\"offset\":0,\"bytes\":2304,\"origin\":0,\"strides\":[[\"+\",[\"d\",1],1],1]}}%s],"                  \
  "\"inputs\":[0],\"outputs\":[2],\"nodes\":["                                                                    \
  "{\"name\":\"a\",\"kernel\":0,\"in\":[0],\"out\":[1],\"tasks\":[\"d\",0]},"                                      \
  "{\"name\":\"b\",\"kernel\":1,\"in\":[1],\"out\":[2],\"tasks\":%s}]}"

#define SYMBOLS "\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},{\"name\":\"m\",\"lo\":0,\"hi\":8}],"
#define BLOCKS "[\"/\",[\"+\",[\"d\",0],7],8]"

static size_t allocations;

static void *count_allocate(void *context, size_t bytes) {
  (void)context;
  allocations++;
  return malloc(bytes);
}

static void count_release(void *context, void *memory, size_t bytes) {
  (void)context;
  (void)bytes;
  free(memory);
}

static sterna_model *load(uint32_t threads, const char *symbols, const char *more_values, const char *tasks,
                          sterna_error *error) {
  char body[8192], text[9000];
  int bytes = snprintf(body, sizeof body, BODY, (unsigned)(sizeof(void *) * 8), symbols, more_values, tasks);
  uint64_t hash = sterna_hash64(body, (size_t)bytes);
  bytes = snprintf(text, sizeof text, "{\"sterna\":1,\"hash\":\"%08lx%08lx\",\n%s", (unsigned long)(hash >> 32),
                   (unsigned long)(hash & 0xffffffffu), body);
  sterna_allocator allocator = {NULL, count_allocate, count_release};
  sterna_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads;
  options.allocator = &allocator;
  sterna_model *model;
  (void)sterna_load_table(text, (size_t)bytes, NULL, 0, &library, &options, &model, error);
  return model;
}

static void check_run(sterna_model *model, int64_t n, int64_t m) {
  sterna_tensor tensor;
  CHECK(sterna_input_info(model, 0, &tensor) == STERNA_OK && tensor.dims[0] == n && tensor.bytes == (size_t)n * 4);
  int32_t *x = sterna_input_buffer(model, 0), copy[MOST_N * (MOST_M + 1)];
  for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(100 * i);
  CHECK(sterna_run(model) == STERNA_OK);
  CHECK(sterna_output_info(model, 0, &tensor) == STERNA_OK && tensor.dims[0] == n && tensor.dims[1] == m + 1);
  CHECK(tensor.bytes == (size_t)(n * (m + 1) * 4));
  const int32_t *y = sterna_output_buffer(model, 0);
  CHECK(sterna_value_copy(model, 1, copy, tensor.bytes) == STERNA_OK);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= m; j++) CHECK(y[i * (m + 1) + j] == 100 * i + j && copy[i * (m + 1) + j] == 100 * i + j);
}

static void test_sizes(void) {
  for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
    sterna_error error;
    sterna_model *model = load(threads, SYMBOLS, "", BLOCKS, &error);
    CHECK(model != NULL || printf("%s\n", error.message) < 0);
    if (model == NULL) continue;
    size_t before = allocations;
    check_run(model, MOST_N, MOST_M);
    for (int64_t n = 0; n <= MOST_N; n++) {
      for (int64_t m = n % 3; m <= MOST_M; m += 3) {
        int64_t sizes[2] = {n, m};
        CHECK(sterna_set_dims(model, sizes, 2) == STERNA_OK);
        check_run(model, n, m);
        check_run(model, n, m);
      }
    }
    CHECK(allocations == before);
    sterna_unload(model);
  }
}

static void test_info(void) {
  sterna_error error;
  sterna_model *model = load(1, SYMBOLS, "", BLOCKS, &error);
  CHECK(model != NULL);
  if (model == NULL) return;
  sterna_dim dim;
  sterna_node node;
  sterna_memory memory;
  char copy[4096];
  CHECK(sterna_dim_count(model) == 2 && sterna_dim_info(model, 2, &dim) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_dim_info(model, 1, &dim) == STERNA_OK && strcmp(dim.name, "m") == 0);
  CHECK(dim.lo == 0 && dim.hi == 8 && dim.size == 8);
  check_run(model, 64, 8);
  CHECK(sterna_set_dim(model, "m", 2) == STERNA_OK && sterna_set_dim(model, "n", 17) == STERNA_OK);
  CHECK(sterna_dim_info(model, 0, &dim) == STERNA_OK && dim.size == 17);
  CHECK(sterna_node_info(model, 1, &node) == STERNA_OK && node.tasks == 3);
  CHECK(sterna_memory_info(model, &memory) == STERNA_OK && memory.signature == 256 + 2304);
  CHECK(sterna_value_copy(model, 1, copy, 17 * 3 * 4) == STERNA_NOT_AVAILABLE); /* that was at other sizes */
  check_run(model, 17, 2);
  CHECK(sterna_set_dim(model, "n", 17) == STERNA_OK);
  CHECK(sterna_value_copy(model, 1, copy, 17 * 3 * 4) == STERNA_OK); /* nothing changed */

  const int64_t low[2] = {-1, 2}, high[2] = {17, 9};
  CHECK(sterna_set_dims(model, low, 2) == STERNA_BAD_ARGUMENT);
  CHECK(strcmp(sterna_last_error(model)->message, "dimension \"n\" is -1; the model takes 0 to 64") == 0);
  CHECK(sterna_set_dims(model, high, 2) == STERNA_BAD_ARGUMENT && sterna_set_dims(model, low, 1) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_set_dims(model, NULL, 2) == STERNA_BAD_ARGUMENT && sterna_set_dims(NULL, low, 2) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_set_dim(model, "k", 2) == STERNA_BAD_ARGUMENT && sterna_set_dim(model, NULL, 2) == STERNA_BAD_ARGUMENT);
  CHECK(strstr(sterna_last_error(model)->message, "no dimension \"k\"") != NULL);
  check_run(model, 17, 2);
  sterna_unload(model);
}

/* Sizes at which the bundle contradicts itself are refused, and those before stay. */
static void test_contradictions(void) {
#define ODD(dims, strides) \
  ",{\"name\":\"odd\",\"dtype\":\"int8\",\"dims\":[" dims "],\"storage\":{\"class\":\"arena\",\"offset\":0,\"bytes\":64," \
  "\"origin\":0,\"strides\":[" strides "]}}"
  static const struct {
    const char *values, *tasks, *says;
    int64_t least; /* n that is good; smaller ones are not */
    sterna_status status;
  } cases[] = {
      {ODD("[\"max\",[\"d\",0],[\"+\",70,[\"*\",-1,[\"d\",0]]]]", "1"), BLOCKS, "value 3 (\"odd\")", 6, STERNA_MALFORMED},
      {ODD("2", "[\"+\",100,[\"*\",-1,[\"d\",0]]]"), BLOCKS, "value 3 (\"odd\")", 37, STERNA_MALFORMED},
      {ODD("[\"+\",[\"d\",0],-5]", "1"), BLOCKS, "negative", 5, STERNA_MALFORMED},
      {ODD("[\"*\",0,[\"+\",[\"*\",9223372036854775807,[\"+\",65,[\"*\",-1,[\"d\",0]]]]]]", "1"), BLOCKS, "does not fit", 64,
       STERNA_MALFORMED},
      {"", "[\"+\",20,[\"/\",[\"*\",-1,[\"d\",0]],5]]", "node 1 (\"b\") has 9 tasks", 56, STERNA_BAD_LIBRARY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sterna_error error;
    sterna_model *model = load(1, SYMBOLS, cases[i].values, cases[i].tasks, &error);
    CHECK(model != NULL || printf("%s\n", error.message) < 0);
    if (model == NULL) continue;
    sterna_dim dim;
    sterna_tensor tensor;
    sterna_node node;
    CHECK(sterna_set_dim(model, "n", cases[i].least) == STERNA_OK && sterna_set_dim(model, "m", 3) == STERNA_OK);
    CHECK(sterna_set_dim(model, "n", cases[i].least - 1) == cases[i].status);
    CHECK(strstr(sterna_last_error(model)->message, cases[i].says) != NULL ||
          printf("%s\n", sterna_last_error(model)->message) < 0);
    CHECK(sterna_dim_info(model, 0, &dim) == STERNA_OK && dim.size == cases[i].least);
    CHECK(sterna_value_info(model, 2, &tensor) == STERNA_OK && tensor.dims[0] == cases[i].least && tensor.dims[1] == 4);
    CHECK(sterna_node_info(model, 0, &node) == STERNA_OK && node.tasks == cases[i].least);
    sterna_unload(model);
  }
}

static void test_refused(void) {
  static const struct {
    const char *symbols, *values, *tasks;
    sterna_status status;
  } cases[] = {
      {"\"symbols\":{},", "", BLOCKS, STERNA_MALFORMED},
      {"", "", BLOCKS, STERNA_MALFORMED}, /* expressions over nothing */
      {"\"symbols\":[],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64}],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},7],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},{\"name\":\"n\",\"lo\":0,\"hi\":8}],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},{\"name\":\"m\",\"lo\":9,\"hi\":8}],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},{\"name\":\"m\",\"lo\":-1,\"hi\":8}],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":64},{\"name\":\"m\",\"hi\":8}],", "", BLOCKS, STERNA_MALFORMED},
      {"\"symbols\":[{\"name\":\"n\",\"lo\":0,\"hi\":65},{\"name\":\"m\",\"lo\":0,\"hi\":8}],", "", BLOCKS, STERNA_MALFORMED},
      {SYMBOLS, "", "7", STERNA_BAD_LIBRARY}, /* a constant must be the library's */
      {SYMBOLS, "", "[\"+\",9]", STERNA_BAD_LIBRARY},
      {SYMBOLS, "", "[\"+\",-1]", STERNA_MALFORMED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sterna_error error;
    sterna_model *model = load(1, cases[i].symbols, cases[i].values, cases[i].tasks, &error);
    CHECK((model == NULL && error.status == cases[i].status) || printf("case %u: %s\n", (unsigned)i, error.message) < 0);
    sterna_unload(model);
  }
}

/* A tensor without elements has a buffer of any size, wherever a dimension of 0 stands. */
static void test_no_elements(void) {
#define EMPTY(dims, strides) \
  ",{\"name\":\"none\",\"dtype\":\"int32\",\"dims\":[" dims "],\"storage\":{\"class\":\"arena\",\"offset\":64,\"bytes\":1," \
  "\"origin\":0,\"strides\":[" strides "]}}"
  static const char *const values[] = {EMPTY("0", "1"), EMPTY("3,0,5", "0,5,1"), EMPTY("3,0,5", "5,5,1"), EMPTY("0,7", "7,1")};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    sterna_error error;
    sterna_tensor tensor;
    sterna_model *model = load(1, SYMBOLS, values[i], BLOCKS, &error);
    CHECK(model != NULL || printf("%s\n", error.message) < 0);
    if (model == NULL) continue;
    check_run(model, MOST_N, MOST_M);
    CHECK(sterna_value_info(model, 3, &tensor) == STERNA_OK && tensor.bytes == 0);
    CHECK(sterna_value_copy(model, 3, &tensor, 0) == STERNA_OK);
    sterna_unload(model);
  }
}

int main(void) {
  test_expressions();
  test_large_expressions();
  test_sizes();
  test_info();
  test_contradictions();
  test_refused();
  test_no_elements();
  printf("%d failures\n", failures);
  return failures != 0;
}
