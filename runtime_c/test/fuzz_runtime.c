/* Loads mutated graphs from memory and calls everything that there is to call, in orders that nobody wrote down.
 *
 *   fuzz_runtime loader|calls SEED FIRST COUNT PROGRESS BASE...   COUNT executions, from number FIRST on
 *   fuzz_runtime loader|calls SEED NUMBER print BASE...           the input of one execution, to standard output
 *   fuzz_runtime replay INPUT...                                  executes inputs
 *   fuzz_runtime memory INPUT...                                  loads them without the n-th allocation, for every n
 *
 * `loader` changes graphs hard and then looks at everything; `calls` changes sizes, then makes long sequences of calls.
 * An execution follows from the seed and its number alone. PROGRESS is a file that holds the number at hand, so that
 * whoever started the program knows which one killed it.
 *
 * fuzz_input.h says what an input is.
 *
 * Built with sanitizers. What they do not see is checked here, by arithmetic of 128 bits: that every tensor lies in its
 * memory at all times, that a call that failed changed nothing, that memory which cannot be had is called that. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_check.h"
#include "fuzz_input.h"
#include "internal.h"

#define MOST_BASES 64
#define MOST_MEMORY ((size_t)1 << 20) /* of a model; more is refused */
#define MOST_BOUND 32u
#define MOST_KERNEL_RUNS 400u /* of a run: loops end by it */

/* ---- Memory ---- */

typedef struct memory {
  size_t taken;
  uint32_t until_failure; /* allocations, if not 0: the last of them is refused, and all after it */
  bool refused;
} memory;

static void *allocate(void *context, size_t bytes) {
  memory *m = context;
  if (m->until_failure != 0 && m->until_failure > 1) m->until_failure--;
  else if (m->until_failure == 1) m->refused = true;
  if (bytes > MOST_MEMORY - m->taken) m->refused = true;
  if (m->refused) return NULL;
  m->taken += bytes;
  void *block = malloc(bytes);
  if (block == NULL) abort();
  return memset(block, 0xA5, bytes);
}

static void release(void *context, void *block, size_t bytes) {
  memory *m = context;
  if (block == NULL || bytes > m->taken) WRONG("memory is given back that was not taken");
  m->taken -= bytes;
  free(block);
}

/* ---- One execution ---- */

typedef struct session {
  const input *in;
  uint32_t next; /* of in->calls */
  memory memory;
  random_state random; /* what kernels do */
  sterna_model *model;
  void *bound[MOST_BOUND];
  uint32_t n_bound, kernel_runs;
  uint32_t failures; /* one kernel in so many fails; 0: none */
  uint32_t fail_at;  /* this allocation, if not 0 */
  uint64_t fresh; /* digest after loading, or after the latest sizes that were set */
  bool threads, parallel, nested;
} session;

static session *current; /* kernels have no argument of their own */

static uint8_t take(session *s) { return s->next < s->in->n_calls ? s->in->calls[s->next++] : 0; }

/* Copies a value into memory of exactly its size, and compares small ones element by element. */
static void copy_value(sterna_model *model, uint32_t index) {
  sterna_tensor tensor;
  if (sterna_value_info(model, index, &tensor) != STERNA_OK) WRONG("no info of value %u", index);
  if (tensor.bytes > MOST_MEMORY) return; /* strides of 0 */
  uint8_t *copy = malloc(tensor.bytes + (tensor.bytes == 0));
  if (copy == NULL) abort();
  sterna_status status = sterna_value_copy(model, index, copy, tensor.bytes);
  if (status != STERNA_OK && status != STERNA_NOT_AVAILABLE) WRONG("a copy of value %u: %s", index, sterna_last_error(model)->message);
  const value *v = &model->values[index];
  uint64_t limit;
  const uint8_t *from = class_memory(model, v, &limit);
  if (v->storage == CLASS_ARENA || v->storage == CLASS_STATE || v->storage == CLASS_PARAM) from += v->offset;
  size_t elements = tensor.bytes / v->element_bytes;
  for (size_t i = 0; i < elements && elements <= 64 && status == STERNA_OK; i++) {
    size_t rest = i, at = (size_t)v->origin;
    for (uint32_t axis = tensor.rank; axis-- > 0; rest /= (size_t)tensor.dims[axis])
      at += rest % (size_t)tensor.dims[axis] * (size_t)v->strides[axis];
    if (memcmp(copy + i * v->element_bytes, from + at * v->element_bytes, v->element_bytes) != 0)
      WRONG("element %zu of value %u is copied wrong", i, index);
  }
  free(copy);
}

