/* A plugin of QEMU (TCG, API v1: QEMU 6 to 8) that counts what a program executes under qemu-aarch64 between markers. A marker
 * is the system call getppid, which programs make before and after what is to be counted; each one prints what was executed
 * since the one before:   MARK i total= vec= vmac= dot= mmla= wide= sve= fp= mem= vmem= branch= l1= l2= back=
 *   total   all instructions, of all threads
 *   vec     Advanced SIMD data processing (not loads, stores and scalar floating point)
 *   vmac    of vec: fmla, fmls, mla, smlal, umlal, sdot, udot, usdot, sudot, smmla, ummla, usmmla
 *   dot     of vmac: sdot, udot, usdot, sudot             mmla  of vmac: smmla, ummla, usmmla
 *   wide    of vmac: smull, smlal, umull, umlal           sve   SVE and SME
 *   fp      scalar floating point                         mem   loads and stores
 *   vmem    of mem: of SIMD and floating point registers  branch  branches and system instructions
 *   l1, l2  lines that were not in the first and second cache; back: changed lines that left the second
 * Options: out=FILE; marker=N, the number of getppid (173; 64 for 32-bit ARM, where nothing is sorted by kind); hist=1: lines
 *   HIST i MNEMONIC COUNT (QEMU must have been built with capstone); blocks=1: lines   BLOCK i COUNT WORD WORD ...   of every
 * piece of straight code; l1=BYTES:WAYS:LINE and l2=BYTES:WAYS: caches of that size, least recently used lines leave first.
 * Counts are added once per piece of code, so they are exact unless it is left by a signal. They are not atomic: one thread. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of qemu-plugin.h, which Debian does not ship. */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
  const char *target_name;
  struct { int min, cur; } version;
  bool system_emulation;
  union { struct { int smp_vcpus, max_vcpus; } system; };
} qemu_info_t;
typedef void (*tb_callback)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*exit_callback)(qemu_plugin_id_t, void *);
typedef void (*memory_callback)(unsigned, uint32_t, uint64_t, void *);
typedef void (*syscall_callback)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_callback);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation, void *counter, uint64_t add);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, memory_callback, int flags, int kind, void *);
extern bool qemu_plugin_mem_is_store(uint32_t info);
extern unsigned qemu_plugin_mem_size_shift(uint32_t info);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, syscall_callback);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, exit_callback, void *);
enum { ADD = 0, NO_REGISTERS = 0, READ_AND_WRITE = 3 };

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { TOTAL, VEC, VMAC, DOT, MMLA, WIDE, SVE, FP, MEM, VMEM, BRANCH, L1, L2, BACK, KINDS };
static const char *const kind_names[KINDS] = {"total", "vec", "vmac", "dot", "mmla", "wide", "sve",
                                              "fp", "mem", "vmem", "branch", "l1", "l2", "back"};
static uint64_t now[KINDS], then[KINDS];
static int marks, marker = 173;
static FILE *out;

/* -- Kinds of instructions, by how AArch64 encodes them. */
static bool is_dot(uint32_t i) {
  return (i & 0x9FE0FC00) == 0x0E809400 || (i & 0x9FC0F400) == 0x0F80E000 || /* sdot, udot: vector, by element */
         (i & 0xBFE0FC00) == 0x0E809C00 || (i & 0xBF40F400) == 0x0F00F000;   /* usdot; usdot, sudot by element */
}

static bool is_tile(uint32_t i) {
  return (i & 0xDFE0FC00) == 0x4E80A400 || (i & 0xFFE0FC00) == 0x4E80AC00; /* smmla, ummla; usmmla */
}

static bool is_wide(uint32_t i) {
  return (i & 0x9F20DC00) == 0x0E208000 || (i & 0x9F00B400) == 0x0F002000 || /* [su]mlal, [su]mlsl; by element */
         (i & 0x9F20FC00) == 0x0E20C000 || (i & 0x9F00F400) == 0x0F00A000;   /* [su]mull; by element */
}

static bool is_multiply_add(uint32_t i) {
  return (i & 0xBF20FC00) == 0x0E20CC00 || (i & 0xBF80B400) == 0x0F801000 || /* fmla, fmls; by element */
         (i & 0xBF60FC00) == 0x0E400C00 || (i & 0xBFC0B400) == 0x0F001000 || /* of halves; by element */
         (i & 0x9F20FC00) == 0x0E209400 || (i & 0xBF00B400) == 0x2F000000;   /* mla, mls; by element */
}

