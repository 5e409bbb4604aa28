/* What the runtime's own files share. Nothing here is part of the interface. */
#ifndef STERNA_INTERNAL_H
#define STERNA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../port/port.h"
#include "sterna.h"
#include "sterna_device.h"

/* In a static library every external name is in the user's name space. */
#ifdef STERNA_NO_MESSAGES
#define fail_silently sterna_fail_silently
#else
#define fail sterna_fail
#define malformed sterna_malformed
#endif
#define heap_open sterna_heap_open
#define heap_take sterna_heap_take
#define heap_take_aligned sterna_heap_take_aligned
#define heap_close sterna_heap_close
#define cpu_check sterna_cpu_check
#define cpu_check_triple sterna_cpu_check_triple
#define pool_open sterna_pool_open
#define pool_close sterna_pool_close
#define pool_run sterna_pool_run
#define pool_no_barrier sterna_pool_no_barrier
#define out_of_range sterna_out_of_range
#define dims_open sterna_dims_open
#define dims_read sterna_dims_read
#define dims_link sterna_dims_link
#define dims_compute sterna_dims_compute
#define dims_forget sterna_dims_forget
#define graph_choose sterna_graph_choose
#define graph_open sterna_graph_open
#define graph_build sterna_graph_build
#define graph_check_file sterna_graph_check_file
#define control_open sterna_control_open
#define library_is_whole sterna_library_is_whole
#define may_change sterna_may_change
#define value_address sterna_value_address
#define storage_names sterna_storage_names
#define check_value sterna_check_value
#define check_tasks sterna_check_tasks
#define map_file sterna_map_file
#define graph_names sterna_graph_names
#define graph_file sterna_graph_file
#define graph_lacks sterna_graph_lacks
#define rows_first sterna_rows_first
#define rows_next sterna_rows_next

#define ALIGNMENT STERNA_ALIGNMENT /* also of the arena and of scratch: a cache line and a 512-bit vector */

/* Limits, written here by ci/abi.py. */
#define MAX_THREADS 1024u
#define MAX_GRAPH_BYTES 67108864u /* of graph.json */
#define MAX_NESTED 32u /* expressions, as the JSON around them; control flow: depths of recursion */
#define MAX_SYMBOLS 256u /* open dimensions of a model */
#define MAX_TERMS 256u /* of an expression */
#define LABELLED_OUTPUTS 16u

#if defined(__GNUC__)
#define PRINTF_LIKE(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define PRINTF_LIKE(format_at, first_at)
#endif

/* ---- status.c ---- */