/* ---- Kernels that do nothing sensible, within their rights ---- */

/* Sets what the control flow reads: conditions true or false, small numbers of iterations, negative ones too. */
static void disturb(session *s) {
  for (uint32_t i = 0; i < s->model->n_controls; i++) {
    const value *const read[] = {s->model->controls[i].condition, s->model->controls[i].trips};
    for (int k = 0; k < 2; k++) {
      if (read[k] == NULL || read[k]->storage == CLASS_PARAM || read[k]->storage == CLASS_INPUT) continue;
      uint8_t *at = value_address(s->model, read[k]) + (uint64_t)read[k]->origin * read[k]->element_bytes;
      int64_t trips = (int64_t)random_below(&s->random, 6) - 1;
      memcpy(at, &trips, read[k]->element_bytes);
    }
  }
}

static int64_t computed_size(session *s, const sterna_dim *dim) {
  uint64_t span = (uint64_t)dim->hi - (uint64_t)dim->lo + 1;
  switch (s->parallel ? 15u : random_below(&s->random, 16)) {
    case 0:
      return (int64_t)((uint64_t)dim->lo - 1);
    case 1:
      return (int64_t)((uint64_t)dim->hi + 1);
    case 2:
      return INT64_MIN;
    case 3:
    case 4:
    case 5:
      return dim->lo;
    case 15:
      return dim->hi;
    default:
      return (int64_t)((uint64_t)dim->lo + (span > 0 ? random_next(&s->random) % span : 0));
  }
}

static int32_t act(const sterna_call *call, uint32_t first, uint32_t last) {
  session *s = current;
  sterna_model *model = s->model;
  volatile uint8_t sum = 0;
  if (first > last) WRONG("tasks %u to %u", first, last);
  if (call->scratch != NULL) sum = (uint8_t)(sum + call->scratch[0]);
  if (call->params != NULL) sum = (uint8_t)(sum + call->params[0]);
  for (uint32_t i = 0; i < model->n_nodes; i++) { /* nodes have their own records of outputs; some are empty */
    const node *n = &model->nodes[i];
    if (n->call.out != call->out || n->call.in != call->in || n->computes == 0) continue;
    int64_t size = computed_size(s, &model->dims[n->computes - 1]);
    memcpy(*n->size, &size, sizeof size);
  }
  if (s->parallel) return 0;
  for (uint32_t i = 0; i < model->n_outputs; i++) { /* what the info says is there to be written */
    sterna_tensor tensor;
    if (sterna_output_info(model, i, &tensor) != STERNA_OK) WRONG("no info of output %u", i);
    uint8_t *to = model->outputs[i].bound;
    if (tensor.bytes > 0 && model->values[model->outputs[i].value].computes == 0) to[0] = to[tensor.bytes - 1] = (uint8_t)first;
  }
  disturb(s);
  if (++s->kernel_runs > MOST_KERNEL_RUNS) return -11;
  return s->failures > 0 && random_below(&s->random, s->failures) == 0 ? -1 - (int32_t)random_below(&s->random, 20) : 0;
}

/* Within a run one may look, and nothing else. */
static void on_node(void *user, uint32_t index, const char *name, uint64_t nanoseconds) {
  session *s = user;
  sterna_node info;
  (void)nanoseconds;
  if (sterna_node_info(s->model, index, &info) != STERNA_OK || strcmp(info.name, name) != 0) WRONG("node %u has another name", index);
  if (s->kernel_runs % 8 != 1) return;
  check_consistent(s->model);
  if (s->model->n_values > 0) copy_value(s->model, random_below(&s->random, s->model->n_values));
  if (!s->nested) return;
  int64_t sizes[256] = {0};
  for (uint32_t i = 0; i < s->model->n_open; i++) sizes[i] = s->model->dims[i].lo;
  uint64_t before = digest(s->model);
  if (sterna_run(s->model) != STERNA_BAD_ARGUMENT || sterna_set_dims(s->model, sizes, s->model->n_open) != STERNA_BAD_ARGUMENT ||
      sterna_reset_state(s->model) != STERNA_BAD_ARGUMENT)
    WRONG("a call within a run is not refused");
  if (digest(s->model) != before) WRONG("a call within a run changed sizes");
}

/* ---- Calls ---- */

