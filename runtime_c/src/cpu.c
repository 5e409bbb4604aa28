/* Which CPU features this machine has, by asking the processor and the operating system, never by its model's name. */
#define _DEFAULT_SOURCE /* syscall() */
#include "internal.h"

#include <string.h>

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#define IS_X86 1
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))
#include <sys/auxv.h>
#elif defined(__APPLE__) && defined(__aarch64__)
#include <sys/sysctl.h>
#elif defined(_WIN32) && (defined(__aarch64__) || defined(_M_ARM64))
#include <windows.h>
#endif

#ifdef IS_X86

enum { LEAF_1, LEAF_7_0, LEAF_7_1, LEAF_EXTENDED, N_LEAVES };
enum { EAX, EBX, ECX, EDX };

/* Register state that the operating system must save, and its bits of XCR0: none, SSE and AVX; also the masks and upper
 * halves of AVX-512; the tiles of AMX. */
enum { OS_NONE, OS_AVX, OS_AVX512, OS_AMX };
static const uint32_t state_bits[] = {0, 0x6, 0xe6, 0x60000};

/* X(name, leaf, register, bit, state of the system). */
#define FEATURES(X) \
  X("cx8", LEAF_1, EDX, 8, OS_NONE) \
  X("cmov", LEAF_1, EDX, 15, OS_NONE) \
  X("mmx", LEAF_1, EDX, 23, OS_NONE) \
  X("fxsr", LEAF_1, EDX, 24, OS_NONE) \
  X("sse", LEAF_1, EDX, 25, OS_NONE) \
  X("sse2", LEAF_1, EDX, 26, OS_NONE) \
  X("sse3", LEAF_1, ECX, 0, OS_NONE) \
  X("pclmul", LEAF_1, ECX, 1, OS_NONE) \
  X("ssse3", LEAF_1, ECX, 9, OS_NONE) \
  X("fma", LEAF_1, ECX, 12, OS_AVX) \
  X("cx16", LEAF_1, ECX, 13, OS_NONE) \
  X("sse4.1", LEAF_1, ECX, 19, OS_NONE) \
  X("sse4.2", LEAF_1, ECX, 20, OS_NONE) \
  X("movbe", LEAF_1, ECX, 22, OS_NONE) \
  X("popcnt", LEAF_1, ECX, 23, OS_NONE) \
  X("aes", LEAF_1, ECX, 25, OS_NONE) \
  X("xsave", LEAF_1, ECX, 26, OS_NONE) \
  X("avx", LEAF_1, ECX, 28, OS_AVX) \
  X("f16c", LEAF_1, ECX, 29, OS_AVX) \
  X("bmi", LEAF_7_0, EBX, 3, OS_NONE) \
  X("avx2", LEAF_7_0, EBX, 5, OS_AVX) \
  X("bmi2", LEAF_7_0, EBX, 8, OS_NONE) \
  X("avx512f", LEAF_7_0, EBX, 16, OS_AVX512) \
  X("avx512dq", LEAF_7_0, EBX, 17, OS_AVX512) \
  X("adx", LEAF_7_0, EBX, 19, OS_NONE) \
  X("avx512ifma", LEAF_7_0, EBX, 21, OS_AVX512) \
  X("avx512cd", LEAF_7_0, EBX, 28, OS_AVX512) \
  X("sha", LEAF_7_0, EBX, 29, OS_NONE) \
  X("avx512bw", LEAF_7_0, EBX, 30, OS_AVX512) \
  X("avx512vl", LEAF_7_0, EBX, 31, OS_AVX512) \
  X("avx512vbmi", LEAF_7_0, ECX, 1, OS_AVX512) \
  X("avx512vbmi2", LEAF_7_0, ECX, 6, OS_AVX512) \
  X("gfni", LEAF_7_0, ECX, 8, OS_NONE) \
  X("vaes", LEAF_7_0, ECX, 9, OS_AVX) \
  X("vpclmulqdq", LEAF_7_0, ECX, 10, OS_AVX) \
  X("avx512vnni", LEAF_7_0, ECX, 11, OS_AVX512) \
  X("avx512bitalg", LEAF_7_0, ECX, 12, OS_AVX512) \
  X("avx512vpopcntdq", LEAF_7_0, ECX, 14, OS_AVX512) \
  X("avx512vp2intersect", LEAF_7_0, EDX, 8, OS_AVX512) \
  X("amx-bf16", LEAF_7_0, EDX, 22, OS_AMX) \
  X("avx512fp16", LEAF_7_0, EDX, 23, OS_AVX512) \
  X("amx-tile", LEAF_7_0, EDX, 24, OS_AMX) \
  X("amx-int8", LEAF_7_0, EDX, 25, OS_AMX) \
  X("avxvnni", LEAF_7_1, EAX, 4, OS_AVX) \
  X("avx512bf16", LEAF_7_1, EAX, 5, OS_AVX512) \
  X("amx-fp16", LEAF_7_1, EAX, 21, OS_AMX) \
  X("avxifma", LEAF_7_1, EAX, 23, OS_AVX) \
  X("avxvnniint8", LEAF_7_1, EDX, 4, OS_AVX) \
  X("avxneconvert", LEAF_7_1, EDX, 5, OS_AVX) \
  X("avxvnniint16", LEAF_7_1, EDX, 10, OS_AVX) \
  X("sahf", LEAF_EXTENDED, ECX, 0, OS_NONE) \
  X("lzcnt", LEAF_EXTENDED, ECX, 5, OS_NONE)

