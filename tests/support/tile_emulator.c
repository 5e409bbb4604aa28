/* The tile instructions of AMX on a processor without them: an invalid instruction of a thread becomes what the manual says
 * it does (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILERELEASE, TILEZERO,
 * TILELOADD, TILELOADDT1, TILESTORED, TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD). What the manual lets fail ends the process. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };
enum { NO_PREFIX, PREFIX_66, PREFIX_F3, PREFIX_F2 };

typedef struct tile_state {
  uint8_t palette, rows[TILES];
  uint16_t row_bytes[TILES];
  uint8_t data[TILES][ROWS][ROW_BYTES];
} tile_state;

static __thread tile_state state;
static struct sigaction before;
/* Instructions since the last reset, of all threads: configurations, zeroed tiles, loads, stores, products. */
uint64_t tile_counts[5];
/* What is added to the first accumulator of each row of a product: of a processor that is broken. */
int tile_error;
enum { CONFIGURED, ZEROED, LOADED, STORED, MULTIPLIED };

static void count(int what) { __atomic_add_fetch(&tile_counts[what], 1, __ATOMIC_RELAXED); }

static void fail(const char *why) {
  static const char prefix[] = "tile emulator: ";
  (void)!write(2, prefix, sizeof prefix - 1);
  (void)!write(2, why, strlen(why));
  (void)!write(2, "\n", 1);
  _exit(70);
}

static void configure(const uint8_t *from) {
  tile_state next = {0};
  next.palette = from[0];
  if (next.palette > 1) fail("palette");
  for (int n = 0; n < TILES; n++) {
    memcpy(&next.row_bytes[n], from + 16 + 2 * n, 2);
    next.rows[n] = from[48 + n];
    if (next.row_bytes[n] > ROW_BYTES || next.rows[n] > ROWS) fail("a tile is too large");
    if ((next.row_bytes[n] == 0) != (next.rows[n] == 0)) fail("a tile has rows or bytes only");
  }
  for (int n = 2; n < 64; n++)
    if ((n < 16 || (n >= 32 && n < 48) || n >= 56) && from[n] != 0) fail("reserved bytes of the configuration");
  state = next;
}

static void need(int tile) {
  if (state.palette == 0 || tile >= TILES || state.rows[tile] == 0) fail("a tile that is not configured");
}

static int32_t element(uint8_t byte, int is_signed) { return is_signed ? (int32_t)(int8_t)byte : (int32_t)byte; }

static void multiply(int c, int a, int b, int a_signed, int b_signed) {
  if (c == a || c == b || a == b) fail("a tile is two operands of a product");
  need(c), need(a), need(b);
  if (state.rows[c] != state.rows[a] || state.row_bytes[c] != state.row_bytes[b] || state.row_bytes[a] != 4 * state.rows[b] ||
      state.row_bytes[c] % 4 != 0)
    fail("tiles of a product do not fit");
  for (int m = 0; m < state.rows[c]; m++) {
    uint32_t sums[ROWS] = {0};
    memcpy(sums, state.data[c][m], state.row_bytes[c]);
    for (int k = 0; k < state.rows[b]; k++)
      for (int n = 0; n < state.row_bytes[c] / 4; n++)
        for (int i = 0; i < 4; i++)
          sums[n] += (uint32_t)(element(state.data[a][m][4 * k + i], a_signed) * element(state.data[b][k][4 * n + i], b_signed));
    sums[0] += (uint32_t)tile_error;
    memcpy(state.data[c][m], sums, ROW_BYTES);
  }
}

static uint64_t reg(const ucontext_t *u, int number) {
  static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return (uint64_t)u->uc_mcontext.gregs[order[number]];
}

