/* Runs a bundle for another process, which talks to it through standard input and output: sterna_remote DIRECTORY THREADS
 *
 * `sterna run --on qemu:TARGET` starts it in an emulator. After loading it writes a reply; then it reads requests and
 * answers each, until its input ends. A request is two words of 32 bits, what to do and the number of an input, output or
 * value, then a word of 64 bits, the bytes that follow, then those. A reply is a status of 32 bits, a word of 64 bits, the
 * bytes that follow, then those; of a status that is not 0 they are the message. Words are as the processor has them, which
 * must be as the other side has them, too. A text is its bytes behind a word of 32 bits with their number.
 *
 * sterna_remote --cpu-has FEATURE writes the number that sterna_cpu_has returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sterna.h"

enum { SET_INPUT = 1, SET_DIMS, RUN, PROFILE, RESET, GET_OUTPUT, GET_VALUE, INPUTS, OUTPUTS, VALUES, DIMS, NODES, MEMORY };

/* Bytes that grow; `bad` once memory has run out. */
typedef struct buffer {
  unsigned char *bytes;
  size_t used, size;
  int bad;
} buffer;

static void put(buffer *b, const void *from, size_t bytes) {
  if (bytes > b->size - b->used) {
    size_t size = bytes < SIZE_MAX / 4 && b->used < SIZE_MAX / 4 ? 2 * (b->used + bytes) : 0;
    void *more = size > 0 ? realloc(b->bytes, size) : NULL;
    if (more == NULL) {
      b->bad = 1;
      return;
    }
    b->bytes = more;
    b->size = size;
  }
  if (bytes > 0) memcpy(b->bytes + b->used, from, bytes);
  b->used += bytes;
}

static void put_u32(buffer *b, uint32_t n) { put(b, &n, sizeof n); }
static void put_u64(buffer *b, uint64_t n) { put(b, &n, sizeof n); }

static void put_text(buffer *b, const char *text) {
  uint32_t length = text != NULL ? (uint32_t)strlen(text) : 0;
  put_u32(b, length);
  put(b, text, length);
}

static void put_tensor(buffer *b, const sterna_tensor *t) {
  put_text(b, t->name);
  put_text(b, t->dtype);
  put_u32(b, t->rank);
  put(b, t->dims, t->rank * sizeof *t->dims);
  put_u64(b, t->bytes);
  put_u32(b, t->n_scales);
  put_u32(b, t->axis);
  put(b, t->scales, t->n_scales * sizeof *t->scales);
  put(b, t->zero_points, t->n_scales * sizeof *t->zero_points);
  put_u32(b, t->n_labels);
  for (uint32_t i = 0; i < t->n_labels; i++) put_text(b, t->labels[i]);
}

typedef sterna_status (*tensor_info)(const sterna_model *, uint32_t, sterna_tensor *);

static sterna_status put_tensors(buffer *b, const sterna_model *model, uint32_t count, tensor_info info) {
  sterna_status status = STERNA_OK;
  put_u32(b, count);
  for (uint32_t i = 0; i < count && status == STERNA_OK; i++) {
    sterna_tensor tensor;
    if ((status = info(model, i, &tensor)) == STERNA_OK) put_tensor(b, &tensor);
  }
  return status;
}

static sterna_status put_dims(buffer *b, const sterna_model *model) {
  sterna_status status = STERNA_OK;
  put_u32(b, sterna_dim_count(model));
  for (uint32_t i = 0; i < sterna_dim_count(model) && status == STERNA_OK; i++) {
    sterna_dim dim;
    if ((status = sterna_dim_info(model, i, &dim)) != STERNA_OK) break;
    put_text(b, dim.name);
    put_u64(b, (uint64_t)dim.lo);
    put_u64(b, (uint64_t)dim.hi);
    put_u64(b, (uint64_t)dim.size);
    put_u32(b, dim.computed != 0);
  }
  return status;
}

static sterna_status put_nodes(buffer *b, const sterna_model *model) {
  sterna_status status = STERNA_OK;
  put_u32(b, sterna_node_count(model));
  for (uint32_t i = 0; i < sterna_node_count(model) && status == STERNA_OK; i++) {
    sterna_node node;
    if ((status = sterna_node_info(model, i, &node)) != STERNA_OK) break;
    put_text(b, node.name);
    put_text(b, node.kernel);
    put_u32(b, node.tasks);
  }
  return status;
}

static sterna_status put_memory(buffer *b, const sterna_model *model) {
  sterna_memory memory;
  sterna_status status = sterna_memory_info(model, &memory);
  if (status != STERNA_OK) return status;
  put_u64(b, memory.arena);
  put_u64(b, memory.scratch);
  put_u64(b, memory.signature);
  put_u64(b, memory.params);
  return status;
}

static void note_node(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  (void)name;
  put_u32(user, node);
  put_u64(user, nanoseconds);
}

