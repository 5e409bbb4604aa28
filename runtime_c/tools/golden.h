/* Replays the golden sets of a bundle: `golden.json` and `golden.bin`, which `sterna compile --golden N` writes and
 * docs/bundle.md describes. For programs that are compiled with the runtime's sources; included once. */
#ifndef STERNA_GOLDEN_H
#define STERNA_GOLDEN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/json.h"
#include "sterna.h"

typedef struct golden_file {
  char *text; /* terminated */
  size_t bytes;
} golden_file;

/* What a replay reads and finds.
 *   worst: the largest error of any output, as a multiple of what is allowed. */
typedef struct golden {
  golden_file json, data, graph, strings;
  size_t inputs, values, symbols; /* of graph.json */
  size_t words;                   /* the list of strings.json, or JSON_NONE */
  double usual, worst;
  uint32_t set;
} golden;

static int golden_says(const golden *g, const char *name, const char *what) {
  fprintf(stderr, "golden set %u: \"%s\" %s\n", (unsigned)g->set, name, what);
  return 0;
}

static int golden_malformed(const char *file) {
  fprintf(stderr, "error[E0504]: %s: not what compile writes\n", file);
  return 0;
}

static int golden_failed(sterna_model *model, sterna_status status) {
  fprintf(stderr, "error[%s]: %s\n", sterna_status_code(status), sterna_last_error(model)->message);
  return 0;
}

/* A file of the bundle; one that may be missing is empty then. */
static int golden_read(FILE *(*open)(const char *path, const char *mode), const char *directory, const char *name,
                       int needed, golden_file *out) {
  char path[4096];
  int used = snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = used > 0 && (size_t)used < sizeof path ? open(path, "rb") : NULL;
  memset(out, 0, sizeof *out);
  if (file == NULL) {
    if (needed) fprintf(stderr, "error[E0503]: %s cannot be read; compile with --golden 3 for golden sets\n", path);
    return !needed;
  }
  long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  out->text = end >= 0 ? malloc((size_t)end + 1) : NULL;
  if (out->text != NULL) {
    rewind(file);
    out->bytes = fread(out->text, 1, (size_t)end, file);
    out->text[out->bytes] = 0;
  }
  (void)fclose(file);
  if (out->text != NULL && out->bytes == (size_t)end) return 1;
  fprintf(stderr, "error[E0503]: %s cannot be read\n", path);
  return 0;
}

static int golden_is_json(const golden_file *file, const char *name) {
  size_t at;
  return json_check(file->text, file->bytes, &at) || golden_malformed(name);
}

/* A copy of a string, which the caller frees; NULL if it is none. */
static char *golden_string(const char *text, size_t value) {
  size_t bytes = json_string_bytes(text, value);
  char *copy = bytes > 0 ? malloc(bytes) : NULL;
  if (copy != NULL) json_string(text, value, copy);
  return copy;
}

/* The first element of a list that is this string, or how many elements there are before `end`. */
static int64_t golden_find(const char *text, size_t first, size_t end, const char *word) {
  int64_t n = 0;
  for (size_t at = first; at != JSON_NONE && at != end; at = json_next(text, at), n++)
    if (json_string_is(text, at, word)) return n;
  return n;
}

/* The number of a string: its place in strings.json; of others one behind it, the same for the same string of a set. */
static int64_t golden_number(const golden *g, size_t sides[2], const char *word) {
  int64_t n = 0;
  if (g->words != JSON_NONE) {
    n = golden_find(g->strings.text, json_first(g->strings.text, g->words), JSON_NONE, word);
    if (n < (int64_t)json_count(g->strings.text, g->words)) return n;
  }
  const char *text = g->json.text;
  for (int side = 0; side < 2; side++)
    for (size_t row = json_first(text, sides[side]); row != JSON_NONE; row = json_next(text, row)) {
      size_t list;
      (void)json_members(text, row, "strings", &list, 1);
      int64_t count = json_count(text, list), at = golden_find(text, json_first(text, list), JSON_NONE, word);
      n += at;
      if (at < count) return n;
    }
  return n;
}

