#include "fuzz_mutate.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOST_VALUES 16384u
#define MOST_DEPTH 64u
#define NONE ((size_t)-1)
#define LONG_PIECE 4096u /* a copied piece is not longer, so that texts stay small */

uint64_t random_next(random_state *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

uint32_t random_below(random_state *random, uint64_t limit) {
  return limit > 0 ? (uint32_t)(random_next(random) % limit) : 0;
}

/* ---- The values of a text ---- */

typedef struct value_range {
  size_t first, last; /* of its characters */
  size_t key;         /* where its name begins; NONE in a list */
  uint32_t parent;    /* the value that holds it */
  char kind;          /* its first character, '0' of every number */
} value_range;

typedef struct value_list {
  uint32_t n;
  value_range values[MOST_VALUES];
} value_list;

static size_t spaces(const text *it, size_t at) {
  while (at < it->bytes && (it->data[at] == ' ' || it->data[at] == '\n')) at++;
  return at;
}

/* Behind the string that begins at `at`. */
static size_t string_end(const text *it, size_t at) {
  for (at++; at < it->bytes && it->data[at] != '"'; at++)
    if (it->data[at] == '\\') at++;
  return at < it->bytes ? at + 1 : it->bytes;
}

static char kind_of(char c) { return (c >= '0' && c <= '9') || c == '-' ? '0' : c; }

/* All values whose end is there; those that a damaged text leaves open are not listed. */
static void scan(const text *it, value_list *list) {
  uint32_t open[MOST_DEPTH], depth = 0;
  size_t at = 0, key = NONE;
  list->n = 0;
  while (at < it->bytes && list->n < MOST_VALUES) {
    char c = it->data[at];
    if (c == ' ' || c == '\n' || c == ',' || c == ':') {
      at++;
    } else if (c == '}' || c == ']') {
      if (depth > 0) list->values[open[--depth]].last = at + 1;
      at++;
    } else {
      uint32_t index = list->n;
      value_range *v = &list->values[index];
      if (c == '"' && key == NONE && depth > 0 && list->values[open[depth - 1]].kind == '{') {
        key = at;
        at = string_end(it, at);
        continue;
      }
      list->n++;
      v->first = at;
      v->last = NONE;
      v->key = key;
      v->kind = kind_of(c);
      v->parent = depth > 0 ? open[depth - 1] : MOST_VALUES;
      key = NONE;
      if (c == '{' || c == '[') {
        if (depth == MOST_DEPTH) return;
        open[depth++] = index;
        at++;
      } else {
        size_t end = c == '"' ? string_end(it, at) : at + 1;
        if (c != '"')
          while (end < it->bytes && strchr(",]} \n:\"[{", it->data[end]) == NULL) end++;
        v->last = at = end;
      }
    }
  }
}

/* A random value that is closed and not the whole text; of that kind, unless it is 0. NULL if there is none. */
static const value_range *pick(const value_list *list, random_state *random, char kind) {
  if (list->n < 2) return NULL;
  uint32_t start = 1 + random_below(random, list->n - 1);
  for (uint32_t i = 0; i < list->n - 1; i++) {
    const value_range *v = &list->values[1 + (start - 1 + i) % (list->n - 1)];
    if (v->last != NONE && (kind == 0 || v->kind == kind)) return v;
  }
  return NULL;
}

/* ---- Changes ---- */

/* Puts `with` in place of the characters from `first` to `last`. */
static void splice(text *it, size_t first, size_t last, const char *with, size_t bytes) {
  size_t rest = it->bytes - last;
  if (first + bytes + rest > TEXT_ROOM) return;
  memmove(it->data + first + bytes, it->data + last, rest);
  memcpy(it->data + first, with, bytes);
  it->bytes = first + bytes + rest;
}

static void replace(text *it, const value_range *v, const char *with) { splice(it, v->first, v->last, with, strlen(with)); }

static const char *const numbers[] = {
    "0", "1", "2", "3", "4", "5", "7", "8", "9", "15", "16", "17", "31", "32", "63", "64", "65", "127", "128", "255", "256", "257",
    "1000", "4095", "4096", "65535", "65536", "1048576", "2147483647", "2147483648", "4294967295", "4294967296",
    "4611686018427387904", "9223372036854775807", "9223372036854775808", "18446744073709551552", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999999", "-1", "-2", "-9223372036854775807", "-9223372036854775808", "-0", "1.5",
    "1e3", "1E400", "-1e-9", "0.0", "01", "null", "true", "false", "\"\"", "[]", "{}", "[0]", "[1,1]", "[[]]", "\"4\""};

#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const char *const strings[] = {
    "\"\"", "\"x\"", "\"\\u0000\"", "\"a\\u0000b\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\udc00x\"", "\"\\\\\\\"\\/\\b\\f\\n\\r\\t\"",
    "\"../../x\"", "\"/etc/passwd\"", "\".\"", "\"..\"", "\"C:x\"", "\"a\\\\b\"", "\"\x80\xff\"", "\"\\u00e9\"", "\"\x1b[0m\"",
    "\"float32\"", "\"float64\"", "\"int64\"", "\"bool\"", "\"int8\"", "\"uint4\"", "\"arena\"", "\"param\"", "\"input\"", "\"output\"",
    "\"state\"", "\"if\"", "\"loop\"", "\"model.so\"", "\"params.bin\"", "\"float3\\u0032\"", "\"64\"", "7",
    "\"" X32 X32 X32 X32 "\"", "\"" X32 X32 X32 X32 X32 X32 X32 X32 "\""};