static sterna_status put_value(buffer *b, sterna_model *model, uint32_t number) {
  sterna_tensor tensor;
  sterna_status status = sterna_value_info(model, number, &tensor);
  if (status != STERNA_OK) return status;
  void *memory = malloc(tensor.bytes + 1);
  if (memory == NULL) return STERNA_RESOURCES;
  if ((status = sterna_value_copy(model, number, memory, tensor.bytes)) == STERNA_OK) put(b, memory, tensor.bytes);
  free(memory);
  return status;
}

static sterna_status set_input(sterna_model *model, uint32_t number, const buffer *given) {
  sterna_tensor tensor;
  sterna_status status = sterna_input_info(model, number, &tensor);
  if (status == STERNA_OK && tensor.bytes != given->used) return STERNA_BAD_ARGUMENT;
  if (status == STERNA_OK && given->used > 0) memcpy(sterna_input_buffer(model, number), given->bytes, given->used);
  return status;
}

static sterna_status set_dims(sterna_model *model, uint32_t count, const buffer *given) {
  if (given->used / sizeof(int64_t) != count) return STERNA_BAD_ARGUMENT;
  return sterna_set_dims(model, (const int64_t *)(const void *)given->bytes, count);
}

static sterna_status answer(sterna_model *model, uint32_t what, uint32_t number, const buffer *given, buffer *b) {
  sterna_tensor tensor;
  sterna_status status;
  switch (what) {
    case SET_INPUT: return set_input(model, number, given);
    case SET_DIMS: return set_dims(model, number, given);
    case RUN: return sterna_run(model);
    case PROFILE:
      sterna_set_on_node(model, note_node, b);
      status = sterna_run(model);
      sterna_set_on_node(model, NULL, NULL);
      return status;
    case RESET: return sterna_reset_state(model);
    case GET_OUTPUT:
      if ((status = sterna_output_info(model, number, &tensor)) == STERNA_OK)
        put(b, sterna_output_buffer(model, number), tensor.bytes);
      return status;
    case GET_VALUE: return put_value(b, model, number);
    case INPUTS: return put_tensors(b, model, sterna_input_count(model), sterna_input_info);
    case OUTPUTS: return put_tensors(b, model, sterna_output_count(model), sterna_output_info);
    case VALUES: return put_tensors(b, model, sterna_value_count(model), sterna_value_info);
    case DIMS: return put_dims(b, model);
    case NODES: return put_nodes(b, model);
    case MEMORY: return put_memory(b, model);
    default: return STERNA_BAD_ARGUMENT;
  }
}

static int reply(sterna_status status, const void *bytes, size_t count) {
  int32_t first = (int32_t)status;
  uint64_t length = count;
  int good = fwrite(&first, sizeof first, 1, stdout) == 1 && fwrite(&length, sizeof length, 1, stdout) == 1;
  return good && fwrite(bytes, 1, count, stdout) == count && fflush(stdout) == 0;
}

/* The next request; 0 at the end. */
static int ask(uint32_t *what, uint32_t *number, buffer *given) {
  uint64_t bytes;
  if (fread(what, sizeof *what, 1, stdin) != 1 || fread(number, sizeof *number, 1, stdin) != 1) return 0;
  if (fread(&bytes, sizeof bytes, 1, stdin) != 1 || bytes > SIZE_MAX / 4) return 0;
  if (bytes > given->size || given->bytes == NULL) {
    void *more = realloc(given->bytes, (size_t)bytes + 1);
    if (more == NULL) return 0;
    given->bytes = more;
    given->size = (size_t)bytes;
  }
  given->used = (size_t)bytes;
  return fread(given->bytes, 1, given->used, stdin) == given->used;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[1], "--cpu-has") == 0) return printf("%d\n", sterna_cpu_has(argv[2])) < 0;
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = (uint32_t)strtoul(argv[2], NULL, 10);
  sterna_status status = sterna_load(argv[1], &options, &model, &error);
  if (status != STERNA_OK) return !reply(status, error.message, strlen(error.message));
  buffer given, made;
  memset(&given, 0, sizeof given);
  memset(&made, 0, sizeof made);
  uint32_t what, number;
  int good = reply(STERNA_OK, "", 0);
  while (good && ask(&what, &number, &given)) {
    made.used = 0;
    made.bad = 0;
    status = answer(model, what, number, &given, &made);
    if (made.bad) status = STERNA_RESOURCES;
    const sterna_error *last = sterna_last_error(model); /* that of an earlier call, where this one failed outside of it */
    const char *message = last->status == status ? last->message : "the program in the emulator refused the request";
    if (status == STERNA_OK)
      good = reply(status, made.bytes != NULL ? made.bytes : (const unsigned char *)"", made.used);
    else
      good = reply(status, message, strlen(message));
  }
  sterna_unload(model);
  free(given.bytes);
  free(made.bytes);
  return !good;
}