/* The memory operand behind a ModRM byte; `stride` is the index register's value. Returns the byte after it. */
static const uint8_t *operand(const ucontext_t *u, const uint8_t *p, int x, int b, uint64_t *address, uint64_t *stride) {
  const int mod = p[0] >> 6, rm = p[0] & 7;
  const uint8_t *end = p + 1;
  int64_t displacement = 0;
  *address = *stride = 0;
  if (rm == 4) {
    const uint8_t sib = *end++;
    const int base = sib & 7, index = (sib >> 3 & 7) | x;
    if (index != 4) *stride = reg(u, index) << (sib >> 6);
    if (base == 5 && mod == 0) displacement = *(const int32_t *)end, end += 4;
    else *address = reg(u, base | b);
  } else if (mod == 0 && rm == 5) {
    displacement = *(const int32_t *)end, end += 4;
    *address = (uint64_t)(uintptr_t)end;
  } else {
    *address = reg(u, rm | b);
  }
  if (mod == 1) displacement = *(const int8_t *)end, end += 1;
  if (mod == 2) displacement = *(const int32_t *)end, end += 4;
  *address += (uint64_t)displacement;
  return end;
}

/* One instruction at `p`; the next one's address, or NULL if it is none of ours. */
static const uint8_t *execute(const ucontext_t *u, const uint8_t *p) {
  if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || (p[2] & 0x84) != 0) return NULL; /* VEX.128.0F38.W0 */
  const int r = ~p[1] >> 4 & 8, x = ~p[1] >> 3 & 8, b = ~p[1] >> 2 & 8, vvvv = ~(p[2] >> 3) & 15, prefix = p[2] & 3;
  const int opcode = p[3], mod = p[4] >> 6, middle = (p[4] >> 3 & 7) | r, rm = (p[4] & 7) | b;
  uint64_t address, stride;
  if (opcode == 0x5e && mod == 3) {
    static const uint8_t a_signed[] = {0, 0, 1, 1}, b_signed[] = {0, 1, 0, 1}; /* by prefix: UUD, USD, SUD, SSD */
    multiply(middle, rm, vvvv, a_signed[prefix], b_signed[prefix]);
    count(MULTIPLIED);
    return p + 5;
  }
  if (opcode == 0x49 && mod == 3 && prefix == NO_PREFIX && p[4] == 0xc0) {
    memset(&state, 0, sizeof state);
    return p + 5;
  }
  if (opcode == 0x49 && mod == 3 && prefix == PREFIX_F2 && (p[4] & 7) == 0) {
    need(middle);
    memset(state.data[middle], 0, sizeof state.data[middle]);
    count(ZEROED);
    return p + 5;
  }
  if (opcode == 0x49 && mod != 3 && prefix == NO_PREFIX && middle == 0) {
    const uint8_t *end = operand(u, p + 4, x, b, &address, &stride);
    configure((const uint8_t *)(uintptr_t)(address + stride));
    count(CONFIGURED);
    return end;
  }
  if (opcode == 0x4b && mod != 3 && (p[4] & 7) == 4 && prefix != NO_PREFIX) {
    const uint8_t *end = operand(u, p + 4, x, b, &address, &stride);
    need(middle);
    const size_t bytes = state.row_bytes[middle];
    if (prefix != PREFIX_F3) memset(state.data[middle], 0, sizeof state.data[middle]);
    for (int row = 0; row < state.rows[middle]; row++) {
      uint8_t *memory = (uint8_t *)(uintptr_t)(address + (uint64_t)row * stride);
      if (prefix == PREFIX_F3) memcpy(memory, state.data[middle][row], bytes);
      else memcpy(state.data[middle][row], memory, bytes);
    }
    count(prefix == PREFIX_F3 ? STORED : LOADED);
    return end;
  }
  return NULL;
}

static void on_invalid(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *u = context;
  const uint8_t *next = execute(u, (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP]);
  if (next == NULL) {
    sigaction(SIGILL, &before, NULL); /* to be raised again, as it would have been */
    return;
  }
  u->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)next;
}

int tile_emulator_install(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_invalid;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, &before);
}

int tile_emulator_remove(void) { return sigaction(SIGILL, &before, NULL); }