static const char *const keys[] = {"\"value\"", "\"computed\"", "\"dims\"", "\"tasks\"", "\"\\u0061bi\"", "\"nodes\"", "\"name\"", "\"\"",
                                   "\"control\"", "\"states\"", "\"symbols\"", "\"initial_at\"", "\"fleeting\"", "\"x\\\"y\"", "\"count\"",
                                   "\"trips\"", "\"condition\"", "\"number\"", "\"limit\"", "\"library\"", "\"variants\""};

#define ONE_OF(random, table) ((table)[random_below(random, sizeof(table) / sizeof *(table))])

/* An expression over the first symbols: mostly sound ones. */
static size_t expression(random_state *random, int depth, char *out, size_t room) {
  static const char *const many[] = {"+", "*", "min", "max"}, *const by[] = {"/", "%"};
  uint32_t what = random_below(random, depth > 0 ? 12 : 6);
  int used;
  if (what < 3) {
    used = snprintf(out, room, "[\"d\",%u]", (unsigned)random_below(random, 3));
  } else if (what < 6) {
    used = snprintf(out, room, "%d", (int)random_below(random, 24) - (int)random_below(random, 12));
  } else if (what < 7) {
    used = snprintf(out, room, "%s", ONE_OF(random, numbers));
  } else {
    char left[512], right[512];
    (void)expression(random, depth - 1, left, sizeof left);
    (void)expression(random, depth - 1, right, sizeof right);
    used = what < 10 ? snprintf(out, room, "[\"%s\",%s,%s]", ONE_OF(random, many), left, right)
                     : snprintf(out, room, "[\"%s\",%s,%d]", ONE_OF(random, by), left, (int)random_below(random, 9) - 1);
  }
  if (used < 0 || (size_t)used >= room) used = snprintf(out, room, "1");
  return (size_t)used;
}

static void change_number(text *it, const value_list *list, random_state *random) {
  const value_range *v = pick(list, random, '0');
  if (v == NULL) return;
  char near[64];
  long long present = 0;
  (void)sscanf(it->data + v->first, "%lld", &present);
  switch (random_below(random, 4)) {
    case 0:
      (void)snprintf(near, sizeof near, "%lld", (long long)((uint64_t)present + random_below(random, 9)) - 4);
      replace(it, v, near);
      break;
    case 1:
      (void)snprintf(near, sizeof near, "%lld", (long long)((uint64_t)present * (1 + random_below(random, 4))));
      replace(it, v, near);
      break;
    default:
      replace(it, v, ONE_OF(random, numbers));
  }
}

static void put_expression(text *it, const value_list *list, random_state *random) {
  char with[2048];
  const value_range *v = pick(list, random, random_below(random, 4) > 0 ? '0' : '[');
  if (v == NULL) return;
  if (v->last - v->first < 600 && random_below(random, 3) == 0) { /* around what is there */
    char right[1024];
    (void)expression(random, 1, right, sizeof right);
    (void)snprintf(with, sizeof with, "[\"%s\",%.*s,%s]", random_below(random, 2) ? "+" : "max", (int)(v->last - v->first),
                   it->data + v->first, right);
  } else {
    (void)expression(random, 3, with, sizeof with);
  }
  replace(it, v, with);
}

/* A copy of one value in the place of another. */
static void transplant(text *it, const value_list *list, random_state *random, text *spare) {
  const value_range *to = pick(list, random, 0), *from = pick(list, random, to != NULL && random_below(random, 3) ? to->kind : 0);
  if (to == NULL || from == NULL || from->last - from->first > LONG_PIECE) return;
  spare->bytes = from->last - from->first;
  memcpy(spare->data, it->data + from->first, spare->bytes);
  splice(it, to->first, to->last, spare->data, spare->bytes);
}

static void delete_value(text *it, const value_list *list, random_state *random) {
  const value_range *v = pick(list, random, 0);
  if (v == NULL) return;
  size_t first = v->key != NONE ? v->key : v->first, last = spaces(it, v->last), before = first;
  while (before > 0 && (it->data[before - 1] == ' ' || it->data[before - 1] == '\n')) before--;
  if (before > 0 && it->data[before - 1] == ',')
    first = before - 1;
  else if (last < it->bytes && it->data[last] == ',')
    last++;
  splice(it, first, last, "", 0);
}

