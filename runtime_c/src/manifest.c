/* The part of graph.json that is read before anything else of the bundle is opened: versions, hashes, the machine it was
 * compiled for. docs/bundle.md describes the format. */
#include <limits.h>
#include <string.h>

#include "internal.h"
#include "json.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool parse_hash(const char *digits, uint64_t *hash) {
  *hash = 0;
  for (int i = 0; i < 16; i++) {
    char c = digits[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    *hash = *hash << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return true;
}

static sterna_status compare_hash(const char *name, uint64_t wanted, uint64_t found, sterna_error *error) {
  if (wanted == found) return STERNA_OK;
  return fail(error, STERNA_DAMAGED, "%s: hash is %08lx%08lx; it was %08lx%08lx when it was compiled", name,
              (unsigned long)(found >> 32), (unsigned long)(found & 0xffffffffu), (unsigned long)(wanted >> 32),
              (unsigned long)(wanted & 0xffffffffu));
}

/* The first line: {"sterna":1,"hash":"0123456789abcdef",  and a newline. */
static sterna_status check_first_line(const char *text, size_t bytes, sterna_model *model) {
  static const char opening[] = "{\"sterna\":", middle[] = ",\"hash\":\"";
  size_t at = sizeof opening - 1;
  if (bytes <= at || memcmp(text, opening, at) != 0) BAD("not the graph of a Sterna bundle");
  unsigned version = 0;
  size_t digits = at;
  for (; at < bytes && at < digits + 6 && text[at] >= '0' && text[at] <= '9'; at++)
    version = version * 10 + (unsigned)(text[at] - '0');
  if (at == digits) BAD("its first line has no format version");
  if (version < STERNA_OLDEST_FORMAT || version > STERNA_FORMAT)
    return fail(&model->error, STERNA_WRONG_VERSION, "graph.json: format version is %u; this runtime reads %u to %u", version,
                (unsigned)STERNA_OLDEST_FORMAT, (unsigned)STERNA_FORMAT);
  uint64_t wanted;
  const size_t rest = sizeof middle - 1 + 16 + 3;
  if (bytes - at < rest || memcmp(text + at, middle, sizeof middle - 1) != 0 ||
      !parse_hash(text + at + sizeof middle - 1, &wanted) || memcmp(text + at + rest - 3, "\",\n", 3) != 0)
    BAD("its first line has no hash");
  at += rest;
  return compare_hash("graph.json", wanted, sterna_hash64(text + at, bytes - at), &model->error);
}

sterna_status graph_check_file(const char *name, const file_entry *entry, const void *data, uint64_t bytes,
                               sterna_error *error) {
  if (bytes != entry->bytes)
    return fail(error, STERNA_DAMAGED, "%s: has %llu bytes; it had %llu when it was compiled", name,
                (unsigned long long)bytes, (unsigned long long)entry->bytes);
  return compare_hash(name, entry->hash, sterna_hash64(data, (size_t)bytes), error);
}

static bool is_identifier(const char *name) {
  size_t bytes = 0;
  for (char c; (c = name[bytes]) != 0; bytes++)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return bytes > 0 && bytes < 128;
}

/* A name and not a path: a bundle does not reach out of its directory. */
static bool is_file_name(const char *name) {
  size_t bytes = 0;
  for (char c; (c = name[bytes]) != 0; bytes++)
    if (c == '/' || c == '\\' || c == ':') return false;
  return bytes > 0 && bytes < 128 && name[0] != '.';
}

static sterna_status read_file_entry(const char *text, size_t files, const char *name, file_entry *entry,
                                     sterna_model *model) {
  size_t at, member[2];
  char digits[17];
  if (!json_members(text, files, name, &at, 1) || !json_members(text, at, "bytes\0hash", member, 2) ||
      !json_uint64(text, member[0], &entry->bytes) || json_string_bytes(text, member[1]) != sizeof digits)
    BAD("files has no size and hash of \"%s\"", name);
  json_string(text, member[1], digits);
  if (!parse_hash(digits, &entry->hash)) BAD("the hash of \"%s\" is not 16 lower-case hex digits", name);
  return STERNA_OK;
}

static size_t row_at(sterna_model *model, size_t at, const char *rows, uint32_t row) {
  model->rows = at != JSON_NONE ? rows : NULL;
  model->row = row;
  model->row_name = NULL;
  return at;
}

size_t rows_first(sterna_model *model, const char *text, size_t list, const char *rows) {
  return row_at(model, json_first(text, list), rows, 0);
}

size_t rows_next(sterna_model *model, const char *text, size_t at) {
  return row_at(model, json_next(text, at), model->rows, model->row + 1);
}

bool graph_names(const char *text, size_t list, char features[FEATURES_BYTES]) {
  size_t used = 0;
  if (!json_is_list(text, list)) return false;
  for (size_t at = json_first(text, list); at != JSON_NONE; at = json_next(text, at)) {
    size_t bytes = json_string_bytes(text, at);
    if (bytes < 2 || used + bytes > FEATURES_BYTES) return false;
    json_string(text, at, features + used);
    used += bytes;
    features[used - 1] = ' ';
  }
  features[used > 0 ? used - 1 : 0] = 0;
  return true;
}

sterna_status graph_file(const graph *graph, size_t at, const char **name, file_entry *entry, sterna_model *model) {
  *name = json_take_string(&model->heap, graph->text, at);
  if (*name == NULL || !is_file_name(*name)) BAD("not a file name");
  return read_file_entry(graph->text, graph->at[GRAPH_FILES], *name, entry, model);
}

sterna_status graph_lacks(const graph *graph, size_t list, const char *key, const char *what, const char *other, sterna_model *model) {
  size_t at;
  if (list == JSON_NONE || !json_members(graph->text, json_first(graph->text, list), key, &at, 1)) at = JSON_NONE;
  const char *name = json_take_string(&model->heap, graph->text, at);
  return fail(&model->error, STERNA_WRONG_MACHINE, "graph.json: needs the %s \"%s\", which is not here", what, name != NULL ? name : other);
}

/* Pointer width, processor family and CPU features. */
static sterna_status read_target(graph *graph, size_t target, sterna_model *model) {
  const char *text = graph->text;
  size_t member[3];
  uint32_t bits;
  if (!json_members(text, target, "pointer_bits\0cpu_features\0triple", member, 3) || !json_uint32(text, member[0], &bits))
    BAD("target has no pointer_bits");
  if (member[2] != JSON_NONE) {
    char triple[128];
    size_t bytes = json_string_bytes(text, member[2]);
    if (bytes == 0 || bytes > sizeof triple) BAD("target.triple is not a short string");
    json_string(text, member[2], triple);
    sterna_status status = cpu_check_triple(triple, &model->error);
    if (status != STERNA_OK) return status;
  }
  if (bits != sizeof(void *) * CHAR_BIT)
    return fail(&model->error, STERNA_WRONG_MACHINE, "graph.json: compiled for %u-bit pointers; this runtime has %u", (unsigned)bits,
                (unsigned)(sizeof(void *) * CHAR_BIT));
  if (!graph_names(text, member[1], graph->features)) BAD("target.cpu_features is not a list of names");
  return cpu_check(graph->features, "graph.json", &model->error);
}

sterna_status graph_choose(const graph *graph, sterna_model *model, const char **name, file_entry *entry) {
  const char *text = graph->text;
  *name = NULL;
  if (!json_is_list(text, graph->at[GRAPH_VARIANTS])) return STERNA_OK;
  for (size_t at = json_first(text, graph->at[GRAPH_VARIANTS]); at != JSON_NONE; at = json_next(text, at)) {
    char features[FEATURES_BYTES];
    size_t member[2];
    if (!json_members(text, at, "graph\0cpu_features", member, 2) || member[0] == JSON_NONE) continue;
    if (!graph_names(text, member[1], features) || cpu_check(features, "", NULL) != STERNA_OK) continue;
    return graph_file(graph, member[0], name, entry, model);
  }
  return STERNA_OK;
}

sterna_status graph_open(graph *graph, const void *data, size_t bytes, sterna_model *model) {
  static const char keys[] = GRAPH_MEMBERS(GRAPH_KEY);
  const char *text = data;
  memset(graph, 0, sizeof *graph);
  graph->text = text;
  if (bytes > MAX_GRAPH_BYTES) BAD("%llu bytes; at most %u MiB are read", (unsigned long long)bytes, MAX_GRAPH_BYTES >> 20);
  sterna_status status = check_first_line(text, bytes, model);
  if (status != STERNA_OK) return status;
  size_t at, *member = graph->at;
  if (!json_check(text, bytes, &at)) BAD("not JSON at byte %llu", (unsigned long long)at);
  if (!json_members(text, 0, keys, member, N_GRAPH_MEMBERS)) BAD("a member occurs twice");

  uint32_t abi;
  if (!json_uint32(text, member[GRAPH_ABI], &abi)) BAD("abi is missing or not a number");
  if (abi != STERNA_ABI)
    return fail(&model->error, STERNA_WRONG_VERSION, "%s: kernel ABI is %u; this runtime speaks %u", "graph.json", (unsigned)abi,
                (unsigned)STERNA_ABI);
  status = read_target(graph, member[GRAPH_TARGET], model);
  if (status != STERNA_OK) return status;

  model->name = json_take_string(&model->heap, text, member[GRAPH_MODEL]);
  if (model->name == NULL || !is_identifier(model->name)) BAD("model is not a C identifier");
  status = read_file_entry(text, member[GRAPH_FILES], "params.bin", &graph->params, model);
  if (member[GRAPH_LIBRARY] != JSON_NONE && status == STERNA_OK) {
    status = graph_file(graph, member[GRAPH_LIBRARY], &graph->library_name, &graph->library, model);
  }
  if (status != STERNA_OK) return status;

  if (member[GRAPH_ARENAS] != JSON_NONE || member[GRAPH_WIDENED] != JSON_NONE) {
    /* This runtime has memory of one kind, which has no name, and reads weights where the file is mapped. */
    return graph_lacks(graph, member[GRAPH_ARENAS], "memory", "memory", "widened weights", model);
  }
  size_t arena;
  if (!json_members(text, member[GRAPH_ARENA], "bytes", &arena, 1) || !json_uint64(text, arena, &model->arena_bytes))
    BAD("arena has no bytes");
  if (!json_uint64(text, member[GRAPH_SCRATCH], &model->scratch_bytes) || model->scratch_bytes % ALIGNMENT != 0)
    BAD("scratch_bytes is missing or no multiple of %u", ALIGNMENT);
  static const char lists[][8] = {"kernels", "values", "inputs", "outputs", "nodes"}; /* in the order of the keys */
  for (size_t i = 0; i < COUNT(lists); i++)
    if (!json_is_list(text, member[GRAPH_KERNELS + i])) BAD("%s is missing or not a list", lists[i]);
  return STERNA_OK;
}
