/* The limits of this machine: `peak THREADS` prints fused multiply-adds (GFLOP/s, fp32), dot products of bytes (GOP/s, by
 * AMX's tiles where a process may use them, 0 where the machine has no instruction for them), and for growing sizes the bytes of a piece of memory and the rate (GB/s)
 * at which it is read again and again. The best of several repeats, as others may load the machine. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AMX_INT8__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef float vector __attribute__((vector_size(WIDTH)));
enum { CHAINS = 12, LANES = WIDTH / 4, REPEATS = 15 };

/* Of this thread: what it takes from a machine that others load, too. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile float sink;

static double multiply_adds(void *unused) {
  (void)unused;
  vector sums[CHAINS] = {0}, a = (vector){0} + 0.5f, b = (vector){0} + 1e-3f;
  const long steps = 1000000;
  for (long i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++) sums[c] = sums[c] * a + b;
  }
  for (int c = 1; c < CHAINS; c++) sums[0] += sums[c];
  sink = sums[0][0];
  return 2e-9 * (double)steps * CHAINS * LANES;
}

#if defined(__AVX512VNNI__)
typedef int dots __attribute__((vector_size(64)));

static double dot_products(void *unused) {
  (void)unused;
  dots sums[CHAINS] = {0}, a = (dots){0} + 0x01020304, b = (dots){0} + 0x04030201;
  const long steps = 1000000;
  for (long i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++) __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[c]) : "v"(a), "v"(b));
  }
  for (int c = 1; c < CHAINS; c++) sums[0] += sums[c];
  sink = (float)sums[0][0];
  return 2e-9 * (double)steps * CHAINS * 64;
}
#else
static double dot_products(void *unused) { return unused == NULL ? 0 : 0; }
#endif

#if defined(__AMX_INT8__) && defined(__linux__)
static double tile_products(void *unused) {
  (void)unused;
  uint8_t configuration[64] = {1};
  for (int tile = 0; tile < 8; tile++) configuration[16 + 2 * tile] = 64, configuration[48 + tile] = 16;
  const long steps = 100000;
  _tile_loadconfig(configuration);
  _tile_zero(0), _tile_zero(1), _tile_zero(2), _tile_zero(3);
  _tile_zero(4), _tile_zero(5), _tile_zero(6), _tile_zero(7);
  for (long i = 0; i < steps; i++) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 2e-9 * (double)steps * 4 * 16 * 16 * 64;
}

/* Linux gives a process the tiles only when it asks; the permission then holds for all of its threads. */
static double (*products(void))(void *) {
  const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0 ? tile_products : dot_products;
}
#else
static double (*products(void))(void *) { return dot_products; }
#endif

static long read_bytes; /* of a piece that is read again and again until 64 MB are read */

static double reading(void *memory) {
  const vector *from = memory;
  const long count = read_bytes / WIDTH, times = (64L << 20) / read_bytes;
  vector sums[8] = {0};
  for (long t = 0; t < times; t++) {
    for (long i = 0; i < count; i += 8) {
#pragma GCC unroll 8
      for (int c = 0; c < 8; c++) sums[c] += from[i + c];
    }
  }
  for (int c = 1; c < 8; c++) sums[0] += sums[c];
  sink = sums[0][0];
  return 64.0 * (1 << 20) * 1e-9;
}

typedef struct job {
  double (*run)(void *);
  void *memory;
  double rate;
} job;

static void *start(void *given) {
  job *j = given;
  const double begun = now(), done = j->run(j->memory);
  j->rate = done / (now() - begun);
  return NULL;
}

static double best(double (*run)(void *), int threads, void **memory) {
  double most = 0;
  for (int r = 0; r < REPEATS; r++) {
    pthread_t ids[64];
    job jobs[64];
    double rate = 0;
    for (int t = 0; t < threads; t++) {
      jobs[t] = (job){run, memory[t], 0};
      if (pthread_create(&ids[t], NULL, start, &jobs[t])) exit(1);
    }
    for (int t = 0; t < threads; t++) {
      pthread_join(ids[t], NULL);
      rate += jobs[t].rate;
    }
    if (rate > most) most = rate;
  }
  return most;
}

int main(int count, char **words) {
  int threads = count > 1 ? atoi(words[1]) : 1;
  if (threads < 1 || threads > 64) return 2;
  void *memory[64];
  for (int t = 0; t < threads; t++) {
    if (posix_memalign(&memory[t], 64, 64 << 20)) return 1;
    for (long i = 0; i < (64L << 20) / 4; i++) ((float *)memory[t])[i] = 1.0f;
  }
  printf("%.1f %.1f", best(multiply_adds, threads, memory), best(products(), threads, memory));
  for (read_bytes = 128L << 10; read_bytes <= 64L << 20; read_bytes *= 2)
    printf(" %ld %.1f", read_bytes, best(reading, threads, memory));
  printf("\n");
  return 0;
}
