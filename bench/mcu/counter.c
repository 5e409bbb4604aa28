/* counter.c - QEMU TCG plugin (API v1, QEMU >= 6): counts guest
 * instructions executed between two guest addresses, split by class and by
 * function address range.  Debian ships QEMU with plugins enabled but without
 * qemu-plugin.h, so the few prototypes used are declared here.
 *
 * Build:  gcc -O2 -shared -fPIC -o libcounter.so counter.c
 * Use:    qemu-system-arm ... -plugin file=libcounter.so,begin=0xADDR,end=0xADDR[,out=FILE][,hist=1]
 * `begin`/`end` are the addresses of two never-inlined marker functions
 * (bench_begin/bench_end in bench_main.c).  Counting runs from the first
 * instruction of begin to the first of end; every begin..end pair is one
 * region and is reported on its own line:  REGION i insns= vec= mem= branch=
 *   vec    = VFP/MVE instructions (coprocessor encoding space)
 * hist=1 adds a per-mnemonic histogram of the LAST region (exact).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb; struct qemu_plugin_insn;
typedef struct { const char *target_name; struct { int min, cur; } version; int system_emulation;
  union { struct { int smp_vcpus, max_vcpus; } system; }; } qemu_info_t;
typedef void (*tb_cb)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*udata_cb)(unsigned int, void *);
typedef void (*exit_cb)(qemu_plugin_id_t, void *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_cb);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, udata_cb, int flags, void *);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int op, void *ptr, uint64_t imm);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, exit_cb, void *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t a_begin, a_end; static int want_hist; static FILE *out;
typedef struct { char key[32]; int vec, mem, br; uint64_t n, n0; } cls;
static cls *tab[4096]; static int ntab;
static int region, in_region;

static cls *intern(const char *dis) {
  char m[32]; int i = 0; while (dis[i] && dis[i] != ' ' && dis[i] != '\t' && i < 28) { m[i] = dis[i]; i++; } m[i] = 0;
  const char *key = m;
  for (int k = 0; k < ntab; k++) if (!strcmp(tab[k]->key, key)) return tab[k];
  cls *c = calloc(1, sizeof *c); strcpy(c->key, key);
  c->vec = m[0] == 'v';
  c->mem = !strncmp(m, "ldr", 3) || !strncmp(m, "str", 3) || !strncmp(m, "ldm", 3) || !strncmp(m, "stm", 3) || !strncmp(m, "push", 4) || !strncmp(m, "pop", 3) || !strncmp(m, "vldr", 4) || !strncmp(m, "vstr", 4) || !strncmp(m, "vld", 3) || !strncmp(m, "vst", 3);
  c->br = m[0] == 'b' && strncmp(m, "bic", 3) && strncmp(m, "bf", 2) ? 1 : (!strncmp(m, "cbz", 3) || !strncmp(m, "cbnz", 4) || !strcmp(m, "le") || !strcmp(m, "letp"));
  if (ntab < 4096) tab[ntab++] = c; return c;
}
static void snap(void) { for (int k = 0; k < ntab; k++) tab[k]->n0 = tab[k]->n; }
static void report(void) {
  uint64_t t = 0, v = 0, m = 0, b = 0;
  for (int k = 0; k < ntab; k++) { uint64_t d = tab[k]->n - tab[k]->n0; t += d; if (tab[k]->vec) v += d; if (tab[k]->mem) m += d; if (tab[k]->br) b += d; }
  fprintf(out, "REGION %d insns=%llu vec=%llu mem=%llu branch=%llu\n", region, (unsigned long long)t, (unsigned long long)v, (unsigned long long)m, (unsigned long long)b);
  if (want_hist) { for (int k = 0; k < ntab; k++) { uint64_t d = tab[k]->n - tab[k]->n0; if (d) fprintf(out, "HIST %d %s %llu\n", region, tab[k]->key, (unsigned long long)d); } }
  fflush(out);
}
static void mark(unsigned int cpu, void *u) {
  if (u == (void *)1) { snap(); in_region = 1; } else if (in_region) { report(); in_region = 0; region++; }
}
static void trans(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  size_t n = qemu_plugin_tb_n_insns(tb);
  for (size_t i = 0; i < n; i++) {
    struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, i);
    uint64_t va = qemu_plugin_insn_vaddr(in);
    if (va == a_begin) qemu_plugin_register_vcpu_insn_exec_cb(in, mark, 0, (void *)1);
    if (va == a_end) qemu_plugin_register_vcpu_insn_exec_cb(in, mark, 0, (void *)2);
    /* Debian's capstone does not know MVE, so vector/FP instructions are told
     * by encoding: a 32-bit Thumb instruction in coprocessor space
     * (first halfword 111x11xx) is VFP on M4, VFP or MVE on M55. */
    const uint8_t *raw = qemu_plugin_insn_data(in); unsigned hw = raw[0] | raw[1] << 8;
    char *d = qemu_plugin_insn_disas(in); cls *c;
    if (qemu_plugin_insn_size(in) == 4 && (hw & 0xEC00) == 0xEC00) {
      int ldst = (hw & 0xEE00) == 0xEC00; /* 1110110x: vector/FP load-store space */
      c = intern(ldst ? "COPROC.ldst" : "COPROC.op"); c->vec = 1; c->mem = ldst;
    } else c = intern(d ? d : "?");
    free(d);
    qemu_plugin_register_vcpu_insn_exec_inline(in, 0, &c->n, 1);
  }
}
static void at_exit(qemu_plugin_id_t id, void *p) {
  uint64_t t = 0; for (int k = 0; k < ntab; k++) t += tab[k]->n;
  fprintf(out, "TOTAL insns=%llu regions=%d\n", (unsigned long long)t, region); fflush(out);
}
__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  out = stderr;
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "begin=", 6)) a_begin = strtoull(argv[i] + 6, 0, 0) & ~1ull;
    else if (!strncmp(argv[i], "end=", 4)) a_end = strtoull(argv[i] + 4, 0, 0) & ~1ull;
    else if (!strncmp(argv[i], "out=", 4)) out = fopen(argv[i] + 4, "w");
    else if (!strncmp(argv[i], "hist=", 5)) want_hist = atoi(argv[i] + 5);
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, trans);
  qemu_plugin_register_atexit_cb(id, at_exit, 0);
  return 0;
}
