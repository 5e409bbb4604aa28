/* The small parts: hash, JSON, heap, arithmetic, CPU features, status texts. */
#ifdef __linux__
#define _GNU_SOURCE /* processors */
#include <sched.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json.h"

static void test_hash(void) {
  /* From the reference implementation's own self test: XXH64 of these texts with seed 0. */
  CHECK(sterna_hash64("", 0) == 0xef46db3751d8e999u);
  CHECK(sterna_hash64(NULL, 0) == 0xef46db3751d8e999u);
  CHECK(sterna_hash64("a", 1) == 0xd24ec4f1a98c6e5bu);
  CHECK(sterna_hash64("abc", 3) == 0x44bc2cf5ad770999u);
  CHECK(sterna_hash64("xxhash", 6) == 0x32dd38952c4bc720u);
}

static bool valid(const char *text) {
  size_t at, bytes = strlen(text);
  /* An exact copy, so that AddressSanitizer sees a read past the end. */
  char *copy = malloc(bytes + (bytes == 0));
  if (copy == NULL) abort();
  memcpy(copy, text, bytes);
  bool good = json_check(copy, bytes, &at);
  CHECK(at <= bytes);
  free(copy);
  return good;
}

static void test_json_check(void) {
  static const char *const good[] = {
      "0", "-1.5e+10", "\"\"", "[]", "{}", " [ 1 , {\"a\" : [ ] , \"b\":null}, true,false ] ", "\"\\u00e9\\n\\\\\"",
      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"};
  static const char *const bad[] = {
      "", " ", "[", "]", "{", "}", "[1", "[1,", "[,1]", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:2}", "{,}",
      "01", "-", "1.", ".5", "1e", "+1", "tru", "nul", "truee", "\"", "\"\\", "\"\\x\"", "\"\\u12g4\"", "\"\\u12", "\"\n\"",
      "[1}", "{\"a\":1]", "1 1", "[]]", "'a'", "NaN",
      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    CHECK(valid(good[i]) || printf("refused: %s\n", good[i]) < 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!valid(bad[i]) || printf("accepted: %s\n", bad[i]) < 0);
  /* Depth is a number and not our stack. */
  size_t at, deep = (size_t)1 << 20;
  char *text = malloc(deep);
  if (text == NULL) abort();
  memset(text, '[', deep);
  CHECK(!json_check(text, deep, &at) && at == JSON_MAX_DEPTH);
  free(text);
}

/* A name means the same however a writer spells it. */
static void test_json_escaped_names(void) {
  static const char text[] = "{\"\\u0061bi\":1,\"list\":[\"\\/\",\"\\u002F\",\"a\\b\",\"\\\\\"],\"abi\\u0000\":2,\"\\u00610\":3}";
  size_t at, member[2];
  CHECK(json_check(text, sizeof text - 1, &at));
  CHECK(json_members(text, 0, "abi\0list", member, 2) && member[0] != JSON_NONE);
  size_t element = json_first(text, member[1]);
  CHECK(json_string_is(text, element, "/") && !json_string_is(text, element, "//") && !json_string_is(text, element, ""));
  element = json_next(text, element);
  CHECK(json_string_is(text, element, "/"));
  element = json_next(text, element);
  CHECK(!json_string_is(text, element, "ab") && json_string_is(text, element, "a\b"));
  element = json_next(text, element);
  CHECK(json_string_is(text, element, "\\") && json_next(text, element) == JSON_NONE);
  static const char twice[] = "{\"\\u0061bi\":1,\"abi\":1}";
  CHECK(json_check(twice, sizeof twice - 1, &at) && !json_members(twice, 0, "abi", member, 1));
}

static void test_json_walk(void) {
  static const char text[] = "{\"skip\":{\"a\":[\"}\\\"\",[{}]]},\"a\":12, \"list\" : [ 3 ,[4],\"x\" , true] ,\"s\":\"\\u00e9\\t\\ud83d\\ude00\"}";
  static const char keys[] = "a\0list\0s\0none";
  size_t at, member[4];
  CHECK(json_check(text, sizeof text - 1, &at));
  CHECK(json_members(text, 0, keys, member, 4));
  uint64_t number;
  CHECK(json_uint64(text, member[0], &number) && number == 12);
  CHECK(member[3] == JSON_NONE);
  CHECK(json_count(text, member[1]) == 4 && json_count(text, member[0]) == 0);
  size_t element = json_first(text, member[1]);
  CHECK(json_uint64(text, element, &number) && number == 3);
  element = json_next(text, element);
  CHECK(json_is_list(text, element) && json_count(text, element) == 1);
  element = json_next(text, element);
  CHECK(json_string_is(text, element, "x") && !json_string_is(text, element, "xy"));
  element = json_next(text, element);
  bool truth = false;
  CHECK(json_bool(text, element, &truth) && truth);
  CHECK(json_next(text, element) == JSON_NONE);
  char string[16];
  CHECK(json_string_bytes(text, member[2]) == 8);
  json_string(text, member[2], string);
  CHECK(strcmp(string, "\xc3\xa9\t\xf0\x9f\x98\x80") == 0);

  CHECK(!json_members("{\"a\":1,\"a\":2}", 0, "a", member, 1)); /* twice */
  CHECK(!json_members("{\"abc\":1,\"a\\u0062c\":2}", 0, "abc", member, 1));
  char name[400], object[500]; /* names of tensors are as long as they like */
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  (void)snprintf(object, sizeof object, "{\"\\u006e%s\":[1]}", name + 1);
  CHECK(json_members(object, 0, name, member, 1) && member[0] != JSON_NONE);
  CHECK(json_members(object, 0, name + 1, member, 1) && member[0] == JSON_NONE);
  CHECK(json_members("{\"\\u0061bc\":7}", 0, "abc", member, 1) && json_uint64("7,", 0, &number));
  CHECK(member[0] != JSON_NONE && json_string_is("\"l\\u006fop\"", 0, "loop"));
  CHECK(json_members("{\"ab\\u0063d\":7,\"ab\\u0000\":1}", 0, "abc\0ab", member, 2) && member[0] == JSON_NONE && member[1] == JSON_NONE);
  CHECK(!json_members("[1]", 0, "a", member, 1));
  CHECK(!json_uint64("-1,", 0, &number) && !json_uint64("1.0,", 0, &number) && !json_uint64("1e3,", 0, &number));
  CHECK(json_uint64("18446744073709551615,", 0, &number) && number == UINT64_MAX);
  CHECK(!json_uint64("18446744073709551616,", 0, &number));
  CHECK(json_string_bytes("\"a\\u0000b\"", 0) == 0);
}

static void test_json_number(void) {
  static const struct {
    const char *text;
    double number;
  } good[] = {{"0,", 0},        {"-0.5,", -0.5},          {"1e3,", 1000},          {"12.5E-1,", 1.25},
              {"128]", 128},    {"0.0078125}", 0.0078125}, {"-2147483648,", INT32_MIN},
              {"1e-400,", 0},   {"1.5e+0005,", 150000}};
  double number;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    CHECK((json_number(good[i].text, 0, &number) && number >= good[i].number && number <= good[i].number) ||
          printf("%s\n", good[i].text) < 0);
  /* Every float comes back from its shortest text and from that of the same double. */
  for (uint32_t i = 1; i < 100000; i++) {
    char text[64];
    float wanted = (float)i * 1.1920929e-7f / (float)(1 + i % 7);
    for (int digits = 9; digits <= 17; digits += 8) {
      (void)snprintf(text, sizeof text, "%.*g,", digits, (double)wanted);
      CHECK(json_number(text, 0, &number) && memcmp(&(float){(float)number}, &wanted, sizeof wanted) == 0);
    }
  }
  CHECK(json_number("1e999999999999,", 0, &number) && number > 1e308);
  CHECK(!json_number("\"1\"", 0, &number) && !json_number("null", 0, &number) && !json_number("[1]", 0, &number));
  CHECK(!json_number("1", JSON_NONE, &number));
}

static void test_arithmetic(void) {
  uint64_t r;
  CHECK(add_fits(UINT64_MAX, 0, &r) && !add_fits(UINT64_MAX, 1, &r));
  CHECK(multiply_fits(0, UINT64_MAX, &r) && multiply_fits(UINT64_MAX, 0, &r) && multiply_fits(UINT64_MAX, 1, &r));
  CHECK(!multiply_fits((uint64_t)1 << 32, (uint64_t)1 << 32, &r));
  CHECK(range_fits(0, 0, 0) && range_fits(4, 4, 8) && !range_fits(5, 4, 8) && !range_fits(9, 0, 8));
  CHECK(!range_fits(8, UINT64_MAX, 16) && !range_fits(UINT64_MAX, UINT64_MAX, 16));
}

static void test_heap(void) {
  heap memory;
  heap_open(&memory, NULL);
  for (uint64_t bytes = 0; bytes < 40000; bytes = bytes * 3 / 2 + 1) {
    unsigned char *taken = heap_take(&memory, bytes, 1), *aligned = heap_take_aligned(&memory, bytes);
    CHECK(taken != NULL && (uintptr_t)taken % 16 == 0);
    CHECK(aligned != NULL && (uintptr_t)aligned % ALIGNMENT == 0);
    for (uint64_t i = 0; i < bytes; i++) CHECK(taken[i] == 0 && aligned[i] == 0);
    memset(taken, 1, (size_t)bytes);
    memset(aligned, 1, (size_t)bytes);
  }
  CHECK(heap_take(&memory, UINT64_MAX, 2) == NULL && heap_take(&memory, UINT64_MAX, 1) == NULL);
  CHECK(heap_take_aligned(&memory, UINT64_MAX) == NULL && heap_take_aligned(&memory, (uint64_t)PTRDIFF_MAX) == NULL);
  heap_close(&memory);
}

/* Sizes on both sides of those at which small pages become large ones. */
static void test_pages(void) {
  static const size_t sizes[] = {1, 4096, (1u << 20) - 1, 1u << 20, (2u << 20) + 1, (3u << 20) - 1, 3u << 20, 5000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *pages = port_pages(sizes[i]);
    CHECK(pages != NULL && (uintptr_t)pages % 16 == 0);
    if (pages == NULL) continue;
    CHECK(pages[0] == 0 && memcmp(pages, pages + 1, sizes[i] - 1) == 0);
    memset(pages, 1, sizes[i]);
    port_release_pages(pages, sizes[i]);
  }
  CHECK(port_pages(PTRDIFF_MAX) == NULL);
}

static void test_cpu(void) {
  sterna_error error;
  CHECK(sterna_cpu_has("no-such-feature") == -1 && sterna_cpu_has("") == -1 && sterna_cpu_has(NULL) == -1);
  CHECK(cpu_check("", "here", &error) == STERNA_OK);
  CHECK(cpu_check("no-such-feature", "here", &error) == STERNA_WRONG_MACHINE);
  CHECK(strstr(error.message, "no-such-feature") != NULL);
#if defined(__x86_64__)
  CHECK(sterna_cpu_has("sse2") == 1 && cpu_check("sse2 cx8", "here", &error) == STERNA_OK);
  CHECK(sterna_cpu_has("avx2") >= sterna_cpu_has("avx512f"));
  CHECK(cpu_check_triple("x86_64-linux-gnu", &error) == STERNA_OK);
  CHECK(cpu_check_triple("aarch64-linux-gnu", &error) == STERNA_WRONG_MACHINE);
#elif defined(__aarch64__)
  CHECK(sterna_cpu_has("neon") == 1 && cpu_check_triple("arm64-apple-macos", &error) == STERNA_OK);
#endif
}

static void test_processors(void) {
  port_leave(-1);
#ifdef __linux__
  cpu_set_t before, after;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  bool moved = false;
  for (int i = 0; i < 100; i++) {
    int here = port_processor();
    CHECK(here >= 0);
    port_leave(here + 1000);
    port_leave(here);
    moved |= port_processor() != here;
  }
  CHECK(moved == (CPU_COUNT(&before) > 1));
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
#endif
}

static void test_status(void) {
  sterna_error error;
  CHECK(strcmp(sterna_status_name(STERNA_DAMAGED), "DAMAGED") == 0);
  CHECK(strcmp(sterna_status_code(STERNA_DAMAGED), "E0505") == 0);
  CHECK(strcmp(sterna_status_name((sterna_status)12345), "UNKNOWN") == 0);
  CHECK(fail(&error, STERNA_MALFORMED, "%s", "a\nb\x1b[0m") == STERNA_MALFORMED);
  CHECK(strcmp(error.message, "a?b?[0m") == 0);
  CHECK(fail(NULL, STERNA_MALFORMED, "nothing") == STERNA_MALFORMED);
}

/* A library is whole, and no beginning of it is. Each is in memory of its own size. */
static void test_whole(const char *path) {
  static char whole[1 << 20];
  FILE *stream = fopen(path, "rb");
  size_t bytes = stream != NULL ? fread(whole, 1, sizeof whole, stream) : 0;
  if (stream != NULL) (void)fclose(stream);
  CHECK(bytes > 1000);
  for (size_t length = 1; length <= bytes; length += length + 700 < bytes ? 97 : 1) {
    uint8_t *copy = malloc(length);
    if (copy == NULL) abort();
    memcpy(copy, whole, length);
    port_file file = {copy, length};
    bool said = library_is_whole(&file);
    CHECK(said == (length == bytes) || printf("%s: %zu of %zu bytes\n", path, length, bytes) < 0);
    free(copy);
  }
  for (size_t at = 0; at < bytes && at < 2048; at++) { /* headers that lie */
    for (unsigned to = 0; to < 256; to += 51) {
      uint8_t *copy = malloc(bytes);
      if (copy == NULL) abort();
      memcpy(copy, whole, bytes);
      copy[at] = (uint8_t)to;
      port_file file = {copy, bytes};
      (void)library_is_whole(&file);
      free(copy);
    }
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) test_whole(argv[i]);
  test_hash();
  test_json_check();
  test_json_escaped_names();
  test_json_walk();
  test_json_number();
  test_arithmetic();
  test_heap();
  test_pages();
  test_cpu();
  test_processors();
  test_status();
  printf("%d failures\n", failures);
  return failures != 0;
}