static void classify(uint32_t i, uint64_t *n) {
  unsigned group = i >> 25 & 15;
  if ((group & 5) == 4) { /* x1x0: loads and stores */
    n[MEM]++;
    n[VMEM] += i >> 26 & 1;
  } else if ((group & 7) == 7 && (i >> 31 || (i >> 28 & 1))) { /* x111: SIMD and floating point, scalar */
    n[FP]++;
  } else if ((group & 7) == 7) {
    bool dot = is_dot(i), tile = is_tile(i), wide = is_wide(i);
    n[VEC]++;
    n[DOT] += dot;
    n[MMLA] += tile;
    n[WIDE] += wide;
    n[VMAC] += dot || tile || wide || is_multiply_add(i);
  } else if (group == 2 || (group == 0 && i >> 31)) {
    n[SVE]++;
  } else if ((group & 14) == 10) {
    n[BRANCH]++;
  }
}

/* -- Counts by mnemonic, with the arrangement of the first vector (fmla.4s, [] by element) or the kind of register (ldr.q). */
enum { MNEMONICS = 2048 };
static bool by_mnemonic;
static struct { char name[24]; uint64_t now, then; } mnemonics[MNEMONICS];
static int n_mnemonics;

static int mnemonic(const struct qemu_plugin_insn *instruction) {
  char *text = qemu_plugin_insn_disas(instruction), name[24] = "?";
  if (text != NULL) {
    size_t n = strcspn(text, " \t"), dot = strcspn(text + n, ".");
    bool memory = strncmp(text, "ld", 2) == 0 || strncmp(text, "st", 2) == 0;
    if (n > 14) n = 14;
    memcpy(name, text, n);
    name[n] = 0;
    if (text[n] != 0 && text[n + dot] == '.') {
      size_t k = 1;
      while (k < 5 && text[n + dot + k] != 0 && strchr("0123456789bhsdq", text[n + dot + k]) != NULL) k++;
      strncat(name, text + n + dot, k);
      if (strchr(text, '[') != NULL && !memory) strcat(name, "[]");
    } else if (memory) {
      const char *at = text + strcspn(text, " \t");
      at += strspn(at, " \t");
      strcat(name, ".");
      strncat(name, at, 1);
    }
    free(text);
  }
  for (int k = 0; k < n_mnemonics; k++)
    if (strcmp(mnemonics[k].name, name) == 0) return k;
  if (n_mnemonics == MNEMONICS - 1) return MNEMONICS - 1;
  strcpy(mnemonics[n_mnemonics].name, name);
  return n_mnemonics++;
}

/* -- Pieces of straight code, found again by their words. */
enum { CHAINS = 1 << 14 };
typedef struct block {
  struct block *next;
  uint64_t now, then;
  size_t n;
  uint32_t words[];
} block;
static bool by_block;
static block *chains[CHAINS];

static block *block_of(const uint32_t *words, size_t n) {
  uint64_t hash = 1469598103934665603u;
  for (size_t k = 0; k < n; k++) hash = (hash ^ words[k]) * 1099511628211u;
  block **chain = &chains[(hash ^ hash >> 32) % CHAINS];
  for (block *b = *chain; b != NULL; b = b->next)
    if (b->n == n && memcmp(b->words, words, n * sizeof *words) == 0) return b;
  block *made = calloc(1, sizeof *made + n * sizeof *words);
  if (made == NULL) abort();
  made->next = *chain;
  made->n = n;
  memcpy(made->words, words, n * sizeof *words);
  return *chain = made;
}

/* -- Caches: which lines they hold, and when each was used last. */
typedef struct {
  uint64_t sets, ways, line;
  struct { uint64_t tag, used; bool changed; } *lines;
} cache;
static cache first, second;
static uint64_t clock_;

static void make_cache(cache *c, const char *text, uint64_t line) {
  char *end;
  uint64_t bytes = strtoull(text, &end, 10);
  c->ways = *end == ':' ? strtoull(end + 1, &end, 10) : 1;
  c->line = *end == ':' ? strtoull(end + 1, &end, 10) : line;
  c->sets = bytes / (c->ways * c->line);
  c->lines = c->sets > 0 ? calloc(c->sets * c->ways, sizeof *c->lines) : NULL;
}