typedef struct feature {
  uint8_t leaf, reg, bit, os;
} feature;

/* The names are one string: a table of them is several times as large. */
#define NAME(name, leaf, reg, bit, os) name "\0"
#define ROW(name, leaf, reg, bit, os) {leaf, reg, bit, os},
static const char names[] = FEATURES(NAME);
static const feature features[] = {FEATURES(ROW)};
#undef NAME
#undef ROW

static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
#if defined(_MSC_VER) && !defined(__clang__)
  int raw[4];
  __cpuidex(raw, (int)leaf, (int)subleaf);
  for (int i = 0; i < 4; i++) out[i] = (uint32_t)raw[i];
#else
  __cpuid_count(leaf, subleaf, out[EAX], out[EBX], out[ECX], out[EDX]);
#endif
}

static uint64_t saved_state(void) {
#if defined(_MSC_VER) && !defined(__clang__)
  return _xgetbv(0);
#else
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
#endif
}

/* Linux gives a process the tiles of AMX only when it asks; the permission then holds for all of its threads. */
static int may_use_amx(void) {
#if defined(__linux__) && defined(__x86_64__)
  const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return 0;
#endif
}

/* What the processor has said of itself. To ask costs nothing on a machine and, within a virtual one, where every question
 * goes to its host, some 4 microseconds: so each is asked once for a list of features, and only when it is needed. */
typedef struct processor {
  uint32_t leaves[N_LEAVES][4];
  bool asked[N_LEAVES];
} processor;

static uint32_t ask(processor *p, unsigned leaf, unsigned reg) {
  static const uint32_t numbers[] = {1, 7, 7, 0x80000001u};
  uint32_t limit[4] = {1, 0, 0, 0}, *found = p->leaves[leaf], number = numbers[leaf];
  if (!p->asked[leaf]) {
    p->asked[leaf] = true;
    if (leaf != LEAF_1) cpuid(number & 0x80000000u, 0, limit); /* the first processor that can be asked has leaf 1 */
    if (leaf == LEAF_7_1 && ask(p, LEAF_7_0, EAX) == 0) return 0;
    if (limit[EAX] >= number) cpuid(number, leaf == LEAF_7_1, found);
  }
  return found[reg];
}

static int cpu_has(processor *p, const char *name, size_t length) {
  const char *known = names;
  for (const feature *f = features; f < features + sizeof features / sizeof *features; f++, known += strlen(known) + 1) {
    if (strlen(known) != length || memcmp(known, name, length) != 0) continue;
    if ((ask(p, f->leaf, f->reg) >> f->bit & 1u) == 0) return 0;
    if (f->os == OS_NONE) return 1;
    const uint32_t osxsave = 1u << 27, wanted = state_bits[f->os];
    if ((ask(p, LEAF_1, ECX) & osxsave) == 0 || (saved_state() & wanted) != wanted) return 0;
    return f->os == OS_AMX ? may_use_amx() : 1;
  }
  return -1;
}

#else /* ARM and RISC-V */

/* A bit of Linux's HWCAP (0) or HWCAP2 (1), macOS's name in sysctl, Windows's number; a negative word: every machine that
 * runs this build has it. */
typedef struct feature {
  char name[12];
  int word, bit;
  char apple[32];
  int windows;
} feature;

