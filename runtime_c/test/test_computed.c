/* A size that the model computes: read after its node, checked, followed by dims, strides and tasks; refusals.
 *
 * The graph: `count` writes how many of x are not 0, and where; `pick` writes those, one task each, twice over: y has the
 * shape (2, n). `sum` adds them up. */
#include <string.h>

#include "check.h"
#include "internal.h"

#define MOST 8

static int64_t lie; /* added to the count */
static int picks;

static int32_t count(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0];
  int32_t *places = call->out[1];
  int64_t n = 0;
  (void)first, (void)last;
  for (int32_t i = 0; i < MOST; i++)
    if (x[i] != 0) places[n++] = i;
  *(int64_t *)call->out[0] = n + lie;
  return 0;
}

static int32_t pick(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *x = call->in[0], *places = call->in[1];
  int32_t *y = call->out[0];
  int64_t n = call->dims[0];
  for (int64_t i = first; i < (int64_t)last; i++, picks++) y[i] = y[n + i] = x[places[i]];
  return 0;
}

static int32_t sum(const sterna_call *call, uint32_t first, uint32_t last) {
  const int32_t *y = call->in[0];
  int32_t total = 0;
  (void)first, (void)last;
  for (int64_t i = 0; i < call->dims[0]; i++) total += y[i];
  *(int32_t *)call->out[0] = total;
  return 0;
}

