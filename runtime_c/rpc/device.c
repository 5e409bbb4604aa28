#define _POSIX_C_SOURCE 200809L
#if defined(__linux__)
#define _DEFAULT_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../port/port.h"
#include "sterna.h"

/* Names that compilers know and that decide which kernels run. */
static const char *const features[] = {
    "sse4.2", "avx", "avx2", "fma", "f16c", "avxvnni", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16",
    "avx512fp16", "amx-tile", "amx-int8", "amx-bf16", "neon", "vfp4", "dotprod", "fullfp16", "i8mm", "bf16", "sve", "sve2", "sme",
    "v", "zvfh",
};

/* The beginning of a small file of the system, as a text; its length, 0 where there is none. */
static size_t read_text(const char *path, char *text, size_t bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file >= 0 ? read(file, text, bytes - 1) : 0;
  if (file >= 0) (void)close(file);
  size_t used = got > 0 ? (size_t)got : 0;
  while (used > 0 && (text[used - 1] == '\n' || text[used - 1] == 0)) used--;
  text[used] = 0;
  return used;
}

static long read_long(const char *path, long otherwise) {
  char text[32];
  return read_text(path, text, sizeof text) > 0 ? strtol(text, NULL, 10) : otherwise;
}

static long clock_of(int processor, const char *file) {
  char path[96];
  (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/%s", processor > 0 ? processor : 0, file);
  return read_long(path, 0);
}

rpc_moment rpc_moment_now(void) {
  rpc_moment now = {0, INT32_MIN, port_processor()};
  char path[64];
  now.kilohertz = (uint32_t)clock_of(now.processor, "scaling_cur_freq");
  for (int zone = 0; zone < 16; zone++) {
    (void)snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", zone);
    long degrees = read_long(path, INT32_MIN);
    if (degrees == INT32_MIN) break;
    if (degrees > now.millidegrees && degrees < 200000) now.millidegrees = (int32_t)degrees;
  }
  return now;
}

void rpc_put_json(rpc_buffer *b, const char *text) { rpc_put(b, text, strlen(text)); }

static void put_name(rpc_buffer *b, const char *name) {
  rpc_put_json(b, b->used > 0 && b->bytes[b->used - 1] != '{' ? ", \"" : "\"");
  rpc_put_json(b, name);
  rpc_put_json(b, "\": ");
}

static void put_string(rpc_buffer *b, const char *value) {
  rpc_put_json(b, "\"");
  for (; *value != 0; value++) {
    char code[8];
    unsigned char c = (unsigned char)*value;
    int plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    (void)snprintf(code, sizeof code, plain ? "%c" : "\\u%04x", c);
    rpc_put_json(b, code);
  }
  rpc_put_json(b, "\"");
}

void rpc_put_pair(rpc_buffer *b, const char *name, const char *value) {
  put_name(b, name);
  put_string(b, value);
}

void rpc_put_count(rpc_buffer *b, const char *name, uint64_t value) {
  char text[24];
  (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  put_name(b, name);
  rpc_put_json(b, text);
}

/* What stands behind a word at the beginning of a line of /proc/cpuinfo. */
static bool find_line(char *text, const char *word, char *found, size_t bytes) {
  for (char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    char *colon = strncmp(line, word, strlen(word)) == 0 ? strchr(line, ':') : NULL;
    if (colon == NULL) continue;
    colon += 1 + (colon[1] == ' ');
    (void)snprintf(found, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
    return found[0] != 0;
  }
  return false;
}

static void put_processor(rpc_buffer *b) {
  static const char *const words[] = {"model name", "Model", "Hardware", "uarch", "isa"};
  char text[4096], found[160];
  if (read_text("/proc/device-tree/model", found, sizeof found) == 0) found[0] = 0;
  if (read_text("/proc/cpuinfo", text, sizeof text) == 0) text[0] = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words && found[0] == 0; i++)
    if (!find_line(text, words[i], found, sizeof found)) found[0] = 0;
  if (found[0] != 0) rpc_put_pair(b, "processor", found);
}

static void put_features(rpc_buffer *b) {
  const char *comma = "";
  put_name(b, "features");
  rpc_put_json(b, "[");
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
    if (sterna_cpu_has(features[i]) != 1) continue;
    rpc_put_json(b, comma);
    put_string(b, features[i]);
    comma = ", ";
  }
  rpc_put_json(b, "]");
}

void rpc_put_device(rpc_buffer *b) {
  struct utsname name;
  if (uname(&name) == 0) {
    rpc_put_pair(b, "machine", name.machine);
    rpc_put_pair(b, "system", name.sysname);
    rpc_put_pair(b, "release", name.release);
  }
  put_processor(b);
  put_features(b);
  long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (cores > 0) rpc_put_count(b, "cores", (uint64_t)cores);
  if (pages > 0 && page > 0) rpc_put_count(b, "memory", (uint64_t)pages * (uint64_t)page);
  rpc_moment now = rpc_moment_now();
  long most = clock_of(now.processor, "cpuinfo_max_freq");
  if (now.kilohertz > 0) rpc_put_count(b, "kilohertz", now.kilohertz);
  if (most > 0) rpc_put_count(b, "kilohertz_most", (uint64_t)most);
  if (now.millidegrees > 0) rpc_put_count(b, "millidegrees", (uint64_t)now.millidegrees);
  char governor[32];
  if (read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor) > 0)
    rpc_put_pair(b, "governor", governor);
}