/* The bytes of a row of golden.json, which `own` is set to where the caller frees them; NULL where they do not fit. */
static const unsigned char *golden_bytes(const golden *g, size_t sides[2], size_t row, const sterna_tensor *tensor,
                                         void **own) {
  const char *text = g->json.text;
  size_t m[4];
  uint64_t at, bytes;
  *own = NULL;
  (void)json_members(text, row, "dtype\0offset\0bytes\0strings", m, 4);
  if (json_string_is(text, m[0], "string")) {
    if (strcmp(tensor->dtype, "int64") != 0 || tensor->bytes != 8u * (size_t)json_count(text, m[3])) return NULL;
    int64_t *numbers = malloc(tensor->bytes + 1);
    *own = numbers;
    for (size_t each = json_first(text, m[3]); numbers != NULL && each != JSON_NONE; each = json_next(text, each)) {
      char *word = golden_string(text, each);
      *numbers++ = word != NULL ? golden_number(g, sides, word) : -1;
      free(word);
    }
    return *own;
  }
  if (!json_string_is(text, m[0], tensor->dtype) || !json_uint64(text, m[1], &at) || !json_uint64(text, m[2], &bytes) ||
      !range_fits(at, bytes, g->data.bytes) || bytes != tensor->bytes)
    return NULL;
  return (const unsigned char *)g->data.text + at;
}