#ifdef STERNA_NO_MESSAGES
/* What a message would say is checked, and not compiled: neither its text nor printf gets into the program. */
int unwritten(const char *format, ...) PRINTF_LIKE(1, 2);
sterna_status fail_silently(sterna_error *error, sterna_status status);
#define fail(error, status, ...) ((void)sizeof(unwritten(__VA_ARGS__)), fail_silently(error, status))
#define malformed(model, ...) fail(&(model)->error, STERNA_MALFORMED, __VA_ARGS__)
#else
/* Writes the message and returns `status`, so that `return fail(...)` is one line. `error` may be NULL. */
sterna_status fail(sterna_error *error, sterna_status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same for STERNA_MALFORMED and what is wrong with graph.json: the message first names the file, and the row that is read. */
sterna_status malformed(sterna_model *model, const char *format, ...) PRINTF_LIKE(2, 3);
#endif
#define BAD(...) return malformed(model, __VA_ARGS__)

/* ---- Arithmetic on numbers that come from a file: false if the result does not fit ---- */

static inline bool add_fits(uint64_t a, uint64_t b, uint64_t *sum) {
  *sum = a + b;
  return *sum >= a;
}

static inline bool multiply_fits(uint64_t a, uint64_t b, uint64_t *product) {
  *product = a * b;
  return a == 0 || *product / a == b;
}

/* first <= first + bytes <= limit */
static inline bool range_fits(uint64_t first, uint64_t bytes, uint64_t limit) {
  return first <= limit && bytes <= limit - first;
}

/* ---- heap.c: memory that lives as long as the model, given back at once ---- */

typedef struct heap_chunk heap_chunk;

typedef struct heap {
  sterna_allocator allocator;
  heap_chunk *chunks;
  unsigned char *next; /* free part of the newest small chunk */
  size_t left;
  uint64_t refused; /* bytes of the latest request that failed; 0: none has */
} heap;

void heap_open(heap *heap, const sterna_allocator *allocator);
/* Zeroed memory, aligned to 16 bytes; NULL if there is none, and heap->refused says so. `count * bytes` is checked. */
void *heap_take(heap *heap, uint64_t count, uint64_t bytes);
/* The same in a chunk of its own, aligned to ALIGNMENT. */
void *heap_take_aligned(heap *heap, uint64_t bytes);
/* Gives back everything that was taken. */
void heap_close(heap *heap);

/* ---- cpu.c ---- */

/* Refuses if this machine lacks one of the features (separated by spaces) or does not know it. */
sterna_status cpu_check(const char *features, const char *where, sterna_error *error);
/* Refuses if the first part of a target triple names another processor family than this program's. */
sterna_status cpu_check_triple(const char *triple, sterna_error *error);

/* ---- library.c ---- */

/* Whether all that the headers of a library name (ELF, Mach-O of 64 bits, PE) lies in its file. */
bool library_is_whole(const port_file *file);

/* ---- pool.c ---- */

typedef struct node node;
typedef struct pool pool;

/* Starts `workers` - 1 threads. `scratch_bytes` apart in `scratch` lie the workers' scratches. */
sterna_status pool_open(heap *heap, uint32_t workers, uint8_t *scratch, size_t scratch_bytes, pool **out,
                        sterna_error *error);
void pool_close(pool *pool);
/* Runs all tasks of a node on all workers; returns when they are done: 0, or what a failing kernel returned. */
int32_t pool_run(pool *pool, const node *node);
/* The barrier of a call with one worker. */
void pool_no_barrier(void *unused);

/* ---- A loaded model ---- */

typedef enum storage_class { CLASS_INPUT, CLASS_OUTPUT, CLASS_ARENA, CLASS_PARAM, CLASS_STATE, N_CLASSES } storage_class;

typedef struct value {
  sterna_tensor tensor;
  storage_class storage;
  bool fleeting;
  uint32_t place;    /* where its buffer is after a run: 0 the CPU, else a device */
  uint32_t stage;    /* of its sizes, see dims.c; 0: all are constants */
  uint32_t computes; /* 1 + the symbol whose size this value is; 0: of none */
  uint32_t element_bytes;
  uint32_t signature; /* number of the input or output that this value is */
  uint64_t offset;    /* first byte of the buffer in its class */
  uint64_t bytes;     /* of the buffer: enough for the largest sizes */
  int64_t origin;     /* element in the buffer; not negative, as all sizes and strides */
  int64_t *dims, *strides;
} value;

struct node {
  const char *name;
  uint32_t kernel;
  uint32_t tasks;
  sterna_kernel_fn function;
  sterna_call call; /* as worker 0 of 1 gets it */
  bool needs_barrier;
  uint32_t stage;       /* of `tasks` */
  uint32_t max_tasks;   /* of the kernel */
  int64_t wanted_tasks; /* what the expression says */
  uint32_t computes;    /* 1 + the symbol whose size it gives; 0: none */
  void **size;          /* the entry of `call.out` with that size */
  uint32_t place;       /* 0: the CPU, else the device that this is run by */
};

/* Addresses of one value in the call records: they change when the caller binds other memory. */
typedef struct binding {
  uint32_t value;
  uint32_t n_slots;
  void ***slots; /* pointers of call records */
  void **newest; /* the last of them that was read; while the graph is */
  void *own;     /* the runtime's memory */
  void *bound;   /* what the kernels use now; never written through for an input */
} binding;

/* A value of class "state", and what it holds before the first run: NULL for zeros. */
typedef struct state {
  uint32_t value;
  const uint8_t *initial;
  uint32_t place; /* where it is kept */
} state;

typedef struct formula formula;
typedef struct device_support device_support;

/* A choice between two ranges of nodes, or a loop over one. */
typedef struct control {
  bool is_loop;
  uint32_t first, middle, last; /* nodes: a choice's second range begins at `middle` */
  uint32_t next;                /* the first control after this one that does not lie in it */
  uint64_t count;               /* of iterations, at most; where `trips` is NULL */
  uint64_t limit;               /* of iterations, after which one more is a failure */
  const value *trips, *condition, *number; /* NULL where there is none */
} control;

struct sterna_model {
  /* What the code names most often comes first: within 128 bytes of the record's start instructions are shorter. */
  heap heap;
  value *values;
  int64_t *sizes; /* of the dimensions now; then as much room for the sizes before */
  const device_support *support; /* NULL: all nodes run here */
  const sterna_dim *dims;
  node *nodes;
  uint32_t n_values, n_nodes, n_inputs, n_outputs;
  uint32_t n_dims, n_open; /* symbols; those of them that the caller sets, which come first */
  sterna_error error;
  const char *name;
  uint32_t n_kernels, n_controls;
  uint32_t n_own_kernels; /* those of the library, which come first; the others are of devices */
  uint32_t n_computed;    /* symbols that some node computes, of those read so far */
  control *controls;      /* outer ones before inner ones, and else by their first nodes */
  const char **kernel_names;
  binding *inputs, *outputs;
  uint32_t n_states;
  uint32_t workers;
  state *states;
  formula *formulas;
  uint8_t *arena, *scratch;
  uint64_t arena_bytes, scratch_bytes, signature_bytes;
  pool *pool;
  const uint8_t *params;
  uint64_t params_bytes;
  port_file params_file;
  void *library;
  bool has_run; /* the latest run at these sizes succeeded: values are there */
  bool has_computed; /* some size since dims_forget */
  bool running;
  uint32_t n_apis;
  sterna_on_node on_node;
  void *user;
  void *devices;                        /* the support's own */
  const sterna_device_api *const *apis; /* what the caller gave */
  const char *device_cache;
  const sterna_file *files; /* n_files that the caller gave */
  uint32_t n_files;
  /* The list of graph.json that is read, what one of its rows is called, or NULL; the row's number and, once it is known, name. */
  const char *rows;
  uint32_t row;
  const char *row_name;
};

/* ---- values.c: values and nodes at their present sizes ---- */

/* Names of the storage classes, as graph.json has them. */
extern const char storage_names[N_CLASSES][8];
/* STERNA_BAD_ARGUMENT for no model, and for one that is running: the caller is its callback. */
sterna_status may_change(sterna_model *model);
/* Says so. The message is the only thing that a question changes. */
sterna_status out_of_range(const sterna_model *model, const char *what, uint32_t index, uint32_t count);
/* The first byte of a value's buffer. */
uint8_t *value_address(const sterna_model *model, const value *v);
/* Whether a value lies within its buffer at its present sizes; sets its number of bytes. */
sterna_status check_value(sterna_model *model, uint32_t index);
/* Whether the kernel has as many tasks as the node; sets the number. */
sterna_status check_tasks(sterna_model *model, uint32_t index);

/* ---- dims.c: sizes that stay open until the model runs ---- */

/* Reads the list of symbols, which may be missing; all stand at their upper bounds. */
sterna_status dims_open(const char *text, size_t list, sterna_model *model);
/* Reads a number that is not negative, or an expression with such a result: then *target follows the sizes from now
 * on, and *stage, which lives as long as the model, becomes at least the expression's. */
bool dims_read(sterna_model *model, const char *text, size_t at, int64_t *target, uint32_t *stage);
/* Once the values are read: notes which of them are the sizes of symbols. */
sterna_status dims_link(const char *text, size_t list, sterna_model *model);
/* Gives a symbol the size that the model has computed; everything that waited for it follows. */
sterna_status dims_compute(sterna_model *model, uint32_t symbol, int64_t size);
/* Computed sizes are again the most that they may be, as before a run. */
void dims_forget(sterna_model *model);

/* ---- control.c: which nodes run, and how often ---- */

/* Reads the list of control, which may be missing. The model's values and nodes are known. */
sterna_status control_open(const char *text, size_t list, sterna_model *model);

/* ---- manifest.c and graph.c: from graph.json to the tables above ---- */

/* A file of the bundle as graph.json knows it. */
typedef struct file_entry {
  uint64_t bytes, hash;
} file_entry;

#define FEATURES_BYTES 512 /* of the names of CPU features that a graph lists */

/* Members of graph.json. */
#define GRAPH_MEMBERS(X) \
  X(ABI, "abi") X(MODEL, "model") X(TARGET, "target") X(FILES, "files") X(LIBRARY, "library") X(ARENA, "arena") \
  X(SCRATCH, "scratch_bytes") X(KERNELS, "kernels") X(VALUES, "values") X(INPUTS, "inputs") X(OUTPUTS, "outputs") \
  X(NODES, "nodes") X(SYMBOLS, "symbols") X(STATES, "states") X(CONTROL, "control") X(METADATA, "metadata") \
  X(ARENAS, "arenas") X(WIDENED, "widened") X(VARIANTS, "variants") X(DEVICES, "devices")
#define GRAPH_KEY(name, key) key "\0"
#define GRAPH_NUMBER(name, key) GRAPH_##name,
enum { GRAPH_MEMBERS(GRAPH_NUMBER) N_GRAPH_MEMBERS };

/* What must be known and checked before anything else is opened. Filled in by graph_open,
 * which is in manifest.c. */
typedef struct graph {
  const char *text;
  size_t at[N_GRAPH_MEMBERS]; /* in the text: lists, objects or JSON_NONE; or something else, where that is not checked yet */
  const char *library_name; /* no library name: the kernels came as source */
  file_entry params, library;
  char features[FEATURES_BYTES]; /* separated by spaces */
} graph;

/* Checks versions, hash, syntax and machine. Does not keep `text`, which graph_build needs again. */
sterna_status graph_open(graph *graph, const void *text, size_t bytes, sterna_model *model);
/* The first variant of a bundle that has a graph of its own and whose features this machine has: its file's name, which the
 * model keeps, and entry. Without one the name is NULL. */
sterna_status graph_choose(const graph *graph, sterna_model *model, const char **name, file_entry *entry);
/* Fills in the model's tables; model->params and params_bytes are known. Every number is checked here. */
sterna_status graph_build(const graph *graph, const sterna_library *library, sterna_model *model);
/* Compares a file's contents with its entry. */
sterna_status graph_check_file(const char *name, const file_entry *entry, const void *data, uint64_t bytes,
                               sterna_error *error);
/* Maps a file of the bundle. */
sterna_status map_file(const char *directory, const char *name, port_file *file, sterna_error *error);
/* First row of a list and the one after `at`, as json_first and json_next; messages say which it is. */
size_t rows_first(sterna_model *model, const char *text, size_t list, const char *rows);
size_t rows_next(sterna_model *model, const char *text, size_t at);
/* A list of names, as one string in which spaces separate them; false if it is none. */
bool graph_names(const char *text, size_t list, char names[FEATURES_BYTES]);
/* STERNA_WRONG_MACHINE: what the first row of a list has under a key is not here, where `what` says what that is; without a
 * list the other is not. */
sterna_status graph_lacks(const graph *graph, size_t list, const char *key, const char *what, const char *other, sterna_model *model);
/* The name of a file of the bundle, which the model keeps, and its entry. */
sterna_status graph_file(const graph *graph, size_t at, const char **name, file_entry *entry, sterna_model *model);

/* What a kernel returned that failed. A check of the model returns STERNA_KERNEL_FAILED (docs/bundle.md). */
static inline sterna_status kernel_failed(sterna_model *model, const node *n, int32_t status) {
  return fail(&model->error, STERNA_KERNEL_FAILED, "node %u (\"%s\"): kernel \"%s\" returned %ld%s", (unsigned)(n - model->nodes),
              n->name, model->kernel_names[n->kernel], (long)status,
              status == STERNA_KERNEL_FAILED ? ": the model does not allow the values of an input" : "");
}

/* ---- Nodes that run beside the CPU: devices/nodes.c, which is in the libraries of devices, so that programs without a
 * device have nothing of it. It shares the records of this file, and comes with every table (`sterna_device_api.support`). */

struct device_support {
  size_t model_bytes; /* sizeof(sterna_model): both are of one version */
  /* Reads the devices and what their kernels are launched with, and opens them. STERNA_WRONG_MACHINE for a device that
   * nobody drives. Sets n_own_kernels; arena_bytes grows to that of the place where it is largest. `directory`: of their
   * files; NULL: the caller gave them. */
  sterna_status (*open)(const char *directory, const graph *graph, sterna_model *model);
  /* Reads a node, if it is one of a device or copies: its place is not 0 then. */
  sterna_status (*read)(const char *text, size_t at, sterna_model *model, node *n);
  /* Once all else is read: where values and states are. */
  sterna_status (*finish)(const graph *graph, sterna_model *model);
  /* Runs such a node and calls on_node. */
  sterna_status (*run)(sterna_model *model, uint32_t index);
  /* Waits for all devices at the end of a run that has come so far; what that is then. */
  sterna_status (*wait)(sterna_model *model, sterna_status status);
  /* Copies the buffer of a value that is on a device to its place in the arena here. */
  sterna_status (*fetch)(sterna_model *model, const value *v);
  /* Writes the first contents of a state. */
  sterna_status (*reset)(sterna_model *model, const state *s);
  void (*close)(sterna_model *model);
};

#endif