static const feature features[] = {
#if defined(__aarch64__) || defined(_M_ARM64)
    {"neon", -1, 0, "", 0},
    {"fp-armv8", -1, 0, "", 0},
    {"aes", 0, 3, "hw.optional.arm.FEAT_AES", 30},
    {"sha2", 0, 6, "hw.optional.arm.FEAT_SHA256", 30},
    {"crc", 0, 7, "hw.optional.armv8_crc32", 31},
    {"lse", 0, 8, "hw.optional.arm.FEAT_LSE", 34},
    {"fullfp16", 0, 10, "hw.optional.arm.FEAT_FP16", 67},
    {"rdm", 0, 12, "hw.optional.arm.FEAT_RDM", 0},
    {"dotprod", 0, 20, "hw.optional.arm.FEAT_DotProd", 43},
    {"sve", 0, 22, "", 46},
    {"fp16fml", 0, 23, "hw.optional.arm.FEAT_FHM", 0},
    {"sve2", 1, 1, "", 47},
    {"i8mm", 1, 13, "hw.optional.arm.FEAT_I8MM", 66},
    {"bf16", 1, 14, "hw.optional.arm.FEAT_BF16", 68},
    {"sme", 1, 23, "hw.optional.arm.FEAT_SME", 70},
#elif defined(__arm__)
    {"vfp2", 0, 6, "", 0},
    {"neon", 0, 12, "", 0},
    {"vfp3", 0, 13, "", 0},
    {"vfp4", 0, 16, "", 0},
    {"idiv", 0, 17, "", 0},
    {"dotprod", 0, 24, "", 0},
    {"fp-armv8", 0, 16, "", 0}, /* no bit of its own: processors with it have vfp4 */
#elif defined(__riscv)
    {"m", 0, 'm' - 'a', "", 0},
    {"a", 0, 'a' - 'a', "", 0},
    {"f", 0, 'f' - 'a', "", 0},
    {"d", 0, 'd' - 'a', "", 0},
    {"c", 0, 'c' - 'a', "", 0},
    {"v", 0, 'v' - 'a', "", 0},
#endif
    {"", -1, 0, "", 0}, /* C has no empty arrays; no feature has this name */
};

static int present(const feature *f) {
  if (f->word < 0) return 1;
#if defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))
  const unsigned long at_hwcap = 16, at_hwcap2 = 26;
  return (int)(getauxval(f->word == 0 ? at_hwcap : at_hwcap2) >> f->bit & 1u);
#elif defined(__APPLE__) && defined(__aarch64__)
  int found = 0;
  size_t bytes = sizeof found;
  return f->apple[0] != 0 && sysctlbyname(f->apple, &found, &bytes, NULL, 0) == 0 && found != 0;
#elif defined(_WIN32) && (defined(__aarch64__) || defined(_M_ARM64))
  return f->windows != 0 && IsProcessorFeaturePresent((DWORD)f->windows) != 0;
#else
  return 0;
#endif
}

typedef struct processor {
  int unused; /* features are asked for one by one */
} processor;

static int cpu_has(processor *p, const char *name, size_t length) {
  (void)p;
  for (const feature *f = features; f->name[0] != 0; f++)
    if (strlen(f->name) == length && memcmp(f->name, name, length) == 0) return present(f);
  return -1;
}

#endif

int sterna_cpu_has(const char *name) {
  processor p;
  memset(&p, 0, sizeof p);
  return name != NULL ? cpu_has(&p, name, strlen(name)) : -1;
}

sterna_status cpu_check(const char *wanted, const char *where, sterna_error *error) {
  processor p;
  memset(&p, 0, sizeof p);
  for (const char *name = wanted; *name != 0;) {
    size_t length = 0;
    while (name[length] != 0 && name[length] != ' ') length++;
    int found = length > 0 ? cpu_has(&p, name, length) : 1;
    if (found <= 0)
      return fail(error, STERNA_WRONG_MACHINE, "%s: needs the CPU feature \"%.*s\", which this %s", where,
                  length < 64 ? (int)length : 64, name, found < 0 ? "runtime does not know" : "machine does not have");
    name += length;
    if (*name == ' ') name++;
  }
  return STERNA_OK;
}

/* This program's family of processors: its name, and its letter among those below. */
#if defined(__x86_64__) || defined(_M_X64)
#define FAMILY "x86_64"
#define LETTER 'X'
#elif defined(__i386__) || defined(_M_IX86)
#define FAMILY "x86"
#define LETTER 'I'
#elif defined(__aarch64__) || defined(_M_ARM64)
#define FAMILY "aarch64"
#define LETTER 'A'
#elif defined(__arm__)
#define FAMILY "arm"
#define LETTER 'T'
#elif defined(__riscv)
#define FAMILY "riscv"
#define LETTER 'R'
#elif defined(__wasm__)
#define FAMILY "wasm"
#define LETTER 'W'
#else
#define FAMILY ""
#define LETTER 0 /* is none of them: the library's own format decides */
#endif

sterna_status cpu_check_triple(const char *triple, sterna_error *error) {
  /* What triples begin with, after the letter of the family. The first that fits decides. */
  static const char families[] = "Xx86_64\0" "Xamd64\0" "Ix86\0" "Ii386\0" "Ii686\0" "Aaarch64\0" "Aarm64\0" "Tarm\0" "Tthumb\0"
                                 "Rriscv\0" "Wwasm\0";
  size_t given = strlen(triple), bytes;
  for (const char *family = families; *family != 0 && LETTER != 0; family += bytes + 2) {
    bytes = strlen(family + 1);
    if (bytes > given || memcmp(triple, family + 1, bytes) != 0) continue;
    if (*family == LETTER) return STERNA_OK;
    return fail(error, STERNA_WRONG_MACHINE, "graph.json: compiled for %.64s; this runtime runs on " FAMILY, triple);
  }
  return STERNA_OK; /* a family that this list does not know: the library's own format decides */
}