static void look_around(session *s) {
  sterna_model *m = s->model;
  sterna_tensor t;
  sterna_dim dim;
  sterna_node node;
  sterna_memory memory;
  for (uint32_t i = 0; i <= sterna_value_count(m); i++)
    if ((sterna_value_info(m, i, &t) == STERNA_OK) != (i < m->n_values)) WRONG("info of value %u", i);
  for (uint32_t i = 0; i <= sterna_input_count(m); i++)
    if ((sterna_input_info(m, i, &t) == STERNA_OK) != (sterna_input_buffer(m, i) != NULL)) WRONG("info of input %u", i);
  for (uint32_t i = 0; i <= sterna_output_count(m); i++)
    if ((sterna_output_info(m, i, &t) == STERNA_OK) != (sterna_output_buffer(m, i) != NULL)) WRONG("info of output %u", i);
  for (uint32_t i = 0; i <= sterna_dim_count(m); i++)
    if ((sterna_dim_info(m, i, &dim) == STERNA_OK) != (i < m->n_dims)) WRONG("info of dimension %u", i);
  for (uint32_t i = 0; i <= sterna_node_count(m); i++)
    if ((sterna_node_info(m, i, &node) == STERNA_OK) != (i < m->n_nodes)) WRONG("info of node %u", i);
  size_t letters = 0;
  for (uint32_t i = 0; i < sterna_value_count(m) && sterna_value_info(m, i, &t) == STERNA_OK; i++) {
    for (uint32_t k = 0; k < t.n_scales; k++)
      if (!(t.scales[k] >= 0) || t.zero_points[k] == INT32_MAX) letters++;
    for (uint32_t k = 0; k < t.n_labels; k++) letters += strlen(t.labels[k]);
  }
  if (letters > TEXT_ROOM) WRONG("labels without an end");
  if (sterna_memory_info(m, &memory) != STERNA_OK || strlen(sterna_model_name(m)) == 0) WRONG("no facts");
  if (sterna_bind_input(m, m->n_inputs, NULL) != STERNA_BAD_ARGUMENT || sterna_bind_output(m, UINT32_MAX, NULL) != STERNA_BAD_ARGUMENT ||
      sterna_value_copy(m, m->n_values, NULL, 0) != STERNA_BAD_ARGUMENT || sterna_find_input(m, "no such") != STERNA_NOT_FOUND)
    WRONG("what is not there is found");
}

/* Runs. A run that fails leaves everything as it is before the first run at these sizes. */
static void run(session *s) {
  sterna_model *m = s->model;
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const binding *b = &m->inputs[i];
    sterna_tensor tensor;
    if (sterna_input_info(m, i, &tensor) == STERNA_OK && b->bound == b->own) memset(b->own, (int)i + 1, tensor.bytes);
  }
  if (!s->parallel) disturb(s);
  s->kernel_runs = 0;
  sterna_status status = sterna_run(m);
  if (status == STERNA_OK) return;
  if (status != STERNA_KERNEL_FAILED && status != STERNA_MALFORMED && status != STERNA_BAD_LIBRARY) WRONG("a run ends with %d", (int)status);
  if (sterna_last_error(m)->message[0] == 0) WRONG("a failed run says nothing");
  if (digest(m) != s->fresh) WRONG("a failed run leaves sizes behind");
  for (uint32_t i = 0; i < m->n_values; i++) {
    const value *v = &m->values[i];
    char nothing[1];
    if (v->storage == CLASS_OUTPUT && v->tensor.bytes == 0 && sterna_value_copy(m, i, nothing, 0) != STERNA_NOT_AVAILABLE)
      WRONG("value %u is there after a failed run", i);
  }
}

static void resize(session *s) {
  sterna_model *m = s->model;
  int64_t sizes[256];
  uint8_t how = take(s);
  for (uint32_t i = 0; i < m->n_open; i++) {
    const sterna_dim *dim = &m->dims[i];
    uint64_t span = (uint64_t)dim->hi - (uint64_t)dim->lo + 1;
    sizes[i] = how % 8 == 0 ? dim->lo : how % 8 == 1 ? dim->hi : (int64_t)((uint64_t)dim->lo + (span > 0 ? random_next(&s->random) % span : 0));
    if (how > 250) sizes[i] = how == 251 ? (int64_t)((uint64_t)dim->hi + 1) : how == 252 ? (int64_t)((uint64_t)dim->lo - 1) : INT64_MIN;
  }
  bool one = how % 3 == 2 && m->n_open > 0;
  uint64_t before = digest(m);
  sterna_status status =
      one ? sterna_set_dim(m, m->dims[0].name, sizes[0]) : sterna_set_dims(m, sizes, m->n_open + (how == 250));
  if (status == STERNA_OK && (digest(m) != before || m->n_open > 0)) {
    /* Sizes that are the present ones change nothing, what was computed included. */
    bool same = digest(m) == before;
    if (!same) s->fresh = digest(m);
  } else if (status != STERNA_OK) {
    if (sterna_last_error(m)->message[0] == 0) WRONG("sizes are refused without a word");
    if (digest(m) != before) WRONG("refused sizes have changed something");
  }
}