static void repeat_value(text *it, const value_list *list, random_state *random, text *spare) {
  const value_range *v = pick(list, random, 0);
  size_t first = v == NULL ? 0 : v->key != NONE ? v->key : v->first;
  if (v == NULL || v->last - first > LONG_PIECE) return;
  size_t bytes = v->last - first, copies = random_below(random, 16) == 0 ? 1 + random_below(random, 40) : 1;
  spare->bytes = 0;
  for (size_t i = 0; i < copies && spare->bytes + bytes + 1 < TEXT_ROOM / 4; i++) {
    spare->data[spare->bytes++] = ',';
    memcpy(spare->data + spare->bytes, it->data + first, bytes);
    spare->bytes += bytes;
  }
  splice(it, v->last, v->last, spare->data, spare->bytes);
}

/* Two elements or members of the same list or object change places. */
static void swap_values(text *it, const value_list *list, random_state *random, text *spare) {
  const value_range *a = pick(list, random, 0), *b = NULL;
  if (a == NULL) return;
  for (uint32_t i = 1; i < list->n; i++) {
    const value_range *v = &list->values[i];
    if (v != a && v->parent == a->parent && v->last != NONE && random_below(random, 3) == 0) b = v;
  }
  if (b == NULL) return;
  if (a->first > b->first) {
    const value_range *other = a;
    a = b;
    b = other;
  }
  size_t n = 0, total = b->last - a->first;
  memcpy(spare->data, it->data + b->first, n = b->last - b->first);
  memcpy(spare->data + n, it->data + a->last, b->first - a->last);
  n += b->first - a->last;
  memcpy(spare->data + n, it->data + a->first, a->last - a->first);
  memcpy(it->data + a->first, spare->data, total);
}

static void rename_member(text *it, const value_list *list, random_state *random, text *spare) {
  const value_range *v = pick(list, random, 0), *other = pick(list, random, 0);
  for (int i = 0; i < 8 && v != NULL && v->key == NONE; i++) v = pick(list, random, 0);
  if (v == NULL || v->key == NONE) return;
  const char *with = ONE_OF(random, keys);
  size_t bytes = strlen(with);
  if (other != NULL && other->key != NONE && random_below(random, 2) == 0) {
    with = spare->data;
    bytes = string_end(it, other->key) - other->key;
    if (bytes > LONG_PIECE) return;
    memcpy(spare->data, it->data + other->key, bytes);
  }
  splice(it, v->key, string_end(it, v->key), with, bytes);
}

/* A value within many lists, objects or operations. */
static void nest(text *it, const value_list *list, random_state *random) {
  static const char *const opens[] = {"[", "{\"a\":", "[\"+\",1,", "[\"max\","}, *const closes[] = {"]", "}", "]", "]"};
  const value_range *v = pick(list, random, 0);
  if (v == NULL) return;
  uint32_t kind = random_below(random, 4), times = 1 + random_below(random, random_below(random, 8) == 0 ? 200 : 36);
  size_t first = v->first, last = v->last;
  for (uint32_t i = 0; i < times; i++) {
    size_t before = it->bytes;
    splice(it, last, last, closes[kind], 1);
    splice(it, first, first, opens[kind], strlen(opens[kind]));
    last += it->bytes - before;
  }
}

static void change_bytes(text *it, random_state *random) {
  if (it->bytes == 0) return;
  size_t at = random_below(random, it->bytes), rest = it->bytes - at;
  char with[8];
  static const char likely[] = "[]{}\",:0919-e.\\ \n\x80";
  switch (random_below(random, 5)) {
    case 0:
      it->data[at] = (char)(it->data[at] ^ (char)(1u << random_below(random, 8)));
      break;
    case 1:
      it->data[at] = likely[random_below(random, sizeof likely)];
      break;
    case 2: {
      size_t n = 1 + random_below(random, 20);
      splice(it, at, at + (n < rest ? n : rest), "", 0);
      break;
    }
    case 3:
      for (size_t i = 0; i < sizeof with; i++) with[i] = likely[random_below(random, sizeof likely)];
      splice(it, at, at, with, 1 + random_below(random, sizeof with));
      break;
    default:
      if (random_below(random, 4) == 0) it->bytes = at;
  }
}

void mutate(text *it, text *spare, random_state *random, mutation kind) {
  static value_list list;
  uint32_t what = random_below(random, 32);
  if (kind == MUTATE_ANY && what < 3) {
    change_bytes(it, random);
    return;
  }
  scan(it, &list);
  if (kind == MUTATE_SIZES && what < 24) what = what % 4 == 0 ? 12 : 8;
  const value_range *v;
  if (what < 9) {
    put_expression(it, &list, random);
  } else if (what < 15) {
    change_number(it, &list, random);
  } else if (what < 19) {
    transplant(it, &list, random, spare);
  } else if (what < 22) {
    delete_value(it, &list, random);
  } else if (what < 25) {
    repeat_value(it, &list, random, spare);
  } else if (what < 27) {
    swap_values(it, &list, random, spare);
  } else if (what < 29) {
    rename_member(it, &list, random, spare);
  } else if (what < 30) {
    nest(it, &list, random);
  } else if ((v = pick(&list, random, '"')) != NULL) {
    replace(it, v, ONE_OF(random, strings));
  }
}