static const sterna_kernel kernels[] = {{count, 1, 0, 0, 0}, {pick, MOST, 0, 0, 0}, {sum, 1, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, 3, 0, kernels, ""};

#define VALUE(name, dtype, dims, kind, offset, bytes, strides)                                                \
  "{\"name\":\"" name "\",\"dtype\":\"" dtype "\",\"dims\":" dims ",\"storage\":{\"class\":\"" kind            \
  "\",\"offset\":" offset ",\"bytes\":" bytes ",\"origin\":0,\"strides\":" strides "}}"

#define BODY                                                                                                  \
  "\"abi\":1,\"model\":\"found\",\"target\":{\"pointer_bits\":%u,\"cpu_features\":[]},"                        \
  "\"files\":{\"params.bin\":{\"bytes\":0,\"hash\":\"ef46db3751d8e999\"}},\"arena\":{\"bytes\":128},"          \
  "\"scratch_bytes\":0,\"kernels\":[{\"name\":\"count\"},{\"name\":\"pick\"},{\"name\":\"sum\"}],"             \
  "\"symbols\":[%s],\"values\":[" VALUE("x", "int32", "[8]", "input", "0", "32", "[1]") ","                    \
  VALUE("n", "int64", "[]", "arena", "0", "8", "[]") ","                                                      \
  VALUE("places", "int32", "[[\"d\",0]]", "arena", "64", "32", "[1]") ","                                     \
  VALUE("y", "int32", "[2,[\"d\",0]]", "output", "0", "64", "[[\"d\",0],1]") ","                              \
  VALUE("sum", "int32", "[]", "output", "0", "4", "[]") "%s],\"inputs\":[0],\"outputs\":[3,4],\"nodes\":["       \
  "{\"name\":\"count\",\"kernel\":0,\"in\":[0],\"out\":[1,2],\"tasks\":1},"                                   \
  "{\"name\":\"pick\",\"kernel\":1,\"in\":[0,2],\"out\":[3],\"tasks\":[\"d\",0]},"                             \
  "{\"name\":\"sum\",\"kernel\":2,\"in\":[3],\"out\":[4],\"tasks\":1}]}"

#define FOUND(more) "{\"name\":\"found\",\"lo\":0,\"hi\":" more "}"

static sterna_model *load_with(const char *symbols, const char *values, sterna_error *error) {
  char body[4096], text[4300];
  int bytes = snprintf(body, sizeof body, BODY, (unsigned)(sizeof(void *) * 8), symbols, values);
  uint64_t hash = sterna_hash64(body, (size_t)bytes);
  bytes = snprintf(text, sizeof text, "{\"sterna\":1,\"hash\":\"%08lx%08lx\",\n%s", (unsigned long)(hash >> 32),
                   (unsigned long)(hash & 0xffffffffu), body);
  sterna_model *model;
  (void)sterna_load_table(text, (size_t)bytes, NULL, 0, &library, NULL, &model, error);
  return model;
}

static sterna_model *load(const char *symbols, sterna_error *error) { return load_with(symbols, "", error); }

static void check_run(sterna_model *model, unsigned mask) {
  int32_t *x = sterna_input_buffer(model, 0), wanted[MOST], total = 0;
  int64_t n = 0;
  for (int32_t i = 0; i < MOST; i++) {
    x[i] = (mask >> i & 1) != 0 ? 10 + i : 0;
    if (x[i] != 0) wanted[n++] = x[i];
    total += x[i];
  }
  picks = 0;
  CHECK(sterna_run(model) == STERNA_OK);
  CHECK(picks == n);
  sterna_tensor y, places;
  CHECK(sterna_output_info(model, 0, &y) == STERNA_OK && y.dims[1] == n && y.bytes == (size_t)n * 8);
  CHECK(sterna_value_info(model, 2, &places) == STERNA_OK && places.bytes == (size_t)n * 4);
  const int32_t *found = sterna_output_buffer(model, 0);
  for (int64_t i = 0; i < n; i++) CHECK(found[i] == wanted[i] && found[n + i] == wanted[i]);
  CHECK(*(const int32_t *)sterna_output_buffer(model, 1) == total);
}

static void test_runs(void) {
  sterna_error error;
  sterna_model *model = load(FOUND("8,\"value\":1"), &error);
  CHECK(model != NULL || printf("%s\n", error.message) < 0);
  if (model == NULL) return;
  sterna_tensor y;
  sterna_dim dim;
  int64_t size = 3;
  CHECK(sterna_output_info(model, 0, &y) == STERNA_OK && y.dims[1] == MOST); /* the most that it may be */
  CHECK(sterna_dim_info(model, 0, &dim) == STERNA_OK && dim.computed && dim.hi == MOST);
  CHECK(sterna_set_dims(model, &size, 1) == STERNA_BAD_ARGUMENT && sterna_set_dims(model, NULL, 0) == STERNA_OK);
  CHECK(sterna_set_dim(model, "found", 3) == STERNA_BAD_ARGUMENT);
  for (unsigned mask = 0; mask < 256; mask++) check_run(model, mask);
  CHECK(sterna_dim_info(model, 0, &dim) == STERNA_OK && dim.size == MOST);
  for (lie = -9; lie <= 9; lie += 18) { /* 8 - 9 and 8 + 9 */
    picks = 0;
    CHECK(sterna_run(model) == STERNA_KERNEL_FAILED && picks == 0);
    CHECK(strstr(sterna_last_error(model)->message, "\"found\"") != NULL);
  }
  lie = 0;
  check_run(model, 0x5a);
  sterna_unload(model);
}

/* All of the model's tensors as they are before a run: as large as they may be, and not there. */
static void check_fresh(sterna_model *model) {
  sterna_tensor tensor;
  sterna_dim dim;
  char copy[64];
  CHECK(sterna_dim_info(model, 0, &dim) == STERNA_OK && dim.size == MOST);
  for (uint32_t i = 2; i < sterna_value_count(model); i++) {
    CHECK(sterna_value_info(model, i, &tensor) == STERNA_OK && tensor.bytes <= sizeof copy);
    size_t elements = 1;
    for (uint32_t axis = 0; axis < tensor.rank; axis++) elements *= (size_t)tensor.dims[axis];
    CHECK(tensor.bytes == elements * sizeof(int32_t));
    CHECK(sterna_value_copy(model, i, copy, tensor.bytes) == STERNA_NOT_AVAILABLE);
  }
  CHECK(sterna_output_info(model, 0, &tensor) == STERNA_OK && tensor.dims[1] == MOST);
}

/* A size with which another one is negative: the run fails, and leaves nothing that is half of one size and half of another. */
static void test_rolled_back(void) {
  sterna_error error;
  sterna_model *model = load_with(FOUND("8,\"value\":1"), "," VALUE("rest", "int32", "[2,[\"+\",[\"d\",0],-3]]", "arena", "64", "64",
                                                                   "[[\"d\",0],1]"), &error);
  CHECK(model != NULL || printf("%s\n", error.message) < 0);
  if (model == NULL) return;
  check_fresh(model);
  check_run(model, 0xff);
  for (unsigned mask = 0; mask < 256; mask++) {
    int32_t *x = sterna_input_buffer(model, 0);
    int n = 0;
    for (int i = 0; i < MOST; i++) n += x[i] = (int32_t)(mask >> i & 1);
    if (n >= 3) {
      check_run(model, mask);
      continue;
    }
    CHECK(sterna_run(model) == STERNA_MALFORMED);
    check_fresh(model);
  }
  sterna_unload(model);
}

/* What a callback may ask within a run, and what it may not do. */
static void meddle(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  sterna_model *model = user;
  sterna_tensor tensor;
  (void)node, (void)name, (void)nanoseconds;
  CHECK(sterna_output_info(model, 0, &tensor) == STERNA_OK);
  CHECK(sterna_run(model) == STERNA_BAD_ARGUMENT && sterna_reset_state(model) == STERNA_BAD_ARGUMENT);
  CHECK(sterna_set_dims(model, NULL, 0) == STERNA_BAD_ARGUMENT && sterna_bind_output(model, 0, NULL) == STERNA_BAD_ARGUMENT);
  CHECK(strstr(sterna_last_error(model)->message, "within its run") != NULL);
}

static void test_callback(void) {
  sterna_error error;
  sterna_model *model = load(FOUND("8,\"value\":1"), &error);
  CHECK(model != NULL);
  if (model == NULL) return;
  sterna_set_on_node(model, meddle, model);
  check_run(model, 0x5a);
  sterna_set_on_node(model, NULL, NULL);
  CHECK(sterna_set_dims(model, NULL, 0) == STERNA_OK && sterna_reset_state(model) == STERNA_OK);
  sterna_unload(model);
}

static void test_refused(void) {
  static const char *const symbols[] = {
      FOUND("8"),                 /* the caller's: then y is not computed, and this one is good */
      FOUND("9,\"value\":1"),     /* no room */
      FOUND("8,\"value\":0"),     /* an input */
      FOUND("8,\"value\":2"),     /* of the size itself */
      FOUND("8,\"value\":4"),     /* an int32 */
      FOUND("8,\"value\":5"), FOUND("8,\"value\":-1"), FOUND("8,\"value\":\"n\""), FOUND("8,\"value\":null"),
      FOUND("8,\"value\":1") ",{\"name\":\"more\",\"lo\":0,\"hi\":1,\"value\":1}", /* one value, two sizes */
      FOUND("8,\"value\":1") ",{\"name\":\"more\",\"lo\":0,\"hi\":1}"};            /* the caller's come first */
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    sterna_error error;
    sterna_model *model = load(symbols[i], &error);
    CHECK((model != NULL) == (i == 0) || printf("accepted or refused: %s\n", symbols[i]) < 0);
    if (i > 0) CHECK(error.status == STERNA_MALFORMED || error.status == STERNA_BAD_LIBRARY);
    sterna_unload(model);
  }
}

int main(void) {
  test_runs();
  test_rolled_back();
  test_callback();
  test_refused();
  printf("%d failures\n", failures);
  return failures != 0;
}