static double golden_half(uint16_t bits) {
  uint64_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  double magnitude = exponent == 0 ? (double)fraction * 0x1p-24 : (double)((fraction + 1024) << exponent) * 0x1p-25;
  if (exponent == 31) magnitude = fraction != 0 ? (double)NAN : (double)INFINITY;
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

/* Element n of a tensor of floats. Narrower ones than these have to be equal. */
static double golden_float(int kind, const unsigned char *data, size_t n) {
  float single;
  double wide;
  uint16_t half;
  if (kind == 2) {
    memcpy(&wide, data + n * 8, 8);
    return wide;
  }
  if (kind == 1) {
    memcpy(&single, data + n * 4, 4);
    return (double)single;
  }
  memcpy(&half, data + n * 2, 2);
  if (kind == 3) return golden_half(half);
  uint32_t bits = (uint32_t)half << 16;
  memcpy(&single, &bits, 4);
  return (double)single;
}

/* The largest difference relative to the largest finite magnitude that is wanted; infinite where what must be equal is not. */
static double golden_error(const sterna_tensor *tensor, const unsigned char *got, const unsigned char *wanted) {
  static const unsigned char size[] = {0, 4, 8, 2, 2};
  int kind = (int)tensor->dtype_code;
  if (tensor->bytes == 0) return 0;
  if (kind > 4) return memcmp(got, wanted, tensor->bytes) == 0 ? 0 : (double)INFINITY;
  double most = 0, largest = 0;
  for (size_t n = 0; n < tensor->bytes / size[kind]; n++) {
    double a = golden_float(kind, got, n), b = golden_float(kind, wanted, n), apart = fabs(a - b);
    if (isfinite(b) && fabs(b) > largest) largest = fabs(b);
    if (a == b || (isnan(a) && isnan(b))) continue;
    if (!isfinite(apart)) return (double)INFINITY;
    if (apart > most) most = apart;
  }
  return most / (largest > 0 ? largest : 1);
}

/* Finds a tensor of the signature by a row's name. */
static int golden_tensor(golden *g, sterna_model *model, size_t row, int output, uint32_t *number, sterna_tensor *out) {
  size_t m[1];
  (void)json_members(g->json.text, row, "name", m, 1);
  char *name = golden_string(g->json.text, m[0]);
  if (name == NULL) return golden_malformed("golden.json");
  int32_t found = output ? sterna_find_output(model, name) : sterna_find_input(model, name);
  int good = found >= 0 || golden_says(g, name, "is none of the model's");
  free(name);
  if (!good) return 0;
  *number = (uint32_t)found;
  sterna_status status =
      output ? sterna_output_info(model, *number, out) : sterna_input_info(model, *number, out);
  return status == STERNA_OK || golden_failed(model, status);
}

/* Whether a row has the sizes of a tensor. */
static int golden_fits(const golden *g, size_t row, const sterna_tensor *tensor) {
  const char *text = g->json.text;
  size_t dims;
  uint64_t size;
  (void)json_members(text, row, "dims", &dims, 1);
  uint32_t axis = 0;
  for (size_t at = json_first(text, dims); at != JSON_NONE; at = json_next(text, at), axis++)
    if (axis >= tensor->rank || !json_uint64(text, at, &size) || (int64_t)size != tensor->dims[axis]) return 0;
  return axis == tensor->rank;
}

/* Sets a dimension that an input's size is, as graph.json spells it: ["d", 0]. Other forms follow from these. */
static int golden_set_dim(golden *g, sterna_model *model, size_t form, uint64_t size) {
  const char *text = g->graph.text;
  size_t head = json_first(text, form), name;
  uint32_t symbol;
  if (head == JSON_NONE || !json_string_is(text, head, "d") || !json_uint32(text, json_next(text, head), &symbol)) return 1;
  size_t at = json_first(text, g->symbols);
  while (symbol-- > 0 && at != JSON_NONE) at = json_next(text, at);
  if (at == JSON_NONE || !json_members(text, at, "name", &name, 1)) return golden_malformed("graph.json");
  char *word = golden_string(text, name);
  sterna_status status = word != NULL ? sterna_set_dim(model, word, (int64_t)size) : STERNA_MALFORMED;
  free(word);
  return status == STERNA_OK || golden_failed(model, status);
}

/* The sizes of open dimensions, from those of one input. */
static int golden_set_dims(golden *g, sterna_model *model, uint32_t input, size_t row) {
  const char *text = g->graph.text;
  size_t entry = json_first(text, g->inputs), value, list, sizes;
  uint32_t number;
  uint64_t size;
  for (; input > 0 && entry != JSON_NONE; input--) entry = json_next(text, entry);
  if (entry == JSON_NONE || !json_uint32(text, entry, &number)) return golden_malformed("graph.json");
  for (value = json_first(text, g->values); number > 0 && value != JSON_NONE; number--) value = json_next(text, value);
  if (value == JSON_NONE || !json_members(text, value, "dims", &list, 1)) return golden_malformed("graph.json");
  (void)json_members(g->json.text, row, "dims", &sizes, 1);
  size_t wanted = json_first(g->json.text, sizes);
  for (size_t form = json_first(text, list); form != JSON_NONE && wanted != JSON_NONE; form = json_next(text, form)) {
    if (!json_uint64(g->json.text, wanted, &size)) return golden_malformed("golden.json");
    if (!golden_set_dim(g, model, form, size)) return 0;
    wanted = json_next(g->json.text, wanted);
  }
  return 1;
}

static int golden_give(golden *g, sterna_model *model, size_t sides[2], size_t row) {
  uint32_t number;
  sterna_tensor tensor;
  void *own;
  if (!golden_tensor(g, model, row, 0, &number, &tensor)) return 0;
  if (!golden_fits(g, row, &tensor)) return golden_says(g, tensor.name, "has other sizes than the model's input");
  const unsigned char *data = golden_bytes(g, sides, row, &tensor, &own);
  if (data != NULL && tensor.bytes > 0) memcpy(sterna_input_buffer(model, number), data, tensor.bytes);
  free(own);
  return data != NULL || golden_malformed("golden.json");
}

static int golden_compare(golden *g, sterna_model *model, size_t sides[2], size_t row) {
  uint32_t number;
  sterna_tensor tensor;
  void *own;
  size_t tolerance;
  double allowed;
  if (!golden_tensor(g, model, row, 1, &number, &tensor)) return 0;
  if (!golden_fits(g, row, &tensor)) return golden_says(g, tensor.name, "has other sizes than the model's output");
  (void)json_members(g->json.text, row, "tolerance", &tolerance, 1);
  if (!json_number(g->json.text, tolerance, &allowed) || allowed < g->usual) allowed = g->usual;
  const unsigned char *wanted = golden_bytes(g, sides, row, &tensor, &own);
  double error = wanted != NULL ? golden_error(&tensor, sterna_output_buffer(model, number), wanted) / allowed : 0;
  free(own);
  if (wanted == NULL) return golden_malformed("golden.json");
  if (error > g->worst) g->worst = error;
  if (error > 1) {
    char what[96];
    (void)snprintf(what, sizeof what, "differs %g times as much as is allowed", error);
    (void)golden_says(g, tensor.name, what);
  }
  return 1;
}

static int golden_set(golden *g, sterna_model *model, size_t set) {
  size_t sides[2];
  uint32_t number;
  sterna_tensor tensor;
  const char *text = g->json.text;
  if (!json_members(text, set, "inputs\0outputs", sides, 2)) return golden_malformed("golden.json");
  for (size_t row = json_first(text, sides[0]); row != JSON_NONE; row = json_next(text, row))
    if (!golden_tensor(g, model, row, 0, &number, &tensor) || !golden_set_dims(g, model, number, row)) return 0;
  sterna_status status = sterna_reset_state(model);
  if (status != STERNA_OK) return golden_failed(model, status);
  for (size_t row = json_first(text, sides[0]); row != JSON_NONE; row = json_next(text, row))
    if (!golden_give(g, model, sides, row)) return 0;
  status = sterna_run(model);
  if (status != STERNA_OK) return golden_failed(model, status);
  for (size_t row = json_first(text, sides[1]); row != JSON_NONE; row = json_next(text, row))
    if (!golden_compare(g, model, sides, row)) return 0;
  return 1;
}

static int golden_open(golden *g, FILE *(*open)(const char *path, const char *mode), const char *directory) {
  size_t graph[3], words = JSON_NONE;
  memset(g, 0, sizeof *g);
  if (!golden_read(open, directory, "golden.json", 1, &g->json) || !golden_read(open, directory, "golden.bin", 1, &g->data) ||
      !golden_read(open, directory, "graph.json", 1, &g->graph) ||
      !golden_read(open, directory, "strings.json", 0, &g->strings) || !golden_is_json(&g->json, "golden.json") ||
      !golden_is_json(&g->graph, "graph.json"))
    return 0;
  if (g->strings.text != NULL) {
    if (!golden_is_json(&g->strings, "strings.json")) return 0;
    (void)json_members(g->strings.text, 0, "strings", &words, 1);
  }
  g->words = words;
  if (!json_members(g->graph.text, 0, "inputs\0values\0symbols", graph, 3)) return golden_malformed("graph.json");
  g->inputs = graph[0];
  g->values = graph[1];
  g->symbols = graph[2];
  return 1;
}

/* Runs a loaded model on the inputs of its golden sets and compares every output, saying what is wrong.
 *
 *   open: fopen, for paths in UTF-8.
 *
 * Returns 0 if every output is as near as it should be, else 1. */
static int golden_replay(sterna_model *model, const char *directory, FILE *(*open)(const char *path, const char *mode)) {
  golden g;
  size_t m[3];
  char *reference = NULL;
  int good = golden_open(&g, open, directory);
  if (good) {
    good = json_members(g.json.text, 0, "reference\0tolerance\0sets", m, 3) && json_number(g.json.text, m[1], &g.usual) &&
           json_is_list(g.json.text, m[2]) && (reference = golden_string(g.json.text, m[0])) != NULL;
    if (!good) (void)golden_malformed("golden.json");
  }
  size_t set = good ? json_first(g.json.text, m[2]) : JSON_NONE;
  for (; good && set != JSON_NONE; set = json_next(g.json.text, set), g.set++) good = golden_set(&g, model, set);
  if (good) printf("%u golden sets of %s: largest error %g of what is allowed\n", (unsigned)g.set, reference, g.worst);
  free(reference);
  free(g.json.text);
  free(g.data.text);
  free(g.graph.text);
  free(g.strings.text);
  return good && g.worst <= 1 ? 0 : 1;
}

#endif