/* Uses a line, and tells whether it was there; `left`: the line that made room, if it was changed, else 0. */
static bool use(cache *c, uint64_t tag, bool store, uint64_t *left) {
  uint64_t from = tag % c->sets * c->ways, oldest = from;
  *left = 0;
  for (uint64_t k = from; k < from + c->ways; k++) {
    if (c->lines[k].tag == tag) {
      c->lines[k].used = ++clock_;
      c->lines[k].changed |= store;
      return true;
    }
    if (c->lines[k].used < c->lines[oldest].used) oldest = k;
  }
  if (c->lines[oldest].changed) *left = c->lines[oldest].tag;
  c->lines[oldest].tag = tag;
  c->lines[oldest].used = ++clock_;
  c->lines[oldest].changed = store;
  return false;
}

static void use_second(uint64_t tag, bool store) {
  uint64_t left;
  if (second.sets == 0) return;
  now[L2] += !use(&second, tag, store, &left);
  now[BACK] += left != 0;
}

static void on_memory(unsigned cpu, uint32_t info, uint64_t address, void *user) {
  bool store = qemu_plugin_mem_is_store(info);
  uint64_t last = (address + (1u << qemu_plugin_mem_size_shift(info)) - 1) / first.line, left;
  (void)cpu, (void)user;
  for (uint64_t tag = address / first.line; tag <= last; tag++) {
    if (use(&first, tag, store, &left)) continue;
    now[L1]++;
    use_second(tag, false);
    if (left != 0) use_second(left, true);
  }
}

/* -- What QEMU calls. */
static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  uint64_t n[KINDS] = {0};
  uint32_t words[1024];
  size_t count = qemu_plugin_tb_n_insns(tb), whole = 0;
  (void)id;
  n[TOTAL] = count;
  for (size_t k = 0; k < count; k++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, k);
    if (qemu_plugin_insn_size(instruction) == 4 && whole < sizeof words / sizeof *words) {
      memcpy(&words[whole], qemu_plugin_insn_data(instruction), 4);
      if (marker == 173) classify(words[whole], n);
      whole++;
    }
    if (by_mnemonic) qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &mnemonics[mnemonic(instruction)].now, 1);
    if (first.sets > 0) qemu_plugin_register_vcpu_mem_cb(instruction, on_memory, NO_REGISTERS, READ_AND_WRITE, NULL);
  }
  for (int k = 0; k < KINDS; k++)
    if (n[k] > 0) qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &now[k], n[k]);
  if (by_block) qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &block_of(words, whole)->now, 1);
}

static void report_blocks(void) {
  for (size_t k = 0; k < CHAINS; k++)
    for (block *b = chains[k]; b != NULL; b = b->next) {
      if (b->now != b->then) {
        fprintf(out, "BLOCK %d %" PRIu64, marks, b->now - b->then);
        for (size_t i = 0; i < b->n; i++) fprintf(out, " %08" PRIx32, b->words[i]);
        fputc('\n', out);
      }
      b->then = b->now;
    }
}

static void on_syscall(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                       uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != marker) return;
  fprintf(out, "MARK %d", marks);
  for (int k = 0; k < KINDS; k++) fprintf(out, " %s=%" PRIu64, kind_names[k], now[k] - then[k]);
  fputc('\n', out);
  memcpy(then, now, sizeof then);
  for (int k = 0; k < n_mnemonics; k++) {
    if (mnemonics[k].now != mnemonics[k].then)
      fprintf(out, "HIST %d %s %" PRIu64 "\n", marks, mnemonics[k].name, mnemonics[k].now - mnemonics[k].then);
    mnemonics[k].then = mnemonics[k].now;
  }
  if (by_block) report_blocks();
  marks++;
}

static void at_exit(qemu_plugin_id_t id, void *user) {
  (void)id, (void)user;
  fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  (void)info;
  out = stderr;
  for (int k = 0; k < argc; k++) {
    const char *value = strchr(argv[k], '=');
    if (value == NULL) return 1;
    value++;
    if (strncmp(argv[k], "out=", 4) == 0) out = fopen(value, "w");
    if (strncmp(argv[k], "hist=", 5) == 0) by_mnemonic = atoi(value) != 0;
    if (strncmp(argv[k], "blocks=", 7) == 0) by_block = atoi(value) != 0;
    if (strncmp(argv[k], "marker=", 7) == 0) marker = atoi(value);
    if (strncmp(argv[k], "l1=", 3) == 0) make_cache(&first, value, 64);
    if (strncmp(argv[k], "l2=", 3) == 0) make_cache(&second, value, 64);
  }
  if (out == NULL) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