static void bind(session *s) {
  sterna_model *m = s->model;
  uint8_t which = take(s), how = take(s);
  bool is_output = (which & 1) != 0;
  uint32_t n = is_output ? m->n_outputs : m->n_inputs;
  if (n == 0 || s->n_bound == MOST_BOUND) return;
  uint32_t index = (which >> 1) % n;
  const value *v = &m->values[is_output ? m->outputs[index].value : m->inputs[index].value];
  uint8_t *given = NULL;
  if (how % 4 != 0) {
    given = calloc(1, (size_t)v->bytes + 1); /* room for the most that it may be */
    if (given == NULL) abort();
    s->bound[s->n_bound++] = given;
  }
  bool crooked = how % 16 == 1 && v->element_bytes > 1;
  const uint8_t *at = crooked ? given + 1 : given;
  sterna_status status = is_output ? sterna_bind_output(m, index, (void *)(uintptr_t)at) : sterna_bind_input(m, index, at);
  if ((status == STERNA_OK) == crooked) WRONG("memory at an odd address");
}

static void load(session *s) {
  static uint8_t params[MOST_PARAMS + 64];
  static size_t filled;
  const input *in = s->in;
  sterna_library library = {sizeof library, STERNA_ABI, in->n_kernels, 0, in->kernels, ""};
  sterna_allocator allocator = {&s->memory, allocate, release};
  sterna_options options;
  sterna_error error;
  uint8_t how = take(s), fail_at = take(s);
  if (s->fail_at > 0) how = 1;
  memset(&options, 0, sizeof options);
  memset(&s->memory, 0, sizeof s->memory);
  options.size = sizeof options;
  options.allocator = &allocator;
  s->parallel = how == 255;
  s->nested = how % 32 == 7;
  options.threads = s->parallel ? 3 : how & 1;
  if (how % 4 == 2) options.on_node = on_node;
  options.user = s;
  s->memory.until_failure = s->fail_at > 0 ? s->fail_at : how % 16 == 9 ? 1u + fail_at : 0;
  s->failures = how % 8 == 5 ? 4 + fail_at : 0;
  uint8_t *aligned = params + (64 - (uintptr_t)params % 64) % 64;
  for (; filled < in->params_bytes; filled++) aligned[filled] = (uint8_t)(filled * 37 % 251);
  /* In memory that ends where the text ends: reading on is seen. */
  char *graph = malloc(in->graph.bytes + (in->graph.bytes == 0));
  if (graph == NULL) abort();
  memcpy(graph, in->graph.data, in->graph.bytes);
  sterna_status status = sterna_load_table(graph, in->graph.bytes, in->params_bytes > 0 ? aligned : NULL, in->params_bytes, &library,
                                           &options, &s->model, &error);
  memset(graph, 0xEE, in->graph.bytes); /* it is not needed any more */
  free(graph);
  if ((status == STERNA_OK) != (s->model != NULL)) WRONG("status %d, and a model or none", (int)status);
  if (status != STERNA_OK && (error.status != status || error.message[0] == 0)) WRONG("a refusal without a word");
  bool lacked = status == STERNA_RESOURCES; /* also what no machine has */
  if ((s->memory.refused && !lacked) || (lacked && strncmp(error.message, "out of memory", 13) != 0))
    WRONG("out of memory is called %s: %s", sterna_status_name(status), error.message);
  if (s->model == NULL) {
    if (status == STERNA_BAD_ARGUMENT || status > 0 || status < STERNA_BAD_LIBRARY) WRONG("refused with %d", (int)status);
    if (s->memory.taken != 0) WRONG("a refusal keeps %zu bytes", s->memory.taken);
    return;
  }
  for (uint32_t i = 0; i < s->model->n_nodes; i++) s->model->nodes[i].function = act;
  for (uint32_t i = 0; i < s->model->n_controls; i++) {
    control *c = &s->model->controls[i]; /* loops over nothing have no kernel that would end them */
    uint64_t most = i < 4 ? 3 : 1;
    if (c->is_loop && c->limit > most) c->limit = most;
  }
  s->fresh = digest(s->model);
}

static void unload(session *s) {
  sterna_unload(s->model);
  if (s->model != NULL && s->memory.taken != 0) WRONG("a model keeps %zu bytes", s->memory.taken);
  s->model = NULL;
  while (s->n_bound > 0) free(s->bound[--s->n_bound]);
}

static void call(session *s) {
  sterna_model *m = s->model;
  uint8_t what = take(s);
  char byte;
  switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
      run(s);
      break;
    case 4:
    case 5:
      if (m->n_values > 0) copy_value(m, take(s) % m->n_values);
      break;
    case 6:
      if (m->n_values > 0 && m->values[what % m->n_values].tensor.bytes != 1 &&
          sterna_value_copy(m, what % m->n_values, &byte, 1) != STERNA_BAD_ARGUMENT)
        WRONG("a copy into memory of another size");
      break;
    case 7:
    case 8:
      resize(s);
      break;
    case 9:
      bind(s);
      break;
    case 10: {
      uint64_t before = digest(m);
      if (sterna_reset_state(m) != STERNA_OK || digest(m) != before) WRONG("the state cannot be reset");
      break;
    }
    case 11:
      sterna_set_on_node(m, what < 128 ? on_node : NULL, s);
      break;
    case 12:
      look_around(s);
      break;
    case 13:
    case 14:
      for (uint32_t i = 0; i < m->n_values; i++) copy_value(m, i);
      break;
    default:
      if (what < 64) {
        unload(s);
        load(s);
      }
  }
}

static void execute(const input *in) {
  static session s;
  memset(&s, 0, sizeof s);
  s.in = in;
  s.random.state = sterna_hash64(in->calls, in->n_calls);
  current = &s;
  load(&s);
  while (s.model != NULL && s.next < in->n_calls) {
    check_consistent(s.model);
    call(&s);
  }
  if (s.model != NULL) check_consistent(s.model);
  unload(&s);
}

/* Every allocation of a load once refused: a sound graph is loaded when none is. */
static bool execute_without_memory(const input *in) {
  static session s;
  for (uint32_t fail_at = 1; fail_at < 10000; fail_at++) {
    memset(&s, 0, sizeof s);
    s.in = in;
    s.fail_at = fail_at;
    current = &s;
    load(&s);
    bool loaded = s.model != NULL;
    unload(&s);
    if (loaded) return printf("%u allocations\n", (unsigned)fail_at - 1) > 0;
    if (!s.memory.refused) return false;
  }
  return false;
}

static int usage(void) {
  fputs("usage: fuzz_runtime loader|calls SEED FIRST COUNT PROGRESS BASE... | loader|calls SEED NUMBER print BASE... | replay INPUT... | memory INPUT...\n",
        stderr);
  return 2;
}

int main(int argc, char **argv) {
  static input bases[MOST_BASES], at_hand;
  bool memory = argc >= 3 && strcmp(argv[1], "memory") == 0;
  if (memory || (argc >= 3 && strcmp(argv[1], "replay") == 0)) {
    for (int i = 2; i < argc; i++) {
      if (!read_input(argv[i], act, &at_hand)) return usage();
      if (!memory) execute(&at_hand);
      else if (!execute_without_memory(&at_hand)) return 1;
    }
    return 0;
  }
  bool calls = argc > 1 && strcmp(argv[1], "calls") == 0;
  if (argc < 6 || (!calls && strcmp(argv[1], "loader") != 0)) return usage();
  uint64_t seed = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10);
  bool print = strcmp(argv[4], "print") == 0;
  uint32_t n_bases = 0;
  for (int i = print ? 5 : 6; i < argc && n_bases < MOST_BASES; i++)
    if (!read_input(argv[i], act, &bases[n_bases++])) return usage();
  if (n_bases == 0) return usage();
  if (print) {
    derive_input(bases, n_bases, seed, first, calls, &at_hand);
    print_input(&at_hand);
    return 0;
  }
  int file = open(argv[5], O_RDWR | O_CREAT, 0600);
  volatile uint64_t *progress = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof *progress) == 0)
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (progress == MAP_FAILED) return usage();
  for (uint64_t number = first, end = first + strtoull(argv[4], NULL, 10); number < end; number++) {
    *progress = number;
    derive_input(bases, n_bases, seed, number, calls, &at_hand);
    execute(&at_hand);
  }
  return 0;
}
